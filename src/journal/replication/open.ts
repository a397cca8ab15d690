import { randomUUID } from "node:crypto";
import { existsSync, renameSync, rmSync } from "node:fs";
import type Database from "better-sqlite3";
import {
  type Changelog,
  type LaneBirth,
  type LaneLog,
  LostLogError,
  OPENED_KEY,
  type StoredRecord,
} from "../../core/changelog.ts";
import { UsageError } from "../../core/errors.ts";
import { Sqlite } from "../../core/sqlite.ts";
import { BUSY_MS, openState, type State } from "../database.ts";
import { nameJournal } from "../journal.ts";
import { type Migration, migrations } from "../migrations.ts";
import { registerRowChecksum } from "../row-checksums.ts";
import { type Applied, applyLog, isTip, NewerRowsError } from "./apply.ts";
import type { Tip } from "./batch.ts";
import { createReplicatedChange, type ReplicatedChange } from "./replicated-change.ts";
import { type LocalTip, makeLocalTables, readLocalTip } from "./tip-store.ts";
import { joinConnections } from "./two-connections.ts";

/*
 * Opens a lane (C5):
 *   1. its birth record is read; a lane without one is never begun anew (C7)
 *   2. the log is taken: the last writer is fenced and its open transaction ended
 *   3. an "opened" record is committed: everything before it is final
 *   4. the file is brought to that record: continued where its tip is in the log, else built anew (C6)
 *   5. rows of an older schema are migrated and written again (C14)
 */

export interface LaneOptions {
  readonly file: string;
  readonly changelog: Changelog;
  readonly lane: number;
  readonly machine: string;
  readonly signal: AbortSignal;
  readonly migrations?: readonly Migration[];
  /** How old a file may be that is continued; after that its log may have forgotten removals (C8). */
  readonly continueMs?: number;
  confirmed?(tip: Tip): void;
  lost?(error: unknown): void;
  progress?(records: number): void;
}

export interface OpenedLane {
  readonly state: State;
  readonly birth: LaneBirth;
  readonly replica: ReplicatedChange;
  /** How the file was brought up to date. */
  readonly replay: { readonly kind: "continued" | "rebuilt"; readonly records: number };
  /** Drops bodies from the log that no row needs. */
  dropBodies(): Promise<void>;
  close(): Promise<void>;
}

/** Another machine has taken the lane to a schema that this one does not know (C14). */
export class NewerLaneError extends UsageError {}

/** Half of the seven days for which Kafka keeps removals. */
export const CONTINUE_MS = 3.5 * 86_400_000;

export async function openLane(options: LaneOptions): Promise<OpenedLane> {
  const { file, changelog, lane, signal } = options;
  refuseForeignFile(file);
  const birth = await changelog.birth(lane, signal);
  if (birth === undefined)
    throw new LostLogError(
      `Lane ${lane} has no birth record in Kafka. Either the cluster was never made ("tidemark cluster create"), or its topics were lost. Nothing is begun anew by itself.`,
    );
  const log = await changelog.open(lane, signal);
  try {
    const known = options.migrations ?? migrations();
    const opened = await commitOpened(log, birth, options, known);
    const brought = await bringUp(log, birth, opened, options, known);
    return await begin(log, birth, brought, options, known);
  } catch (error) {
    await log.close();
    throw error;
  }
}

async function commitOpened(
  log: LaneLog,
  { cluster, lane }: LaneBirth,
  { machine }: LaneOptions,
  known: readonly Migration[],
): Promise<string> {
  const opened = JSON.stringify({ cluster, lane, machine, schema: schemaOf(known), nonce: randomUUID() });
  await log.commit({ rows: [{ key: OPENED_KEY, value: Buffer.from(opened) }], bodies: [] });
  return opened;
}

async function begin(
  log: LaneLog,
  birth: LaneBirth,
  { applied, kind }: Brought,
  options: LaneOptions,
  known: readonly Migration[],
): Promise<OpenedLane> {
  const { file } = options;
  const writer = openState(file, known);
  try {
    // The log is the truth: after a power failure the file is at worst behind it.
    writer.pragma("synchronous = NORMAL");
    const replica = createReplicatedChange({
      ...options,
      ...{ writer, log, tip: applied.tip, schema: schemaOf(known) },
    });
    if (applied.tip.sequence > 0 && applied.tip.schema < schemaOf(known)) await replica.rewrite();
    const reader = new Sqlite(file, { timeout: BUSY_MS });
    registerRowChecksum(reader);
    const joined = joinConnections(writer, reader, replica.isInChange);
    const state = new Proxy(joined, {
      get: (target, name) => (name === "change" ? replica.change : Reflect.get(target, name, target)),
    }) as State;
    await replica.change(() => nameJournal(state));
    return {
      ...{ state, birth, replica },
      replay: { kind, records: applied.records },
      dropBodies: () => log.dropBodies(replica.unneededBodies()),
      async close() {
        await log.close();
        await replica.stop(new Error("The lane is closed."));
        if (writer.open) state.close();
      },
    };
  } catch (error) {
    writer.close();
    throw error;
  }
}

interface Brought {
  readonly applied: Applied;
  readonly kind: "continued" | "rebuilt";
}

async function bringUp(
  log: LaneLog,
  birth: LaneBirth,
  opened: string,
  options: LaneOptions,
  known: readonly Migration[],
): Promise<Brought> {
  const local = localTipOf(options.file, birth);
  if (local !== undefined && (await isContinued(log, local, options))) {
    const applied = await continueFile(log, opened, local, options);
    if (applied !== undefined) return { applied, kind: "continued" };
  }
  return { applied: await rebuild(log, birth, opened, local, options, known), kind: "rebuilt" };
}

/** A file that is not a lane's copy holds the only state of another installation. */
function refuseForeignFile(file: string): void {
  if (!existsSync(file)) return;
  const db = new Sqlite(file, { timeout: BUSY_MS });
  try {
    const isState = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'pages'").get() !== undefined;
    const isLane = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'replica_tip'").get() !== undefined;
    if (isState && !isLane)
      throw new UsageError(
        `${file} is the state of a Tidemark outside a cluster: nothing was changed. Take it over with "tidemark cluster adopt", or name another directory under "state".`,
      );
  } catch (error) {
    // A damaged copy is built anew.
    if (error instanceof UsageError) throw error;
  } finally {
    db.close();
  }
}

/** The tip of a complete copy of this very lane. A copy of another lane or of another cluster is built anew. */
function localTipOf(file: string, birth: LaneBirth): LocalTip | undefined {
  if (!existsSync(file)) return undefined;
  let db: Database.Database | undefined;
  try {
    db = new Sqlite(file, { timeout: BUSY_MS });
    const tip = readLocalTip(db);
    const isOurs = tip !== undefined && tip.cluster === birth.cluster && tip.lane === birth.lane;
    return isOurs && tip.isComplete ? tip : undefined;
  } catch {
    return undefined;
  } finally {
    db?.close();
  }
}

async function isContinued(log: LaneLog, local: LocalTip, options: LaneOptions): Promise<boolean> {
  const { continueMs = CONTINUE_MS, signal } = options;
  if (local.rowOffset < 0) return false;
  let first: StoredRecord | undefined;
  let last: StoredRecord | undefined;
  for await (const slice of log.read("rows", local.rowOffset, signal)) {
    first ??= slice[0];
    last = slice.at(-1) ?? last;
  }
  if (first === undefined || first.offset !== local.rowOffset || !isTip(first, local)) return false;
  return last!.timeMs - first.timeMs <= continueMs;
}

/** Undefined where the log has another schema than the file. */
async function continueFile(
  log: LaneLog,
  opened: string,
  local: LocalTip,
  options: LaneOptions,
): Promise<Applied | undefined> {
  const db = new Sqlite(options.file, { timeout: BUSY_MS });
  registerRowChecksum(db);
  try {
    const applied = await applyLog(db, { ...options, log, opened, from: local });
    return applied.tip.schema === local.schema ? applied : undefined;
  } catch (error) {
    // A row of a newer schema has columns that the file lacks; whatever else it is, building anew shows it.
    if (error instanceof LostLogError || options.signal.aborted) throw error;
    return undefined;
  } finally {
    db.close();
  }
}

async function rebuild(
  log: LaneLog,
  birth: LaneBirth,
  opened: string,
  local: LocalTip | undefined,
  options: LaneOptions,
  known: readonly Migration[],
): Promise<Applied> {
  const temporary = `${options.file}.rebuild`;
  const { cluster, lane } = birth;
  const empty = { cluster, lane, sequence: 0, hash: "", rowOffset: -1, bodyOffset: 0, isComplete: false };
  try {
    let applied = await buildFile(
      temporary,
      log,
      opened,
      { ...empty, schema: schemaOf(known) },
      options,
      known,
    );
    const { schema, sequence } = applied.tip;
    if (sequence > 0 && schema > schemaOf(known)) throw tooNew(lane, `schema ${schema}`, known);
    if (sequence > 0 && schema < schemaOf(known)) {
      const older = known.filter(({ number }) => number <= schema);
      applied = await buildFile(temporary, log, opened, { ...empty, schema }, options, older);
    }
    if (local !== undefined) refuseLostLog(local, applied, options.file);
    removeFile(options.file);
    renameSync(temporary, options.file);
    return applied;
  } catch (error) {
    if (error instanceof NewerRowsError) throw tooNew(lane, error.message, known);
    throw error;
  } finally {
    removeFile(temporary);
  }
}

async function buildFile(
  file: string,
  log: LaneLog,
  opened: string,
  from: LocalTip,
  options: LaneOptions,
  known: readonly Migration[],
): Promise<Applied> {
  removeFile(file);
  const db = openState(file, known);
  try {
    makeLocalTables(db);
    db.pragma("synchronous = OFF");
    const applied = await applyLog(db, { ...options, log, opened, from });
    db.pragma("synchronous = FULL");
    db.pragma("wal_checkpoint(TRUNCATE)");
    return applied;
  } finally {
    db.close();
  }
}

/** C6: the file has commits that the log does not have. The log is written first, so it has lost them. */
function refuseLostLog(local: LocalTip, { tip, hashes }: Applied, file: string): void {
  const isAhead = local.sequence > tip.sequence;
  const inLog = hashes.get(local.sequence);
  const isForked = inLog !== undefined && inLog !== local.hash;
  if (!isAhead && !isForked) return;
  throw new LostLogError(
    `${file} is at commit ${local.sequence} of its lane, and ${isAhead ? `the log in Kafka ends at ${tip.sequence}` : "the log in Kafka has another commit of that number"}: Kafka has lost data that was acknowledged. The file is kept. Restore the topics, or move the file away to go on with what Kafka has; events between the two may then be delivered again.`,
  );
}

function tooNew(lane: number, found: string, known: readonly Migration[]): NewerLaneError {
  return new NewerLaneError(
    `Lane ${lane} was written by a newer Tidemark (${found}; this one knows schema ${schemaOf(known)}): update this machine.`,
  );
}

function schemaOf(known: readonly Migration[]): number {
  return known.at(-1)?.number ?? 0;
}

function removeFile(file: string): void {
  for (const part of ["", "-wal", "-shm", "-journal"]) rmSync(`${file}${part}`, { force: true });
}

import { existsSync, renameSync, rmSync } from "node:fs";
import type Database from "better-sqlite3";
import {
  type Changelog,
  type LaneBirth,
  type LaneLog,
  LostLogError,
  type StoredRecord,
} from "../../core/changelog.ts";
import { UsageError } from "../../core/errors.ts";
import { Sqlite } from "../../core/sqlite.ts";
import { BUSY_MS, DamagedStateError, damaged, openState } from "../database.ts";
import type { Migration } from "../migrations.ts";
import { damageIn, repairRows } from "../repair-rows.ts";
import { type Applied, applyLog, isTip, NewerRowsError } from "./apply.ts";
import type { Tip } from "./batch.ts";
import { type LocalTip, makeLocalTables, readLocalTip } from "./tip-store.ts";

/*
 * Brings a lane's file to the end of its log (C6):
 *   its tip is in the log    the file is continued from there
 *   no file, another lane's, an incomplete, an old or a damaged one   it is built anew beside, and takes its place when
 *     it is whole
 *   a file of another cluster   the same, but it is kept aside: if that cluster's topics were lost, it is the last copy
 *   ahead of the log, or forked from it   the log has lost data: the lane stops, and the file is kept
 * Rows that decide are compared with their checksums at every opening (R37). Damage of the copy ends with the copy. A row
 * that is damaged in the log too is turned back where one bit is wrong; otherwise the lane stops.
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
  /** How this machine divides organizations into lanes; the lane must have been made so. */
  readonly division?: { readonly lanes: number; readonly hash: string } | undefined;
  /** Builds the file anew: it was found damaged. */
  readonly anew?: boolean | undefined;
  confirmed?(tip: Tip): void;
  lost?(error: unknown): void;
  progress?(records: number): void;
  /** The copy of another cluster was in this place; it is kept under this name. */
  keptAside?(file: string): void;
  /** The copy was damaged, and is built anew. */
  damagedCopy?(problems: readonly string[]): void;
  /** These rows are damaged in the log; they were turned back in the copy. */
  repaired?(rows: readonly string[]): void;
}

/** Another machine has taken the lane to a schema that this one does not know (C14). */
export class NewerLaneError extends UsageError {}

/** The rows in the log are damaged, so that building the file anew does not help. */
class DamagedLaneError extends UsageError {
  constructor(lane: number, what: string) {
    super(
      `The state of lane ${lane} in Kafka is damaged (${what}): its file was built anew from there and is damaged too. Nothing was changed. Stop this machine, so that another one builds the lane's file: if the lane runs there, check the memory of this machine. If it does not, the damage is in the topics, see docs/cluster.md.`,
    );
  }
}

/** Half of the seven days for which Kafka keeps removals. */
const CONTINUE_MS = 3.5 * 86_400_000;

export interface Brought {
  readonly applied: Applied;
  readonly kind: "continued" | "rebuilt";
}

export async function bringUp(
  log: LaneLog,
  birth: LaneBirth,
  opened: string,
  options: LaneOptions,
  known: readonly Migration[],
): Promise<Brought> {
  const local = localTipOf(options.file, birth);
  if (local !== undefined && !options.anew && (await isContinued(log, local, options))) {
    const applied = await continueFile(log, opened, local, options, known);
    if (applied !== undefined) return { applied, kind: "continued" };
  }
  return { applied: await rebuild(log, birth, opened, local, options, known), kind: "rebuilt" };
}

/** The tip of a complete copy of this very lane. A copy of another lane or of another cluster is built anew. */
function localTipOf(file: string, birth: LaneBirth): LocalTip | undefined {
  const tip = tipOf(file);
  const isOurs = tip !== undefined && tip.cluster === birth.cluster && tip.lane === birth.lane;
  return isOurs && tip.isComplete ? tip : undefined;
}

/** Undefined where the file is missing, damaged or none of a cluster. */
function tipOf(file: string): LocalTip | undefined {
  if (!existsSync(file)) return undefined;
  let db: Database.Database | undefined;
  try {
    db = new Sqlite(file, { timeout: BUSY_MS });
    return readLocalTip(db);
  } catch {
    return undefined;
  } finally {
    db?.close();
  }
}

function keepAside({ file, keptAside }: LaneOptions, cluster: string): void {
  const tip = tipOf(file);
  if (tip === undefined || tip.cluster === cluster) return;
  const aside = `${file}.of-${tip.cluster}`;
  renameSync(file, aside);
  keptAside?.(aside);
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

/** Undefined where the log has another schema than the file, and where the file is damaged. */
async function continueFile(
  log: LaneLog,
  opened: string,
  local: LocalTip,
  options: LaneOptions,
  known: readonly Migration[],
): Promise<Applied | undefined> {
  let db: Database.Database | undefined;
  try {
    const older = known.filter(({ number }) => number <= local.schema);
    db = openState(options.file, older);
    const applied = await applyLog(db, { ...options, log, opened, from: local });
    if (applied.tip.schema !== local.schema) return undefined;
    const problems = damageIn(db);
    if (problems.length === 0) return applied;
    options.damagedCopy?.(problems);
  } catch (error) {
    options.signal.throwIfAborted();
    // A row of a newer schema has columns that the file lacks; whatever else it is, building anew shows it.
    const problems = damageBehind(error, options.file, db);
    if (problems.length > 0) options.damagedCopy?.(problems);
  } finally {
    db?.close();
  }
  return undefined;
}

/** A log that seems to have lost rows may be one whose copy is damaged. */
function damageBehind(error: unknown, file: string, db: Database.Database | undefined): readonly string[] {
  const damage = damaged(file, error);
  if (damage instanceof DamagedStateError) return [damage.what];
  return error instanceof LostLogError && db !== undefined ? damageIn(db) : [];
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
      { ...empty, schema: newestSchema(known) },
      options,
      known,
    );
    const { schema, sequence } = applied.tip;
    if (sequence > 0 && schema > newestSchema(known)) throw tooNew(lane, `schema ${schema}`, known);
    if (sequence > 0 && schema < newestSchema(known)) {
      const older = known.filter(({ number }) => number <= schema);
      applied = await buildFile(temporary, log, opened, { ...empty, schema }, options, older);
    }
    if (local !== undefined) refuseLostLog(local, applied, options.file);
    keepAside(options, cluster);
    removeFile(options.file);
    renameSync(temporary, options.file);
    return applied;
  } catch (error) {
    if (error instanceof NewerRowsError) throw tooNew(lane, error.message, known);
    const damage = damaged(temporary, error);
    throw damage instanceof DamagedStateError ? new DamagedLaneError(lane, damage.what) : error;
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
    const rows = repairRows(db);
    if (rows.length > 0) options.repaired?.(rows);
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
    `Lane ${lane} was written by a newer Tidemark (${found}; this one knows schema ${newestSchema(known)}): update this machine.`,
  );
}

export function newestSchema(known: readonly Migration[]): number {
  return known.at(-1)?.number ?? 0;
}

function removeFile(file: string): void {
  for (const part of ["", "-wal", "-shm", "-journal"]) rmSync(`${file}${part}`, { force: true });
}

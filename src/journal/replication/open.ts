import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { type LaneBirth, type LaneLog, LostLogError, OPENED_KEY } from "../../core/changelog.ts";
import { UsageError } from "../../core/errors.ts";
import { Sqlite } from "../../core/sqlite.ts";
import { BUSY_MS, openState, type State } from "../database.ts";
import { nameJournal } from "../journal.ts";
import { type Migration, migrations } from "../migrations.ts";
import { registerRowChecksum } from "../row-checksums.ts";
import { type Brought, bringUp, type LaneOptions, newestSchema } from "./bring-up.ts";
import { createReplicatedChange, type ReplicatedChange } from "./replicated-change.ts";
import { joinConnections } from "./two-connections.ts";

/*
 * Opens a lane (C5):
 *   1. its birth record is read; a lane without one is never begun anew (C7)
 *   2. the log is taken: the last writer is fenced and its open transaction ended
 *   3. an "opened" record is committed: everything before it is final
 *   4. the file is brought to that record: continued where its tip is in the log, else built anew (C6)
 *   5. rows of an older schema are migrated and written again (C14)
 * The fence makes an owner token (owner.ts) needless: every change is committed in the log first, and a former owner's
 * commits fail there, also where both use one file.
 */

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

export async function openLane(options: LaneOptions): Promise<OpenedLane> {
  const { file, changelog, lane, signal } = options;
  refuseForeignFile(file);
  const birth = await changelog.birth(lane, signal);
  if (birth === undefined)
    throw new LostLogError(
      `Lane ${lane} has no birth record in Kafka. Either the cluster was never made ("tidemark cluster create"), or its topics were lost. Nothing is begun anew by itself.`,
    );
  refuseOtherDivision(birth, options);
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

/** C7: with another number of lanes or another hash, organizations would be in other lanes than their state. */
function refuseOtherDivision({ lanes, hash }: LaneBirth, { lane, division }: LaneOptions): void {
  if (division === undefined || (division.lanes === lanes && division.hash === hash)) return;
  throw new LostLogError(
    `Lane ${lane} was made as one of ${lanes} lanes (${hash}), and this machine would run it as one of ${division.lanes} (${division.hash}): its organizations would be looked for in other lanes than their state. Nothing was changed.`,
  );
}

async function commitOpened(
  log: LaneLog,
  { cluster, lane }: LaneBirth,
  { machine }: LaneOptions,
  known: readonly Migration[],
): Promise<string> {
  const opened = JSON.stringify({ cluster, lane, machine, schema: newestSchema(known), nonce: randomUUID() });
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
      ...{ writer, log, tip: applied.tip, schema: newestSchema(known) },
    });
    if (applied.tip.sequence > 0 && applied.tip.schema < newestSchema(known)) await replica.rewrite();
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

import { rmSync } from "node:fs";
import { BIRTH_KEY, type Changelog, type LaneBirth } from "../../core/changelog.ts";
import type { Shard } from "../../core/shard.ts";
import { type Connection, openState } from "../database.ts";
import { migrations } from "../migrations.ts";
import type { Owners } from "../split/move.ts";
import { splitStates } from "../split/split.ts";
import { newestSchema } from "./bring-up.ts";
import { createReplicatedChange } from "./replicated-change.ts";
import { makeLocalTables } from "./tip-store.ts";

/*
 * Writes the first commits of every lane (C16): its birth record, then all rows of its organizations, split off from the
 * state files of a single Tidemark or of shards. The caller has their locks and has checked that they can be split.
 */

export interface AdoptOptions {
  readonly changelog: Changelog;
  readonly cluster: string;
  readonly lanes: number;
  /** The function that maps organizations to lanes, as birth records name it. */
  readonly hash: string;
  ownersOf(shard: Shard): Owners;
  /** A file that may be made and removed. */
  readonly temporary: string;
  readonly nowMs: number;
  readonly signal: AbortSignal;
  progress?(lane: number): void;
}

export async function adoptStates(sources: readonly Connection[], options: AdoptOptions): Promise<void> {
  for (let lane = 0; lane < options.lanes; lane++) {
    options.signal.throwIfAborted();
    await adoptLane(sources, lane, options);
    options.progress?.(lane);
  }
}

/** At least as large as the number of every adopted job: those of later sources follow the ones before. */
function jobsIn(sources: readonly Connection[]): number {
  const highest = (db: Connection) =>
    db.prepare("SELECT COALESCE(MAX(id), 0) FROM jobs").pluck().get() as number;
  return sources.reduce((sum, db) => sum + highest(db), 0);
}

function setNumberedAfter(db: Connection, number: number): void {
  db.prepare("INSERT OR REPLACE INTO meta (key, value) VALUES ('jobs_after', ?)").run(String(number));
}

async function adoptLane(sources: readonly Connection[], lane: number, options: AdoptOptions): Promise<void> {
  const { changelog, cluster, lanes, hash, temporary, nowMs, signal } = options;
  const shard = { index: lane, count: lanes };
  const birth: LaneBirth = { cluster, lane, lanes, hash };
  const log = await changelog.open(lane, signal);
  try {
    await log.commit({ rows: [{ key: BIRTH_KEY, value: Buffer.from(JSON.stringify(birth)) }], bodies: [] });
    splitStates(temporary, sources, { shard, owners: options.ownersOf(shard), nowMs });
    const writer = openState(temporary);
    try {
      makeLocalTables(writer);
      // New jobs of any lane get numbers that no adopted job has.
      await writer.change(() => setNumberedAfter(writer, jobsIn(sources)));
      const schema = newestSchema(migrations());
      const empty = { sequence: 0, hash: "", rowOffset: -1, bodyOffset: 0, isComplete: true };
      await createReplicatedChange({
        ...{ writer, log, schema },
        tip: { cluster, lane, schema, ...empty },
      }).rewrite();
    } finally {
      writer.close();
    }
  } finally {
    await log.close();
    for (const part of ["", "-wal", "-shm", "-journal"]) rmSync(`${temporary}${part}`, { force: true });
  }
}

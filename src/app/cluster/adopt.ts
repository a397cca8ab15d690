import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { createKafkaChangelog } from "../../cluster/kafka-changelog.ts";
import { createTopics, finishTopics, LANE_HASH, type TopicOptions } from "../../cluster/topics.ts";
import type { ClusterConfig } from "../../config/cluster-schema.ts";
import type { Config } from "../../config/schema.ts";
import { systemClock } from "../../core/clock.ts";
import { UsageError } from "../../core/errors.ts";
import type { Log } from "../../core/log.ts";
import type { State } from "../../journal/database.ts";
import { type Lock, takeLock } from "../../journal/lock.ts";
import { adoptStates } from "../../journal/replication/adopt.ts";
import { setAdopted } from "../../journal/shard.ts";
import { splitProblems } from "../../journal/split/ready.ts";
import { openOwnState } from "../own-state.ts";
import { shardOwners } from "../reshard.ts";
import { connectKafka } from "./connect-kafka.ts";

/*
 * Takes over the state of a Tidemark outside a cluster (C16):
 *   1. the locks of its state files are taken, and it is checked that everything was delivered
 *   2. the topics are made, except the one whose absence keeps `run` from starting
 *   3. every lane is written
 *   4. the old files are marked, so that no process goes on with them
 *   5. the last topic is made
 * A process that ends on the way leaves a cluster that does not start: delete its topics and adopt again.
 */
export async function adopt(
  config: Config & { readonly cluster: ClusterConfig },
  files: readonly string[],
  topics: Omit<TopicOptions, "name" | "trial">,
  { log, signal }: { readonly log: Log; readonly signal: AbortSignal },
): Promise<string> {
  const { name, trial } = config.cluster;
  const opened: { readonly lock: Lock; readonly db: State }[] = [];
  const connect = connectKafka(config.cluster, systemClock, log);
  const link = await connect(signal);
  try {
    for (const file of files) opened.push(await openSource(file, log));
    const sources = opened.map(({ db }) => db);
    refuseUnready(files, sources);
    await createTopics(link, { name, trial, ...topics });
    const cluster = randomUUID();
    await adoptStates(sources, {
      ...{ cluster, lanes: topics.lanes, hash: LANE_HASH, nowMs: systemClock.now(), signal },
      changelog: createKafkaChangelog({ name, connect, transactionTimeoutMs: 60_000 }),
      ownersOf: (shard) => shardOwners({ ...config, shard }),
      temporary: `${files[0]!}.adopting`,
    });
    for (const db of sources) await db.change(() => setAdopted(db, name));
    await finishTopics(link, { name, trial, ...topics });
    return cluster;
  } finally {
    link.end();
    for (const { db, lock } of opened) {
      db.close();
      lock.release();
    }
  }
}

async function openSource(file: string, log: Log): Promise<{ readonly lock: Lock; readonly db: State }> {
  if (!existsSync(file)) throw new UsageError(`There is no state file ${file}.`);
  const lock = takeLock(file);
  try {
    return { lock, db: await openOwnState(file, log) };
  } catch (error) {
    lock.release();
    throw error;
  }
}

function refuseUnready(files: readonly string[], sources: readonly State[]): void {
  const problems = sources.flatMap((db, at) =>
    splitProblems(db).map((problem) => `${files[at]}: ${problem}`),
  );
  if (problems.length === 0) return;
  throw new UsageError(
    `The state cannot be adopted yet:\n${problems.map((problem) => `  - ${problem}`).join("\n")}\nLet "tidemark run --once" deliver everything with the old config, then try again. Nothing was changed.`,
  );
}

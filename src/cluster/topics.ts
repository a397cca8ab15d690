import { randomUUID } from "node:crypto";
import { BIRTH_KEY, type Changelog, type LaneBirth } from "../core/changelog.ts";
import { UsageError } from "../core/errors.ts";
import type { KafkaAdmin, KafkaClient } from "../core/kafka.ts";
import { readBirth } from "./kafka-changelog.ts";
import { refusedRight } from "./rights.ts";
import { topicsOf } from "./topic-names.ts";

/*
 * The topics of a cluster are made by `cluster create` and `cluster adopt` alone (C7). Every start checks their settings and names
 * each one that is wrong, because a wrong one loses data silently: a state topic with the policy "delete" forgets.
 */

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** The function that maps organizations to lanes, as birth records name it. */
export const LANE_HASH = "sha256-48";

type Check = (value: string) => boolean;
interface Setting {
  readonly name: string;
  readonly value: string;
  /** Values that are as good. Default: the same one. */
  readonly isGood?: Check;
}

const atLeast =
  (least: number): Check =>
  (value) =>
    Number(value) >= least || Number(value) === -1;

const LARGE_ENOUGH: Setting = { name: "max.message.bytes", value: "1048588", isGood: atLeast(1_000_000) };
const BROKER_TIME: Setting = { name: "message.timestamp.type", value: "LogAppendTime" };
const SAFE: readonly Setting[] = [{ name: "unclean.leader.election.enable", value: "false" }];
const COMPACTED: readonly Setting[] = [
  { name: "cleanup.policy", value: "compact" },
  { name: "segment.bytes", value: String(64 * 1024 * 1024) },
  { name: "segment.ms", value: String(HOUR_MS) },
  { name: "delete.retention.ms", value: String(7 * DAY_MS), isGood: atLeast(7 * DAY_MS) },
].map((setting) =>
  setting.name.startsWith("segment")
    ? { ...setting, isGood: (value) => Number(value) <= 1024 ** 3 }
    : setting,
);

function settingsOf(name: string): ReadonlyMap<string, readonly Setting[]> {
  const topics = topicsOf(name);
  return new Map([
    [topics.state, [...SAFE, LARGE_ENOUGH, ...COMPACTED, BROKER_TIME]],
    [
      topics.pages,
      [
        ...SAFE,
        LARGE_ENOUGH,
        { name: "cleanup.policy", value: "delete" },
        { name: "retention.ms", value: "-1" },
        { name: "retention.bytes", value: "-1" },
      ],
    ],
    [topics.lanes, []],
    [
      topics.requests,
      [
        { name: "cleanup.policy", value: "delete" },
        { name: "retention.ms", value: String(7 * DAY_MS), isGood: atLeast(DAY_MS) },
      ],
    ],
    [topics.machines, [{ name: "cleanup.policy", value: "compact" }, BROKER_TIME]],
  ]);
}

export interface TopicOptions {
  readonly name: string;
  readonly lanes: number;
  readonly replication: number;
  /** For trying it out: one replica is accepted. */
  readonly trial: boolean;
}

const REPLICATION_MIN = 3;
const IN_SYNC_MIN = 2;

/**
 * Makes the topics but the last. Refused when one of them is there already. `run` refuses a cluster that lacks a topic, so
 * one that is only half made does not start.
 */
export async function createTopics(link: KafkaClient, options: TopicOptions): Promise<void> {
  const { name, lanes, replication, trial } = options;
  if (replication < REPLICATION_MIN && !trial)
    throw new UsageError(
      `A cluster needs ${REPLICATION_MIN} replicas of its topics, not ${replication}: with fewer, one lost disk loses the state. Set "trial: true" under "cluster" in the config to try it with one broker.`,
    );
  const settings = settingsOf(name);
  await withAdmin(link, name, async (admin) => {
    const there = await existing(admin, [...settings.keys()]);
    if (there.length > 0)
      throw new UsageError(
        `${there.join(", ")} exist already: a cluster named "${name}" was made before. Choose another name, or delete the topics if nothing of them is needed.`,
      );
    await make(
      admin,
      options,
      [...settings].filter(([topic]) => topic !== topicsOf(name).machines),
      lanes,
    );
  });
}

/** Makes the last topic, when every lane has its birth record. */
export async function finishTopics(link: KafkaClient, options: TopicOptions): Promise<void> {
  const { machines } = topicsOf(options.name);
  await withAdmin(link, options.name, (admin) =>
    make(admin, options, [[machines, settingsOf(options.name).get(machines)!]], 1),
  );
}

async function make(
  admin: KafkaAdmin,
  { replication }: TopicOptions,
  topics: readonly (readonly [string, readonly Setting[]])[],
  partitions: number,
): Promise<void> {
  const inSync = { name: "min.insync.replicas", value: String(Math.min(IN_SYNC_MIN, replication)) };
  await admin.create(
    topics.map(([topic, own]) => ({
      ...{ topic, partitions, replication },
      settings: [...own, inSync].map(({ name, value }) => ({ name, value })),
    })),
  );
  await untilLed(
    admin,
    topics.map(([topic]) => topic),
  );
}

const LED_TRIES = 200;
const LED_POLL_MS = 100;

/** Another broker than the one that made a topic may learn of it a moment later. */
async function untilLed(admin: KafkaAdmin, names: readonly string[]): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      const topics = await admin.describe(names);
      if (topics.every(({ partitions }) => partitions.every(({ leader }) => leader >= 0))) return;
    } catch (error) {
      if (tries >= LED_TRIES) throw error;
    }
    if (tries >= LED_TRIES) throw new UsageError("The new topics have no leaders: see the brokers' logs.");
    await new Promise((resolve) => setTimeout(resolve, LED_POLL_MS));
  }
}

/** Writes the birth record of every lane; gives the cluster's id. */
export async function writeBirths(changelog: Changelog, lanes: number, signal: AbortSignal): Promise<string> {
  const cluster = randomUUID();
  for (let lane = 0; lane < lanes; lane++) {
    const log = await changelog.open(lane, signal);
    try {
      const birth: LaneBirth = { cluster, lane, lanes, hash: LANE_HASH };
      await log.commit({ rows: [{ key: BIRTH_KEY, value: Buffer.from(JSON.stringify(birth)) }], bodies: [] });
    } finally {
      await log.close();
    }
  }
  return cluster;
}

export interface TopicFacts {
  /** The cluster's id, by the birth record of lane 0; undefined where that is missing. */
  readonly cluster: string | undefined;
  readonly lanes: number;
  /** Every setting that is wrong, as a sentence. */
  readonly problems: readonly string[];
}

/**
 * Checks topics and their settings. Throws when they are not there. The birth record says how many lanes there are:
 * partitions can be added to a topic and never be removed, and an added one is not used.
 */
export async function checkTopics(
  link: KafkaClient,
  name: string,
  trial: boolean,
  signal: AbortSignal,
): Promise<TopicFacts> {
  const settings = settingsOf(name);
  const names = [...settings.keys()];
  return withAdmin(link, name, async (admin) => {
    const there = await existing(admin, names);
    const missing = names.filter((topic) => !there.includes(topic));
    if (missing.length > 0)
      throw new UsageError(
        `The cluster "${name}" lacks ${missing.length === 1 ? "the topic" : "the topics"} ${missing.join(", ")}. Make a new cluster with "tidemark cluster create". If it was made before, its topics are lost, or this user may not see them: restore them, or allow it Describe on topics with the prefix "${name}.". Nothing is begun again automatically.`,
      );
    const topics = await admin.describe(names);
    const birth = await readBirth(link, topicsOf(name), 0, signal);
    const lanes =
      birth?.lanes ?? topics.find((topic) => topic.name === topicsOf(name).state)!.partitions.length;
    const replicas = new Map(
      topics.map((topic) => [
        topic.name,
        Math.min(...topic.partitions.map((partition) => partition.replicas)),
      ]),
    );
    const found = await admin.settings(names);
    const problems = names.flatMap((topic) => [
      ...settings.get(topic)!.flatMap((wanted) => settingProblem(topic, wanted, found.get(topic)!)),
      ...(trial ? [] : replicaProblems(topic, replicas.get(topic)!, found.get(topic)!)),
    ]);
    for (const topic of topics)
      if (topic.name !== topicsOf(name).machines && topic.partitions.length < lanes)
        problems.push(`${topic.name} has ${topic.partitions.length} partitions instead of ${lanes}.`);
    return { cluster: birth?.cluster, lanes, problems };
  });
}

function settingProblem(topic: string, wanted: Setting, found: ReadonlyMap<string, string>): string[] {
  const value = found.get(wanted.name);
  const isGood = wanted.isGood ?? ((text: string) => text === wanted.value);
  if (value === undefined || isGood(value)) return [];
  return [
    `${topic} has ${wanted.name}=${value} instead of ${wanted.value} (kafka-configs.sh --alter --entity-type topics --entity-name ${topic} --add-config ${wanted.name}=${wanted.value}).`,
  ];
}

function replicaProblems(topic: string, replicas: number, found: ReadonlyMap<string, string>): string[] {
  const inSync = Number(found.get("min.insync.replicas") ?? IN_SYNC_MIN);
  return [
    ...(replicas < REPLICATION_MIN
      ? [`${topic} has ${replicas} replicas instead of ${REPLICATION_MIN}: one lost disk can lose the state.`]
      : []),
    ...(inSync < IN_SYNC_MIN
      ? [`${topic} has min.insync.replicas=${inSync} instead of ${IN_SYNC_MIN}.`]
      : []),
  ];
}

async function existing(admin: KafkaAdmin, names: readonly string[]): Promise<readonly string[]> {
  const there = await admin.list();
  return names.filter((name) => there.includes(name));
}

async function withAdmin<Value>(
  link: KafkaClient,
  name: string,
  work: (admin: KafkaAdmin) => Promise<Value>,
): Promise<Value> {
  try {
    return await link.admin(work);
  } catch (error) {
    throw refusedRight(error, name) ?? error;
  }
}

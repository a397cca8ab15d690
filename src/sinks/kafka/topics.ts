import { PausedError, RetryableError } from "../../core/errors.ts";
import { errorTypes, type KafkaAdmin, type KafkaClient } from "../../core/kafka.ts";
import { type KafkaConfig, type KafkaContext, memoryOf } from "./config.ts";
import { keyPartition } from "./partition-of.ts";

interface Topic {
  readonly partitions: number;
  /** Upper bound for the messages of one record batch, before compression. */
  readonly chunkBytesMax: number;
  /** The partition of each key seen so far; cleared when it grows too large. */
  readonly places: Map<string, PartitionPlace>;
}

export interface PartitionPlace {
  readonly partition: number;
  readonly chunkBytesMax: number;
}

export interface TopicBook {
  /** Makes sure that these topics of events exist and keep every event. */
  prepare(names: ReadonlySet<string>): Promise<void>;
  /** Where a key belongs in a topic that was prepared. */
  place(topic: string, key: string | null): PartitionPlace;
  /** Record batches of this topic are at most this large from the next opening on. */
  shrink(topic: string, chunkBytesMax: number): void;
}

/** A fixed topic that is missing or compacted is found at opening, not with the first event. */
export async function prepareFixed(topics: TopicBook, { topic }: KafkaConfig): Promise<void> {
  if (!topic.includes("{")) await topics.prepare(new Set([topic]));
}

/** Makes sure that the positions topic exists and is compacted; returns its number of partitions. */
export async function preparePositions(client: KafkaClient, context: KafkaContext): Promise<number> {
  const name = context.config.positionsTopic;
  return client.admin(async (admin) => {
    const partitions = await existing(admin, context, [name]);
    requireCompaction(name, (await topicSettingsOf(admin, [name])).get(name)?.get("cleanup.policy"));
    return partitions.get(name)!;
  });
}

/** The broker's default, 1 MiB and 12 bytes, for brokers that do not tell. */
const MESSAGE_BYTES_MAX_DEFAULT = 1_048_588;
const PLACES_MAX = 10_000;
const CHUNK_BYTES_MIN = 1_000;
/** More than one partition: sinks that share a partition wait for each other when they open. */
const POSITIONS_PARTITIONS = 16;
/** Topics in one request. */
const TOPICS_AT_ONCE = 200;

/**
 * `delivered` names the topics that this sink has delivered events to; it is asked when a topic is missing. Such a
 * topic is not created: that would hide that those events are gone.
 */
export function topicBook(
  client: KafkaClient,
  context: KafkaContext,
  delivered?: () => Promise<ReadonlySet<string>>,
): TopicBook {
  const { config } = context;
  const topics = new Map<string, Topic>();

  /** Limits that a broker enforces although its settings do not show them. */
  const shrunkKey = (topic: string) => `chunkBytesMax\n${topic}`;
  const memory = memoryOf(context);

  async function prepareSome(admin: KafkaAdmin, names: readonly string[]): Promise<void> {
    const partitions = await existing(admin, context, names, delivered);
    const settings = await topicSettingsOf(admin, names);
    for (const name of names) {
      if (config.key !== "identity") requireAllKept(name, settings.get(name)?.get("cleanup.policy"));
      const chunkBytesMax = chunkBytesMaxOf(settings.get(name)?.get("max.message.bytes"));
      const shrunk = memory.get(shrunkKey(name)) as number | undefined;
      topics.set(name, {
        chunkBytesMax: Math.min(chunkBytesMax, shrunk ?? chunkBytesMax),
        partitions: partitions.get(name)!,
        places: new Map(),
      });
    }
  }

  return {
    async prepare(names) {
      const missing = [...names].filter((name) => !topics.has(name));
      if (missing.length === 0) return;
      await client.admin(async (admin) => {
        for (let at = 0; at < missing.length; at += TOPICS_AT_ONCE)
          await prepareSome(admin, missing.slice(at, at + TOPICS_AT_ONCE));
      });
    },
    place(topic, key) {
      const known = topics.get(topic);
      if (!known) throw new Error(`the topic ${topic} was not prepared`);
      // All events without a key go to one partition, which keeps their order.
      const text = key ?? "";
      const met = known.places.get(text);
      if (met) return met;
      const partition = keyPartition(text, known.partitions);
      const place = { partition, chunkBytesMax: known.chunkBytesMax };
      if (known.places.size >= PLACES_MAX) known.places.clear();
      known.places.set(text, place);
      return place;
    },
    shrink(topic, chunkBytesMax) {
      memory.set(shrunkKey(topic), Math.max(CHUNK_BYTES_MIN, chunkBytesMax));
    },
  };
}

interface Wanted {
  readonly numPartitions: number;
  readonly compacted: boolean;
}

function wantedFor(topic: string, { positionsTopic, createTopics }: KafkaConfig): Wanted {
  if (topic === positionsTopic) return { numPartitions: POSITIONS_PARTITIONS, compacted: true };
  return { numPartitions: createTopics?.partitions ?? 1, compacted: false };
}

/** The number of partitions of each topic; missing topics are created where the config allows it. */
async function existing(
  admin: KafkaAdmin,
  context: KafkaContext,
  names: readonly string[],
  deliveredTo?: () => Promise<ReadonlySet<string>>,
): Promise<ReadonlyMap<string, number>> {
  const found = await partitionsOf(admin, names);
  const missing = names.filter((name) => !found.has(name));
  if (missing.length === 0) return found;
  const delivered = await deliveredTo?.();
  const gone = missing.filter((name) => delivered?.has(name));
  if (gone.length > 0) throw goneTopics(gone, context.config);
  const { createTopics } = context.config;
  if (!createTopics) throw missingTopics(missing, context.config);
  await admin.create(
    missing.map((topic) => {
      const { numPartitions, compacted } = wantedFor(topic, context.config);
      const settings = compacted ? [{ name: "cleanup.policy", value: "compact" }] : [];
      return { topic, partitions: numPartitions, replication: createTopics.replication, settings };
    }),
  );
  return untilKnown(admin, names, context);
}

/** Topics that an error names, each with its command. */
const NAMED_MAX = 10;

export function missingTopics(missing: readonly string[], config: KafkaConfig): PausedError {
  const isOne = missing.length === 1;
  return new PausedError(
    `${namesOf(missing)} ${isOne ? "does" : "do"} not exist.`,
    `create ${isOne ? "it" : "them"} (${creationOf(missing, config)}), or state createTopics`,
  );
}

/** Somebody may have deleted them by mistake, or the brokers are others. */
export function goneTopics(gone: readonly string[], config: KafkaConfig): PausedError {
  const isOne = gone.length === 1;
  const [it, again] = isOne ? ["it", "It is"] : ["them", "They are"];
  return new PausedError(
    `${namesOf(gone)} ${isOne ? "is" : "are"} gone, and with ${it} the events that were delivered to ${it}. ${again} not created again.`,
    `check that these are the right brokers; to go on with the events that follow, create ${it} (${creationOf(gone, config)})`,
  );
}

function namesOf(topics: readonly string[]): string {
  if (topics.length === 1) return `The topic ${topics[0]}`;
  const named = topics.slice(0, NAMED_MAX);
  const last = topics.length > NAMED_MAX ? `${topics.length - NAMED_MAX} more` : named.pop();
  return `The topics ${named.join(", ")} and ${last}`;
}

function creationOf(topics: readonly string[], config: KafkaConfig): string {
  const commands = topics.slice(0, NAMED_MAX).map((topic) => {
    const { numPartitions, compacted } = wantedFor(topic, config);
    const compaction = compacted ? " --config cleanup.policy=compact" : "";
    return `kafka-topics.sh --create --topic ${topic} --partitions ${numPartitions} --replication-factor 3${compaction}`;
  });
  return commands.join("; ");
}

const KNOWN_MS_MAX = 10_000;
const KNOWN_POLL_MS = 50;

/** Another broker than the one that created a topic may learn of it a moment later. */
async function untilKnown(admin: KafkaAdmin, names: readonly string[], { clock, signal }: KafkaContext) {
  const deadlineMs = clock.now() + KNOWN_MS_MAX;
  for (;;) {
    const found = await partitionsOf(admin, names);
    const unknown = names.find((name) => !found.has(name));
    if (unknown === undefined) return found;
    if (clock.now() >= deadlineMs) throw new RetryableError(`The new topic ${unknown} is not known yet.`);
    await clock.sleep(KNOWN_POLL_MS, signal);
  }
}

/** A topic without a leader is another error: it is there. */
const UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION";

/**
 * The number of partitions of those topics that exist, in one request. The client rejects the whole answer
 * when one topic is missing; only then are the halves asked for.
 */
export async function partitionsOf(
  admin: KafkaAdmin,
  names: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  try {
    const topics = await admin.describe(names);
    return new Map(
      topics.flatMap(({ name, partitions }) => (partitions.length > 0 ? [[name, partitions.length]] : [])),
    );
  } catch (error) {
    if ((error as { type?: string }).type !== UNKNOWN) throw error;
    if (names.length === 1) return new Map();
  }
  const half = Math.ceil(names.length / 2);
  const halves = await Promise.all([
    partitionsOf(admin, names.slice(0, half)),
    partitionsOf(admin, names.slice(half)),
  ]);
  return new Map(halves.flatMap((found) => [...found]));
}

/** The same requirements for the topics of a config as when the sink is opened. */
export function requirePolicies(
  settings: ReadonlyMap<string, ReadonlyMap<string, string>>,
  config: KafkaConfig,
): void {
  for (const [name, own] of settings) {
    const policy = own.get("cleanup.policy");
    if (name === config.positionsTopic) requireCompaction(name, policy);
    else if (config.key !== "identity") requireAllKept(name, policy);
  }
}

/** A compacted topic keeps the newest record of each key: one event for each organization. */
function requireAllKept(topic: string, policy: string | undefined): void {
  if (policy === undefined || !policy.split(",").includes("compact")) return;
  throw new PausedError(
    `The topic ${topic} is compacted: Kafka would delete all events of an organization but its newest.`,
    `set it to keep every event (kafka-configs.sh --alter --entity-type topics --entity-name ${topic} --add-config cleanup.policy=delete), or name another topic`,
  );
}

/** R24: with another policy the position of a sink that has had nothing to do for a while is deleted. */
function requireCompaction(topic: string, policy: string | undefined): void {
  if (policy === "compact") return;
  throw new PausedError(
    `The positions topic ${topic} is not compacted: its cleanup.policy is ${policy}.`,
    `set it (kafka-configs.sh --alter --entity-type topics --entity-name ${topic} --add-config cleanup.policy=compact), or name another positionsTopic`,
  );
}

/** Leaves space for the batch's header and for the growth of bytes that do not compress. */
function chunkBytesMaxOf(setting: string | undefined): number {
  const messageBytesMax = Number(setting ?? MESSAGE_BYTES_MAX_DEFAULT);
  return Math.max(1, Math.floor(messageBytesMax * 0.99) - 512);
}

/** The settings of each topic that matter here; empty where the broker does not tell them to this user. */
export async function topicSettingsOf(
  admin: KafkaAdmin,
  names: readonly string[],
): Promise<ReadonlyMap<string, ReadonlyMap<string, string>>> {
  try {
    return await admin.settings(names, ["cleanup.policy", "max.message.bytes"]);
  } catch (error) {
    const isUntold = /_AUTHORIZATION_FAILED$|^UNSUPPORTED_VERSION$/.test(errorTypes(error)[0] ?? "");
    if (isUntold) return new Map();
    throw error;
  }
}

import { hash } from "node:crypto";
import type { Admin } from "kafkajs";
import { PausedError, RetryableError } from "../../core/errors.ts";
import type { JournalEvent } from "../../core/event.ts";
import { compileTemplate } from "../../core/names.ts";
import type { SinkContext } from "../../core/sink.ts";
import type { Connection } from "./connect.ts";
import type { KafkaConfig } from "./sink.ts";

type Context = SinkContext<KafkaConfig>;

const NAME_LENGTH_MAX = 249;
const PLACEHOLDERS = ["account", "organization", "service"] as const;

/** Why a template cannot name topics, or undefined. */
export function checkTemplate(template: string): string | undefined {
  try {
    compileTemplate(template, PLACEHOLDERS);
  } catch (error) {
    return (error as Error).message;
  }
  const fixed = template.replaceAll(/\{[^}]*\}/g, "");
  if (template === "" || !/^[a-zA-Z0-9._-]*$/.test(fixed)) {
    return "a topic's name is made of letters, digits, `.`, `_` and `-`";
  }
  if (fixed.length > NAME_LENGTH_MAX) return `a topic's name has at most ${NAME_LENGTH_MAX} characters`;
  return template === "." || template === ".." ? "a topic cannot have this name" : undefined;
}

/**
 * R22 in Kafka's alphabet: `~`, which marks an encoded name's hash, is not allowed, and capitals occur in
 * no encoded name. A name never equals that of the positions topic.
 */
export function topicNamer(template: string, positionsTopic: string): (event: JournalEvent) => string {
  const fill = compileTemplate(template, PLACEHOLDERS);
  return (event) => {
    const name = fill(event).replaceAll("~", "Z");
    if (name === positionsTopic) return `${name.slice(0, NAME_LENGTH_MAX - 2)}_X`;
    if (name.length <= NAME_LENGTH_MAX) return name;
    return `${name.slice(0, NAME_LENGTH_MAX - 34)}_Y${hash("sha256", name, "hex").slice(0, 32)}`;
  };
}

interface Topic {
  readonly partitions: number;
  /** What the messages of one record batch may add up to, before compression. */
  readonly chunkBytesMax: number;
  /** Where keys belong that were met; emptied when it grows too large. */
  readonly places: Map<string, Place>;
}

export interface Place {
  readonly partition: number;
  readonly chunkBytesMax: number;
}

export interface TopicBook {
  /** The number of partitions of the positions topic, which is there and compacted. */
  preparePositions(): Promise<number>;
  /** Every one of these is there afterwards. */
  prepare(names: ReadonlySet<string>): Promise<void>;
  /** Where a key belongs in a topic that was prepared. */
  place(topic: string, key: string | null): Place;
}

/** Where the broker does not say: its default is 1 MiB and 12 bytes. */
const MESSAGE_BYTES_MAX_DEFAULT = 1_048_588;
const UNKNOWN = ["UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE"];
const KNOWN_MS_MAX = 10_000;
const KNOWN_POLL_MS = 50;
const PLACES_MAX = 10_000;
/** The positions topic has partitions to spare: sinks that share one wait for each other when they open. */
const POSITIONS_PARTITIONS = 16;

export function topicBook(connection: Connection, context: Context): TopicBook {
  const { config } = context;
  const topics = new Map<string, Topic>();
  const partitionOf = connection.library.Partitioners.DefaultPartitioner();

  async function withAdmin<Value>(work: (admin: Admin) => Promise<Value>): Promise<Value> {
    const admin = connection.kafka.admin();
    await admin.connect();
    try {
      return await work(admin);
    } finally {
      await admin.disconnect();
    }
  }

  return {
    preparePositions: () =>
      withAdmin(async (admin) => {
        const name = config.positionsTopic;
        const wanted = { numPartitions: POSITIONS_PARTITIONS, compacted: true };
        const partitions = await countPartitions(admin, context, name, wanted);
        await requireCompaction(connection, admin, name);
        return partitions;
      }),
    prepare: async (names) => {
      const missing = [...names].filter((name) => !topics.has(name));
      if (missing.length === 0) return;
      await withAdmin(async (admin) => {
        for (const name of missing) {
          const wanted = { numPartitions: config.createTopics?.partitions ?? 1, compacted: false };
          const partitions = await countPartitions(admin, context, name, wanted);
          const chunkBytesMax = await chunkBytesMaxOf(connection, admin, name);
          topics.set(name, { partitions, chunkBytesMax, places: new Map() });
        }
      });
    },
    place(topic, key) {
      const known = topics.get(topic);
      if (!known) throw new Error(`the topic ${topic} was not prepared`);
      // No key is one key here, for its order.
      const text = key ?? "";
      const met = known.places.get(text);
      if (met) return met;
      // The same partition as Java's producer chooses.
      const partitionMetadata = metadataOf(known.partitions);
      const partition = partitionOf({ topic, partitionMetadata, message: { key: text, value: null } });
      const place = { partition, chunkBytesMax: known.chunkBytesMax };
      if (known.places.size >= PLACES_MAX) known.places.clear();
      known.places.set(text, place);
      return place;
    },
  };
}

async function countPartitions(
  admin: Admin,
  context: Context,
  topic: string,
  wanted: { readonly numPartitions: number; readonly compacted: boolean },
): Promise<number> {
  const found = await partitionsOf(admin, topic);
  if (found !== undefined) return found;
  const { config } = context;
  const compaction = wanted.compacted ? " --config cleanup.policy=compact" : "";
  if (!config.createTopics) {
    throw new PausedError(
      `The topic ${topic} does not exist.`,
      `create it (kafka-topics.sh --create --topic ${topic} --partitions ${wanted.numPartitions} --replication-factor 3${compaction}), or state createTopics`,
    );
  }
  await admin.createTopics({
    waitForLeaders: false,
    topics: [
      {
        topic,
        numPartitions: wanted.numPartitions,
        replicationFactor: config.createTopics.replication,
        configEntries: wanted.compacted ? [{ name: "cleanup.policy", value: "compact" }] : [],
      },
    ],
  });
  return untilKnown(admin, topic, context);
}

/** The broker that is asked may hear of a new topic a moment later than the one that has created it. */
async function untilKnown(admin: Admin, topic: string, { clock, signal }: Context): Promise<number> {
  const deadlineMs = clock.now() + KNOWN_MS_MAX;
  for (;;) {
    const found = await partitionsOf(admin, topic);
    if (found !== undefined) return found;
    if (clock.now() >= deadlineMs) throw new RetryableError(`The new topic ${topic} is not known yet.`);
    await clock.sleep(KNOWN_POLL_MS, signal);
  }
}

async function partitionsOf(admin: Admin, topic: string): Promise<number | undefined> {
  try {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    return topics[0]?.partitions.length || undefined;
  } catch (error) {
    if (UNKNOWN.includes((error as { type?: string }).type ?? "")) return undefined;
    throw error;
  }
}

/** R24: deletion by age or size would delete the position of a sink that has nothing to do for a while. */
async function requireCompaction(connection: Connection, admin: Admin, topic: string): Promise<void> {
  const policy = await settingOf(connection, admin, topic, "cleanup.policy");
  if (policy === "compact") return;
  throw new PausedError(
    `The positions topic ${topic} is not compacted: its cleanup.policy is ${policy}.`,
    `set it (kafka-configs.sh --alter --entity-type topics --entity-name ${topic} --add-config cleanup.policy=compact), or name another positionsTopic`,
  );
}

/** With room for the batch's own header and for what compression adds to bytes that do not compress. */
async function chunkBytesMaxOf(connection: Connection, admin: Admin, topic: string): Promise<number> {
  let messageBytesMax = MESSAGE_BYTES_MAX_DEFAULT;
  try {
    messageBytesMax = Number(await settingOf(connection, admin, topic, "max.message.bytes"));
  } catch (error) {
    // Whoever may write may not always ask for settings.
    if (!/_AUTHORIZATION_FAILED$/.test((error as { type?: string }).type ?? "")) throw error;
  }
  return Math.max(1, Math.floor(messageBytesMax * 0.99) - 512);
}

async function settingOf(connection: Connection, admin: Admin, topic: string, setting: string) {
  const type = connection.library.ConfigResourceTypes.TOPIC;
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: [{ type, name: topic, configNames: [setting] }],
  });
  return resources[0]?.configEntries.find(({ configName }) => configName === setting)?.configValue;
}

function metadataOf(partitions: number) {
  return Array.from({ length: partitions }, (_, partitionId) => ({
    partitionId,
    partitionErrorCode: 0,
    leader: 0,
    replicas: [],
    isr: [],
  }));
}

import {
  BIRTH_KEY,
  type Changelog,
  FencedError,
  type LaneBirth,
  type LaneLog,
  type LogBatch,
  type LogName,
  type LogRecord,
} from "../core/changelog.ts";
import { type ConnectKafka, errorTypes, type KafkaClient, type KafkaProducer } from "../core/kafka.ts";
import { endLaneTransaction } from "./end-lane-transaction.ts";
import { endsOf, readPartition } from "./read-partition.ts";
import { inWords } from "./rights.ts";
import { type ClusterTopics, topicsOf } from "./topic-names.ts";

/*
 * The changelog over Kafka. A commit is one transaction over the lane's partitions of both topics, by the transactional
 * id of the lane. Taking a lane is InitProducerId: the broker then refuses the writer before us.
 */

export interface KafkaChangelogOptions {
  /** The cluster's name: the prefix of its topics and ids. */
  readonly name: string;
  readonly connect: ConnectKafka;
  readonly transactionTimeoutMs: number;
}

/** A produce request holds at most so much for one partition. It is below Kafka's usual limit of 1 MB a batch. */
const SEND_BYTES_MAX = 900_000;
/** Added to the transaction's time-out: after that a commit has failed. */
const COMMIT_MS = 10_000;
const LOGS = ["rows", "bodies"] as const;
const OPEN_MS_MAX = 120_000;

/** The broker's words for a writer whose lane was taken, or whose transaction has timed out. */
const FENCED = [
  "INVALID_PRODUCER_EPOCH",
  "PRODUCER_FENCED",
  "INVALID_PRODUCER_ID_MAPPING",
  "INVALID_TXN_STATE",
  "UNKNOWN_PRODUCER_ID",
];

export function laneId(name: string, lane: number): string {
  return `${name}.lane.${lane}`;
}

export function createKafkaChangelog(options: KafkaChangelogOptions): Changelog {
  const topics = topicsOf(options.name);
  return {
    async birth(lane, signal) {
      const link = await options.connect(signal);
      try {
        return await link.within(OPEN_MS_MAX, readBirth(link, topics, lane, signal));
      } catch (error) {
        throw inWords(error, options.name);
      } finally {
        link.end();
      }
    },
    async open(lane, signal) {
      const link = await options.connect(signal);
      try {
        const producer = await link.within(OPEN_MS_MAX, takeLane(link, topics, lane, options));
        return laneLog(link, producer, topics, lane, options);
      } catch (error) {
        link.end();
        throw inWords(error, options.name);
      }
    },
  };
}

/** The first record of the partition. */
export async function readBirth(
  link: KafkaClient,
  topics: Pick<ClusterTopics, "state">,
  lane: number,
  signal: AbortSignal,
): Promise<LaneBirth | undefined> {
  if (!(await hasPartition(link, topics.state, lane))) return undefined;
  for await (const slice of readPartition(link, topics.state, lane, 0, signal))
    for (const { key, value } of slice)
      if (key === BIRTH_KEY && value !== null) return JSON.parse(Buffer.from(value).toString()) as LaneBirth;
  return undefined;
}

async function hasPartition(link: KafkaClient, topic: string, partition: number): Promise<boolean> {
  try {
    const [found] = await link.admin((admin) => admin.describe([topic]));
    return found!.partitions.some((each) => each.partition === partition);
  } catch (error) {
    if (errorTypes(error).includes("UNKNOWN_TOPIC_OR_PARTITION")) return false;
    throw error;
  }
}

/** A producer that has fenced the one before it, with nothing of ours left open. */
async function takeLane(
  link: KafkaClient,
  topics: ClusterTopics,
  lane: number,
  { name, transactionTimeoutMs }: KafkaChangelogOptions,
): Promise<KafkaProducer> {
  const transactionalId = laneId(name, lane);
  await endLaneTransaction(link, { transactionalId, transactionTimeoutMs, topics, lane });
  return link.producer({ id: transactionalId, timeoutMs: transactionTimeoutMs });
}

function laneLog(
  link: KafkaClient,
  producer: KafkaProducer,
  topics: ClusterTopics,
  lane: number,
  { name, transactionTimeoutMs }: KafkaChangelogOptions,
): LaneLog {
  const topicOf = (log: LogName) => (log === "rows" ? topics.state : topics.pages);

  async function send(batch: LogBatch) {
    const written = LOGS.filter((log) => batch[log].length > 0);
    await producer.begin(written.map((log) => ({ topic: topicOf(log), partitions: [lane] })));
    let rowOffset = -1;
    let bodyOffset: number | undefined;
    for (const request of requestsOf(batch)) {
      const logs = LOGS.filter((log) => request[log].length > 0);
      const refused = await producer.produce(
        await Promise.all(
          logs.map((log) => link.encode({ topic: topicOf(log), partition: lane }, request[log], Date.now())),
        ),
      );
      if (refused.length > 0) throw new Error(tooLarge(refused[0]!.topic));
      if (request.rows.length > 0) rowOffset = offsetIn(topics.state) + request.rows.length - 1;
      if (request.bodies.length > 0) bodyOffset ??= offsetIn(topics.pages);
    }
    await producer.commit();
    return { rowOffset, bodyOffset };
  }

  function offsetIn(topic: string): number {
    const offset = producer.offsetIn(topic, lane);
    if (offset === undefined) throw new Error(`Kafka did not say where it stored records of ${topic}.`);
    return Number(offset);
  }

  return {
    lane,
    async commit(batch) {
      try {
        return await link.within(transactionTimeoutMs + COMMIT_MS, send(batch));
      } catch (error) {
        if (errorTypes(error).some((type) => FENCED.includes(type)))
          throw new FencedError(`Another machine has taken lane ${lane}, or its transaction timed out.`, {
            cause: error,
          });
        throw inWords(error, name);
      }
    },
    read: (log, from, signal) => readPartition(link, topicOf(log), lane, from, signal),
    async dropBodies(before) {
      const { first } = await link.brokers((brokers) => endsOf(brokers, topics.pages, lane));
      if (before <= first) return;
      await link.admin((admin) => admin.deleteRecords({ topic: topics.pages, partition: lane }, before));
    },
    async close() {
      link.end();
      await producer.close().catch(() => {});
    },
  };
}

function tooLarge(topic: string): string {
  return `Kafka refuses records of ${topic} as too large: its max.message.bytes is below ${SEND_BYTES_MAX}.`;
}

/** Produce requests within the limit. Rows keep their order, so that the tip is in the last one. */
function requestsOf({ rows, bodies }: LogBatch): readonly LogBatch[] {
  const [rowChunks, bodyChunks] = [chunksOf(rows), chunksOf(bodies)];
  const count = Math.max(rowChunks.length, bodyChunks.length);
  // Bodies come first: the tip is written when everything else is.
  const lead = count - rowChunks.length;
  return Array.from({ length: count }, (_, at) => ({
    rows: rowChunks[at - lead] ?? [],
    bodies: bodyChunks[at] ?? [],
  }));
}

const RECORD_OVERHEAD_BYTES = 100;

function chunksOf(records: readonly LogRecord[]): readonly (readonly LogRecord[])[] {
  const chunks: LogRecord[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const record of records) {
    const size = record.key.length + (record.value?.length ?? 0) + RECORD_OVERHEAD_BYTES;
    if (bytes + size > SEND_BYTES_MAX) {
      chunks.push([]);
      bytes = 0;
    }
    chunks.at(-1)!.push(record);
    bytes += size;
  }
  return chunks;
}

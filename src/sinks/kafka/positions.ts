import { hash } from "node:crypto";
import type { Kafka } from "kafkajs";
import { z } from "zod";
import type { Clock } from "../../core/clock.ts";
import { PausedError, RetryableError } from "../../core/errors.ts";
import { formatPosition, type Position, parsePosition } from "../../core/position.ts";
import type { Connection } from "./connect.ts";
import type { Touched } from "./layout.ts";

/** The position that Kafka holds for one sink. */
export interface HeldPosition {
  readonly position: Position;
  /** The process that wrote it (R25). */
  readonly instance: string;
  /** Partition and offset of its record. */
  readonly place: string;
}

/** A record under our key that no marker decides. */
export interface Hanging {
  readonly position: Position;
  readonly producerId: string;
  /** Where its transaction has written, the record's own partition included. */
  readonly touched: readonly Touched[];
}

const valueSchema = z.object({
  position: z.string(),
  instance: z.string(),
  touched: z.array(z.object({ topic: z.string(), partitions: z.array(z.int()) })).optional(),
});

interface ToEncode {
  readonly position: Position;
  readonly key: string;
  readonly partitions: number;
  readonly instance: string;
  readonly sink: string;
  /** Where else the transaction has written: all that is needed to end it, should the brokers fail to. */
  readonly touched: readonly Touched[];
}

/** A topic for each of thousands of tenants would make a position larger than its topic allows. */
const TOUCHED_LENGTH_MAX = 100_000;

/** The record of a position; it is in the one partition that belongs to the key. */
export function encodePosition({ position, key, partitions, instance, sink, touched }: ToEncode) {
  const isShort = JSON.stringify(touched).length <= TOUCHED_LENGTH_MAX;
  const held = { position: formatPosition(position), instance, sink };
  const value = JSON.stringify(isShort ? { ...held, touched } : held);
  return { partition: partitionOf(key, partitions), message: { key, value } };
}

function partitionOf(key: string, partitions: number): number {
  return Number.parseInt(hash("sha256", key, "hex").slice(0, 12), 16) % partitions;
}

export interface ReadOptions {
  readonly topic: string;
  readonly partitions: number;
  readonly key: string;
  /** How long to wait for transactions of others that hold a record under the key. */
  readonly waitMs: number;
  /** Ends the transaction of a record that was waited for in vain; false when it is not ours to end. */
  readonly end: (hanging: Hanging) => Promise<boolean>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/**
 * The newest committed position under the key (R24). Its own partition is read first; the others only if
 * there is none, since partitions that were added to the topic give the key another one.
 */
export async function readPosition(
  connection: Connection,
  options: ReadOptions,
): Promise<HeldPosition | undefined> {
  const cluster = internalCluster(connection.kafka);
  await cluster.connect();
  try {
    await cluster.addTargetTopic(options.topic);
    const own = partitionOf(options.key, options.partitions);
    const others = Array.from({ length: options.partitions }, (_, at) => at).filter((at) => at !== own);
    for (const partition of [own, ...others]) {
      const held = await onceLed(cluster, options, () => readPartition(cluster, partition, options));
      if (held) return held;
    }
    return undefined;
  } finally {
    await cluster.disconnect();
  }
}

/** What a topic that was just made, or whose leader moves, answers for a moment. */
const NOT_LED = ["NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION"];
const NOT_LED_MS_MAX = 10_000;

async function onceLed<Value>(cluster: InternalCluster, options: ReadOptions, read: () => Promise<Value>) {
  const deadlineMs = options.clock.now() + NOT_LED_MS_MAX;
  for (;;) {
    try {
      return await read();
    } catch (error) {
      const isLate = options.clock.now() >= deadlineMs;
      if (isLate || !NOT_LED.includes((error as { type?: string }).type ?? "")) throw error;
    }
    await options.clock.sleep(POLL_MS, options.signal);
    await cluster.refreshMetadata();
  }
}

const EARLIEST = -2;
const LATEST = -1;
/** Reads as an uncommitted reader: markers and all, up to the true end. */
const READ_UNCOMMITTED = 0;
const FETCH_BYTES_MAX = 4_000_000;
const POLL_MS = 100;

/**
 * A committed reader is shown nothing behind the oldest open transaction of anybody, and the newest
 * position may lie there. So everything up to the true end is read, and whether a record counts is told by
 * the marker that ends its transaction. InitProducerId has ended ours; a record under our key without a
 * marker is another producer's, and is waited for. One of ours that still has none then never gets it: a
 * broker that is fenced or restarted takes partitions without a leader for deleted ones, leaves out their
 * markers and calls the transaction complete (KAFKA-20734, 4.3.1). Such a one is neither committed nor
 * aborted, and our next commit in each of its partitions would commit it there: it must be ended as a whole.
 */
async function readPartition(cluster: InternalCluster, partition: number, options: ReadOptions) {
  const { topic, key, clock, signal } = options;
  const [nodeId] = Object.keys(cluster.findLeaderForPartitions(topic, [partition]));
  if (nodeId === undefined) throw new RetryableError(`The positions topic has no leader for ${partition}.`);
  const broker = await cluster.findBroker({ nodeId });
  let at = await offsetOf(broker, topic, partition, EARLIEST);
  const end = await offsetOf(broker, topic, partition, LATEST);
  const deadlineMs = clock.now() + options.waitMs;
  const newest = newestUnder(key);
  while (at < end || newest.isUndecided()) {
    signal.throwIfAborted();
    const { messages, highWatermark } = await fetchFrom(broker, topic, partition, at);
    for (const record of messages) if (BigInt(record.offset) >= at) newest.take(record);
    const last = messages.at(-1);
    if (last && BigInt(last.offset) >= at) at = BigInt(last.offset) + 1n;
    // Compaction left a hole.
    else if (at < BigInt(highWatermark)) at += 1n;
    else if (clock.now() < deadlineMs) await clock.sleep(POLL_MS, signal);
    else throw await overdue(newest.undecided(), partition, options);
  }
  const record = newest.committed();
  return record && decode(record, partition, topic);
}

async function overdue(records: readonly FetchedRecord[], partition: number, { topic, end }: ReadOptions) {
  for (const record of records) {
    const held = parse(record);
    if (held?.touched === undefined) continue;
    const touched = [...held.touched, { topic, partitions: [partition] }];
    const { producerId } = record.batchContext;
    if (await end({ position: held.position, producerId, touched })) {
      return new RetryableError(
        `The brokers had left a transaction of this sink open in ${topic}, partition ${partition}: it was ended.`,
      );
    }
  }
  return new RetryableError(
    `Another producer's open transaction holds a position in ${topic}, partition ${partition}. One that outlives its time-out hangs: kafka-transactions.sh find-hanging names it and the others of its producer id; abort those in topics of events first, this one last.`,
  );
}

/** A control record's key is a version and a type; this type commits, the other aborts. */
const COMMIT = 1;

/** Of the records under one key, the one that was committed last. */
function newestUnder(key: string) {
  const undecided = new Map<string, FetchedRecord>();
  let committed: FetchedRecord | undefined;
  return {
    take(record: FetchedRecord): void {
      const { producerId, inTransaction } = record.batchContext;
      if (record.isControlRecord) {
        const ended = undecided.get(producerId);
        undecided.delete(producerId);
        if (ended && record.key?.readInt16BE(2) === COMMIT) committed = ended;
      } else if (record.key?.toString() !== key) return;
      else if (inTransaction) undecided.set(producerId, record);
      else committed = record;
    },
    isUndecided: () => undecided.size > 0,
    undecided: () => [...undecided.values()],
    committed: () => committed,
  };
}

/**
 * The true end of the partition is what an uncommitted reader is told; the admin's fetchTopicOffsets asks
 * as a committed one and gets the last stable offset. A leader that was just elected and does not know the
 * end yet refuses this question, while it would answer a fetch.
 */
async function offsetOf(broker: InternalBroker, topic: string, partition: number, timestamp: number) {
  const { responses } = await broker.listOffsets({
    replicaId: -1,
    isolationLevel: READ_UNCOMMITTED,
    topics: [{ topic, partitions: [{ partition, timestamp }] }],
  });
  return BigInt(responses[0]!.partitions[0]!.offset);
}

async function fetchFrom(broker: InternalBroker, topic: string, partition: number, at: bigint) {
  const { responses } = await broker.fetch({
    isolationLevel: READ_UNCOMMITTED,
    maxWaitTime: POLL_MS,
    minBytes: 0,
    maxBytes: FETCH_BYTES_MAX,
    topics: [{ topic, partitions: [{ partition, fetchOffset: at.toString(), maxBytes: FETCH_BYTES_MAX }] }],
  });
  return responses[0]!.partitions[0]!;
}

function decode(record: FetchedRecord, partition: number, topic: string): HeldPosition | undefined {
  // A tombstone: somebody has forgotten the sink on purpose.
  if (record.value === null) return undefined;
  const held = parse(record);
  if (!held) {
    throw new PausedError(
      `The positions topic ${topic} holds a record under our key that is no position.`,
      "give this sink a positionsTopic or transactionalId that nothing else uses",
    );
  }
  return { position: held.position, instance: held.instance, place: `${partition}:${record.offset}` };
}

function parse(record: FetchedRecord) {
  const value = valueSchema.safeParse(parseJson(record.value?.toString() ?? ""));
  const position = value.success ? parsePosition(value.data.position) : undefined;
  return value.success && position ? { ...value.data, position } : undefined;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What is used of kafkajs's own cluster: its public reader needs a consumer group and hides the offsets. */
interface InternalCluster {
  connect(): Promise<void>;
  disconnect(): Promise<void>;
  addTargetTopic(topic: string): Promise<void>;
  refreshMetadata(): Promise<void>;
  findLeaderForPartitions(topic: string, partitions: readonly number[]): Record<string, readonly number[]>;
  findBroker(of: { readonly nodeId: string }): Promise<InternalBroker>;
  findGroupCoordinator(of: {
    readonly groupId: string;
    readonly coordinatorType: number;
  }): Promise<InternalBroker>;
}

interface InternalBroker {
  listOffsets(request: object): Promise<{
    readonly responses: readonly { readonly partitions: readonly { readonly offset: string }[] }[];
  }>;
  fetch(request: object): Promise<{
    readonly responses: readonly { readonly partitions: readonly FetchedPartition[] }[];
  }>;
  initProducerId(request: object): Promise<{ readonly producerId: string; readonly producerEpoch: number }>;
  addPartitionsToTxn(request: object): Promise<unknown>;
  endTxn(request: object): Promise<unknown>;
}

interface FetchedPartition {
  readonly highWatermark: string;
  readonly messages: readonly FetchedRecord[];
}

/** A record as kafkajs decodes it from a fetch, control records included. */
interface FetchedRecord {
  readonly offset: string;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly isControlRecord: boolean;
  readonly batchContext: { readonly producerId: string; readonly inTransaction: boolean };
}

type CreateCluster = (options: object) => InternalCluster;

export function internalCluster(kafka: Kafka): InternalCluster {
  const symbol = Object.getOwnPropertySymbols(kafka).find(
    ({ description }) => description === "private:Kafka:createCluster",
  );
  const create = symbol && (kafka as unknown as Record<symbol, CreateCluster>)[symbol];
  if (!create) throw new Error("this version of kafkajs cannot read the positions topic");
  return create({ metadataMaxAge: 300_000, allowAutoTopicCreation: false });
}

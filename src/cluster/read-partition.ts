import type { StoredRecord } from "../core/changelog.ts";
import { type Broker, type Brokers, errorTypes, type KafkaLink, type RawRecord } from "./link.ts";

const READ_UNCOMMITTED = 0;
const READ_COMMITTED = 1;
const EARLIEST = -2;
const LATEST = -1;
const FETCH_BYTES_MAX = 8_000_000;
const WAIT_MS = 100;
const LEADER_TRIES = 100;
/** A transaction without a marker after this time is not ours: ours are ended before anything is read. */
const MARKER_MS_MAX = 10_000;
const LOG_APPEND_TIME = 1;
/** The type in a control record's key that commits; the other aborts. */
const COMMIT = 1;

/** Errors of a partition that is new or whose leader is moving. */
const NOT_LED = ["NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION"];

export interface PartitionEnds {
  readonly first: number;
  /** The true end, with open transactions. */
  readonly end: number;
  /** The end for readers of committed records: the first open transaction of anybody. */
  readonly stable: number;
}

export async function endsOf(brokers: Brokers, topic: string, partition: number): Promise<PartitionEnds> {
  return byLeader(brokers, topic, partition, async (broker) => ({
    first: await offsetOf(broker, topic, partition, EARLIEST, READ_UNCOMMITTED),
    end: await offsetOf(broker, topic, partition, LATEST, READ_UNCOMMITTED),
    stable: await offsetOf(broker, topic, partition, LATEST, READ_COMMITTED),
  }));
}

/**
 * The committed records of a partition up to its end at the time of the call. It is read as by an uncommitted reader, and
 * the marker that ends a transaction decides over its records: an open transaction of a stranger hides nothing from us.
 */
export async function* readPartition(
  link: KafkaLink,
  topic: string,
  partition: number,
  from: number,
  signal: AbortSignal,
): AsyncGenerator<readonly StoredRecord[]> {
  const lent = lendBrokers(link);
  try {
    const brokers = await lent.brokers;
    const { first, end } = await endsOf(brokers, topic, partition);
    const decided = createCommitMarkers();
    let at = Math.max(from, first);
    let deadlineMs = Number.POSITIVE_INFINITY;
    // A commit is acknowledged a moment before its marker is written, so markers behind the end are waited for.
    while (at < end || (decided.producers().length > 0 && Date.now() < deadlineMs)) {
      signal.throwIfAborted();
      if (at >= end) deadlineMs = Math.min(deadlineMs, Date.now() + MARKER_MS_MAX);
      const fetched = await fetchFrom(brokers, topic, partition, at);
      const slice: StoredRecord[] = [];
      for (const record of fetched) if (Number(record.offset) >= at) slice.push(...decided.take(record));
      if (at < end || fetched.length > 0) at = nextOffset(fetched, at);
      if (slice.length > 0) yield slice;
    }
  } finally {
    lent.release();
  }
}

/** The records between two offsets, as they are, with markers. For a look at what is still open. */
export async function rawRecords(
  brokers: Brokers,
  topic: string,
  partition: number,
  from: number,
  end: number,
): Promise<readonly RawRecord[]> {
  const records: RawRecord[] = [];
  for (let at = from; at < end; ) {
    const fetched = await fetchFrom(brokers, topic, partition, at);
    records.push(...fetched.filter(({ offset }) => Number(offset) >= at));
    at = nextOffset(fetched, at);
  }
  return records;
}

/** Compaction leaves holes: a batch keeps its range of offsets although its last records are gone. */
function nextOffset(fetched: readonly RawRecord[], at: number): number {
  let next = at + (fetched.length === 0 ? 1 : 0);
  for (const { offset, batchContext } of fetched) {
    const { firstOffset, lastOffsetDelta = 0 } = batchContext;
    next = Math.max(next, Number(offset) + 1, Number(firstOffset ?? offset) + lastOffsetDelta + 1);
  }
  return Math.max(next, at + 1);
}

/** Keeps the records of open transactions until their marker comes. */
export function createCommitMarkers() {
  const open = new Map<string, StoredRecord[]>();
  return {
    take(record: RawRecord): readonly StoredRecord[] {
      const { producerId, inTransaction } = record.batchContext;
      if (record.isControlRecord) {
        const ended = open.get(producerId) ?? [];
        open.delete(producerId);
        return record.key?.readInt16BE(2) === COMMIT ? ended : [];
      }
      const stored = storedOf(record);
      if (!inTransaction) return [stored];
      open.set(producerId, [...(open.get(producerId) ?? []), stored]);
      return [];
    },
    /** The records of a producer's transaction that has no marker. */
    openOf: (producerId: string): readonly StoredRecord[] => open.get(producerId) ?? [],
    producers: (): readonly string[] => [...open.keys()],
  };
}

function storedOf({ offset, key, value, timestamp, batchContext }: RawRecord): StoredRecord {
  const isByBroker = batchContext.timestampType === LOG_APPEND_TIME;
  const timeMs = Number(isByBroker ? batchContext.maxTimestamp : timestamp);
  return { key: key?.toString() ?? "", value, offset: Number(offset), timeMs };
}

/** Asks the partition's leader; again while it is new or moves. */
async function byLeader<Value>(
  brokers: Brokers,
  topic: string,
  partition: number,
  ask: (leader: Broker) => Promise<Value>,
): Promise<Value> {
  for (let tries = 0; ; tries++) {
    try {
      await brokers.addMultipleTargetTopics([topic]);
      const [nodeId] = Object.keys(brokers.findLeaderForPartitions(topic, [partition]));
      if (nodeId !== undefined) return await ask(await brokers.findBroker({ nodeId }));
    } catch (error) {
      if (tries >= LEADER_TRIES || !isNotLed(error)) throw error;
    }
    if (tries >= LEADER_TRIES) throw new Error(`${topic} has no leader for partition ${partition}`);
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
    await brokers.refreshMetadata();
  }
}

function isNotLed(error: unknown): boolean {
  return errorTypes(error).some((type) => NOT_LED.includes(type));
}

async function offsetOf(
  broker: Broker,
  topic: string,
  partition: number,
  timestamp: number,
  isolationLevel: number,
): Promise<number> {
  const topics = [{ topic, partitions: [{ partition, timestamp }] }];
  const { responses } = await broker.listOffsets({ replicaId: -1, isolationLevel, topics });
  return Number(responses[0]!.partitions[0]!.offset);
}

async function fetchFrom(brokers: Brokers, topic: string, partition: number, at: number) {
  const partitions = [{ partition, fetchOffset: String(at), maxBytes: FETCH_BYTES_MAX }];
  return byLeader(brokers, topic, partition, async (broker) => {
    const { responses } = await broker.fetch({
      isolationLevel: READ_UNCOMMITTED,
      maxWaitTime: WAIT_MS,
      minBytes: 0,
      maxBytes: FETCH_BYTES_MAX,
      topics: [{ topic, partitions }],
    });
    return responses[0]!.partitions[0]!.messages;
  });
}

export interface FetchedPartition {
  readonly partition: number;
  readonly records: readonly StoredRecord[];
  /** The offset to go on from. */
  readonly next: number;
}

/** New records of several partitions, for topics without transactions. The broker answers with the first, or after a while. */
export async function fetchPartitions(
  brokers: Brokers,
  topic: string,
  from: ReadonlyMap<number, number>,
  waitMs: number,
): Promise<readonly FetchedPartition[]> {
  await brokers.addMultipleTargetTopics([topic]);
  const led = brokers.findLeaderForPartitions(topic, [...from.keys()]);
  const fetched = await Promise.all(
    Object.entries(led).map(async ([nodeId, partitions]) => {
      const broker = await brokers.findBroker({ nodeId });
      const { responses } = await broker.fetch({
        ...{ isolationLevel: READ_UNCOMMITTED, maxWaitTime: waitMs, minBytes: 1, maxBytes: FETCH_BYTES_MAX },
        topics: [{ topic, partitions: partitions.map((partition) => wanted(partition, from)) }],
      });
      return responses.flatMap((response) => response.partitions);
    }),
  );
  return fetched.flat().map(({ partition, messages }) => {
    const at = from.get(partition)!;
    const records = messages.filter(
      ({ offset, isControlRecord }) => Number(offset) >= at && !isControlRecord,
    );
    return {
      partition,
      records: records.map(storedOf),
      next: messages.length === 0 ? at : nextOffset(messages, at),
    };
  });
}

function wanted(partition: number, from: ReadonlyMap<number, number>) {
  return { partition, fetchOffset: String(from.get(partition)), maxBytes: FETCH_BYTES_MAX };
}

/** Keeps the brokers borrowed until they are released. */
export function lendBrokers(link: KafkaLink): { readonly brokers: Promise<Brokers>; release(): void } {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const brokers = new Promise<Brokers>((resolve, reject) => {
    link
      .withBrokers(async (lent) => {
        resolve(lent);
        await released;
      })
      .catch(reject);
  });
  return { brokers, release: () => release() };
}

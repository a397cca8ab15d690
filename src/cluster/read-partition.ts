import type { StoredRecord } from "../core/changelog.ts";
import {
  errorTypes,
  type FetchedRecord,
  type KafkaBrokers,
  type KafkaClient,
  type OffsetPlace,
} from "../core/kafka.ts";

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
  /** The end for readers of committed records: the first open transaction of any producer. */
  readonly stable: number;
}

export async function endsOf(
  brokers: KafkaBrokers,
  topic: string,
  partition: number,
): Promise<PartitionEnds> {
  const at = (place: OffsetPlace) =>
    onceLed(brokers, topic, partition, async () => {
      const [found] = await brokers.offsets([{ topic, partitions: [partition] }], place);
      return found && Number(found.offset);
    });
  return { first: await at("first"), end: await at("end"), stable: await at("stable") };
}

/**
 * The committed records of a partition up to its end at the time of the call. It is read as by an uncommitted reader, and
 * the marker that ends a transaction decides over its records: an open transaction of a stranger hides nothing from us.
 */
export async function* readPartition(
  link: KafkaClient,
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
  brokers: KafkaBrokers,
  topic: string,
  partition: number,
  from: number,
  end: number,
): Promise<readonly FetchedRecord[]> {
  const records: FetchedRecord[] = [];
  for (let at = from; at < end; ) {
    const fetched = await fetchFrom(brokers, topic, partition, at);
    records.push(...fetched.filter(({ offset }) => Number(offset) >= at));
    at = nextOffset(fetched, at);
  }
  return records;
}

/** Compaction leaves holes: a batch keeps its range of offsets although its last records are gone. */
function nextOffset(fetched: readonly FetchedRecord[], at: number): number {
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
    take(record: FetchedRecord): readonly StoredRecord[] {
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

function storedOf({ offset, key, value, timestamp, batchContext }: FetchedRecord): StoredRecord {
  const isByBroker = batchContext.timestampType === LOG_APPEND_TIME;
  const timeMs = Number(isByBroker ? batchContext.maxTimestamp : timestamp);
  return { key: key?.toString() ?? "", value, offset: Number(offset), timeMs };
}

/** Asks the partition's leader; again while it is new or moves. */
async function onceLed<Value>(
  brokers: KafkaBrokers,
  topic: string,
  partition: number,
  ask: () => Promise<Value | undefined>,
): Promise<Value> {
  for (let tries = 0; ; tries++) {
    try {
      const answer = await ask();
      if (answer !== undefined) return answer;
    } catch (error) {
      if (tries >= LEADER_TRIES || !isNotLed(error)) throw error;
    }
    if (tries >= LEADER_TRIES) throw new Error(`${topic} has no leader for partition ${partition}`);
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
    await brokers.refresh();
  }
}

function isNotLed(error: unknown): boolean {
  return errorTypes(error).some((type) => NOT_LED.includes(type));
}

async function fetchFrom(brokers: KafkaBrokers, topic: string, partition: number, at: number) {
  return onceLed(brokers, topic, partition, async () => {
    const limits = { waitMs: WAIT_MS, bytesMin: 0, bytesMax: FETCH_BYTES_MAX };
    return (await brokers.fetch(topic, new Map([[partition, at]]), limits))[0]?.messages;
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
  brokers: KafkaBrokers,
  topic: string,
  from: ReadonlyMap<number, number>,
  waitMs: number,
): Promise<readonly FetchedPartition[]> {
  const fetched = await brokers.fetch(topic, from, { waitMs, bytesMin: 1, bytesMax: FETCH_BYTES_MAX });
  return fetched.map(({ partition, messages }) => {
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

/** Keeps the brokers borrowed until they are released. */
export function lendBrokers(link: KafkaClient): { readonly brokers: Promise<KafkaBrokers>; release(): void } {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const brokers = new Promise<KafkaBrokers>((resolve, reject) => {
    link
      .brokers(async (lent) => {
        resolve(lent);
        await released;
      })
      .catch(reject);
  });
  return { brokers, release: () => release() };
}

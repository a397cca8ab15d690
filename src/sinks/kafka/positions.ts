import { hash } from "node:crypto";
import { z } from "zod";
import type { Clock } from "../../core/clock.ts";
import { PausedError, RetryableError } from "../../core/errors.ts";
import type {
  FetchedRecord,
  FetchedRecords,
  KafkaBrokers,
  KafkaClient,
  OffsetPlace,
  Touched,
} from "../../core/kafka.ts";
import { formatPosition, type Position, parsePosition } from "../../core/position.ts";
import type { SinkState } from "../../core/sink-state.ts";

/** The position that Kafka holds for one sink. */
export interface HeldPosition {
  readonly position: Position;
  /** The process that wrote it (R25). */
  readonly instance: string;
  /** Partition and offset of its record. */
  readonly place: string;
}

/** A transaction that has written a position under our key. */
export interface Written {
  readonly position: Position;
  readonly producerId: string;
  /** Where it has written, the position included. */
  readonly touched: readonly Touched[];
  /** The outcome by the marker after its position; undefined where there is none. */
  readonly isCommitted: boolean | undefined;
}

export interface Found {
  readonly held: HeldPosition | undefined;
  /** A partition in which transactions were still open after the wait: it may hold a newer position. */
  readonly undecidedIn: number | undefined;
  /** Those transactions; where there is none, the one that has written last, however it ended. */
  readonly newest: readonly Written[];
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
  return { partition: partitionOf(key, partitions), message: { key, value: Buffer.from(value) } };
}

function partitionOf(key: string, partitions: number): number {
  return Number.parseInt(hash("sha256", key, "hex").slice(0, 12), 16) % partitions;
}

/** The place of a position, kept as the state of the sink (C10). */
export interface PositionPlace {
  readonly partition: number;
  readonly offset: bigint;
}

const stateSchema = z.object({
  positions: z.object({ partition: z.int(), offset: z.string().regex(/^\d{1,19}$/) }),
});

export function positionState({ partition, offset }: PositionPlace): SinkState {
  return { positions: { partition, offset: offset.toString() } };
}

export function positionPlaceOf(state: SinkState | undefined): PositionPlace | undefined {
  const parsed = stateSchema.safeParse(state);
  if (!parsed.success) return undefined;
  const { partition, offset } = parsed.data.positions;
  return { partition, offset: BigInt(offset) };
}

export interface ReadOptions {
  readonly topic: string;
  readonly partitions: number;
  readonly key: string;
  /** Where the newest position was when it was last known, so that a large topic is not read from its beginning. */
  readonly from?: PositionPlace | undefined;
  /** How long to wait for transactions of others that hold a record under the key. */
  readonly waitMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/**
 * The newest committed position under the key (R24). Its own partition is read first; the others only if
 * there is none, since partitions that were added to the topic give the key another one.
 */
export async function readPosition(client: KafkaClient, options: ReadOptions): Promise<Found> {
  return client.brokers(async (brokers) => {
    const own = partitionOf(options.key, options.partitions);
    const others = Array.from({ length: options.partitions }, (_, at) => at).filter((at) => at !== own);
    if (options.from?.partition === own) {
      const found = await onceLed(brokers, options, () =>
        readPartition(brokers, own, options, options.from?.offset),
      );
      // Without a position there, the topic was made anew or the position was deleted.
      if (found.held || found.undecidedIn !== undefined) return found;
    }
    let newest: readonly Written[] = [];
    for (const partition of [own, ...others]) {
      const found = await onceLed(brokers, options, () => readPartition(brokers, partition, options));
      if (newest.length === 0 || found.undecidedIn !== undefined) newest = found.newest;
      if (found.held || found.undecidedIn !== undefined) return { ...found, newest };
    }
    return { held: undefined, undecidedIn: undefined, newest };
  });
}

/** Errors of a topic that is new or whose leader is moving. */
const NOT_LED = ["NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION"];
const NOT_LED_MS_MAX = 10_000;

export async function onceLed<Value>(
  brokers: KafkaBrokers,
  options: Pick<ReadOptions, "clock" | "signal">,
  read: () => Promise<Value>,
): Promise<Value> {
  const deadlineMs = options.clock.now() + NOT_LED_MS_MAX;
  for (;;) {
    try {
      return await read();
    } catch (error) {
      const isLate = options.clock.now() >= deadlineMs;
      if (isLate || !NOT_LED.includes((error as { type?: string }).type ?? "")) throw error;
    }
    await options.clock.sleep(POLL_MS, options.signal);
    await brokers.refresh();
  }
}

const POLL_MS = 100;
const FETCH_LIMITS = { waitMs: POLL_MS, bytesMin: 0, bytesMax: 4_000_000 };

/**
 * A committed reader is shown nothing behind the oldest open transaction of any producer, and the newest
 * position may be there. So everything up to the true end is read, and the marker that ends a transaction
 * decides whether its records count. InitProducerId has ended ours; a record under our key without a marker
 * belongs to another producer, which is waited for, or to a transaction that hangs.
 */
async function readPartition(
  brokers: KafkaBrokers,
  partition: number,
  options: ReadOptions,
  from = 0n,
): Promise<Found> {
  const { topic } = options;
  const newest = newestUnder(options.key);
  const isWhole = await scan(brokers, { ...options, partition, from }, newest);
  const record = newest.committed();
  return {
    held: record && decode(record, partition, topic),
    undecidedIn: isWhole ? undefined : partition,
    newest: newest.transactions().flatMap((transaction) => writtenBy(transaction, topic, partition)),
  };
}

export interface Scan extends Pick<ReadOptions, "topic" | "waitMs" | "clock" | "signal"> {
  readonly partition: number;
  readonly from: bigint;
}

/** Shows the taker all records up to the end, and those behind it while it waits for an outcome; false where the time was over before. */
export async function scan(
  brokers: KafkaBrokers,
  { topic, partition, from, waitMs, clock, signal }: Scan,
  taker: { take(record: FetchedRecord): void; isUndecided(): boolean },
): Promise<boolean> {
  const first = await offsetAt("first");
  const end = await offsetAt("end");
  let at = from > first && from < end ? from : first;
  const deadlineMs = clock.now() + waitMs;
  while (at < end || taker.isUndecided()) {
    signal.throwIfAborted();
    const { messages, highWatermark } = await fetchNext();
    for (const record of messages) if (BigInt(record.offset) >= at) taker.take(record);
    const last = messages.at(-1);
    if (last && BigInt(last.offset) >= at) at = BigInt(last.offset) + 1n;
    // Compaction left a hole.
    else if (at < BigInt(highWatermark)) at += 1n;
    else if (clock.now() < deadlineMs) await clock.sleep(POLL_MS, signal);
    else break;
  }
  return at >= end && !taker.isUndecided();

  async function offsetAt(place: OffsetPlace): Promise<bigint> {
    const [found] = await brokers.offsets([{ topic, partitions: [partition] }], place);
    return led(found, partition).offset;
  }

  async function fetchNext(): Promise<FetchedRecords> {
    const [fetched] = await brokers.fetch(topic, new Map([[partition, at]]), FETCH_LIMITS);
    return led(fetched, partition);
  }
}

function led<Answer>(answer: Answer | undefined, partition: number): Answer {
  if (answer === undefined)
    throw new RetryableError(`The positions topic has no leader for partition ${partition}.`);
  return answer;
}

/** Nothing for a record that does not say where else its transaction has written. */
function writtenBy({ record, isCommitted }: Transaction, topic: string, partition: number): Written[] {
  const value = parse(record);
  if (value?.touched === undefined) return [];
  const touched = [...value.touched, { topic, partitions: [partition] }];
  return [{ position: value.position, producerId: record.batchContext.producerId, touched, isCommitted }];
}

interface Transaction {
  readonly record: FetchedRecord;
  readonly isCommitted: boolean | undefined;
}

/** A control record's key is a version and a type; this type commits, the other aborts. */
const COMMIT = 1;
export const isCommit = (control: FetchedRecord) => control.key?.readInt16BE(2) === COMMIT;

/** Finds the record under a key that was committed last, and the newest transactions. */
function newestUnder(key: string) {
  const undecided = new Map<string, FetchedRecord>();
  let committed: FetchedRecord | undefined;
  let decided: Transaction | undefined;
  return {
    take(record: FetchedRecord): void {
      const { producerId, inTransaction } = record.batchContext;
      if (record.isControlRecord) {
        const ended = undecided.get(producerId);
        if (!ended) return;
        undecided.delete(producerId);
        decided = { record: ended, isCommitted: isCommit(record) };
        if (decided.isCommitted) committed = ended;
      } else if (record.key?.toString() !== key) return;
      else if (inTransaction) undecided.set(producerId, record);
      else committed = record;
    },
    isUndecided: () => undecided.size > 0,
    transactions(): readonly Transaction[] {
      if (undecided.size === 0) return decided ? [decided] : [];
      return [...undecided.values()].map((record) => ({ record, isCommitted: undefined }));
    },
    committed: () => committed,
  };
}

function decode(record: FetchedRecord, partition: number, topic: string): HeldPosition | undefined {
  // A tombstone: the position was deleted on purpose.
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

/** The partitions of events that the transaction of a position has written to. */
export const touchedIn = (record: FetchedRecord): readonly Touched[] => parse(record)?.touched ?? [];

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

import { setImmediate as nextTurn } from "node:timers/promises";
import type { JournalEvent } from "../../core/event.ts";
import type { EncodedRecords, RecordCodec, Touched } from "../../core/kafka.ts";
import type { SinkRecord } from "../../core/sink.ts";
import type { KafkaConfig } from "./config.ts";
import { BATCH_HEADER_BYTES, encodeHeader, RecordBuffer, recordBytes } from "./record-batch.ts";
import type { TopicBook } from "./topics.ts";

/** One record batch. The broker compares its size as a whole with max.message.bytes. */
export interface Chunk extends EncodedRecords {
  /** The indexes of its records in the sink's batch. */
  readonly indexes: readonly number[];
  /** The size of the record batch before compression. */
  readonly bytes: number;
}

/** One produce request: at most one chunk for each partition. */
export type Request = readonly Chunk[];
export type Layout = readonly Request[];

export interface LayoutOptions {
  readonly key: KafkaConfig["key"];
  readonly codec: RecordCodec;
  readonly nowMs: number;
  readonly memory?: RecordMemory;
  topicOf(event: JournalEvent): string;
}

/** Buffers of chunks, for the next batch. Each one would leave twice its size as garbage while it grows. */
export interface RecordMemory {
  take(): RecordBuffer;
  giveBack(buffer: RecordBuffer): void;
}

const KEPT_BYTES_MAX = 4_000_000;

export function createRecordMemory(): RecordMemory {
  const kept: RecordBuffer[] = [];
  let keptBytes = 0;
  return {
    take() {
      const buffer = kept.pop();
      keptBytes -= buffer?.capacity ?? 0;
      return buffer ?? new RecordBuffer();
    },
    giveBack(buffer) {
      if (keptBytes + buffer.capacity > KEPT_BYTES_MAX) return;
      buffer.clear();
      kept.push(buffer);
      keptBytes += buffer.capacity;
    },
  };
}

/** Records that are encoded before other work gets its turn. */
const RECORDS_A_TURN = 1_000;

/**
 * Encodes records into chunks. A partition's records are cut by bytes, because a record batch above the topic's
 * limit is refused although each record is small. Request number n has every partition's chunk number n, which
 * keeps each partition's order.
 */
export async function layOut(
  records: readonly SinkRecord[],
  topics: TopicBook,
  options: LayoutOptions,
): Promise<Layout> {
  const partitions = new Map<string, PartitionChunks>();
  const headersOf = headerEncoder();
  const bytesOfKey = remembered((key) => Buffer.from(key));
  for (let index = 0; index < records.length; index++) {
    if (index % RECORDS_A_TURN === RECORDS_A_TURN - 1) await nextTurn();
    const { event, body } = records[index]!;
    const topic = options.topicOf(event);
    const key = keyOf(event, options.key);
    const place = topics.place(topic, key ?? spreadBy(event, options.key));
    const name = `${topic}/${place.partition}`;
    let chunks = partitions.get(name);
    if (chunks === undefined) {
      chunks = new PartitionChunks(topic, place.partition, place.chunkBytesMax, options);
      partitions.set(name, chunks);
    }
    const keyBytes = key === null ? null : bytesOfKey(key);
    const headers = headersOf(event);
    if (!chunks.fits(keyBytes, body, headers)) await chunks.finish();
    chunks.add(index, keyBytes, body, headers);
  }
  for (const chunks of partitions.values()) await chunks.end();
  return requestsOf([...partitions.values()]);
}

/** The chunks of one partition. Only the last one still grows. */
class PartitionChunks {
  readonly chunks: Chunk[] = [];
  readonly bytesMax: number;
  readonly #topic: string;
  readonly #partition: number;
  readonly #options: LayoutOptions;
  #records: RecordBuffer;
  #indexes: number[] = [];

  constructor(topic: string, partition: number, bytesMax: number, options: LayoutOptions) {
    this.#topic = topic;
    this.#partition = partition;
    this.bytesMax = bytesMax;
    this.#options = options;
    this.#records = this.#newRecords();
  }

  #newRecords(): RecordBuffer {
    return this.#options.memory?.take() ?? new RecordBuffer();
  }

  /** Whether a record belongs to the chunk that still grows. */
  fits(key: Uint8Array | null, value: Uint8Array, headers: readonly Uint8Array[]): boolean {
    const { count, size } = this.#records;
    if (count === 0) return true;
    return BATCH_HEADER_BYTES + size + recordBytes(count, key, value, headers) <= this.bytesMax;
  }

  add(index: number, key: Uint8Array | null, value: Uint8Array, headers: readonly Uint8Array[]): void {
    this.#records.append(key, value, headers);
    this.#indexes.push(index);
  }

  /** Ends the chunk that grows. */
  async finish(): Promise<void> {
    const { codec, nowMs } = this.#options;
    const { bytes, count } = this.#records;
    if (count === 0) return;
    this.chunks.push({
      topic: this.#topic,
      partition: this.#partition,
      count,
      timestampMs: nowMs,
      indexes: this.#indexes,
      bytes: BATCH_HEADER_BYTES + bytes.length,
      records: codec.compress === undefined ? bytes : await codec.compress(bytes),
    });
    this.#indexes = [];
    // Without compression the bytes of the chunk are the buffer's own.
    if (codec.compress === undefined) this.#records = this.#newRecords();
    else this.#records.clear();
  }

  /** There are no more records. */
  async end(): Promise<void> {
    await this.finish();
    this.#options.memory?.giveBack(this.#records);
  }
}

/** The partitions that a transaction writes to. */
export function touchedBy(layout: Layout): readonly Touched[] {
  const found = new Map<string, Set<number>>();
  for (const { topic, partition } of layout.flat()) {
    const partitions = found.get(topic) ?? new Set<number>();
    found.set(topic, partitions.add(partition));
  }
  return [...found].map(([topic, partitions]) => ({ topic, partitions: [...partitions] }));
}

/** A record that may be too large for its topic has a request of its own, so that a refusal names it. */
function requestsOf(partitions: readonly PartitionChunks[]): Layout {
  const requests: Request[] = [];
  const longest = partitions.reduce((length, { chunks }) => Math.max(length, chunks.length), 0);
  for (let at = 0; at < longest; at++) {
    const shared: Chunk[] = [];
    const alone: Chunk[] = [];
    for (const { chunks, bytesMax } of partitions) {
      const chunk = chunks[at];
      if (chunk) (chunk.bytes > bytesMax ? alone : shared).push(chunk);
    }
    if (shared.length > 0) requests.push(shared);
    for (const chunk of alone) requests.push([chunk]);
  }
  return requests;
}

/** By organization: its order is kept, and the portal's own events are kept in order by provider. */
function keyOf(event: JournalEvent, key: KafkaConfig["key"]): string | null {
  switch (key) {
    case "organization":
      return event.organization ?? event.provider;
    case "identity":
      return event.identity;
    case "none":
      return null;
  }
}

/** Records without a key are spread over the partitions, the same event always to the same one. */
function spreadBy(event: JournalEvent, key: KafkaConfig["key"]): string | null {
  return key === "none" ? event.identity : null;
}

/** The headers of a record; most values repeat from event to event. */
function headerEncoder(): (event: JournalEvent) => Uint8Array[] {
  const service = remembered((value) => encodeHeader("service", value));
  const eventType = remembered((value) => encodeHeader("event_type", value));
  const organization = remembered((value) => encodeHeader("organization", value));
  return (event) => {
    const headers: Uint8Array[] = [
      service(event.service),
      eventType(event.eventType),
      encodeHeader("event_id", event.id ?? event.identity),
    ];
    if (event.organization !== null) headers.push(organization(event.organization));
    return headers;
  };
}

/** Lives for one batch, which bounds its memory. */
function remembered(encode: (value: string) => Buffer): (value: string) => Buffer {
  const known = new Map<string, Buffer>();
  return (value) => {
    let encoded = known.get(value);
    if (encoded === undefined) {
      encoded = encode(value);
      known.set(value, encoded);
    }
    return encoded;
  };
}

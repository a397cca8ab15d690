import type { Message } from "kafkajs";
import type { JournalEvent } from "../../core/event.ts";
import type { SinkRecord } from "../../core/sink.ts";
import type { KafkaConfig } from "./config.ts";
import type { TopicBook } from "./topics.ts";

/** The records of one record batch, which the broker measures against max.message.bytes as a whole. */
export interface Chunk {
  readonly topic: string;
  readonly messages: Message[];
  /** The indexes of the messages in the sink's batch. */
  readonly indexes: number[];
  /** Upper bound of the record batch, before compression. */
  bytes: number;
}

/** One produce request: at most one chunk for each partition. */
export type Request = readonly Chunk[];
export type Layout = readonly Request[];

export interface Placed {
  readonly topic: string;
  readonly record: SinkRecord;
}

/** The work of kafkajs grows with the square of the messages of one chunk. */
const CHUNK_RECORDS_MAX = 1_000;
/** Lengths, deltas and header names of one record, rounded up. */
const RECORD_OVERHEAD_BYTES = 100;

/**
 * All messages of one request to one partition become one record batch, which must not exceed the topic's
 * limit although each message is small. So each partition's records are cut into chunks by bytes. Request
 * number n holds every partition's chunk number n, which keeps each partition's order.
 */
export function layOut(
  placed: readonly Placed[],
  topics: TopicBook,
  options: { readonly key: KafkaConfig["key"]; readonly nowMs: number },
): Layout {
  const chunksByPartition = new Map<string, { readonly chunks: Chunk[]; readonly bytesMax: number }>();
  const timestamp = String(options.nowMs);
  placed.forEach(({ topic, record }, index) => {
    const key = keyOf(record.event, options.key);
    const { partition, chunkBytesMax } = topics.place(topic, key ?? spreadBy(record.event, options.key));
    const message = messageOf(record, key, partition, timestamp);
    const bytes = sizeOf(message);
    const name = `${topic}/${partition}`;
    const chunks: Chunk[] = chunksByPartition.get(name)?.chunks ?? [];
    if (chunks.length === 0) chunksByPartition.set(name, { chunks, bytesMax: chunkBytesMax });
    const last = chunks.at(-1);
    if (last && last.bytes + bytes <= chunkBytesMax && last.messages.length < CHUNK_RECORDS_MAX) {
      last.messages.push(message);
      last.indexes.push(index);
      last.bytes += bytes;
    } else chunks.push({ topic, messages: [message], indexes: [index], bytes });
  });
  return requestsOf([...chunksByPartition.values()]);
}

/** The partitions of one topic that a transaction writes to. */
export interface Touched {
  readonly topic: string;
  readonly partitions: readonly number[];
}

export function touchedBy(layout: Layout): readonly Touched[] {
  const found = new Map<string, Set<number>>();
  for (const { topic, messages } of layout.flat()) {
    const partitions = found.get(topic) ?? new Set<number>();
    found.set(topic, partitions.add(messages[0]!.partition!));
  }
  return [...found].map(([topic, partitions]) => ({ topic, partitions: [...partitions] }));
}

/** A record that may be too large for its topic has a request of its own, so that a refusal names it. */
function requestsOf(
  partitions: readonly { readonly chunks: readonly Chunk[]; readonly bytesMax: number }[],
): Layout {
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

/**
 * The record's time is the time of writing: with the event's own time a topic's retention would delete
 * a backfill at once.
 */
function messageOf({ event, body }: SinkRecord, key: string | null, partition: number, timestamp: string) {
  const headers: Record<string, string> = {
    service: event.service,
    event_type: event.eventType,
    event_id: event.id ?? event.identity,
  };
  if (event.organization !== null) headers.organization = event.organization;
  const value = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  return { key, value, headers, partition, timestamp };
}

/** An upper bound of the record's bytes inside its batch. */
function sizeOf({ key, value, headers }: ReturnType<typeof messageOf>): number {
  let bytes = RECORD_OVERHEAD_BYTES + value.byteLength + Buffer.byteLength(key ?? "");
  for (const header of Object.values(headers)) bytes += Buffer.byteLength(header);
  return bytes;
}

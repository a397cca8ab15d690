import type { Message } from "kafkajs";
import type { JournalEvent } from "../../core/event.ts";
import type { SinkRecord } from "../../core/sink.ts";
import type { TopicBook } from "./topics.ts";

/** One produce request: at most one record batch for each partition. */
export interface Request {
  readonly topicMessages: readonly { readonly topic: string; readonly messages: Message[] }[];
  /** The index of its only record, where that may be too large for the topic. */
  readonly lone?: number | undefined;
}

export type Layout = readonly Request[];

export interface Placed {
  readonly topic: string;
  readonly record: SinkRecord;
}

/** A record batch to be: what the broker measures against max.message.bytes as a whole. */
interface Chunk {
  readonly topic: string;
  readonly messages: Message[];
  bytes: number;
  readonly lone: number | undefined;
}

/** kafkajs's work grows with the square of the messages of one chunk. */
const CHUNK_RECORDS_MAX = 1_000;
/** Lengths, deltas and header names of one record, rounded up. */
const RECORD_OVERHEAD_BYTES = 100;

/**
 * All messages of one request to one partition become one record batch, and that must not exceed the
 * topic's limit although each message is small: so each partition's records are cut into chunks by bytes.
 * Request number n holds every partition's chunk number n, which keeps each partition's order.
 */
export function layOut(placed: readonly Placed[], topics: TopicBook, nowMs: number): Layout {
  const chunksByPartition = new Map<string, Chunk[]>();
  const timestamp = String(nowMs);
  placed.forEach(({ topic, record }, index) => {
    const key = keyOf(record.event);
    const { partition, chunkBytesMax } = topics.place(topic, key);
    const message = messageOf(record, key, partition, timestamp);
    const bytes = sizeOf(message);
    const name = `${topic}/${partition}`;
    const chunks = chunksByPartition.get(name) ?? [];
    if (chunks.length === 0) chunksByPartition.set(name, chunks);
    const last = chunks.at(-1);
    if (last && last.bytes + bytes <= chunkBytesMax && last.messages.length < CHUNK_RECORDS_MAX) {
      last.messages.push(message);
      last.bytes += bytes;
    } else {
      chunks.push({ topic, messages: [message], bytes, lone: bytes > chunkBytesMax ? index : undefined });
    }
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
  for (const { topic, messages } of layout.flatMap(({ topicMessages }) => topicMessages)) {
    const partitions = found.get(topic) ?? new Set<number>();
    found.set(topic, partitions.add(messages[0]!.partition!));
  }
  return [...found].map(([topic, partitions]) => ({ topic, partitions: [...partitions] }));
}

function requestsOf(partitions: readonly (readonly Chunk[])[]): Layout {
  const requests: Request[] = [];
  const longest = partitions.reduce((length, chunks) => Math.max(length, chunks.length), 0);
  for (let at = 0; at < longest; at++) {
    const chunks = partitions.flatMap((all) => all[at] ?? []);
    const shared = chunks.filter(({ lone }) => lone === undefined);
    if (shared.length > 0) requests.push({ topicMessages: shared });
    for (const chunk of chunks) {
      if (chunk.lone !== undefined) requests.push({ topicMessages: [chunk], lone: chunk.lone });
    }
  }
  return requests;
}

/** Order is kept per organization; the portal's own events have none and keep theirs per provider. */
function keyOf(event: JournalEvent): string | null {
  return event.organization ?? event.provider;
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

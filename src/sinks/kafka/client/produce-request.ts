import type { InternalBroker } from "./internals.ts";

/*
 * A produce request of version 7, the first one with zstd, and its answer. The request is
 *
 *   transactional id · acks · time-out · [topic · [partition · record batch]]
 *
 * and the answer [topic · [partition · error · base offset · append time · log start offset]] · throttle time.
 * It goes out over kafkajs's connection.
 */

export interface FramedBatch {
  readonly topic: string;
  readonly partition: number;
  readonly batch: Buffer;
}

export interface ProduceOutcome {
  readonly topic: string;
  readonly partition: number;
  /** Undefined: the batch is stored. */
  readonly error: Error | undefined;
  /** Of the first record; negative where the broker does not know it any more. */
  readonly baseOffset: bigint;
}

const PRODUCE = 0;
const VERSION = 7;
const ACKS_ALL = -1;
const TIMEOUT_MS = 30_000;
const ERRORS = "kafkajs/src/protocol/error.js";
/** Append time and log start offset. */
const REST_OF_PARTITION_BYTES = 16;

interface Answer {
  readonly partitions: readonly {
    readonly topic: string;
    readonly partition: number;
    readonly code: number;
    readonly baseOffset: bigint;
  }[];
  /** kafkajs waits so long before its next request. */
  readonly clientSideThrottleTime: number;
}

export async function produceTo(
  broker: InternalBroker,
  transactionalId: string | null,
  batches: readonly FramedBatch[],
): Promise<readonly ProduceOutcome[]> {
  const { default: errors } = (await import(ERRORS)) as {
    default: { createErrorFromCode(code: number): Error };
  };
  const { partitions } = await send(broker, encodeProduce(transactionalId, batches));
  return partitions.map(({ topic, partition, code, baseOffset }) => ({
    topic,
    partition,
    baseOffset,
    error: code === 0 ? undefined : errors.createErrorFromCode(code),
  }));
}

async function send(broker: InternalBroker, buffer: Buffer): Promise<Answer> {
  try {
    return await broker.connectionPool.send({
      // kafkajs copies `buffer` into its frame and recognizes its own encoder by `buf`.
      request: {
        apiKey: PRODUCE,
        apiVersion: VERSION,
        apiName: "Produce",
        encode: async () => ({ buf: buffer, buffer }),
      },
      response: { decode: async (raw) => decodeProduced(raw), parse: async (decoded) => decoded },
    });
  } catch (error) {
    if ((error as Error).name === "KafkaJSConnectionClosedError") await broker.disconnect();
    throw error;
  }
}

export function encodeProduce(transactionalId: string | null, batches: readonly FramedBatch[]): Buffer {
  const topics = groupBy(batches, ({ topic }) => topic);
  const parts: Buffer[] = [
    nullableText(transactionalId),
    int16(ACKS_ALL),
    int32(TIMEOUT_MS),
    int32(topics.size),
  ];
  for (const [topic, own] of topics) {
    parts.push(nullableText(topic), int32(own.length));
    for (const { partition, batch } of own) parts.push(int32(partition), int32(batch.length), batch);
  }
  return Buffer.concat(parts);
}

export function decodeProduced(raw: Buffer): Answer {
  let at = 0;
  const passed = (length: number) => {
    at += length;
    return at - length;
  };
  const int32At = () => raw.readInt32BE(passed(4));
  const int16At = () => raw.readInt16BE(passed(2));
  const partitions: { topic: string; partition: number; code: number; baseOffset: bigint }[] = [];
  for (let topics = int32At(); topics > 0; topics--) {
    const length = int16At();
    const topic = raw.toString("utf8", passed(length), at);
    for (let count = int32At(); count > 0; count--) {
      const [partition, code] = [int32At(), int16At()];
      partitions.push({ topic, partition, code, baseOffset: raw.readBigInt64BE(passed(8)) });
      passed(REST_OF_PARTITION_BYTES);
    }
  }
  return { partitions, clientSideThrottleTime: int32At() };
}

/** Node 20 has no Map.groupBy. */
export function groupBy<Item>(items: readonly Item[], keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

function int16(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(2);
  bytes.writeInt16BE(value);
  return bytes;
}

function int32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeInt32BE(value);
  return bytes;
}

function nullableText(text: string | null): Buffer {
  if (text === null) return int16(-1);
  const bytes = Buffer.from(text);
  return Buffer.concat([int16(bytes.length), bytes]);
}

import type { ProducerBatch, RecordMetadata } from "kafkajs";
import { RejectedEventsError, type Rejection, RetryableError } from "../../core/errors.ts";
import { isTooLarge } from "./errors.ts";
import type { Chunk, Layout } from "./layout.ts";
import type { TopicBook } from "./topics.ts";

interface Sending {
  /** A producer, or a transaction of one. */
  readonly to: { sendBatch(batch: ProducerBatch): Promise<RecordMetadata[]> };
  readonly layout: Layout;
  readonly compression: number;
  readonly topics: TopicBook;
  /** Records in the whole batch. */
  readonly records: number;
  /** True: one refused record undoes all others. */
  readonly isTransaction: boolean;
}

/**
 * One produce request after the other. A record batch that the broker calls too large is either a single
 * record, which is rejected, or shows that the topic's limit is lower than known: then only that topic gets
 * smaller record batches, and the batch is tried again. In a transaction that is lost already, the other
 * requests are still sent as far as they can name further records.
 */
export async function sendAll(sending: Sending): Promise<void> {
  const { layout, topics, isTransaction } = sending;
  const refused: Chunk[] = [];
  for (const request of layout) {
    const isTelling = request.length === 1 && request[0]!.messages.length === 1;
    if (refused.length > 0 && isTransaction && !isTelling) continue;
    if (!(await isTaken(sending, request))) refused.push(...(await refusedOf(sending, request)));
  }
  if (refused.length === 0) return;
  const rejected: Rejection[] = [];
  let isShrunk = false;
  for (const { topic, messages, indexes, bytes } of refused) {
    if (messages.length === 1)
      rejected.push({ index: indexes[0]!, reason: "larger than the topic's max.message.bytes" });
    else {
      topics.shrink(topic, Math.floor(bytes / 2));
      isShrunk = true;
    }
  }
  if (rejected.length === 0)
    throw new RetryableError(`The topic ${refused[0]!.topic} takes smaller record batches only.`);
  const gone = new Set(rejected.map(({ index }) => index));
  const others = Array.from({ length: sending.records }, (_, index) => index).filter((at) => !gone.has(at));
  throw new RejectedEventsError("Kafka refused events that are too large.", rejected, {
    remaining: isTransaction || isShrunk ? others : [],
  });
}

async function isTaken({ to, compression }: Sending, request: readonly Chunk[]): Promise<boolean> {
  try {
    const topicMessages = request.map(({ topic, messages }) => ({ topic, messages }));
    await to.sendBatch({ acks: -1, compression, topicMessages });
    return true;
  } catch (error) {
    if (!isTooLarge(error)) throw error;
    return false;
  }
}

/** The answer does not name the partition, so each chunk of a refused request is sent alone. */
async function refusedOf(sending: Sending, request: readonly Chunk[]): Promise<readonly Chunk[]> {
  if (request.length === 1) return request;
  const refused: Chunk[] = [];
  for (const chunk of request) if (!(await isTaken(sending, [chunk]))) refused.push(chunk);
  return refused;
}

import { RejectedEventsError, type Rejection, RetryableError } from "../../core/errors.ts";
import type { KafkaProducer } from "../../core/kafka.ts";
import type { Chunk, Layout } from "./layout.ts";
import type { TopicBook } from "./topics.ts";

interface Sending {
  readonly to: Pick<KafkaProducer, "produce">;
  readonly layout: Layout;
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
  const { to, layout, topics, isTransaction } = sending;
  const refused: Chunk[] = [];
  for (const request of layout) {
    const canName = request.length === 1 && request[0]!.count === 1;
    if (refused.length > 0 && isTransaction && !canName) continue;
    refused.push(...(await to.produce(request)));
  }
  if (refused.length === 0) return;
  const rejected: Rejection[] = [];
  let isShrunk = false;
  for (const { topic, count, indexes, bytes } of refused) {
    if (count === 1)
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

import { RetryableError } from "../../core/errors.ts";
import type { KafkaClient } from "../../core/kafka.ts";
import type { Batch, Sink } from "../../core/sink.ts";
import type { SinkState } from "../../core/sink-state.ts";
import type { KafkaConfig, KafkaContext } from "./config.ts";
import { inTermsOfDelivery } from "./errors.ts";
import { createRecordMemory, type Layout, layOut } from "./layout.ts";
import { topicNamer } from "./topic-names.ts";
import type { TopicBook } from "./topics.ts";

/** Batches in a sink at once: one is sent while the next one is encoded and compressed. */
export const KAFKA_WRITES_MAX = 2;

interface Writing {
  readonly client: KafkaClient;
  readonly context: KafkaContext;
  readonly topics: TopicBook;
  /** Sends one batch and resolves once it is durable, with the state to be kept with the position. */
  send(batch: Batch, layout: Layout): Promise<SinkState | undefined>;
}

/**
 * The writes of a sink. A batch is encoded as soon as it comes, and sent when the batch before it is durable. After
 * an error every other batch is refused until the sink is opened again (R17).
 */
export function createBatchWriter(writing: Writing): Pick<Sink, "write" | "close"> {
  const { client, context, send } = writing;
  const encode = createEncoder(writing);
  let encoding: Promise<unknown> = Promise.resolve();
  let sending: Promise<unknown> = Promise.resolve();
  let isUsable = true;

  async function sendNext(
    batch: Batch,
    layout: Promise<Layout>,
    signal: AbortSignal,
  ): Promise<SinkState | undefined> {
    if (!isUsable) throw new RetryableError("Kafka must be opened again after an error.");
    try {
      signal.throwIfAborted();
      const { length: records } = batch.records;
      context.waitsFor?.(`the brokers ${context.config.brokers.join(", ")}`);
      return await writeWithin(client, context.config, { signal, records }, async () =>
        send(batch, await layout),
      );
    } catch (error) {
      isUsable = false;
      throw error;
    }
  }

  return {
    async write(batch, signal) {
      signal.throwIfAborted();
      if (!isUsable) throw new RetryableError("Kafka must be opened again after an error.");
      const layout = encoding.then(() => encode(batch));
      encoding = layout.catch(() => {});
      const sent = sending.then(() => sendNext(batch, layout, signal));
      sending = sent.catch(() => {});
      return sent;
    },
    async close() {
      isUsable = false;
      client.end();
    },
  };
}

/** Added to the time after which the brokers abort a transaction. */
const WRITE_MS_MAX = 60_000;

/** Runs one write: it ends with the signal or the deadline, and its errors are those of the contract. */
async function writeWithin<Value>(
  client: KafkaClient,
  config: KafkaConfig,
  { signal, records }: { readonly signal: AbortSignal; readonly records: number },
  write: () => Promise<Value>,
): Promise<Value> {
  const stop = () => client.end();
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await client.within(WRITE_MS_MAX + config.transactionTimeout, write());
  } catch (error) {
    signal.throwIfAborted();
    throw inTermsOfDelivery(error, "Kafka did not take the batch", records);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

function createEncoder({ client, context, topics }: Writing): (batch: Batch) => Promise<Layout> {
  const { config, clock } = context;
  const topicOf = topicNamer(config.topic, config.positionsTopic);
  const memory = createRecordMemory();
  const isFixed = !config.topic.includes("{");
  return async ({ records }) => {
    const names = isFixed ? [topicOf(records[0]!.event)] : records.map(({ event }) => topicOf(event));
    await topics.prepare(new Set(names));
    return layOut(records, topics, {
      key: config.key,
      codec: client.codec,
      nowMs: clock.now(),
      memory,
      topicOf,
    });
  };
}

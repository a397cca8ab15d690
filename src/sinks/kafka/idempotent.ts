import type { KafkaClient } from "../../core/kafka.ts";
import type { Sink } from "../../core/sink.ts";
import type { KafkaContext } from "./config.ts";
import { sendAll } from "./send.ts";
import { prepareFixed, topicBook } from "./topics.ts";
import { createBatchWriter, KAFKA_WRITES_MAX } from "./writer.ts";

/**
 * At least once, for brokers without transactions. The position is in the journal alone: after a crash between
 * the brokers' answer and its commit, a batch is written again. The idempotent producer keeps its own retries
 * from doubling; after an error the sink is opened again with a new producer.
 */
export async function openIdempotent(client: KafkaClient, context: KafkaContext): Promise<Sink> {
  const { config } = context;
  const topics = topicBook(client, context);
  await prepareFixed(topics, config);
  const producer = await client.producer();
  return {
    framed: true,
    writesMax: KAFKA_WRITES_MAX,
    limits: {
      recordsMax: config.batchRecordsMax,
      bytesMax: config.batchBytesMax,
      limitedBy: "batchBytesMax",
      ageMsMax: 0,
    },
    ...createBatchWriter({
      client,
      context,
      topics,
      async send({ records }, layout) {
        await sendAll({ to: producer, layout, topics, records: records.length, isTransaction: false });
        return undefined;
      },
    }),
  };
}

import { RetryableError } from "../../core/errors.ts";
import type { Sink } from "../../core/sink.ts";
import type { KafkaContext } from "./config.ts";
import { type KafkaConnection, writeWithin } from "./connect.ts";
import { layOut } from "./layout.ts";
import { sendAll } from "./send.ts";
import { topicNamer } from "./topic-names.ts";
import { prepareFixed, topicBook } from "./topics.ts";

/**
 * At least once, for brokers without transactions. The position is in the journal alone: after a crash between
 * the brokers' answer and its commit, a batch is written again. The idempotent producer keeps its own retries
 * from doubling; after an error the sink is opened again with a new producer.
 */
export async function openIdempotent(connection: KafkaConnection, context: KafkaContext): Promise<Sink> {
  const { config } = context;
  const topics = topicBook(connection, context);
  await prepareFixed(topics, config);
  const producer = connection.kafka.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    createPartitioner: connection.library.Partitioners.DefaultPartitioner,
  });
  await producer.connect();
  const topicOf = topicNamer(config.topic, config.positionsTopic);
  let isUsable = true;
  return {
    framed: true,
    limits: { recordsMax: config.batchRecordsMax, bytesMax: config.batchBytesMax, ageMsMax: 0 },
    async write(batch, signal) {
      signal.throwIfAborted();
      if (!isUsable) throw new RetryableError("Kafka must be opened again after an error.");
      isUsable = false;
      await writeWithin(connection, config, { signal, records: batch.records.length }, async () => {
        const placed = batch.records.map((record) => ({ topic: topicOf(record.event), record }));
        await topics.prepare(new Set(placed.map(({ topic }) => topic)));
        const layout = layOut(placed, topics, { key: config.key, nowMs: context.clock.now() });
        const { compression } = connection;
        await sendAll({
          to: producer,
          layout,
          compression,
          topics,
          records: placed.length,
          isTransaction: false,
        });
      });
      isUsable = true;
      return undefined;
    },
    async close() {
      isUsable = false;
      connection.end();
    },
  };
}

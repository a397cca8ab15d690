import { randomUUID } from "node:crypto";
import type { Producer } from "kafkajs";
import { DecisionNeededError, PausedError, RetryableError } from "../../core/errors.ts";
import type { Position } from "../../core/position.ts";
import type { Batch, Sink } from "../../core/sink.ts";
import { type KafkaConfig, type KafkaContext, memoryOf } from "./config.ts";
import { type KafkaConnection, writeWithin } from "./connect.ts";
import { endHanging } from "./hanging.ts";
import { layOut, type Touched, touchedBy } from "./layout.ts";
import { encodePosition, type HeldPosition, readPosition } from "./positions.ts";
import { sendAll } from "./send.ts";
import { topicNamer } from "./topic-names.ts";
import { prepareFixed, type TopicBook, topicBook } from "./topics.ts";

/** Kept between two openings in one process, to recognize a second instance (R25). */
interface Instance {
  readonly instance: string;
  /** The newest position record when it was last opened. */
  seen: string | undefined;
}

/** R24: InitProducerId comes first, since it ends our old transaction; only then is the position read. */
export async function openTransactional(connection: KafkaConnection, context: KafkaContext): Promise<Sink> {
  const { config } = context;
  const id = config.transactionalId ?? defaultId(context.name);
  if (config.topic === config.positionsTopic) {
    throw new PausedError("topic and positionsTopic are the same.", "name another topic for one of them");
  }
  const topics = topicBook(connection, context);
  const partitions = await topics.preparePositions();
  await prepareFixed(topics, config);
  const { transactionTimeout, openTimeout, positionsTopic } = config;
  const { clock, signal } = context;
  const read = (waitMs: number) =>
    readPosition(connection, { topic: positionsTopic, partitions, key: id, waitMs, clock, signal });
  let producer = await initialized(connection, id, config);
  // Without a wait: a transaction of ours that is undecided now stays so.
  let found = await read(0);
  const { newest } = found;
  const { position: committed, earlierJournals } = context;
  if (await endHanging(connection, { id, transactionTimeout, newest, committed, earlierJournals })) {
    await producer.disconnect();
    producer = await initialized(connection, id, config);
    found = await read(openTimeout);
  } else if (found.undecidedIn !== undefined) found = await read(openTimeout);
  const { held, undecidedIn } = found;
  if (undecidedIn !== undefined) {
    throw new RetryableError(
      `Another producer's open transaction holds a position in ${positionsTopic}, partition ${undecidedIn}. One that outlives its time-out hangs: kafka-transactions.sh find-hanging names it and the others of its producer id; abort those in topics of events first, this one last.`,
    );
  }
  const { instance } = remember(memoryOf(context), [...config.brokers, positionsTopic, id].join("\n"), held);
  const positionMessage = (position: Position, touched: readonly Touched[]) =>
    encodePosition({ position, key: id, partitions, instance, sink: context.name, touched });
  return opened({ connection, context, producer, topics, position: held?.position, positionMessage });
}

export function defaultId(sink: string): string {
  return `tidemark-${sink}`;
}

/** A producer that has ended the transaction of the one before it. */
async function initialized(connection: KafkaConnection, id: string, config: KafkaConfig): Promise<Producer> {
  const producer = connection.kafka.producer({
    transactionalId: id,
    transactionTimeout: config.transactionTimeout,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    createPartitioner: connection.library.Partitioners.DefaultPartitioner,
  });
  await producer.connect();
  await (await producer.transaction()).abort();
  return producer;
}

/**
 * R25: brokers report a time-out and a second instance in the same words. Only a position that another
 * instance has written since this process last looked shows a second instance.
 */
function remember(memory: Map<string, unknown>, name: string, held: HeldPosition | undefined): Instance {
  const key = `instance\n${name}`;
  const known = memory.get(key) as Instance | undefined;
  if (!known) {
    const fresh = { instance: randomUUID(), seen: held?.place };
    memory.set(key, fresh);
    return fresh;
  }
  if (held && held.instance !== known.instance && held.place !== known.seen) {
    throw new DecisionNeededError(
      "Another instance writes to Kafka under the same transactional id: this one has stopped, nothing was skipped.",
      [
        "stop the other instance, then restart this one",
        "or give each its own transactionalId (and state of its own), if both are wanted",
      ],
    );
  }
  known.seen = held?.place;
  return known;
}

interface Opened {
  readonly connection: KafkaConnection;
  readonly context: KafkaContext;
  readonly producer: Producer;
  readonly topics: TopicBook;
  readonly position: Position | undefined;
  readonly positionMessage: (
    position: Position,
    touched: readonly Touched[],
  ) => ReturnType<typeof encodePosition>;
}

function opened({ connection, context, producer, topics, position, positionMessage }: Opened): Sink {
  const { config } = context;
  const topicOf = topicNamer(config.topic, config.positionsTopic);
  // After a failed write the outcome is unknown until the sink is opened again (R17).
  let isUsable = true;

  async function send(batch: Batch): Promise<void> {
    const placed = batch.records.map((record) => ({ topic: topicOf(record.event), record }));
    await topics.prepare(new Set(placed.map(({ topic }) => topic)));
    const layout = layOut(placed, topics, { key: config.key, nowMs: context.clock.now() });
    const transaction = await producer.transaction();
    const compression = connection.compression;
    // The position goes first: it names all partitions of the transaction, however far that comes.
    const { partition, message } = positionMessage(batch.to, touchedBy(layout));
    await transaction.send({
      topic: config.positionsTopic,
      acks: -1,
      compression,
      messages: [{ ...message, partition }],
    });
    await sendAll({
      to: transaction,
      layout,
      compression,
      topics,
      records: placed.length,
      isTransaction: true,
    });
    await transaction.commit();
  }

  return {
    position,
    framed: true,
    limits: {
      recordsMax: config.batchRecordsMax,
      bytesMax: config.batchBytesMax,
      ageMsMax: 0,
    },
    async write(batch, signal) {
      signal.throwIfAborted();
      if (!isUsable) throw new RetryableError("Kafka must be opened again after an error.");
      isUsable = false;
      await writeWithin(connection, config, { signal, records: batch.records.length }, () => send(batch));
      isUsable = true;
      return undefined;
    },
    async close() {
      isUsable = false;
      connection.end();
    },
  };
}

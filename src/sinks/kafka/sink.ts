import { randomUUID } from "node:crypto";
import type { Producer, Transaction } from "kafkajs";
import {
  DecisionNeededError,
  PausedError,
  RejectedEventsError,
  type Rejection,
  RetryableError,
} from "../../core/errors.ts";
import type { Position } from "../../core/position.ts";
import { type Batch, defineSink, type Sink, type SinkDefinition } from "../../core/sink.ts";
import { advise, type KafkaConfig, type KafkaContext, kafkaSchema } from "./config.ts";
import { connect, type KafkaConnection } from "./connect.ts";
import { inTermsOfDelivery, isTooLarge } from "./errors.ts";
import { endHanging } from "./hanging.ts";
import { type Layout, layOut, type Touched, touchedBy } from "./layout.ts";
import { encodePosition, type HeldPosition, readPosition } from "./positions.ts";
import { topicNamer } from "./topic-names.ts";
import { type TopicBook, topicBook } from "./topics.ts";

/** What one process remembers of a sink between two openings, to tell a second instance (R25). */
interface Memory {
  readonly instance: string;
  /** The newest position record when it was last opened. */
  seen: string | undefined;
}

/** Added to the time that the config allows for waiting. */
const OPEN_MS_MAX = 60_000;
const WRITE_MS_MAX = 60_000;

export const kafka = createKafka();

/** The definition; every call makes an instance of its own, as another process would be. */
export function createKafka(): SinkDefinition {
  const memories = new Map<string, Memory>();
  return defineSink({
    type: "kafka",
    summary: "Apache Kafka, one record per event, in transactions that carry the position.",
    config: kafkaSchema,
    defaultFormat: "raw",
    guarantee: "exactly_once",
    promise:
      "Exactly once for readers with isolation.level=read_committed, in journal order per organization: the position is a record in the same transaction as the events.",
    open: (context) => open(context, memories),
    advise,
  });
}

async function open(context: KafkaContext, memories: Map<string, Memory>): Promise<Sink> {
  context.signal.throwIfAborted();
  const connection = await connect(context);
  const stop = () => connection.end();
  context.signal.addEventListener("abort", stop, { once: true });
  try {
    return await connection.within(
      OPEN_MS_MAX + context.config.openTimeout,
      openOver(connection, context, memories),
    );
  } catch (error) {
    connection.end();
    context.signal.throwIfAborted();
    throw inTermsOfDelivery(error, "Kafka cannot be opened");
  } finally {
    context.signal.removeEventListener("abort", stop);
  }
}

/** R24: InitProducerId comes first, since it ends our old transaction; only then is the position read. */
async function openOver(
  connection: KafkaConnection,
  context: KafkaContext,
  memories: Map<string, Memory>,
): Promise<Sink> {
  const { config } = context;
  const id = config.transactionalId ?? `tidemark-${context.name}`;
  if (config.topic === config.positionsTopic) {
    throw new PausedError("topic and positionsTopic are the same.", "name another topic for one of them");
  }
  const topics = topicBook(connection, context);
  const partitions = await topics.preparePositions();
  // A fixed topic that is missing or compacted is found now, not with the first event.
  if (!config.topic.includes("{")) await topics.prepare(new Set([config.topic]));
  const { transactionTimeout, openTimeout, positionsTopic } = config;
  const { clock, signal } = context;
  const read = (waitMs: number) =>
    readPosition(connection, { topic: positionsTopic, partitions, key: id, waitMs, clock, signal });
  let producer = await initialized(connection, id, config);
  // What is undecided and ours stays so: nothing is gained by waiting for it.
  let found = await read(0);
  const { newest } = found;
  if (await endHanging(connection, { id, transactionTimeout, newest, committed: context.position })) {
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
  const memory = remember(memories, [...config.brokers, positionsTopic, id].join("\n"), held);
  const { instance } = memory;
  const positionMessage = (position: Position, touched: readonly Touched[]) =>
    encodePosition({ position, key: id, partitions, instance, sink: context.name, touched });
  return opened({ connection, context, producer, topics, position: held?.position, positionMessage });
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
 * R25: an epoch that was taken from us means a time-out or a second instance, in the same words. Only a
 * position that somebody else has written since this process last looked tells the second.
 */
function remember(memories: Map<string, Memory>, key: string, held: HeldPosition | undefined): Memory {
  const memory = memories.get(key);
  if (!memory) {
    const fresh = { instance: randomUUID(), seen: held?.place };
    memories.set(key, fresh);
    return fresh;
  }
  if (held && held.instance !== memory.instance && held.place !== memory.seen) {
    throw new DecisionNeededError(
      "Another instance writes to Kafka under the same transactional id: this one has stopped, nothing was skipped.",
      [
        "stop the other instance, then restart this one",
        "or give each its own transactionalId (and state of its own), if both are wanted",
      ],
    );
  }
  memory.seen = held?.place;
  return memory;
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
  // After a write that did not end well nobody knows what the brokers hold, until it is opened again (R17).
  let usable = true;

  async function send(batch: Batch): Promise<void> {
    const placed = batch.records.map((record) => ({ topic: topicOf(record.event), record }));
    await topics.prepare(new Set(placed.map(({ topic }) => topic)));
    const layout = layOut(placed, topics, context.clock.now());
    const transaction = await producer.transaction();
    const compression = connection.compression;
    // First, since it tells where events of a transaction lie, however far that comes.
    const { partition, message } = positionMessage(batch.to, touchedBy(layout));
    await transaction.send({
      topic: config.positionsTopic,
      acks: -1,
      compression,
      messages: [{ ...message, partition }],
    });
    await sendAll(transaction, layout, compression, batch.records.length);
    await transaction.commit();
  }

  return {
    position,
    limits: {
      recordsMax: config.batchRecordsMax,
      bytesMax: config.batchBytesMax,
      ageMsMax: 0,
    },
    async write(batch, signal) {
      signal.throwIfAborted();
      if (!usable) throw new RetryableError("Kafka must be opened again after an error.");
      usable = false;
      const stop = () => connection.end();
      signal.addEventListener("abort", stop, { once: true });
      try {
        await connection.within(WRITE_MS_MAX + config.transactionTimeout, send(batch));
        usable = true;
        return undefined;
      } catch (error) {
        signal.throwIfAborted();
        throw inTermsOfDelivery(error, "Kafka did not take the transaction", batch.records.length);
      } finally {
        signal.removeEventListener("abort", stop);
      }
    },
    async close() {
      usable = false;
      connection.end();
    },
  };
}

/**
 * One produce request after the other. A record that may be too large travels alone, so that the broker's
 * refusal names it; once one is refused the transaction is lost, and only the other such records are
 * tried, to name all at once.
 */
async function sendAll(
  transaction: Transaction,
  layout: Layout,
  compression: number,
  records: number,
): Promise<void> {
  const rejected: Rejection[] = [];
  for (const { topicMessages, lone } of layout) {
    if (rejected.length > 0 && lone === undefined) continue;
    try {
      await transaction.sendBatch({ acks: -1, compression, topicMessages: [...topicMessages] });
    } catch (error) {
      if (lone === undefined || !isTooLarge(error)) throw error;
      rejected.push({ index: lone, reason: "larger than the topic's max.message.bytes" });
    }
  }
  if (rejected.length === 0) return;
  const refused = new Set(rejected.map(({ index }) => index));
  throw new RejectedEventsError("Kafka refused events that are too large.", rejected, {
    remaining: Array.from({ length: records }, (_, index) => index).filter((index) => !refused.has(index)),
  });
}

import { randomUUID } from "node:crypto";
import { DecisionNeededError, PausedError, RetryableError } from "../../core/errors.ts";
import type { KafkaClient, KafkaProducer, KeyedRecord, Touched } from "../../core/kafka.ts";
import type { Position } from "../../core/position.ts";
import type { Batch, Sink } from "../../core/sink.ts";
import type { SinkState } from "../../core/sink-state.ts";
import { type KafkaContext, memoryOf } from "./config.ts";
import { createNotes, readDelivered } from "./delivered.ts";
import { endHanging } from "./hanging.ts";
import { type Layout, touchedBy } from "./layout.ts";
import {
  encodePosition,
  type HeldPosition,
  positionPlaceOf,
  positionState,
  readPosition,
} from "./positions.ts";
import { sendAll } from "./send.ts";
import { prepareFixed, preparePositions, type TopicBook, topicBook } from "./topics.ts";
import { createBatchWriter, KAFKA_WRITES_MAX } from "./writer.ts";

/** Kept between two openings in one process, to recognize a second instance (R25). */
interface Instance {
  readonly instance: string;
  /** The newest position record when it was last opened. */
  seen: string | undefined;
}

/** R24: InitProducerId comes first, since it ends our old transaction; only then is the position read. */
export async function openTransactional(client: KafkaClient, context: KafkaContext): Promise<Sink> {
  const { config } = context;
  const id = idOf(context);
  if (config.topic === config.positionsTopic) {
    throw new PausedError("topic and positionsTopic are the same.", "name another topic for one of them");
  }
  const { waitsFor = () => {} } = context;
  waitsFor(`the topic ${config.positionsTopic}`);
  const partitions = await preparePositions(client, context);
  const { transactionTimeout, openTimeout, positionsTopic } = config;
  const { clock, signal } = context;
  const place = { topic: positionsTopic, partitions, key: id, from: positionPlaceOf(context.state) };
  const read = (waitMs: number) => readPosition(client, { ...place, waitMs, clock, signal });
  const transaction = { id, timeoutMs: transactionTimeout };
  waitsFor("the brokers, which end the sink's last transaction");
  let producer = await client.producer(transaction);
  waitsFor(`its position in ${positionsTopic}`);
  // Without a wait: a transaction of ours that is undecided now stays so.
  let found = await read(0);
  const { newest } = found;
  const { position: committed, earlierJournals } = context;
  if (await endHanging(client, { id, transactionTimeout, newest, committed, earlierJournals })) {
    await producer.close();
    producer = await client.producer(transaction);
    found = await read(openTimeout);
  } else if (found.undecidedIn !== undefined) {
    waitsFor(`another producer's open transaction in ${positionsTopic}, partition ${found.undecidedIn}`);
    found = await read(openTimeout);
  }
  const { held, undecidedIn } = found;
  if (undecidedIn !== undefined) {
    throw new RetryableError(
      `Another producer's open transaction holds a position in ${positionsTopic}, partition ${undecidedIn}. One that outlives its time-out hangs: kafka-transactions.sh find-hanging names it and the others of its producer id; abort those in topics of events first, this one last.`,
    );
  }
  let delivered: Promise<ReadonlySet<string>> | undefined;
  const topics = topicBook(client, context, () => {
    // Read once: an opening never prepares a topic again that it has delivered to.
    delivered ??= client.brokers((brokers) => readDelivered(brokers, { ...place, clock, signal }));
    return delivered;
  });
  waitsFor(`the topic ${config.topic}`);
  await prepareFixed(topics, config);
  const { instance } = remember(memoryOf(context), [...config.brokers, positionsTopic, id].join("\n"), held);
  const positionMessage = (position: Position, touched: readonly Touched[]) =>
    encodePosition({ position, key: id, partitions, instance, sink: context.name, touched });
  return opened({
    ...{ client, context, producer, topics, positionMessage },
    notes: createNotes(id),
    position: held?.position,
  });
}

/** Who the sink is to Kafka. */
export const idOf = ({ config, name }: KafkaContext) => config.transactionalId ?? defaultId(name);

export function defaultId(sink: string): string {
  return `tidemark-${sink}`;
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
  readonly client: KafkaClient;
  readonly context: KafkaContext;
  readonly producer: KafkaProducer;
  readonly topics: TopicBook;
  readonly notes: ReturnType<typeof createNotes>;
  readonly position: Position | undefined;
  readonly positionMessage: (
    position: Position,
    touched: readonly Touched[],
  ) => ReturnType<typeof encodePosition>;
}

function opened({ client, context, producer, topics, notes, position, positionMessage }: Opened): Sink {
  const { config, clock } = context;

  async function produceOwn(partition: number, records: readonly KeyedRecord[]): Promise<void> {
    const own = { topic: config.positionsTopic, partition };
    const refused = await producer.produce([await client.encode(own, records, clock.now())]);
    if (refused.length > 0) throw new Error("The positions topic refuses a position as too large.");
  }

  async function send({ records, to }: Batch, layout: Layout): Promise<SinkState | undefined> {
    const touched = touchedBy(layout);
    const { partition, message } = positionMessage(to, touched);
    // The position goes first: it names all partitions of the transaction, however far that comes.
    await producer.begin([{ topic: config.positionsTopic, partitions: [partition] }]);
    await produceOwn(partition, [message]);
    const offset = producer.offsetIn(config.positionsTopic, partition);
    for (const batch of notes.of(touched)) await produceOwn(partition, batch);
    await producer.begin(touched);
    await sendAll({ to: producer, layout, topics, records: records.length, isTransaction: true });
    await producer.commit();
    notes.committed(touched);
    return offset === undefined ? undefined : positionState({ partition, offset });
  }

  return {
    position,
    framed: true,
    writesMax: KAFKA_WRITES_MAX,
    limits: {
      recordsMax: config.batchRecordsMax,
      bytesMax: config.batchBytesMax,
      limitedBy: "batchBytesMax",
      ageMsMax: 0,
    },
    ...createBatchWriter({ client, context, topics, send }),
  };
}

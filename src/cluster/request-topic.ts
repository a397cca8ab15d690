import type { StoredRecord } from "../core/changelog.ts";
import {
  type ConnectKafka,
  errorTypes,
  type KafkaBrokers,
  type KafkaClient,
  type KafkaProducer,
} from "../core/kafka.ts";
import { pause } from "../core/pause.ts";
import { endsOf, fetchPartitions, lendBrokers } from "./read-partition.ts";
import { topicsOf } from "./topic-names.ts";

/*
 * The topic of requests and answers (C3), with a partition for each lane. Anyone may write to it, so it carries no state:
 * the lane's owner stores what it takes, together with the offset, in the lane's own log.
 */

export interface RequestTopic {
  /** Writes one record, durably. */
  send(partition: number, key: "ask" | "answer", value: unknown, signal: AbortSignal): Promise<void>;
  /** The offset after the newest record. */
  endOf(partition: number, signal: AbortSignal): Promise<number>;
  /**
   * Reads partitions until the signal aborts. `positions` gives the next offset of each that is wanted now; `take` gets new
   * records in order and moves the position. A partition whose `take` rejects is read again from its position.
   */
  follow(followed: Followed, signal: AbortSignal): Promise<void>;
  end(): Promise<void>;
}

export interface Followed {
  positions(): Promise<ReadonlyMap<number, number>>;
  take(
    partition: number,
    records: readonly StoredRecord[],
    range: { readonly from: number; readonly next: number },
  ): Promise<void>;
  /** The position is no longer in the topic; `first` and `end` are its bounds. */
  lost(partition: number, bounds: { readonly first: number; readonly end: number }): void;
  trouble(error: unknown): void;
}

const SEND_MS_MAX = 15_000;
/** The broker answers a waiting fetch after this time, or with the first record. */
const WAIT_MS = 500;
const AGAIN_MS = 1000;

export function createRequestTopic(name: string, connect: ConnectKafka): RequestTopic {
  const topic = topicsOf(name).requests;
  let sending: { readonly link: KafkaClient; readonly producer: KafkaProducer } | undefined;

  async function sender(signal: AbortSignal) {
    if (sending !== undefined) return sending;
    const link = await connect(signal);
    const producer = await link.within(SEND_MS_MAX, link.producer());
    sending = { link, producer };
    return sending;
  }

  async function end(): Promise<void> {
    const old = sending;
    sending = undefined;
    old?.link.end();
    await old?.producer.close().catch(() => {});
  }

  return {
    async send(partition, key, value, signal) {
      try {
        const { link, producer } = await sender(signal);
        const record = { key, value: Buffer.from(JSON.stringify(value)) };
        const batch = await link.encode({ topic, partition }, [record], Date.now());
        const refused = await link.within(SEND_MS_MAX, producer.produce([batch]));
        if (refused.length > 0) throw new Error(`${topic} refuses a record as too large.`);
      } catch (error) {
        await end();
        throw error;
      }
    },
    async endOf(partition, signal) {
      const { link } = await sender(signal);
      return (await link.brokers((brokers) => endsOf(brokers, topic, partition))).end;
    },
    async follow(followed, signal) {
      while (!signal.aborted) {
        try {
          // A link of its own: a waiting fetch holds up everything else on its connection.
          const link = await connect(signal);
          const lent = lendBrokers(link);
          try {
            const brokers = await lent.brokers;
            while (!signal.aborted) await followOnce(brokers, topic, followed, signal);
          } finally {
            lent.release();
            link.end();
          }
        } catch (error) {
          if (signal.aborted) return;
          followed.trouble(error);
          await pause(AGAIN_MS, signal);
        }
      }
    },
    end,
  };
}

async function followOnce(
  brokers: KafkaBrokers,
  topic: string,
  followed: Followed,
  signal: AbortSignal,
): Promise<void> {
  const wanted = await followed.positions();
  if (wanted.size === 0) return pause(WAIT_MS, signal);
  try {
    const fetched = await fetchPartitions(brokers, topic, wanted, WAIT_MS);
    for (const { partition, records, next } of fetched) {
      const from = wanted.get(partition)!;
      if (next > from)
        await followed.take(partition, records, { from, next }).catch(async (error: unknown) => {
          followed.trouble(error);
          await pause(AGAIN_MS, signal);
        });
    }
  } catch (error) {
    if (!errorTypes(error).includes("OFFSET_OUT_OF_RANGE")) throw error;
    for (const [partition, at] of wanted) {
      const { first, end } = await endsOf(brokers, topic, partition);
      if (at < first || at > end) followed.lost(partition, { first, end });
    }
  }
}

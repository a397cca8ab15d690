import { RetryableError } from "../../core/errors.ts";
import type { FetchedRecord, KafkaBrokers, KeyedRecord, Touched } from "../../core/kafka.ts";
import { isCommit, onceLed, type ReadOptions, scan, touchedIn } from "./positions.ts";

/*
 * The topics that a sink has delivered events to. Kafka keeps nothing of a deleted topic, and the position names
 * only the topics of its own transaction. So the first transaction of an opening that writes to a topic also writes
 * a note into the positions topic: it is committed with the events, and compaction keeps it.
 */

/** No topic's name has a space. */
const prefixOf = (id: string) => `${id} has delivered to `;
const NOTE = Buffer.from("{}");
/** Together less than the limit of a record batch, with the longest names. */
const NOTES_AT_ONCE = 200;

/** Makes the notes of one opening. */
export function createNotes(id: string) {
  const noted = new Set<string>();
  return {
    /** The notes that a transaction has to write, in batches. */
    of(touched: readonly Touched[]): KeyedRecord[][] {
      const fresh = touched.map(({ topic }) => topic).filter((topic) => !noted.has(topic));
      const notes = fresh.map((topic) => ({ key: `${prefixOf(id)}${topic}`, value: NOTE }));
      const batches: KeyedRecord[][] = [];
      for (let at = 0; at < notes.length; at += NOTES_AT_ONCE)
        batches.push(notes.slice(at, at + NOTES_AT_ONCE));
      return batches;
    },
    /** The transaction was committed. */
    committed(touched: readonly Touched[]): void {
      for (const { topic } of touched) noted.add(topic);
    },
  };
}

const END_MS_MAX = 10_000;

/** Reads all partitions: adding some to the positions topic gives the sink another one. */
export async function readDelivered(
  brokers: KafkaBrokers,
  { topic, partitions, key, clock, signal }: Omit<ReadOptions, "from" | "waitMs">,
): Promise<ReadonlySet<string>> {
  const delivered = new Set<string>();
  for (let partition = 0; partition < partitions; partition++) {
    const place = { topic, partition, from: 0n, waitMs: END_MS_MAX, clock, signal };
    const isWhole = await onceLed(brokers, { clock, signal }, () =>
      scan(brokers, place, deliveredTaker(key, delivered)),
    );
    if (!isWhole) throw new RetryableError(`The positions topic ${topic} could not be read to its end.`);
  }
  return delivered;
}

/** Adds the topics of notes and positions whose transaction was committed. */
function deliveredTaker(id: string, delivered: Set<string>) {
  const prefix = prefixOf(id);
  const pending = new Map<string, string[]>();
  const topicsIn = (record: FetchedRecord): readonly string[] => {
    const key = record.key?.toString() ?? "";
    if (key.startsWith(prefix)) return [key.slice(prefix.length)];
    return key === id ? touchedIn(record).map(({ topic }) => topic) : [];
  };
  return {
    take(record: FetchedRecord): void {
      const { producerId } = record.batchContext;
      if (!record.isControlRecord) {
        const named = topicsIn(record);
        if (named.length > 0) pending.set(producerId, (pending.get(producerId) ?? []).concat(named));
        return;
      }
      if (isCommit(record)) for (const topic of pending.get(producerId) ?? []) delivered.add(topic);
      pending.delete(producerId);
    },
    isUndecided: () => false,
  };
}

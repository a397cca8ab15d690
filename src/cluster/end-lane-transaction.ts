import { OPENED_KEY, type StoredRecord } from "../core/changelog.ts";
import { errorTypes, type KafkaBrokers, type KafkaClient } from "../core/kafka.ts";
import { createCommitMarkers, endsOf, rawRecords } from "./read-partition.ts";
import type { ClusterTopics } from "./topic-names.ts";

/*
 * Ends a transaction of the lane that is still open although InitProducerId has completed it: a broker that restarts may
 * leave out the markers of partitions that have no leader at that moment (KAFKA-20734). Our next marker would decide over
 * the hanging records too, so they are decided first:
 *   complete in both topics  committed: the last writer may have seen the success
 *   anything else            aborted: no commit was acknowledged
 * Transactions of other producers are left alone; they hide nothing from us.
 */

const SETTLE_MS = 3000;
const POLL_MS = 50;

interface ToEnd {
  readonly transactionalId: string;
  readonly transactionTimeoutMs: number;
  readonly topics: ClusterTopics;
  readonly lane: number;
}

export function endLaneTransaction(link: KafkaClient, ours: ToEnd): Promise<boolean> {
  const { transactionalId, transactionTimeoutMs, topics, lane } = ours;
  return link.brokers(async (brokers) => {
    const identity = await untilTaken(() =>
      brokers.initProducer({ id: transactionalId, timeoutMs: transactionTimeoutMs }),
    );
    const rows = await openRecords(brokers, topics.state, lane, identity.producerId);
    const bodies = await openRecords(brokers, topics.pages, lane, identity.producerId);
    const hanging = [
      ...(rows.length > 0 ? [topics.state] : []),
      ...(bodies.length > 0 ? [topics.pages] : []),
    ];
    if (hanging.length === 0) return false;
    const partitions = hanging.map((topic) => ({ topic, partitions: [lane] }));
    const end = isComplete(rows, bodies) ? "commit" : "abort";
    await brokers.endTransaction(transactionalId, identity, partitions, end);
    return true;
  });
}

/** The coordinator asks us to wait while it completes the transaction of the last writer, or while it moves. */
const WAITING = [
  "CONCURRENT_TRANSACTIONS",
  "COORDINATOR_LOAD_IN_PROGRESS",
  "COORDINATOR_NOT_AVAILABLE",
  "GROUP_LOAD_IN_PROGRESS",
  "GROUP_COORDINATOR_NOT_AVAILABLE",
  "NOT_COORDINATOR",
  "NOT_COORDINATOR_FOR_GROUP",
];

async function untilTaken<Value>(ask: () => Promise<Value>): Promise<Value> {
  for (let tries = 0; ; tries++) {
    try {
      return await ask();
    } catch (error) {
      if (tries > 600 || !WAITING.includes(errorTypes(error)[0] ?? "")) throw error;
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }
}

/** Whether the tip was written, and all bodies that it counts. */
function isComplete(rows: readonly StoredRecord[], bodies: readonly StoredRecord[]): boolean {
  const last = rows.at(-1);
  if (last === undefined || last.value === null) return false;
  if (last.key === OPENED_KEY) return true;
  if (!last.key.startsWith('["~tip"')) return false;
  const tip = JSON.parse(Buffer.from(last.value).toString()) as { readonly bodies: number };
  return tip.bodies === bodies.length;
}

/** The records of our producer id without a marker. */
async function openRecords(
  brokers: KafkaBrokers,
  topic: string,
  partition: number,
  producerId: string,
): Promise<readonly StoredRecord[]> {
  const deadline = Date.now() + SETTLE_MS;
  for (;;) {
    const { end, stable } = await endsOf(brokers, topic, partition);
    if (stable >= end) return [];
    const markers = createCommitMarkers();
    for (const record of await rawRecords(brokers, topic, partition, stable, end)) markers.take(record);
    const open = markers.openOf(producerId);
    // Markers of the last writer may be on their way for a moment.
    if (open.length === 0 || Date.now() >= deadline) return open;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

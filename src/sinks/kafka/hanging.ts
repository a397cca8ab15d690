import { comparePositions, type Position } from "../../core/position.ts";
import {
  type InternalBroker,
  type InternalCluster,
  LATEST,
  READ_COMMITTED,
  READ_UNCOMMITTED,
  TRANSACTION_COORDINATOR,
  withCluster,
} from "./cluster.ts";
import type { KafkaConnection } from "./connect.ts";
import type { Touched } from "./layout.ts";
import type { Written } from "./positions.ts";

interface ToEnd {
  readonly id: string;
  readonly transactionTimeout: number;
  readonly newest: readonly Written[];
  /** The position as it was last committed here. */
  readonly committed: Position;
  /** Journals that ours continues; all of their positions were committed. */
  readonly earlierJournals?: ReadonlySet<string> | undefined;
}

/**
 * Ends the parts of our newest transaction that are still open although InitProducerId has completed it: a broker that is fenced or restarted takes partitions without a leader for deleted ones and
 * leaves out their markers (KAFKA-20734, 4.3.1). Whatever we do next in such a partition would decide over
 * the hanging events too: a commit would publish the events of an aborted transaction, an abort would remove
 * those of a committed one.
 *
 * A partition knows one open transaction per producer id, whatever its epoch: an empty transaction of the
 * same id that names the partition ends it with its own marker. True when that was tried: it has taken the
 * producer's epoch.
 */
export function endHanging(connection: KafkaConnection, { newest, ...ours }: ToEnd): Promise<boolean> {
  return withCluster(connection, async (cluster) => {
    const doubtful: { readonly written: Written; readonly open: readonly Touched[] }[] = [];
    for (const written of newest) {
      const open = await openAmong(cluster, written.touched);
      if (open.length > 0) doubtful.push({ written, open });
    }
    if (doubtful.length === 0) return false;
    const coordinator = await cluster.findGroupCoordinator({
      groupId: ours.id,
      coordinatorType: TRANSACTION_COORDINATOR,
    });
    const { producerId, producerEpoch } = await coordinator.initProducerId({
      transactionalId: ours.id,
      transactionTimeout: ours.transactionTimeout,
    });
    const hanging = doubtful.find(({ written }) => written.producerId === producerId);
    if (!hanging) return true;
    const transaction = { transactionalId: ours.id, producerId, producerEpoch };
    await coordinator.addPartitionsToTxn({ ...transaction, topics: hanging.open });
    const transactionResult = hanging.written.isCommitted ?? isAcknowledged(hanging.written, ours);
    await coordinator.endTxn({ ...transaction, transactionResult });
    return true;
  });
}

/**
 * The position was committed here only after the brokers had promised to commit the transaction. Without that
 * their decision is not known, and aborting loses nothing: the events are sent again.
 */
function isAcknowledged(
  { position }: Written,
  { committed, earlierJournals }: Omit<ToEnd, "newest">,
): boolean {
  if (earlierJournals?.has(position.journal)) return true;
  return position.journal === committed.journal && comparePositions(position, committed) <= 0;
}

/** Those of the partitions in which any producer's transaction is open. */
async function openAmong(cluster: InternalCluster, touched: readonly Touched[]): Promise<readonly Touched[]> {
  const there: Touched[] = [];
  for (const each of touched) if (await isThere(cluster, each.topic)) there.push(each);
  await cluster.addMultipleTargetTopics(there.map(({ topic }) => topic));
  const open: Touched[] = [];
  for (const { topic, partitions } of there) {
    const behind: number[] = [];
    for (const [nodeId, led] of Object.entries(cluster.findLeaderForPartitions(topic, partitions))) {
      const broker = await cluster.findBroker({ nodeId });
      const ends = await endsOf(broker, topic, led, READ_UNCOMMITTED);
      const stable = await endsOf(broker, topic, led, READ_COMMITTED);
      behind.push(...led.filter((partition) => stable.get(partition)! < ends.get(partition)!));
    }
    if (behind.length > 0) open.push({ topic, partitions: behind });
  }
  return open;
}

/** Nothing hangs in a topic that is gone, and we write to none that is forbidden. */
const NOT_THERE = ["UNKNOWN_TOPIC_OR_PARTITION", "TOPIC_AUTHORIZATION_FAILED"];

async function isThere(cluster: InternalCluster, topic: string): Promise<boolean> {
  try {
    await cluster.metadata({ topics: [topic] });
    return true;
  } catch (error) {
    if (NOT_THERE.includes((error as { type?: string }).type ?? "")) return false;
    throw error;
  }
}

async function endsOf(
  broker: InternalBroker,
  topic: string,
  partitions: readonly number[],
  isolationLevel: number,
): Promise<ReadonlyMap<number, bigint>> {
  const { responses } = await broker.listOffsets({
    replicaId: -1,
    isolationLevel,
    topics: [{ topic, partitions: partitions.map((partition) => ({ partition, timestamp: LATEST })) }],
  });
  return new Map(responses[0]!.partitions.map(({ partition, offset }) => [partition, BigInt(offset)]));
}

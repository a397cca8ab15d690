import {
  COORDINATOR_NOT_FOUND,
  type FetchedRecords,
  type KafkaBrokers,
  type OffsetPlace,
  type Touched,
} from "../../../core/kafka.ts";
import { type InternalBroker, type InternalCluster, TRANSACTION_COORDINATOR } from "./internals.ts";
import { rightsOf } from "./rights.ts";

/** Isolation levels: up to the true end with markers and all, or up to the oldest open transaction. */
const READ_UNCOMMITTED = 0;
const READ_COMMITTED = 1;
/** Special timestamps: the two ends of a partition. */
const EARLIEST = -2;
const LATEST = -1;

/** A missing topic, and one that this user may not use, are both not there. */
const NOT_THERE = ["UNKNOWN_TOPIC_OR_PARTITION", "TOPIC_AUTHORIZATION_FAILED"];

export function brokersOf(cluster: InternalCluster): KafkaBrokers {
  /** Asks every leader of some of the partitions for its own. */
  async function byLeader<Answer>(
    touched: readonly Touched[],
    ask: (leader: InternalBroker, own: readonly Touched[]) => Promise<Answer>,
  ): Promise<readonly Answer[]> {
    await cluster.addMultipleTargetTopics(touched.map(({ topic }) => topic));
    const led = new Map<string, Touched[]>();
    for (const { topic, partitions } of touched)
      for (const [nodeId, own] of Object.entries(cluster.findLeaderForPartitions(topic, partitions)))
        led.set(nodeId, [...(led.get(nodeId) ?? []), { topic, partitions: own }]);
    return Promise.all([...led].map(async ([nodeId, own]) => ask(await cluster.findBroker({ nodeId }), own)));
  }

  async function coordinatorOf(transactionalId: string): Promise<InternalBroker> {
    try {
      return await cluster.findGroupCoordinator({
        groupId: transactionalId,
        coordinatorType: TRANSACTION_COORDINATOR,
      });
    } catch (error) {
      if ((error as Error).name !== "KafkaJSGroupCoordinatorNotFound") throw error;
      const { message } = error as Error;
      throw Object.assign(new Error(message, { cause: error }), { type: COORDINATOR_NOT_FOUND });
    }
  }

  return {
    refresh: () => cluster.refreshMetadata(),
    async exists(topic) {
      try {
        await cluster.metadata({ topics: [topic] });
        return true;
      } catch (error) {
        if (NOT_THERE.includes((error as { type?: string }).type ?? "")) return false;
        throw error;
      }
    },
    rights: (topics) => rightsOf(cluster, topics),
    async offsets(of, at) {
      const answers = await byLeader(of, (leader, own) => leader.listOffsets(offsetRequest(own, at)));
      return answers.flatMap(({ responses }) =>
        responses.flatMap(({ topic, partitions }) =>
          partitions.map(({ partition, offset }) => ({ topic, partition, offset: BigInt(offset) })),
        ),
      );
    },
    async fetch(topic, from, { waitMs, bytesMin, bytesMax }) {
      const answers = await byLeader([{ topic, partitions: [...from.keys()] }], (leader, own) =>
        leader.fetch({
          isolationLevel: READ_UNCOMMITTED,
          maxWaitTime: waitMs,
          minBytes: bytesMin,
          maxBytes: bytesMax,
          topics: own.map(({ partitions }) => ({
            topic,
            partitions: partitions.map((partition) => ({
              partition,
              fetchOffset: String(from.get(partition)),
              maxBytes: bytesMax,
            })),
          })),
        }),
      );
      return answers.flatMap(({ responses }) =>
        responses.flatMap(({ partitions }): readonly FetchedRecords[] => partitions),
      );
    },
    async findCoordinator(transactionalId) {
      await coordinatorOf(transactionalId);
    },
    async initProducer({ id, timeoutMs }) {
      const request = { transactionalId: id, transactionTimeout: timeoutMs };
      const { producerId, producerEpoch } = await (await coordinatorOf(id)).initProducerId(request);
      return { producerId, producerEpoch };
    },
    async endTransaction(id, { producerId, producerEpoch }, touched, end) {
      const coordinator = await coordinatorOf(id);
      const transaction = { transactionalId: id, producerId, producerEpoch };
      await coordinator.addPartitionsToTxn({ ...transaction, topics: touched });
      await coordinator.endTxn({ ...transaction, transactionResult: end === "commit" });
    },
  };
}

/**
 * Only an uncommitted reader gets the true end of a partition. A leader that was just elected and does not know the
 * end yet refuses this question, while it would answer a fetch.
 */
function offsetRequest(touched: readonly Touched[], at: OffsetPlace): object {
  const timestamp = at === "first" ? EARLIEST : LATEST;
  return {
    replicaId: -1,
    isolationLevel: at === "stable" ? READ_COMMITTED : READ_UNCOMMITTED,
    topics: touched.map(({ topic, partitions }) => ({
      topic,
      partitions: partitions.map((partition) => ({ partition, timestamp })),
    })),
  };
}

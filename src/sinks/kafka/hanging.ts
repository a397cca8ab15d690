import type { Connection } from "./connect.ts";
import { type Hanging, internalCluster } from "./positions.ts";

interface ToEnd {
  readonly id: string;
  readonly transactionTimeout: number;
  readonly hanging: Hanging;
  readonly commit: boolean;
}

const TRANSACTION_COORDINATOR = 1;

/**
 * Ends a transaction of ours that the coordinator calls complete while partitions lack its marker. A
 * partition knows one open transaction per producer id, whatever its epoch: an empty transaction of the same
 * id that names those partitions ends it with its own markers. False when it is another producer's.
 */
export async function endHanging(
  connection: Connection,
  { id, transactionTimeout, hanging, commit }: ToEnd,
): Promise<boolean> {
  const cluster = internalCluster(connection.kafka);
  await cluster.connect();
  try {
    const coordinator = await cluster.findGroupCoordinator({
      groupId: id,
      coordinatorType: TRANSACTION_COORDINATOR,
    });
    const { producerId, producerEpoch } = await coordinator.initProducerId({
      transactionalId: id,
      transactionTimeout,
    });
    if (producerId !== hanging.producerId) return false;
    const transaction = { transactionalId: id, producerId, producerEpoch };
    await coordinator.addPartitionsToTxn({ ...transaction, topics: hanging.touched });
    await coordinator.endTxn({ ...transaction, transactionResult: commit });
    return true;
  } finally {
    await cluster.disconnect();
  }
}

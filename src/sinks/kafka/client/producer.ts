import type { Clock } from "../../../core/clock.ts";
import type { EncodedRecords, KafkaProducer, RecordCodec, TransactionId } from "../../../core/kafka.ts";
import { isTooLarge } from "../errors.ts";
import { frameBatch, sequenceAfter } from "../record-batch.ts";
import { type InternalBroker, type InternalCluster, TRANSACTION_COORDINATOR } from "./internals.ts";
import { type FramedBatch, groupBy, type ProduceOutcome, produceTo } from "./produce-request.ts";

/*
 * An idempotent producer of encoded record batches, with or without transactions:
 *
 *   open      InitProducerId; with a transactional id it ends the transaction of the producer before
 *   begin     AddPartitionsToTxn: these partitions are part of the transaction from now on
 *   produce   one request to each leader; a partition's batches carry consecutive sequences, so that a batch
 *             that is sent again is stored once
 *   commit    EndTxn, never sent twice: after an error only opening again shows the outcome (R17)
 *
 * Errors that a broker calls temporary are retried with fresh metadata. All tries together last a few seconds;
 * longer waits are the caller's.
 */

interface ProducerOptions {
  readonly codec: RecordCodec;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Undefined: without transactions. */
  readonly transaction?: TransactionId | undefined;
}

export async function openProducer(
  cluster: InternalCluster,
  { codec, clock, signal, transaction }: ProducerOptions,
): Promise<KafkaProducer> {
  await cluster.connect();
  const retry = retrier(cluster, clock, signal);
  const isTransactional = transaction !== undefined;
  const transactionalId = transaction?.id ?? null;
  const sequences = new Map<string, number>();
  const offsets = new Map<string, bigint>();
  let coordinatorNode: string | undefined;
  /** Two requests at once would carry the same sequences: a broker takes the second for a repeat and drops it. */
  let producing: Promise<unknown> = Promise.resolve();

  async function coordinator(): Promise<InternalBroker> {
    if (coordinatorNode !== undefined) return cluster.findBroker({ nodeId: coordinatorNode });
    const found = await cluster.findGroupCoordinator({
      groupId: transaction!.id,
      coordinatorType: TRANSACTION_COORDINATOR,
    });
    coordinatorNode = String(found.nodeId);
    return found;
  }

  const identity = await retry(INIT_ERRORS, async () => {
    await cluster.refreshMetadataIfNecessary();
    const broker = isTransactional ? await coordinator() : await cluster.findControllerBroker();
    return broker.initProducerId({
      transactionalId: transaction?.id,
      transactionTimeout: transaction?.timeoutMs ?? UNUSED_TIMEOUT_MS,
    });
  });
  const own = { transactionalId, ...identity };

  /** One try at what is not stored yet; removes it from `left` when it is. */
  async function tryProduce<Batch extends EncodedRecords>(
    left: Map<string, Batch>,
    refused: Batch[],
  ): Promise<void> {
    await cluster.addMultipleTargetTopics([...new Set([...left.values()].map(({ topic }) => topic))]);
    await cluster.refreshMetadataIfNecessary();
    const byLeader = groupBy([...left.values()], (chunk) => leaderOf(cluster, chunk));
    const answers = await Promise.allSettled([...byLeader].map(([nodeId, chunks]) => sendTo(nodeId, chunks)));
    let failure: unknown = answers.find((answer) => answer.status === "rejected")?.reason;
    const outcomes = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
    for (const { topic, partition, error, baseOffset } of outcomes) {
      const name = `${topic}/${partition}`;
      const chunk = left.get(name);
      if (chunk === undefined) continue;
      if (error === undefined) {
        sequences.set(name, sequenceAfter(sequences.get(name) ?? 0, chunk.count));
        offsets.set(name, baseOffset);
      } else if (isTooLarge(error)) refused.push(chunk);
      else {
        failure ??= error;
        continue;
      }
      left.delete(name);
    }
    if (failure !== undefined) throw failure;
    if (left.size > 0) throw new Error("Kafka's answer does not name every partition of the request.");
  }

  async function sendTo(
    nodeId: string,
    chunks: readonly EncodedRecords[],
  ): Promise<readonly ProduceOutcome[]> {
    const broker = await cluster.findBroker({ nodeId });
    const batches = chunks.map(
      ({ topic, partition, records, count, timestampMs }): FramedBatch => ({
        topic,
        partition,
        batch: frameBatch(records, {
          compression: codec.number,
          count,
          timestampMs,
          isTransactional,
          producerId: BigInt(identity.producerId),
          producerEpoch: identity.producerEpoch,
          firstSequence: sequences.get(`${topic}/${partition}`) ?? 0,
        }),
      }),
    );
    return produceTo(broker, transactionalId, batches);
  }

  return {
    begin: (touched) =>
      retry(isTemporary, async () => {
        try {
          await (await coordinator()).addPartitionsToTxn({ ...own, topics: touched });
        } catch (error) {
          // It may have moved.
          if (typeOf(error) !== CONCURRENT) coordinatorNode = undefined;
          throw error;
        }
      }),
    produce<Batch extends EncodedRecords>(request: readonly Batch[]) {
      const left = new Map(request.map((batch) => [`${batch.topic}/${batch.partition}`, batch]));
      const refused: Batch[] = [];
      const produced = producing.then(() => retry(isTemporary, () => tryProduce(left, refused)));
      // After an error the outcome is not known, so nothing more may carry these sequences.
      producing = produced;
      return produced.then(() => refused);
    },
    commit: async () => void (await (await coordinator()).endTxn({ ...own, transactionResult: true })),
    offsetIn(topic, partition) {
      const offset = offsets.get(`${topic}/${partition}`);
      return offset !== undefined && offset >= 0n ? offset : undefined;
    },
    close: () => cluster.disconnect(),
  };
}

/** Without transactions the brokers take no notice of it. */
const UNUSED_TIMEOUT_MS = 60_000;
const RETRIES_MAX = 20;
const RETRY_MS_MIN = 10;
const RETRY_MS_MAX = 250;
/** A transaction begun right after another is refused for a few milliseconds. */
const CONCURRENT = "CONCURRENT_TRANSACTIONS";

/** InitProducerId waits for the coordinator, and for the end of the transaction that it ends. */
const INIT_ERRORS = (error: unknown) =>
  [
    "NOT_COORDINATOR_FOR_GROUP",
    "GROUP_COORDINATOR_NOT_AVAILABLE",
    "GROUP_LOAD_IN_PROGRESS",
    CONCURRENT,
  ].includes(typeOf(error) ?? "");

const isTemporary = (error: unknown) => (error as { retriable?: boolean }).retriable === true;

function typeOf(error: unknown): string | undefined {
  return (error as { type?: string }).type;
}

function retrier(cluster: InternalCluster, clock: Clock, signal: AbortSignal) {
  return async <Value>(
    isRetried: (error: unknown) => boolean,
    work: () => Promise<Value>,
  ): Promise<Value> => {
    for (let waitMs = RETRY_MS_MIN, tries = 0; ; waitMs = Math.min(RETRY_MS_MAX, waitMs * 2), tries++) {
      try {
        return await work();
      } catch (error) {
        if (!isRetried(error) || tries >= RETRIES_MAX) throw error;
        await clock.sleep(waitMs, signal);
        if (typeOf(error) !== CONCURRENT) await refresh(cluster, error);
      }
    }
  };
}

async function refresh(cluster: InternalCluster, error: unknown): Promise<void> {
  const { name, host, port } = error as { name?: string; host?: string; port?: number };
  if (name === "KafkaJSConnectionClosedError" && host !== undefined && port !== undefined)
    cluster.removeBroker({ host, port });
  if (!cluster.isConnected()) await cluster.connect();
  await cluster.refreshMetadata();
}

function leaderOf(cluster: InternalCluster, { topic, partition }: EncodedRecords): string {
  const [nodeId] = Object.keys(cluster.findLeaderForPartitions(topic, [partition]));
  if (nodeId !== undefined) return nodeId;
  throw Object.assign(new Error(`Partition ${partition} of ${topic} has no leader.`), { retriable: true });
}

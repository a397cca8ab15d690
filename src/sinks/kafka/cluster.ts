import type { Kafka } from "kafkajs";
import type { KafkaConnection } from "./connect.ts";

/** Isolation levels: up to the true end with markers and all, or up to the oldest open transaction. */
export const READ_UNCOMMITTED = 0;
export const READ_COMMITTED = 1;
/** Special timestamps: the two ends of a partition. */
export const EARLIEST = -2;
export const LATEST = -1;
/** The coordinator type of transactions for findGroupCoordinator. */
export const TRANSACTION_COORDINATOR = 1;

/**
 * kafkajs's cluster, not part of its documented interface: the consumer that is reads up to the last stable
 * offset only, and the producer that is ends no transaction but the one it has begun.
 */
export interface InternalCluster {
  isConnected(): boolean;
  connect(): Promise<void>;
  disconnect(): Promise<void>;
  addMultipleTargetTopics(topics: readonly string[]): Promise<void>;
  refreshMetadata(): Promise<void>;
  refreshMetadataIfNecessary(): Promise<void>;
  removeBroker(at: { readonly host: string; readonly port: number }): void;
  /** Rejects when one of the topics is not there. */
  metadata(of: { readonly topics: readonly string[] }): Promise<unknown>;
  /** Partitions that are not there are left out. */
  findLeaderForPartitions(topic: string, partitions: readonly number[]): Record<string, readonly number[]>;
  findBroker(of: { readonly nodeId: string }): Promise<InternalBroker>;
  findControllerBroker(): Promise<InternalBroker>;
  findGroupCoordinator(of: {
    readonly groupId: string;
    readonly coordinatorType: number;
  }): Promise<InternalBroker>;
}

export interface InternalBroker {
  readonly nodeId: number | string | null;
  disconnect(): Promise<void>;
  /** By API key. */
  readonly versions: Readonly<Record<number, { readonly maxVersion: number }>> | null;
  readonly connectionPool: {
    send<Value>(request: {
      readonly request: {
        readonly apiKey: number;
        readonly apiVersion: number;
        readonly apiName: string;
        encode(): Promise<unknown>;
      };
      readonly response: {
        decode(raw: Buffer): Promise<Value>;
        parse(decoded: Value): Promise<Value>;
      };
    }): Promise<Value>;
  };
  listOffsets(request: object): Promise<{
    readonly responses: readonly {
      readonly partitions: readonly { readonly partition: number; readonly offset: string }[];
    }[];
  }>;
  fetch(request: object): Promise<{
    readonly responses: readonly { readonly partitions: readonly FetchedPartition[] }[];
  }>;
  initProducerId(request: object): Promise<{ readonly producerId: string; readonly producerEpoch: number }>;
  addPartitionsToTxn(request: object): Promise<unknown>;
  endTxn(request: object): Promise<unknown>;
}

interface FetchedPartition {
  readonly partition: number;
  readonly highWatermark: string;
  readonly messages: readonly FetchedRecord[];
}

/** A record as kafkajs decodes it from a fetch, control records included. */
export interface FetchedRecord {
  readonly offset: string;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly isControlRecord: boolean;
  readonly batchContext: { readonly producerId: string; readonly inTransaction: boolean };
}

type CreateCluster = (options: object) => InternalCluster;

export async function withCluster<Value>(
  connection: KafkaConnection,
  work: (cluster: InternalCluster) => Promise<Value>,
): Promise<Value> {
  const cluster = createCluster(connection.kafka);
  await cluster.connect();
  try {
    return await work(cluster);
  } finally {
    await cluster.disconnect();
  }
}

export function createCluster(kafka: Kafka): InternalCluster {
  const symbol = Object.getOwnPropertySymbols(kafka).find(
    ({ description }) => description === "private:Kafka:createCluster",
  );
  const create = symbol && (kafka as unknown as Record<symbol, CreateCluster>)[symbol];
  if (!create) throw new Error("this version of kafkajs cannot read the positions topic");
  return create({ metadataMaxAge: 300_000, allowAutoTopicCreation: false });
}

import type { Kafka } from "kafkajs";
import type { FetchedRecords, ProducerIdentity } from "../../../core/kafka.ts";

/** The coordinator type of transactions for findGroupCoordinator. */
export const TRANSACTION_COORDINATOR = 1;

/**
 * kafkajs's cluster, which is not part of its documented interface. Its documented consumer reads up to the last stable
 * offset only, and its documented producer ends no transaction but its own.
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
      readonly topic: string;
      readonly partitions: readonly { readonly partition: number; readonly offset: string }[];
    }[];
  }>;
  fetch(request: object): Promise<{
    readonly responses: readonly { readonly partitions: readonly FetchedRecords[] }[];
  }>;
  initProducerId(request: object): Promise<ProducerIdentity>;
  addPartitionsToTxn(request: object): Promise<unknown>;
  endTxn(request: object): Promise<unknown>;
}

type CreateCluster = (options: object) => InternalCluster;

export async function withCluster<Value>(
  kafka: Kafka,
  work: (cluster: InternalCluster) => Promise<Value>,
): Promise<Value> {
  const cluster = createCluster(kafka);
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
  if (!create) throw new Error("this version of kafkajs gives no access to the brokers");
  return create({ metadataMaxAge: 300_000, allowAutoTopicCreation: false });
}

import type { Kafka } from "kafkajs";

/** A connection to Kafka, as the composition root supplies it. One for each lane, so that one can be cut alone. */
export interface KafkaLink {
  readonly kafka: Kafka;
  /** The number of the compression for new records. */
  readonly compression: number;
  /** Cuts every connection: nothing of this link reaches a broker afterwards. */
  end(): void;
  /** The promise's outcome, or an error as soon as the link is cut or the time is over. */
  within<Value>(limitMs: number, promise: Promise<Value>): Promise<Value>;
  /** Lends the client's own view of the brokers, for requests that its documented interface lacks. */
  withBrokers<Value>(work: (brokers: Brokers) => Promise<Value>): Promise<Value>;
}

export type ConnectKafka = (signal: AbortSignal) => Promise<KafkaLink>;

export interface Brokers {
  addMultipleTargetTopics(topics: readonly string[]): Promise<void>;
  refreshMetadata(): Promise<void>;
  findLeaderForPartitions(topic: string, partitions: readonly number[]): Record<string, readonly number[]>;
  findBroker(of: { readonly nodeId: string }): Promise<Broker>;
  findGroupCoordinator(of: { readonly groupId: string; readonly coordinatorType: number }): Promise<Broker>;
}

export interface Broker {
  listOffsets(request: object): Promise<{
    readonly responses: readonly {
      readonly partitions: readonly { readonly partition: number; readonly offset: string }[];
    }[];
  }>;
  fetch(request: object): Promise<{
    readonly responses: readonly {
      readonly partitions: readonly {
        readonly partition: number;
        readonly highWatermark: string;
        readonly messages: readonly RawRecord[];
      }[];
    }[];
  }>;
  initProducerId(request: object): Promise<{ readonly producerId: string; readonly producerEpoch: number }>;
  addPartitionsToTxn(request: object): Promise<unknown>;
  endTxn(request: object): Promise<unknown>;
}

/** A record as the client decodes it, control records included. */
export interface RawRecord {
  readonly offset: string;
  readonly timestamp?: string;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly isControlRecord: boolean;
  readonly batchContext: {
    readonly producerId: string;
    readonly inTransaction: boolean;
    readonly firstOffset?: string;
    readonly lastOffsetDelta?: number;
    readonly maxTimestamp?: string;
    readonly timestampType?: number;
  };
}

/** The types of all errors inside an error: exceeded retries and aggregates hide the reason. */
export function errorTypes(error: unknown): readonly string[] {
  const types: string[] = [];
  let at = error;
  for (let depth = 0; at instanceof Error && depth < 10; depth++) {
    const { type, errors, cause } = at as Error & { type?: string; errors?: readonly unknown[] };
    if (type !== undefined) types.push(type);
    at = errors?.[0] ?? cause;
  }
  return types;
}

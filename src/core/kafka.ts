/*
 * The operations on Kafka that this program uses. The Kafka sink and the cluster know no other client; the folder
 * src/sinks/kafka/client has the library behind it. Errors of a broker carry Kafka's name for them as `type`, perhaps
 * inside other errors: see `errorTypes`.
 */

export interface KafkaClient {
  /** How new records are compressed. */
  readonly codec: RecordCodec;
  /** Encodes records that belong into one batch. */
  encode(to: PartitionName, records: readonly KeyedRecord[], timestampMs: number): Promise<EncodedRecords>;
  /** With a transaction's id it fences the producer before it and ends the transaction of that one. */
  producer(transaction?: TransactionId): Promise<KafkaProducer>;
  brokers<Value>(work: (brokers: KafkaBrokers) => Promise<Value>): Promise<Value>;
  admin<Value>(work: (admin: KafkaAdmin) => Promise<Value>): Promise<Value>;
  /** Takes part in a group until the signal aborts or the client gives up. */
  join(group: KafkaGroup, signal: AbortSignal): Promise<void>;
  /** Cuts every connection and allows no new one: nothing of this client reaches a broker afterwards. */
  end(): void;
  /**
   * The promise's outcome, or a RetryableError as soon as the client is ended or the time is over. The library's own
   * retries against a broker that hangs can last ten minutes (R38).
   */
  within<Value>(limitMs: number, promise: Promise<Value>): Promise<Value>;
}

export type ConnectKafka = (signal: AbortSignal) => Promise<KafkaClient>;

export interface RecordCodec {
  /** Kafka's number of the compression. */
  readonly number: number;
  /** The result shares no memory with the records. Undefined: the records stay as they are. */
  readonly compress: ((records: Buffer) => Promise<Uint8Array>) | undefined;
  /** Ends its thread, where it has one. */
  close(): void;
}

export interface PartitionName {
  readonly topic: string;
  readonly partition: number;
}

/** Some partitions of one topic. */
export interface Touched {
  readonly topic: string;
  readonly partitions: readonly number[];
}

export interface KeyedRecord {
  readonly key: string;
  /** null removes the key from a compacted topic. */
  readonly value: Uint8Array | null;
}

/** The records of one batch for one partition. */
export interface EncodedRecords extends PartitionName {
  readonly count: number;
  readonly timestampMs: number;
  /** Compressed by the client's codec. */
  readonly records: Uint8Array;
}

export interface TransactionId {
  readonly id: string;
  readonly timeoutMs: number;
}

export interface KafkaProducer {
  /** These partitions are part of the transaction from now on. */
  begin(touched: readonly Touched[]): Promise<void>;
  /** At most one batch for each partition. Resolves to those that are too large for their topics; the others are stored. */
  produce<Batch extends EncodedRecords>(request: readonly Batch[]): Promise<readonly Batch[]>;
  /** Never sent twice: after an error only opening again shows the outcome (R17). */
  commit(): Promise<void>;
  /** Where the newest batch of a partition begins; undefined where none was stored, or the broker did not say. */
  offsetIn(topic: string, partition: number): bigint | undefined;
  close(): Promise<void>;
}

export interface KafkaBrokers {
  /** Asks again who leads which partition. */
  refresh(): Promise<void>;
  /** Whether the topic exists and this user may see it. */
  exists(topic: string): Promise<boolean>;
  /** Undefined for brokers that do not say. */
  rights(topics: readonly string[]): Promise<readonly TopicRights[] | undefined>;
  /** Partitions without a leader are left out. */
  offsets(of: readonly Touched[], at: OffsetPlace): Promise<readonly FoundOffset[]>;
  /** Records of all transactions, with their markers. Partitions without a leader are left out. */
  fetch(
    topic: string,
    from: ReadonlyMap<number, bigint | number>,
    limits: FetchLimits,
  ): Promise<readonly FetchedRecords[]>;
  /** Needs a right on the transactional id and changes nothing. */
  findCoordinator(transactionalId: string): Promise<void>;
  /** Fences the producer of this id and ends its transaction. */
  initProducer(transaction: TransactionId): Promise<ProducerIdentity>;
  /** Writes a marker into each of the partitions, also where the producer has written nothing. */
  endTransaction(
    id: string,
    of: ProducerIdentity,
    touched: readonly Touched[],
    end: "commit" | "abort",
  ): Promise<void>;
}

/** The first record that is left, the true end, and the end for readers of committed records. */
export type OffsetPlace = "first" | "end" | "stable";

export interface FoundOffset extends PartitionName {
  readonly offset: bigint;
}

export interface ProducerIdentity {
  readonly producerId: string;
  readonly producerEpoch: number;
}

export interface FetchLimits {
  readonly waitMs: number;
  readonly bytesMin: number;
  readonly bytesMax: number;
}

export interface FetchedRecords {
  readonly partition: number;
  readonly highWatermark: string;
  readonly messages: readonly FetchedRecord[];
}

export interface FetchedRecord {
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

export interface TopicRights {
  readonly name: string;
  /** An error code of Kafka; 0: the topic exists and may be described. */
  readonly error: number;
  readonly partitions: number;
  /** Undefined where the broker has no authorizer. */
  readonly allows: ((operation: "read" | "write") => boolean) | undefined;
}

export interface KafkaAdmin {
  /** The names of all topics that this user may see. */
  list(): Promise<readonly string[]>;
  /** Rejects when one of the topics does not exist. */
  describe(topics: readonly string[]): Promise<readonly TopicDescription[]>;
  create(topics: readonly NewTopic[]): Promise<void>;
  /** By topic and setting; all settings unless some are named. */
  settings(
    topics: readonly string[],
    only?: readonly string[],
  ): Promise<ReadonlyMap<string, ReadonlyMap<string, string>>>;
  deleteRecords(of: PartitionName, before: number): Promise<void>;
}

export interface TopicDescription {
  readonly name: string;
  readonly partitions: readonly {
    readonly partition: number;
    /** Negative: there is none now. */
    readonly leader: number;
    readonly replicas: number;
  }[];
}

export interface NewTopic {
  readonly topic: string;
  readonly partitions: number;
  readonly replication: number;
  readonly settings: readonly { readonly name: string; readonly value: string }[];
}

export interface KafkaGroup {
  readonly name: string;
  /** Its partitions are divided among the members. */
  readonly topic: string;
  readonly sessionTimeoutMs: number;
  /** The name of the way in which partitions are divided; the same for all members. */
  readonly assigner: string;
  /** Facts about this member for the one that divides; asked at every join. */
  facts(): string;
  /** Divides the partitions; called on one of the members. */
  assign(
    members: readonly { readonly id: string; readonly facts: string }[],
  ): ReadonlyMap<string, readonly number[]>;
  /** The partitions of this member from now on. */
  assigned(partitions: readonly number[]): void;
  /** A heartbeat that was sent at this time, by this machine's clock, has succeeded. */
  alive(sentAtMs: number): void;
  trouble(error: unknown): void;
}

/** The broker names no coordinator, and the client does not say why. */
export const COORDINATOR_NOT_FOUND = "COORDINATOR_NOT_FOUND";

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

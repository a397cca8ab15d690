import { randomBytes } from "node:crypto";
import kafkajs, { type Admin, type Kafka } from "kafkajs";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import type { JournalEvent } from "../../src/core/event.ts";
import type { Sink } from "../../src/core/sink.ts";
import { kafka } from "../../src/sinks/kafka/sink.ts";
import { type Committed, openSink, type Target } from "../contract/drive.ts";
import { programOnPath, skipUnless } from "./components.ts";
import { type Broker, KAFKA_REMEDY, KCAT_REMEDY, kafkaForTests, readTopic, startBroker } from "./kafka.ts";
import { type FaultyProxy, startProxy } from "./kafka-proxy.ts";

export interface KafkaTarget extends Target {
  readonly topic: string;
  readonly id: string;
}

/** Kafka for one test file: a broker, its own or an existing one, and kcat. */
export interface KafkaSuite {
  readonly skip: boolean;
  /** Tests that need a proxy, a kill or an authorizer run only with a broker of our own. */
  readonly skipOwn: boolean;
  /** Stands before a broker of our own. */
  readonly proxy: FaultyProxy;
  readonly broker: Broker | undefined;
  readonly address: string;
  /** A client that is not the sink. */
  readonly kafka: Kafka;
  readonly admin: Admin;
  readonly positionsTopic: string;
  /** A topic and an identity of its own; through the proxy where there is one. */
  newTarget(config?: Record<string, unknown>): KafkaTarget;
  /** Known when it resolves. */
  createTopic(topic: string, partitions?: number, settings?: Record<string, string>): Promise<void>;
  /** Closed after the test. */
  open(target: Target, committed?: Committed): Promise<Sink>;
  bodiesOf(topic: string): Promise<readonly string[]>;
}

/** Registers the hooks of a test file; what it gives can be used once they have run. The properties are those of a broker of our own. */
export async function useKafka(properties: Readonly<Record<string, string>> = {}): Promise<KafkaSuite> {
  const { brokers, jars } = await kafkaForTests();
  const noKcat = skipUnless("kcat", programOnPath("kcat"), KCAT_REMEDY);
  const skip = skipUnless("kafka", brokers ?? jars, KAFKA_REMEDY) || noKcat;
  const positionsTopic = `tidemark-test-positions-${randomBytes(4).toString("hex")}`;
  const sinks: Sink[] = [];
  const started: Partial<{ proxy: FaultyProxy; broker: Broker; kafka: Kafka; admin: Admin }> = {};
  const address = () => started.broker?.address ?? brokers!;

  beforeAll(async () => {
    if (skip) return;
    started.proxy = await startProxy();
    if (jars !== undefined) started.broker = await startBehind(started.proxy, jars, properties);
    started.kafka = new kafkajs.Kafka({ brokers: address().split(","), logLevel: kafkajs.logLevel.NOTHING });
    started.admin = started.kafka.admin();
    await started.admin.connect();
  });
  afterEach(async () => {
    started.proxy?.accept();
    for (const sink of sinks.splice(0)) await sink.close();
  });
  afterAll(async () => {
    await started.admin?.disconnect();
    await started.broker?.remove();
    await started.proxy?.close();
  });

  return {
    skip,
    skipOwn: skip || jars === undefined,
    positionsTopic,
    get proxy() {
      return started.proxy!;
    },
    get broker() {
      return started.broker;
    },
    get address() {
      return address();
    },
    get kafka() {
      return started.kafka!;
    },
    get admin() {
      return started.admin!;
    },
    newTarget(config = {}) {
      const topic = `tidemark-test-${randomBytes(6).toString("hex")}`;
      const reached = started.broker ? [`127.0.0.1:${started.proxy!.port}`] : address().split(",");
      const createTopics = { partitions: 1, replication: 1 };
      const own = { brokers: reached, topic, positionsTopic, transactionalId: `${topic}-id`, createTopics };
      return {
        definition: kafka,
        memory: new Map<string, unknown>(),
        topic,
        id: own.transactionalId,
        config: { ...own, ...config },
      };
    },
    async createTopic(topic, numPartitions = 1, settings = {}) {
      const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }));
      const admin = started.admin!;
      await admin.createTopics({
        waitForLeaders: false,
        topics: [{ topic, numPartitions, replicationFactor: 1, configEntries }],
      });
      await expect.poll(async () => (await admin.listTopics()).includes(topic)).toBe(true);
    },
    async open(target, committed) {
      const sink = await openSink(target, committed);
      sinks.push(sink);
      return sink;
    },
    bodiesOf: async (topic) => (await readTopic(address(), topic)).map(({ payload }) => payload!),
  };
}

async function startBehind(
  proxy: FaultyProxy,
  jars: string,
  properties: Readonly<Record<string, string>>,
): Promise<Broker> {
  const broker = await startBroker(jars, {
    listeners: [{ name: "PROXIED", protocol: "PLAINTEXT", advertisedPort: proxy.port }],
    properties: {
      "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
      "allow.everyone.if.no.acl.found": "true",
      ...properties,
    },
  });
  proxy.target = broker.port("PROXIED");
  return broker;
}

export function bodies(events: readonly JournalEvent[]): readonly string[] {
  return events.map(({ bytes }) => Buffer.from(bytes).toString());
}

import { describe, expect, test } from "vitest";
import { connectKafka } from "../../src/app/cluster/connect-kafka.ts";
import { systemClock } from "../../src/core/clock.ts";
import { errorTypes } from "../../src/core/kafka.ts";
import { silentLog } from "../../src/core/log.ts";
import { useKafka } from "../support/kafka-suite.ts";

const suite = await useKafka();
const never = new AbortController().signal;

async function clientAndTopic(settings: Record<string, string> = {}) {
  const { topic } = suite.newTarget();
  await suite.createTopic(topic, 1, settings);
  const access = { brokers: suite.address.split(","), clientId: "test" };
  return { client: await connectKafka(access, systemClock, silentLog)(never), topic };
}

describe.skipIf(suite.skip)("the Kafka client", () => {
  test("stores every batch of requests that are made at once", async () => {
    const { client, topic } = await clientAndTopic();
    const producer = await client.producer();
    const values = Array.from({ length: 20 }, (_, at) => `value ${at}`);
    await Promise.all(
      values.map(async (value) =>
        producer.produce([
          await client.encode({ topic, partition: 0 }, [{ key: "k", value: Buffer.from(value) }], Date.now()),
        ]),
      ),
    );
    client.end();
    expect((await suite.bodiesOf(topic)).toSorted()).toEqual(values.toSorted());
  });

  test("sends nothing more with a producer whose last request failed: its sequences may be taken", async () => {
    const { client, topic } = await clientAndTopic();
    const first = await client.producer({ id: `${topic}-id`, timeoutMs: 10_000 });
    const batch = await client.encode({ topic, partition: 0 }, [{ key: "k", value: null }], Date.now());
    await first.begin([{ topic, partitions: [0] }]);
    await first.produce([batch]);
    const second = await client.producer({ id: `${topic}-id`, timeoutMs: 10_000 });
    const error = await first.produce([batch]).catch((reason: unknown) => reason);
    expect(errorTypes(error)).toContain("INVALID_PRODUCER_EPOCH");
    await expect(first.produce([batch])).rejects.toBe(error);
    await second.close();
    client.end();
  });

  test("gives back batches that are too large for their topic", async () => {
    const { client, topic } = await clientAndTopic({ "max.message.bytes": "1000" });
    const producer = await client.producer();
    const value = Buffer.from(Array.from({ length: 3_000 }, () => Math.random()).join(""));
    const batch = await client.encode({ topic, partition: 0 }, [{ key: "k", value }], Date.now());
    expect(await producer.produce([batch])).toEqual([batch]);
    expect(producer.offsetIn(topic, 0)).toBeUndefined();
    client.end();
  });

  test("asks again about topics while no broker can answer", async () => {
    const { client, topic } = await clientAndTopic();
    const { default: broker } = (await import("kafkajs/src/broker/index.js" as string)) as {
      default: { prototype: { metadata(topics: unknown): Promise<unknown> } };
    };
    const { metadata } = broker.prototype;
    let asked = 0;
    const refused = [2, 4];
    broker.prototype.metadata = async function (topics) {
      asked += 1;
      if (refused.includes(asked))
        throw Object.assign(new Error("no leader"), { type: "LEADER_NOT_AVAILABLE" });
      return metadata.call(this, topics);
    };
    try {
      expect(await client.admin((admin) => admin.list())).toContain(topic);
      expect(asked).toBeGreaterThan(3);
    } finally {
      broker.prototype.metadata = metadata;
      client.end();
    }
  });
});

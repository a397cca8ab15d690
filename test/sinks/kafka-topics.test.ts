import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { PausedError, RejectedEventsError, RetryableError } from "../../src/core/errors.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import type { KafkaConfig } from "../../src/sinks/kafka/config.ts";
import { positionState } from "../../src/sinks/kafka/positions.ts";
import { kafka } from "../../src/sinks/kafka/sink.ts";
import { missingTopics } from "../../src/sinks/kafka/topics.ts";
import { attempt, drive, probeSink } from "../contract/drive.ts";
import { makeBatch, makeEvent, makeEvents, positionAfter } from "../support/events.ts";
import { placeByKcat, readTopic } from "../support/kafka.ts";
import { API } from "../support/kafka-proxy.ts";
import { bodies, type KafkaTarget, useKafka } from "../support/kafka-suite.ts";

const suite = await useKafka();

describe.skipIf(suite.skip)("kafka's limits", () => {
  const LIMIT = 20_000;

  async function limited(config: Record<string, unknown> = {}): Promise<KafkaTarget> {
    const target = suite.newTarget(config);
    await suite.createTopic(target.topic, 1, { "max.message.bytes": String(LIMIT) });
    return target;
  }

  /** An event whose record batch, alone and uncompressed, has exactly this many bytes (KIP-98's layout). */
  function eventOf(batchBytes: number, number: number): JournalEvent {
    const [plain] = makeEvents(1, number) as [JournalEvent];
    const headers = {
      service: plain.service,
      event_type: plain.eventType,
      event_id: plain.id!,
      organization: plain.organization!,
    };
    const field = (text: string) => varint(text.length) + text.length;
    const fixed =
      3 +
      field(plain.organization!) +
      varint(4) +
      Object.entries(headers).reduce((sum, [name, value]) => sum + field(name) + field(value), 0);
    for (let length = batchBytes; ; length--) {
      const body = fixed + varint(length) + length;
      if (61 + varint(body) + body === batchBytes) return { ...plain, bytes: Buffer.alloc(length, "x") };
    }
  }

  /** The bytes of a number as a zigzag varint. */
  function varint(value: number): number {
    let bytes = 1;
    for (let rest = value * 2; rest >= 128; rest = Math.floor(rest / 128)) bytes++;
    return bytes;
  }

  test("a record of exactly max.message.bytes is taken, one byte more is a rejection", async () => {
    const target = await limited({ compression: "none" });
    const fits = eventOf(LIMIT, 0);
    const over = eventOf(LIMIT + 1, 1);
    const below = eventOf(LIMIT - 1, 2);
    const sink = await suite.open(target);
    const error = await attempt(sink, makeBatch(sink, [fits, over, below]));
    expect(error).toBeInstanceOf(RejectedEventsError);
    expect(error).toMatchObject({
      rejected: [{ index: 1, reason: "larger than the topic's max.message.bytes" }],
      remaining: [0, 2],
    });
    const again = await suite.open(target);
    await again.write(makeBatch(again, [fits, below]), new AbortController().signal);
    expect(await suite.bodiesOf(target.topic)).toEqual(bodies([fits, below]));
  });

  test("names all records that are too large at once", async () => {
    const target = await limited({ compression: "none" });
    const events = [0, 1, 2, 3, 4].map((at) => eventOf(at % 2 ? LIMIT + 500 : 5_000, at));
    const driven = await drive(target, events, { batchEvents: 5 });
    expect(driven.errors.length).toBe(1);
    expect(driven.deadLetters.size).toBe(2);
    expect(await suite.bodiesOf(target.topic)).toEqual(bodies(events.filter((_, at) => at % 2 === 0)));
  });

  test("small messages never add up to a record batch that is too large", async () => {
    for (const compression of ["none", "gzip"]) {
      const target = await limited({ compression });
      const events = makeEvents(300).map((event) => ({
        ...event,
        bytes: Buffer.from(randomBytes(400).toString("base64")),
      }));
      const driven = await drive(target, events, { batchEvents: 300 });
      expect(driven.errors).toEqual([]);
      expect(await suite.bodiesOf(target.topic)).toEqual(bodies(events));
    }
  });

  test("a large record that compresses below the limit is taken", async () => {
    const target = await limited();
    const event = eventOf(10 * LIMIT, 0);
    expect((await drive(target, [event])).errors).toEqual([]);
    expect(await suite.bodiesOf(target.topic)).toEqual(bodies([event]));
  });
});

describe.skipIf(suite.skip)("kafka's topics, keys and headers", () => {
  test("creates missing topics with the partitions that are stated", async () => {
    const target = suite.newTarget({ createTopics: { partitions: 5, replication: 1 } });
    await drive(target, makeEvents(5));
    const { topics } = await suite.admin.fetchTopicMetadata({ topics: [target.topic] });
    expect(topics[0]!.partitions.length).toBe(5);
  });

  /** Resolves once the broker itself no longer shows it. */
  async function deleteTopic(topic: string): Promise<void> {
    await suite.admin.deleteTopics({ topics: [topic] });
    await expect.poll(async () => (await suite.admin.listTopics()).includes(topic)).toBe(false);
  }

  test("a topic with delivered events that is gone is not made again without a word, and check says so", async () => {
    const target = suite.newTarget({ createTopics: { partitions: 1, replication: 1 } });
    const events = makeEvents(3);
    expect(await probeSink(target)).toContain(
      `The topic ${target.topic} does not exist yet; \`run\` creates it.`,
    );
    await drive(target, events.slice(0, 2));
    await deleteTopic(target.topic);
    for (const attempted of [() => suite.open(target), () => probeSink(target)]) {
      const error: unknown = await attempted().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(PausedError);
      expect((error as PausedError).message).toBe(
        `The topic ${target.topic} is gone, and with it the events that were delivered to it. It is not created again.`,
      );
    }
    await suite.createTopic(target.topic, 1, {});
    await drive(target, events);
    expect(await suite.bodiesOf(target.topic)).toEqual(bodies(events.slice(2)));
  });

  test("check names a positions topic that has lost the position of the sink, as opening does", async () => {
    const positionsTopic = "positions-to-lose";
    const target = suite.newTarget({ positionsTopic, createTopics: { partitions: 1, replication: 1 } });
    await drive(target, makeEvents(2));
    const sink = await suite.open({ ...target, memory: new Map<string, unknown>() });
    const position = sink.position!;
    await sink.close();
    const partitions = Array.from({ length: 16 }, (_, partition) => partition);
    const states = partitions.map((partition) => positionState({ partition, offset: 0n }));
    for (const state of states) await probeSink(target, undefined, { position, state });
    await deleteTopic(positionsTopic);
    const words = /holds no position of this sink/;
    await expect(probeSink(target, undefined, { position, state: states[0]! })).rejects.toThrow(words);
    await probeSink(target);
    await suite.createTopic(positionsTopic, 1, { "cleanup.policy": "compact" });
    await expect(probeSink(target, undefined, { position, state: states[0]! })).rejects.toThrow(words);
  });

  test("nor is one that events name, however long ago it got some; others are made", async () => {
    const target = suite.newTarget();
    const templated = { ...target, config: { ...target.config, topic: `${target.topic}-{organization}` } };
    const events = ["gone", "other", "gone", "fresh"].map((organization, index) =>
      makeEvent({ organization, index, id: `${index}` }),
    );
    await drive(templated, events.slice(0, 2), { batchEvents: 1 });
    await deleteTopic(`${target.topic}-gone`);
    const words = `The topic ${target.topic}-gone is gone, and with it the events that were delivered to it.`;
    expect((await probeSink(templated)).join()).toContain(words);
    const again = { ...templated, memory: new Map<string, unknown>() };
    const sink = await suite.open(again);
    const error = await attempt(sink, makeBatch(sink, events.slice(2, 3)));
    expect(error).toBeInstanceOf(PausedError);
    expect((error as PausedError).message).toContain(words);
    await suite.createTopic(`${target.topic}-gone`);
    await drive(again, events, { batchEvents: 1 });
    for (const [name, expected] of [
      ["gone", [events[2]!]],
      ["other", [events[1]!]],
      ["fresh", [events[3]!]],
    ] as const)
      expect(await suite.bodiesOf(`${target.topic}-${name}`)).toEqual(bodies(expected));
    expect((await probeSink(again)).join()).not.toContain("is gone");
  });

  test("events and positions never share a topic", async () => {
    const target = suite.newTarget({ positionsTopic: "same", topic: "same" });
    await expect(suite.open(target)).rejects.toThrow("topic and positionsTopic are the same");
    const dynamic = suite.newTarget({ topic: "{service}" });
    await drive(dynamic, [makeEvent({ service: suite.positionsTopic })]);
    expect((await suite.bodiesOf(`${suite.positionsTopic}_X`)).length).toBe(1);
  });

  test("pauses with a remedy when a topic is missing and creation is not stated", async () => {
    await drive(suite.newTarget(), makeEvents(1));
    const target = suite.newTarget();
    const { createTopics: _, ...config } = target.config;
    const error = await suite.open({ ...target, config }).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(PausedError);
    expect((error as PausedError).message).toBe(`The topic ${target.topic} does not exist.`);
    expect((error as PausedError).remedy).toContain("kafka-topics.sh --create");
  });

  test("check names every missing topic, that of the positions too, with a command for each", async () => {
    const positionsTopic = "positions-not-there";
    const target = suite.newTarget({ positionsTopic, createTopics: undefined });
    const error = await probeSink(target).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(PausedError);
    expect(error.message).toBe(`The topics ${target.topic} and ${positionsTopic} do not exist.`);
    expect(error.remedy).toContain(
      `--topic ${target.topic} --partitions 1 --replication-factor 3; kafka-topics.sh --create --topic ${positionsTopic} --partitions 16 --replication-factor 3 --config cleanup.policy=compact)`,
    );
  });

  test("an error names ten missing topics and counts the others", async () => {
    const config = suite.newTarget().config as unknown as KafkaConfig;
    const names = Array.from({ length: 12 }, (_, at) => `t${at}`);
    const { message, remedy } = missingTopics(names, config);
    expect(message).toBe("The topics t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 and 2 more do not exist.");
    expect(remedy.match(/--create --topic/g)).toHaveLength(10);
  });

  test("and names the missing topics where they come from the events", async () => {
    const target = suite.newTarget();
    const { createTopics: _, ...config } = target.config;
    const topic = `${target.topic}-{service}`;
    await suite.createTopic(`${target.topic}-sso`);
    const sink = await suite.open({ ...target, config: { ...config, topic } });
    const error = await attempt(sink, makeBatch(sink, makeEvents(8)));
    expect(error).toBeInstanceOf(PausedError);
    const named = (service: string) => `${target.topic}-${service}`;
    expect((error as PausedError).message).toBe(
      `The topics ${named("directory")}, ${named("radius")} and ${named("ldap")} do not exist.`,
    );
  });

  test.each(["compact", "compact,delete"])(
    "R38 a topic of events with cleanup.policy=%s is refused before anything is written",
    async (policy) => {
      const target = suite.newTarget();
      await suite.createTopic(target.topic, 1, { "cleanup.policy": policy });
      const error = await suite.open(target).catch((thrown) => thrown);
      expect(error).toBeInstanceOf(PausedError);
      expect(error.message).toContain(`The topic ${target.topic} is compacted`);
      expect(error.remedy).toContain("cleanup.policy=delete");
      const dynamic = suite.newTarget({ topic: `${target.topic}-{service}` });
      await suite.createTopic(`${target.topic}-directory`, 1, { "cleanup.policy": policy });
      const sink = await suite.open(dynamic);
      expect(await attempt(sink, makeBatch(sink, makeEvents(3)))).toBeInstanceOf(PausedError);
      expect(await suite.bodiesOf(`${target.topic}-directory`)).toEqual([]);
    },
  );

  test("300 topics are prepared with a handful of requests, not three for each", async () => {
    const target = suite.newTarget({ topic: "unused" });
    const topic = `${target.topic}-{organization}`;
    const events = Array.from({ length: 300 }, (_, at) =>
      makeEvent({ organization: `org${at}`, index: at, id: `${at}` }),
    );
    // A slow broker may not know a new topic for seconds: the write is then tried again.
    for (let isDone = false; !isDone; ) {
      const sink = await suite.open({ ...target, config: { ...target.config, topic } });
      isDone = await sink.write(makeBatch(sink, events), new AbortController().signal).then(
        () => true,
        (error) => {
          if (!(error instanceof RetryableError)) throw error;
          return false;
        },
      );
    }
    const again = await suite.open({ ...target, config: { ...target.config, topic } });
    const before = suite.proxy.requests();
    await again.write(makeBatch(again, events), new AbortController().signal);
    const after = suite.proxy.requests();
    const sent = (api: number) => (after.get(api) ?? 0) - (before.get(api) ?? 0);
    const preparing = [API.metadata, API.createTopics, API.describeConfigs, API.listOffsets].map(sent);
    expect(preparing.reduce((sum, count) => sum + count, 0)).toBeLessThan(60);
    // A slow broker asks for some of the others again until the last transaction has ended.
    for (const api of after.keys()) expect(sent(api), `requests of kind ${api}`).toBeLessThan(300);
  });

  test("R22 a topic for each organization, which no two share, in names that Kafka allows", async () => {
    const target = suite.newTarget();
    const prefix = `${target.topic}-`;
    const organizations = ["a/b", "a_2fb", "A", "a", null, "ü".repeat(100), "ü".repeat(101)];
    const events = organizations.map((organization, at) =>
      makeEvent({ organization, index: at, id: `${at}` }),
    );
    const config = { ...target.config, topic: `${prefix}{organization}` };
    await drive({ ...target, config }, events);
    const topics = (await suite.admin.listTopics()).filter((topic) => topic.startsWith(prefix));
    expect(topics.length).toBe(organizations.length);
    for (const topic of topics) expect((await readTopic(suite.address, topic)).length).toBe(1);
    expect(topics).toContain(`${prefix}_none`);
  });

  test("keeps the order of each organization, in the partition that Java's producer chooses", async () => {
    const target = suite.newTarget({ createTopics: { partitions: 6, replication: 1 } });
    const events = makeEvents(200);
    await drive(target, events, { batchEvents: 60 });
    const records = await readTopic(suite.address, target.topic);
    for (const organization of new Set(events.map((event) => event.organization))) {
      const own = records.filter(({ key }) => key === organization);
      expect(own.map(({ payload }) => payload)).toEqual(
        bodies(events.filter((event) => event.organization === organization)),
      );
    }
    const placed = Object.fromEntries(records.map(({ key, partition }) => [key, partition]));
    expect(placed).toEqual(await placeByKcat(suite.address, target.topic, Object.keys(placed)));
  });

  test("carries headers; the portal's own events are keyed by their provider", async () => {
    const target = suite.newTarget();
    const own = makeEvent({ organization: null, provider: "p1", id: undefined });
    await drive(target, [own]);
    const [record] = await readTopic(suite.address, target.topic);
    expect(record!.key).toBe("p1");
    expect(record!.headers).toEqual([
      ...["service", "directory", "event_type", "user_update"],
      ...["event_id", own.identity],
    ]);
    expect(Date.now() - record!.ts).toBeLessThan(60_000);
  });

  test.each(["none", "gzip", "zstd"])("what is compressed by %s is read by kcat", async (compression) => {
    const target = suite.newTarget({ compression });
    const events = makeEvents(50);
    await drive(target, events);
    expect(await suite.bodiesOf(target.topic)).toEqual(bodies(events));
    expect((await suite.open(target)).position).toEqual(positionAfter(events.at(-1)!));
  });

  test.each(["snappy", "lz4"])("%s without its package pauses with a remedy", async (compression) => {
    const error = await suite.open(suite.newTarget({ compression })).catch((error) => error);
    expect(error).toBeInstanceOf(PausedError);
    expect(error.remedy).toContain(`install kafkajs-${compression}`);
  });
});

describe("kafka's settings", () => {
  const parse = (config: object) =>
    kafka.config.safeParse({ brokers: ["kafka:9092"], topic: "events", ...config });

  test("refuses brokers, topics and secrets that cannot be meant", () => {
    expect(parse({}).success).toBe(true);
    expect(parse({ topic: "audit.{organization}" }).success).toBe(true);
    for (const topic of ["", "a b", "ä", "{event_type}", "..", "x".repeat(250)]) {
      expect(parse({ topic }).success).toBe(false);
    }
    expect(parse({ brokers: ["kafka"] }).success).toBe(false);
    expect(parse({ brokers: [] }).success).toBe(false);
    expect(parse({ sasl: { mechanism: "plain", username: "a", password: "b" } }).success).toBe(false);
  });

  test("advises against a login in the clear and against a single replica", () => {
    const config = parse({
      sasl: { mechanism: "plain", username: "a", password: { env: "P" } },
      createTopics: { partitions: 1, replication: 1 },
    }).data;
    expect(kafka.advise!(config).length).toBe(2);
  });
});

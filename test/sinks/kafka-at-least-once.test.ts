import { randomBytes } from "node:crypto";
import kafkajs from "kafkajs";
import { afterEach, describe, expect, test } from "vitest";
import { PausedError, RetryableError } from "../../src/core/errors.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import { kafka } from "../../src/sinks/kafka/sink.ts";
import { drive } from "../contract/drive.ts";
import { type Destination, testSink } from "../contract/sink.ts";
import { makeEvents, rawFormat } from "../support/events.ts";
import { readTopic } from "../support/kafka.ts";
import { removeAcls, setAcls } from "../support/kafka-acls.ts";
import { API } from "../support/kafka-proxy.ts";
import { bodies, useKafka } from "../support/kafka-suite.ts";

const suite = await useKafka();

testSink("kafka without transactions", {
  skip: suite.skip,
  can: suite.skipOwn ? ["refuses"] : ["unavailable", "refuses", "hangs", "missing"],
  async start(): Promise<Destination> {
    const target = suite.newTarget({ delivery: "at_least_once" });
    const refused = new Set<string | undefined>();
    const format = {
      ...rawFormat,
      encode: (event: JournalEvent) =>
        refused.has(event.id) ? randomBytes(1.5e6).toString("hex") : event.bytes,
    };
    await suite.createTopic(target.topic);
    return {
      ...target,
      format,
      repeats: true,
      read: () => suite.bodiesOf(target.topic),
      refuses: (ids) => {
        for (const id of ids) refused.add(id);
      },
      normal: async () => {
        suite.proxy.accept();
        refused.clear();
      },
      close: () => suite.proxy.accept(),
      ...(!suite.skipOwn && {
        missing: () => ({ topic: "no-such-topic", createTopics: undefined }),
        unavailable: () => suite.proxy.refuse(),
        hangs: () => suite.proxy.next(API.produce, "hang"),
      }),
    };
  },
});

const { AclResourceTypes, AclOperationTypes, AclPermissionTypes, ResourcePatternTypes } = kafkajs;

describe.skipIf(suite.skipOwn)("kafka's brokers that deny things", () => {
  const denied: { resourceType: number; resourceName: string; operation: number }[] = [];

  async function deny(resourceType: number, resourceName: string, operation: number): Promise<void> {
    denied.push({ resourceType, resourceName, operation });
    const acl = {
      resourceType,
      resourceName,
      resourcePatternType: ResourcePatternTypes.LITERAL,
      principal: "User:ANONYMOUS",
      host: "*",
    };
    // With any rule for a resource, everything that no rule allows is denied.
    const all = { operation: AclOperationTypes.ALL, permissionType: AclPermissionTypes.ALLOW };
    const one = { operation, permissionType: AclPermissionTypes.DENY };
    await setAcls(suite.admin, [
      { ...acl, ...all },
      { ...acl, ...one },
    ]);
  }

  afterEach(async () => {
    const resourcePatternType = ResourcePatternTypes.LITERAL;
    const resources = denied.splice(0).map((resource) => ({ ...resource, resourcePatternType }));
    await removeAcls(suite.admin, resources);
  });

  test("a connection that is cut after the records were stored doubles nothing: the producer is idempotent", async () => {
    const target = suite.newTarget({ delivery: "at_least_once" });
    const events = makeEvents(40);
    const met = suite.proxy.next(API.produce, "cut_after");
    await drive(target, events, { batchEvents: 20 });
    await met;
    expect(await suite.bodiesOf(target.topic)).toEqual(bodies(events));
  });

  test("denied transactions pause with the way out, which delivers", async () => {
    const target = suite.newTarget();
    await deny(AclResourceTypes.TRANSACTIONAL_ID, target.id, AclOperationTypes.WRITE);
    const error = await suite.open(target).catch((thrown) => thrown);
    expect(error, String(error)).toBeInstanceOf(PausedError);
    expect(error.remedy).toContain("delivery: at_least_once");
    const config = { ...target.config, delivery: "at_least_once", positionsTopic: "not-there-and-not-made" };
    const events = makeEvents(60);
    await drive({ ...target, config }, events, { batchEvents: 20 });
    expect(await suite.bodiesOf(target.topic)).toEqual(bodies(events));
    expect(await suite.admin.listTopics()).not.toContain("not-there-and-not-made");
  });

  test.each(["exactly_once", "at_least_once"])(
    "%s: a small limit that the broker does not tell shrinks record batches of its topic alone",
    async (delivery) => {
      const target = suite.newTarget({ delivery });
      const topic = `${target.topic}-{service}`;
      await suite.createTopic(`${target.topic}-sso`, 1, { "max.message.bytes": "20000" });
      for (const service of ["directory", "radius", "ldap"])
        await suite.createTopic(`${target.topic}-${service}`);
      for (const service of ["sso", "directory", "radius", "ldap"])
        await deny(AclResourceTypes.TOPIC, `${target.topic}-${service}`, AclOperationTypes.DESCRIBE_CONFIGS);
      const events = makeEvents(400).map((event) => ({
        ...event,
        bytes: Buffer.from(randomBytes(450).toString("base64")),
      }));
      const own = { ...target, config: { ...target.config, topic, compression: "none" } };
      const driven = await drive(own, events, { batchEvents: 400 });
      expect(driven.errors.length).toBeGreaterThan(0);
      expect(driven.errors.length).toBeLessThan(6);
      for (const error of driven.errors) expect(error).toBeInstanceOf(RetryableError);
      expect(driven.deadLetters.size).toBe(0);
      for (const service of ["sso", "directory"]) {
        const held = await suite.bodiesOf(`${target.topic}-${service}`);
        const wanted = bodies(events.filter((event) => event.service === service));
        expect([...new Set(held)].toSorted()).toEqual(wanted.toSorted());
      }
    },
  );
});

describe.skipIf(suite.skip)("kafka's keys", () => {
  const partitioned = { createTopics: { partitions: 8, replication: 1 } };

  test("by identity: every record has its own, and a compacted topic is fine", async () => {
    const target = suite.newTarget({ key: "identity", ...partitioned });
    await suite.createTopic(target.topic, 8, { "cleanup.policy": "compact" });
    const events = makeEvents(50);
    await drive(target, events);
    const records = await readTopic(suite.address, target.topic);
    expect(records.map(({ key }) => key).toSorted()).toEqual(
      events.map(({ identity }) => identity).toSorted(),
    );
    expect(new Set(records.map(({ partition }) => partition)).size).toBeGreaterThan(4);
  });

  test("none: records have no key and are spread over the partitions", async () => {
    const target = suite.newTarget({ key: "none", ...partitioned });
    await drive(target, makeEvents(50));
    const records = await readTopic(suite.address, target.topic);
    expect(records).toHaveLength(50);
    for (const { key } of records) expect(key).toBeNull();
    expect(new Set(records.map(({ partition }) => partition)).size).toBeGreaterThan(4);
  });
});

test("check says plainly that at_least_once can repeat", () => {
  const config = kafka.config.parse({ brokers: ["k:9092"], topic: "t", delivery: "at_least_once" });
  expect(kafka.advise!(config).join(" ")).toContain("twice");
  expect(kafka.promiseOf!(config)).toMatch(/^At least once/);
  expect(kafka.promiseOf!(kafka.config.parse({ brokers: ["k:9092"], topic: "t" }))).toBeUndefined();
});

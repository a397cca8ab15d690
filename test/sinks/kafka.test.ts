import { createHook } from "node:async_hooks";
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import kafkajs from "kafkajs";
import { describe, expect, test } from "vitest";
import { RetryableError } from "../../src/core/errors.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import { raw } from "../../src/formats/raw.ts";
import { describe as describeEvent } from "../../src/services/index.ts";
import { attempt, drive } from "../contract/drive.ts";
import { type Destination, testSink } from "../contract/sink.ts";
import { makeBatch, makeEvents, rawFormat } from "../support/events.ts";
import { removeAcls, setAcls } from "../support/kafka-acls.ts";
import { API } from "../support/kafka-proxy.ts";
import { bodies, useKafka } from "../support/kafka-suite.ts";

const suite = await useKafka();

testSink("kafka", {
  skip: suite.skip,
  can: suite.skipOwn
    ? ["refuses"]
    : ["unavailable", "unauthorized", "refuses", "hangs", "storesAndCuts", "missing"],
  async start(): Promise<Destination> {
    const target = suite.newTarget();
    const refused = new Set<string | undefined>();
    // A body that no compression brings below the topic's limit.
    const large = randomBytes(900_000).toString("hex");
    const format = {
      ...rawFormat,
      encode: (event: JournalEvent) =>
        refused.has(event.id) ? large + randomBytes(9e5).toString("hex") : event.bytes,
    };
    await suite.createTopic(target.topic);
    return {
      ...target,
      format,
      read: () => suite.bodiesOf(target.topic),
      refuses: (ids) => {
        for (const id of ids) refused.add(id);
      },
      normal: async () => {
        suite.proxy.accept();
        refused.clear();
        if (suite.broker) await allow(target.topic);
      },
      close: () => suite.proxy.accept(),
      ...(!suite.skipOwn && {
        missing: () => ({ topic: "no-such-topic", createTopics: undefined }),
        unavailable: () => suite.proxy.refuse(),
        unauthorized: () => deny(target.topic),
        hangs: () => suite.proxy.next(API.produce, "hang"),
        storesAndCuts: () => void suite.proxy.next(API.endTxn, "cut_after"),
      }),
    };
  },
});

async function deny(topic: string): Promise<void> {
  const acl = {
    resourceType: kafkajs.AclResourceTypes.TOPIC,
    resourceName: topic,
    resourcePatternType: kafkajs.ResourcePatternTypes.LITERAL,
    principal: "User:ANONYMOUS",
    host: "*",
    operation: kafkajs.AclOperationTypes.WRITE,
    permissionType: kafkajs.AclPermissionTypes.DENY,
  };
  await setAcls(suite.admin, [acl]);
}

async function allow(topic: string): Promise<void> {
  const resource = {
    resourceType: kafkajs.AclResourceTypes.TOPIC,
    resourceName: topic,
    resourcePatternType: kafkajs.ResourcePatternTypes.LITERAL,
  };
  await removeAcls(suite.admin, [resource]);
}

describe.skipIf(suite.skipOwn)("R17 kafka is opened again after a connection that is cut", () => {
  // Once the topic is there, an opened sink sends no others.
  const { createTopics: _, describeConfigs: __, ...sent } = API;
  const steps = Object.entries(sent).flatMap(([name, api]) =>
    (["cut_before", "cut_after"] as const).map((fault) => ({ name, api, fault })),
  );
  test.each(steps)("at $name, $fault: every event once", async ({ api, fault }) => {
    const target = suite.newTarget();
    const events = makeEvents(100);
    const first = await drive(target, events.slice(0, 20), { batchEvents: 20 });
    const met = suite.proxy.next(api, fault);
    await drive(target, events.slice(20), { batchEvents: 20, committed: first.committed });
    await met;
    expect(await suite.bodiesOf(target.topic)).toEqual(bodies(events));
  });

  test("and cut after every EndTxn in turn", async () => {
    const target = suite.newTarget();
    const events = makeEvents(100);
    void suite.proxy.next(API.endTxn, "cut_after");
    const driven = await drive(target, events, {
      batchEvents: 10,
      onError: () => void suite.proxy.next(API.endTxn, "cut_after"),
    });
    expect(driven.errors.length).toBe(10);
    expect(await suite.bodiesOf(target.topic)).toEqual(bodies(events));
  });

  test("and does not write in place after an error", async () => {
    const sink = await suite.open(suite.newTarget());
    void suite.proxy.next(API.endTxn, "cut_before");
    const batch = makeBatch(sink, makeEvents(5));
    expect(await attempt(sink, batch)).toBeInstanceOf(RetryableError);
    expect(await attempt(sink, batch)).toEqual(
      new RetryableError("Kafka must be opened again after an error."),
    );
  });

  test("and survives a connection that ended while nothing was to do", async () => {
    const target = suite.newTarget();
    const events = makeEvents(30);
    let sink = await suite.open(target);
    await sink.write(makeBatch(sink, events.slice(0, 10)), new AbortController().signal);
    suite.proxy.cutAll();
    const error = await attempt(sink, makeBatch(sink, events.slice(10)));
    if (error !== undefined) {
      expect(error).toBeInstanceOf(RetryableError);
      sink = await suite.open(target);
      await sink.write(makeBatch(sink, events.slice(10)), new AbortController().signal);
    }
    expect(await suite.bodiesOf(target.topic)).toEqual(bodies(events));
  });
});

describe.skipIf(suite.skip)("raw events in kafka", () => {
  test("are the original bytes, line breaks included", async () => {
    const target = { ...suite.newTarget(), format: raw.create({}, { describe: describeEvent }) };
    const sink = await suite.open(target);
    const text = '{\n  "id": "1",\r\n  "a": "b\\n"\n}';
    const [event] = makeEvents(1);
    const batch = makeBatch(sink, [{ ...event!, bytes: Buffer.from(text) }], undefined, target.format);
    await sink.write(batch, new AbortController().signal);
    expect(await suite.bodiesOf(target.topic)).toEqual([text]);
  });
});

describe.skipIf(suite.skip)("kafka at rest", () => {
  test("a sink with nothing to do sets hardly a timer", async () => {
    const target = suite.newTarget();
    const sink = await suite.open(target);
    await sink.write(makeBatch(sink, makeEvents(1)), new AbortController().signal);
    let timers = 0;
    const hook = createHook({
      init: (_, type) => {
        if (type === "Timeout") timers++;
      },
    }).enable();
    await sleep(500);
    hook.disable();
    // Ten a second each for request time-outs; without care kafkajs sets a thousand.
    expect(timers).toBeLessThan(50);
  });
});

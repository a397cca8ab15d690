import { describe, expect, test } from "vitest";
import { DecisionNeededError, PausedError, RetryableError } from "../../src/core/errors.ts";
import { attempt, drive } from "../contract/drive.ts";
import { makeBatch, makeEvents, positionAfter } from "../support/events.ts";
import { readTopic } from "../support/kafka.ts";
import { API } from "../support/kafka-proxy.ts";
import { bodies, type KafkaTarget, useKafka } from "../support/kafka-suite.ts";

const suite = await useKafka();

/** A producer that is not the sink, in a transaction. */
async function begin(transactionalId: string) {
  const producer = suite.kafka.producer({ transactionalId, maxInFlightRequests: 1 });
  await producer.connect();
  const transaction = await producer.transaction();
  return {
    send: (topic: string, partition: number, key: string, value: string) =>
      transaction.send({ topic, messages: [{ key, value, partition }] }),
    async abort() {
      await transaction.abort();
      await producer.disconnect();
    },
  };
}

async function positionsPartitionOf(target: KafkaTarget): Promise<number> {
  const records = await readTopic(suite.address, suite.positionsTopic);
  return records.find(({ key }) => key === target.id)!.partition;
}

describe.skipIf(suite.skip)("R24 kafka, opening", () => {
  test("yields the position of the last transaction, and none before the first", async () => {
    const target = suite.newTarget();
    const events = makeEvents(30);
    expect((await suite.open(target)).position).toBeUndefined();
    await drive(target, events, { batchEvents: 7 });
    expect((await suite.open(target)).position).toEqual(positionAfter(events.at(-1)!));
  });

  test("R20 a position of another journal is returned unchanged: delivery judges it", async () => {
    const target = suite.newTarget();
    const sink = await suite.open(target);
    const batch = makeBatch(sink, makeEvents(3));
    const to = { journal: "ffff0000-0000-4000-8000-000000000000", page: 77, event: 5, hash: "abcdef" };
    await sink.write({ ...batch, to }, new AbortController().signal);
    expect((await suite.open(target)).position).toEqual(to);
  });

  test("a positions topic that is not compacted alone is refused", async () => {
    for (const policy of ["delete", "compact,delete"]) {
      const positionsTopic = `${suite.newTarget().topic}-positions`;
      await suite.createTopic(positionsTopic, 1, { "cleanup.policy": policy });
      const error = await suite.open(suite.newTarget({ positionsTopic })).catch((error) => error);
      expect(error).toBeInstanceOf(PausedError);
      expect(error.message).toContain(`its cleanup.policy is ${policy}`);
      expect(error.remedy).toContain("cleanup.policy=compact");
    }
  });

  test("the position is found after partitions were added to the positions topic", async () => {
    const positionsTopic = `${suite.newTarget().topic}-positions`;
    await suite.createTopic(positionsTopic, 1, { "cleanup.policy": "compact" });
    const target = suite.newTarget({ positionsTopic });
    const events = makeEvents(20);
    await drive(target, events.slice(0, 10), { batchEvents: 10 });
    await suite.admin.createPartitions({ topicPartitions: [{ topic: positionsTopic, count: 32 }] });
    await drive(target, events, { batchEvents: 10 });
    expect(await suite.bodiesOf(target.topic)).toEqual(bodies(events));
    expect((await suite.open(target)).position).toEqual(positionAfter(events.at(-1)!));
  });

  test("a record under our key that is no position stops it with words", async () => {
    const target = suite.newTarget();
    await drive(target, makeEvents(1));
    const producer = suite.kafka.producer();
    await producer.connect();
    const partition = await positionsPartitionOf(target);
    await producer.send({
      topic: suite.positionsTopic,
      messages: [{ key: target.id, value: "something", partition }],
    });
    await producer.disconnect();
    await expect(suite.open(target)).rejects.toThrow("holds a record under our key that is no position");
  });
});

describe.skipIf(suite.skipOwn)("R24 kafka, opening beside transactions of others", () => {
  test("an open transaction of another producer does not hide the newest position", async () => {
    const target = suite.newTarget();
    const events = makeEvents(20);
    const sink = await suite.open(target);
    await sink.write(makeBatch(sink, events.slice(0, 10)), new AbortController().signal);
    const partition = await positionsPartitionOf(target);
    const other = await begin(`${target.id}-other`);
    await other.send(suite.positionsTopic, partition, "other", "x");
    try {
      await sink.write(makeBatch(sink, events.slice(10)), new AbortController().signal);
      // This is what a committed reader, and the admin's offsets, end before.
      const visible = (await readTopic(suite.address, suite.positionsTopic)).filter(
        ({ key }) => key === target.id,
      );
      expect(visible.length).toBe(1);
      expect((await suite.open(target)).position).toEqual(positionAfter(events.at(-1)!));
    } finally {
      await other.abort();
    }
  });

  test("waits for an open transaction that holds a record under its key", async () => {
    const target = suite.newTarget();
    const events = makeEvents(10);
    await drive(target, events);
    const other = await begin(`${target.id}-other`);
    await other.send(suite.positionsTopic, await positionsPartitionOf(target), target.id, "x");
    let isOpen = false;
    const opening = suite.open(target).finally(() => {
      isOpen = true;
    });
    await suite.proxy.next(API.fetch, "pass", 3);
    expect(isOpen).toBe(false);
    await other.abort();
    expect((await opening).position).toEqual(positionAfter(events.at(-1)!));
  });

  test("C10 the state names the place of the position, and an opening reads the topic from there", async () => {
    const target = suite.newTarget();
    const events = makeEvents(10);
    await drive(target, events.slice(0, 5));
    const sink = await suite.open(target);
    const other = await begin(`${target.id}-other`);
    await other.send(suite.positionsTopic, await positionsPartitionOf(target), target.id, "x");
    try {
      const batch = makeBatch(sink, events.slice(5));
      const state = await sink.write(batch, new AbortController().signal);
      expect(state).toMatchObject({ positions: { offset: expect.stringMatching(/^\d+$/) } });
      // The open transaction is before that place, so only a reading from the beginning sees it.
      const impatient = { ...target, config: { ...target.config, openTimeout: "1s" } };
      const from = (given: typeof state) =>
        suite.open(impatient, { position: batch.to, state: given }).catch((error) => error);
      expect(await from(undefined)).toBeInstanceOf(RetryableError);
      expect((await from(state)).position).toEqual(batch.to);
      // A place behind the end, as after the topic was made anew.
      expect(await from({ positions: { ...(state!.positions as object), offset: "999999" } })).toBeInstanceOf(
        RetryableError,
      );
    } finally {
      await other.abort();
    }
  });

  test("and asks to be tried again when that lasts too long", async () => {
    const target = suite.newTarget();
    await drive(target, makeEvents(5));
    const other = await begin(`${target.id}-other`);
    await other.send(suite.positionsTopic, await positionsPartitionOf(target), target.id, "x");
    try {
      const impatient = { ...target, config: { ...target.config, openTimeout: "1s" } };
      const error = await suite.open(impatient).catch((error) => error);
      expect(error).toBeInstanceOf(RetryableError);
      expect(error.message).toMatch(/^Another producer's open transaction holds a position/);
    } finally {
      await other.abort();
    }
  });

  test("a position of an aborted transaction is not seen, whatever order the aborted ones ended in", async () => {
    const target = suite.newTarget();
    const events = makeEvents(10);
    await drive(target, events.slice(0, 5));
    const partition = await positionsPartitionOf(target);
    const value = `{"position":"aa:9:9:bb","instance":"nobody"}`;
    const first = await begin(`${target.id}-first`);
    await first.send(suite.positionsTopic, partition, target.id, value);
    const second = await begin(`${target.id}-second`);
    await second.send(suite.positionsTopic, partition, "other", "x");
    await second.abort();
    await first.abort();
    expect((await suite.open(target)).position).toEqual(positionAfter(events[4]!));
  });

  test("ends its own transaction that was left open, and nothing of that one is seen", async () => {
    const target = suite.newTarget();
    const events = makeEvents(20);
    const sink = await suite.open(target);
    const stop = new AbortController();
    const hanging = suite.proxy.next(API.endTxn, "hang");
    const failed = attempt(sink, makeBatch(sink, events), stop.signal);
    await hanging;
    stop.abort(new Error("stopped"));
    expect(await failed).toEqual(new Error("stopped"));
    const again = await suite.open(target);
    expect(again.position).toBeUndefined();
    await again.write(makeBatch(again, events), new AbortController().signal);
    expect(await suite.bodiesOf(target.topic)).toEqual(bodies(events));
  });
});

describe.skipIf(suite.skip)("R25 kafka, fencing", () => {
  test("an epoch that was taken without a position being written is no second instance", async () => {
    const target = suite.newTarget();
    const events = makeEvents(20);
    const sink = await suite.open(target);
    await sink.write(makeBatch(sink, events.slice(0, 10)), new AbortController().signal);
    await (await begin(target.id)).abort();
    const error = await attempt(sink, makeBatch(sink, events.slice(10)));
    expect(error).toBeInstanceOf(RetryableError);
    expect((error as Error).message).toMatch(/epoch/);
    const again = await suite.open(target);
    expect(again.position).toEqual(positionAfter(events[9]!));
    await again.write(makeBatch(again, events.slice(10)), new AbortController().signal);
    expect(await suite.bodiesOf(target.topic)).toEqual(bodies(events));
  });

  test("a second instance that writes stops the first, and only that one", async () => {
    const here = suite.newTarget();
    const there = { ...here, memory: new Map() };
    const events = makeEvents(40);
    const first = await suite.open(here);
    await first.write(makeBatch(first, events.slice(0, 10)), new AbortController().signal);
    const second = await suite.open(there);
    expect(second.position).toEqual(positionAfter(events[9]!));
    await second.write(makeBatch(second, events.slice(10, 20)), new AbortController().signal);
    expect(await attempt(first, makeBatch(first, events.slice(10, 20)))).toBeInstanceOf(RetryableError);
    const stopped = await suite.open(here).catch((error) => error);
    expect(stopped).toBeInstanceOf(DecisionNeededError);
    expect(stopped.choices.length).toBeGreaterThan(0);
    expect(await attempt(second, makeBatch(second, events.slice(20)))).toBeInstanceOf(RetryableError);
    await drive(there, events, { batchEvents: 10 });
    expect(await suite.bodiesOf(here.topic)).toEqual(bodies(events));
  });

  test("a new process takes over from an old one that is gone", async () => {
    const here = suite.newTarget();
    const events = makeEvents(20);
    await drive(here, events.slice(0, 10));
    await drive({ ...here, memory: new Map() }, events, { batchEvents: 10 });
    expect(await suite.bodiesOf(here.topic)).toEqual(bodies(events));
  });
});

describe.skipIf(suite.skipOwn)("R25 kafka, a transaction that timed out", () => {
  test("is aborted by the broker, and the sink goes on after being opened again", async () => {
    const target = suite.newTarget({ transactionTimeout: "1s" });
    const events = makeEvents(10);
    const sink = await suite.open(target);
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const meets = suite.proxy.next(API.endTxn, held);
    const failed = attempt(sink, makeBatch(sink, events));
    await meets;
    // The broker's abort marker is the one record that follows ours.
    await expect.poll(async () => (await suite.admin.fetchTopicOffsets(target.topic))[0]!.offset).toBe("11");
    release();
    expect(await failed).toBeInstanceOf(RetryableError);
    await drive(target, events);
    expect(await suite.bodiesOf(target.topic)).toEqual(bodies(events));
  });
});

import { describe, expect, test, vi } from "vitest";
import { RetryableError } from "../../src/core/errors.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import { formatPosition } from "../../src/core/position.ts";
import { encodePosition } from "../../src/sinks/kafka/positions.ts";
import { attempt, type Committed } from "../contract/drive.ts";
import { makeBatch, makeEvents, positionAfter } from "../support/events.ts";
import { readTopic } from "../support/kafka.ts";
import { API, type Fault, FORGED } from "../support/kafka-proxy.ts";
import { bodies, type KafkaTarget, useKafka } from "../support/kafka-suite.ts";

/** Records of a transaction that the coordinator does not know are refused when the coordinator is asked. */
const suite = await useKafka({ "transaction.partition.verification.enable": "false" });

const events = makeEvents(30);
const [first, second, third] = [events.slice(0, 10), events.slice(10, 20), events.slice(20)];
const after = (part: readonly JournalEvent[]): Committed => ({
  position: positionAfter(part.at(-1)!),
  state: undefined,
});
const { signal } = new AbortController();

/** With a topic of positions of its own: what a test leaves open there would hide the positions of the next one. */
function impatient(partitions: number): KafkaTarget & { readonly positionsTopic: string } {
  const positionsTopic = `${suite.positionsTopic}-${++positionsTopics}`;
  const createTopics = { partitions, replication: 1 };
  return { ...suite.newTarget({ openTimeout: "1s", createTopics, positionsTopic }), positionsTopic };
}
let positionsTopics = 0;

/**
 * The state after KAFKA-20734: the first batch is there, the records of the second are in their partitions, and
 * the coordinator does not know of `hanging` ones, so it ends nothing there. Returns the sink's state.
 */
async function leaveHanging(target: KafkaTarget, hanging: "all" | "events", end: Fault): Promise<unknown> {
  const before = await suite.open(target);
  await before.write(makeBatch(before, first), signal);
  await before.close();
  // Opening waits until the first batch has its markers: one that came later would end the second as well.
  const sink = await suite.open(target);
  const { addPartitionsToTxn } = FORGED;
  // The position is the first that is sent.
  const position = suite.proxy.next(API.addPartitionsToTxn, hanging === "all" ? addPartitionsToTxn : "pass");
  const events = suite.proxy.next(API.addPartitionsToTxn, addPartitionsToTxn);
  const ended = suite.proxy.next(API.endTxn, end);
  const error = await attempt(sink, makeBatch(sink, second));
  await Promise.all([position, events, ended]);
  await sink.close();
  return error;
}

/** The records that committed readers see, in the order of each organization. */
async function seen(topic: string): Promise<Record<string, readonly string[]>> {
  const records = await readTopic(suite.address, topic);
  return group(records.map(({ key, payload }) => [key!, payload!]));
}

function sent(...parts: readonly (readonly JournalEvent[])[]): Record<string, readonly string[]> {
  const all = parts.flat();
  return group(bodies(all).map((body, at) => [all[at]!.organization!, body]));
}

function group(pairs: readonly (readonly [string, string])[]): Record<string, readonly string[]> {
  const groups = new Map<string, string[]>();
  for (const [key, body] of pairs) groups.set(key, [...(groups.get(key) ?? []), body]);
  return Object.fromEntries(groups);
}

async function begin(transactionalId: string) {
  const producer = suite.kafka.producer({ transactionalId, maxInFlightRequests: 1 });
  await producer.connect();
  return { producer, transaction: await producer.transaction() };
}

describe.skipIf(suite.skipOwn)("R24 kafka, a transaction that the brokers have left open", () => {
  test("is published by the next commit of its producer in the partition, if it is not ended before", async () => {
    const target = impatient(1);
    expect(await leaveHanging(target, "all", "cut_before")).toBeInstanceOf(RetryableError);
    expect(await suite.bodiesOf(target.topic)).toEqual(bodies(first));
    const { producer, transaction } = await begin(target.id);
    await transaction.send({ topic: target.topic, messages: [{ value: "another", partition: 0 }] });
    await transaction.commit();
    await producer.disconnect();
    await expect
      .poll(() => suite.bodiesOf(target.topic))
      .toEqual([...bodies([...first, ...second]), "another"]);
  });

  test("is aborted as a whole when its end was not acknowledged, and sent again", async () => {
    const target = impatient(3);
    expect(await leaveHanging(target, "all", "cut_before")).toBeInstanceOf(RetryableError);
    expect(await seen(target.topic)).toEqual(sent(first));
    const sink = await suite.open(target, after(first));
    expect(sink.position).toEqual(after(first).position);
    await sink.write(makeBatch(sink, [...second, ...third]), signal);
    await expect.poll(() => seen(target.topic)).toEqual(sent(events));
  });

  test("is committed as a whole when its end was acknowledged, and not sent again", async () => {
    const target = impatient(3);
    expect(await leaveHanging(target, "all", FORGED.endTxn)).toBeUndefined();
    expect(await seen(target.topic)).toEqual(sent(first));
    const sink = await suite.open(target, after(second));
    expect(sink.position).toEqual(after(second).position);
    expect(await seen(target.topic)).toEqual(sent(first, second));
    await sink.write(makeBatch(sink, third), signal);
    await expect.poll(() => seen(target.topic)).toEqual(sent(events));
  });

  test("is aborted in the partitions of events when the position was aborted", async () => {
    const target = impatient(3);
    expect(await leaveHanging(target, "events", "cut_before")).toBeInstanceOf(RetryableError);
    const sink = await suite.open(target, after(first));
    expect(sink.position).toEqual(after(first).position);
    await sink.write(makeBatch(sink, [...second, ...third]), signal);
    await expect.poll(() => seen(target.topic)).toEqual(sent(events));
  });

  test("is committed in the partitions of events when the position was committed, before another is aborted", async () => {
    const target = impatient(3);
    expect(await leaveHanging(target, "events", "cut_after")).toBeInstanceOf(RetryableError);
    expect(await seen(target.topic)).toEqual(sent(first));
    const sink = await suite.open(target, after(first));
    expect(sink.position).toEqual(after(second).position);
    expect(await seen(target.topic)).toEqual(sent(first, second));
    void suite.proxy.next(API.endTxn, "cut_before");
    expect(await attempt(sink, makeBatch(sink, third))).toBeInstanceOf(RetryableError);
    const again = await suite.open(target, after(second));
    expect(again.position).toEqual(after(second).position);
    await again.write(makeBatch(again, third), signal);
    await expect.poll(() => seen(target.topic)).toEqual(sent(events));
  });

  test("does not keep the sink from opening when a topic of it was gone and was made again", async () => {
    const target = impatient(1);
    await leaveHanging(target, "all", FORGED.endTxn);
    await suite.admin.deleteTopics({ topics: [target.topic] });
    await expect.poll(async () => (await suite.admin.listTopics()).includes(target.topic)).toBe(false);
    await expect(suite.open(target, after(second))).rejects.toThrow(`The topic ${target.topic} is gone`);
    await suite.createTopic(target.topic);
    const sink = await suite.open(target, after(second));
    expect(sink.position).toEqual(after(second).position);
  });

  test("does not keep the sink from opening when it is another producer's, in a partition of events", async () => {
    const target = impatient(1);
    const sink = await suite.open(target);
    await sink.write(makeBatch(sink, first), signal);
    const { producer, transaction } = await begin(`${target.id}-other`);
    await transaction.send({ topic: target.topic, messages: [{ value: "another", partition: 0 }] });
    const again = await suite.open(target, after(first));
    await again.write(makeBatch(again, second), signal);
    await transaction.abort();
    await producer.disconnect();
    await expect.poll(() => seen(target.topic)).toEqual(sent(first, second));
  });

  test("is only waited for when it is another producer's", async () => {
    const target = impatient(1);
    const sink = await suite.open(target);
    await sink.write(makeBatch(sink, first), signal);
    // A commit is acknowledged a moment before it can be read.
    const { partition, payload } = await vi.waitUntil(
      async () =>
        (await readTopic(suite.address, target.positionsTopic)).find(({ key }) => key === target.id),
      { timeout: 600_000 },
    );
    const position = formatPosition(after(second).position);
    const value = JSON.stringify({ ...JSON.parse(payload!), position });
    expect(JSON.parse(value)).toMatchObject({ touched: [{ topic: target.topic, partitions: [0] }] });
    const { producer, transaction } = await begin(`${target.id}-other`);
    await transaction.send({
      topic: target.positionsTopic,
      messages: [{ key: target.id, value, partition }],
    });
    await expect(suite.open(target, after(first))).rejects.toThrow(/^Another producer's open transaction/);
    await transaction.commit();
    await producer.disconnect();
    const again = await suite.open({ ...target, definition: suite.newTarget().definition });
    expect(again.position).toEqual(after(second).position);
  });
});

describe("kafka, the record of a position", () => {
  const encode = (topics: number) =>
    encodePosition({
      position: positionAfter(events[0]!),
      key: "id",
      partitions: 1,
      instance: "instance",
      sink: "test",
      touched: Array.from({ length: topics }, (_, at) => ({ topic: `audit-${at}`, partitions: [0, 1, 2] })),
    }).message.value.toString();

  test("says where its transaction writes, unless that makes it too large", () => {
    expect(JSON.parse(encode(100)).touched.length).toBe(100);
    expect(JSON.parse(encode(10_000))).toEqual({
      position: formatPosition(positionAfter(events[0]!)),
      instance: "instance",
      sink: "test",
    });
  });
});

import { describe, expect, test } from "vitest";
import { laneId } from "../../src/cluster/kafka-changelog.ts";
import { topicsOf } from "../../src/cluster/topic-names.ts";
import { readAll } from "../contract/changelog.ts";
import { useKafka } from "../support/kafka-suite.ts";
import { newCluster } from "./kafka-support.ts";

const suite = await useKafka();
const never = new AbortController().signal;
const row = (value: string) => ({ key: '["t",1]', value: Buffer.from(value) });

describe.skipIf(suite.skip)("C5 transactions that were left open", () => {
  test("C5 what a killed writer had not committed is not read, and the next opening goes on", async () => {
    const { name, changelog } = await newCluster(suite.address, 1);
    const producer = suite.kafka.producer({ transactionalId: laneId(name, 0), maxInFlightRequests: 1 });
    await producer.connect();
    const transaction = await producer.transaction();
    const message = { key: '["t",1]', value: "left open", partition: 0 };
    await transaction.send({ topic: topicsOf(name).state, messages: [message] });
    const log = await changelog.open(0, never);
    await log.commit({ rows: [row("after")], bodies: [] });
    const values = (await readAll(log, "rows")).map(({ value }) => Buffer.from(value ?? []).toString());
    expect(values).toContain("after");
    expect(values).not.toContain("left open");
    await log.close();
    await producer.disconnect();
  });

  test("C5 the open transaction of a stranger hides nothing that was committed", async () => {
    const { name, changelog } = await newCluster(suite.address, 1);
    const stranger = suite.kafka.producer({ transactionalId: `stranger-${name}`, maxInFlightRequests: 1 });
    await stranger.connect();
    const transaction = await stranger.transaction();
    const message = { key: '["t",2]', value: "of a stranger", partition: 0 };
    await transaction.send({ topic: topicsOf(name).state, messages: [message] });
    const log = await changelog.open(0, never);
    await log.commit({ rows: [row("ours")], bodies: [] });
    const values = (await readAll(log, "rows")).map(({ value }) => Buffer.from(value ?? []).toString());
    expect(values).toContain("ours");
    expect(values).not.toContain("of a stranger");
    await log.close();
    await transaction.abort();
    await stranger.disconnect();
  });
});

import { describe, expect, test } from "vitest";
import { laneId } from "../../src/cluster/kafka-changelog.ts";
import { topicsOf } from "../../src/cluster/topic-names.ts";
import { readAll } from "../contract/changelog.ts";
import { useKafka } from "../support/kafka-suite.ts";
import { newCluster } from "./kafka-support.ts";

// Lets a test write records that belong to no transaction of the coordinator, as a broker's restart can leave them.
const suite = await useKafka({ "transaction.partition.verification.enable": "false" });
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

describe.skipIf(suite.skipOwn)("C5 records whose markers a broker has left out", () => {
  const TIP = '["~tip",1]';
  const tip = (bodies: number) => JSON.stringify({ sequence: 1, hash: "h", schema: 1, bodies });

  /** Writes records of the lane's own producer that no marker will ever end. */
  async function leaveHanging(
    { name, connect }: Awaited<ReturnType<typeof newCluster>>,
    rows: readonly (readonly [string, string])[],
    bodies: readonly (readonly [string, string])[],
  ): Promise<void> {
    const client = await connect(never);
    const producer = await client.producer({ id: laneId(name, 0), timeoutMs: 10_000 });
    const { state, pages } = topicsOf(name);
    for (const [topic, records] of [
      [pages, bodies],
      [state, rows],
    ] as const) {
      if (records.length === 0) continue;
      const keyed = records.map(([key, value]) => ({ key, value: Buffer.from(value) }));
      await producer.produce([await client.encode({ topic, partition: 0 }, keyed, Date.now())]);
    }
    client.end();
  }

  async function valuesAfterOpening(cluster: Awaited<ReturnType<typeof newCluster>>) {
    const log = await cluster.changelog.open(0, never);
    await log.commit({ rows: [row("after")], bodies: [] });
    const read = async (of: "rows" | "bodies") =>
      (await readAll(log, of)).map(({ value }) => Buffer.from(value ?? []).toString());
    const values = { rows: await read("rows"), bodies: await read("bodies") };
    await log.close();
    return values;
  }

  test("C5 a commit that is complete in both topics counts: its writer may have been told so", async () => {
    const cluster = await newCluster(suite.address, 1);
    await leaveHanging(
      cluster,
      [
        ['["t",1]', "hanging"],
        [TIP, tip(1)],
      ],
      [["body", "a body"]],
    );
    const { rows, bodies } = await valuesAfterOpening(cluster);
    expect(rows).toEqual(expect.arrayContaining(["hanging", "after"]));
    expect(bodies).toEqual(["a body"]);
  });

  test.each([
    ["its tip is missing", [['["t",1]', "hanging"]], []],
    [
      "a body that the tip counts is missing",
      [
        ['["t",1]', "hanging"],
        [TIP, tip(2)],
      ],
      [["body", "a body"]],
    ],
    ["only its bodies were written", [], [["body", "a body"]]],
  ] as const)("C5 a commit is taken back where %s: no writer was told of it", async (_, rows, bodies) => {
    const cluster = await newCluster(suite.address, 1);
    await leaveHanging(cluster, rows, bodies);
    const found = await valuesAfterOpening(cluster);
    expect(found.rows).toContain("after");
    expect([...found.rows, ...found.bodies]).not.toContain("hanging");
    expect(found.bodies).toEqual([]);
  });
});

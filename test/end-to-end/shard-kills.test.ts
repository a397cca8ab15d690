import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { CreateBucketCommand, GetObjectCommand, paginateListObjectsV2, S3Client } from "@aws-sdk/client-s3";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Simulator, startSimulator } from "../../simulator/index.ts";
import { shareOf } from "../../src/core/shard.ts";
import { programOnPath, skipUnless } from "../support/components.ts";
import {
  type Broker,
  findKafka,
  KAFKA_REMEDY,
  KCAT_REMEDY,
  readTopic,
  startBroker,
} from "../support/kafka.ts";
import { type Program, runProgram, startProgram } from "../support/program.ts";
import {
  findVersitygw,
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  startVersitygw,
  type Versitygw,
} from "../support/versitygw.ts";
import { compare, linesBelow, linesOf } from "./scene.ts";

const FAULTS = [
  { kind: "latency", ms: 20 },
  { kind: "status", status: 503, share: 0.03, api: "insights" },
  { kind: "cut_body", share: 0.02, api: "insights" },
  { kind: "foreign_event", share: 0.01, api: "insights" },
] as const;

/** TIDEMARK_SHARD_KILLS=100 is the long campaign. */
const KILLS = Number(process.env.TIDEMARK_SHARD_KILLS ?? 4);
const LATE_MS = 3000;
/** New events before each kill, some of them late. */
const BURST = 60;

const jars = await findKafka();
const versitygw = await findVersitygw();
const isMissing = [
  skipUnless("kafka", jars, KAFKA_REMEDY),
  skipUnless("kcat", programOnPath("kcat"), KCAT_REMEDY),
  skipUnless("versitygw", versitygw, "TIDEMARK_REQUIRE=versitygw builds it"),
].includes(true);

describe.skipIf(isMissing)("shards as processes", () => {
  let simulator: Simulator;
  let broker: Broker;
  let store: Versitygw;
  let client: S3Client;
  let folder: string;
  const topic = `shards-${randomBytes(4).toString("hex")}`;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "tidemark-shards-"));
    simulator = await startSimulator({
      organizations: 12,
      events: 1500 + KILLS * 300,
      days: 10,
      lateness: { typicalMs: 200, lateShare: 0.05, lateMs: LATE_MS, tailShare: 0, tailMs: 0 },
      faults: FAULTS,
    });
    broker = await startBroker(jars!);
    store = await startVersitygw(versitygw!);
    const credentials = { accessKeyId: S3_ACCESS_KEY, secretAccessKey: S3_SECRET_KEY };
    client = new S3Client({ endpoint: store.url, region: "us-east-1", forcePathStyle: true, credentials });
    await client.send(new CreateBucketCommand({ Bucket: "shards" }));
  });
  afterAll(async () => {
    client?.destroy();
    await store?.close();
    await broker?.remove();
    await simulator?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const env = () => ({ DIRECTORY_API_KEY: simulator.apiKey, S3_ACCESS_KEY, S3_SECRET_KEY });

  /** All shards have the same config, but for the number and the state file. */
  function config(index: number, count: number): string {
    const file = join(folder, `${index}-of-${count}.yaml`);
    const account = {
      name: "acme",
      insightsUrl: simulator.insightsUrl,
      managementUrl: simulator.managementUrl,
      apiKey: { env: "DIRECTORY_API_KEY" },
      organizations: "all",
      provider: simulator.providerId,
      since: "30d",
    };
    const kafka = { brokers: [broker.address], topic, createTopics: { partitions: 3, replication: 1 } };
    const s3 = {
      ...{ endpoint: store.url, region: "us-east-1", pathStyle: true, bucket: "shards" },
      ...{ accessKeyId: { env: "S3_ACCESS_KEY" }, secretAccessKey: { env: "S3_SECRET_KEY" } },
      ...{ objectEventsMax: 200, objectAgeMax: "1s" },
    };
    const value = {
      accounts: [account],
      shard: `${index}/${count}`,
      state: join(folder, `${index}-of-${count}.db`),
      polling: { interval: "500ms", overlap: "1m", pageSize: 200, window: "1m", sweeps: ["5s", "20s"] },
      sinks: [
        { name: "disk", type: "file", directory: join(folder, "disk") },
        { name: "lake", type: "kafka", ...kafka, batchRecordsMax: 200, transactionTimeout: "10s" },
        { name: "bucket", type: "s3", ...s3 },
      ],
    };
    writeFileSync(file, JSON.stringify(value));
    return file;
  }

  async function done(index: number, count: number, ...args: string[]): Promise<void> {
    const { code, stdout, stderr } = await runProgram([...args, "--config", config(index, count)], env());
    expect(code, `${args.join(" ")}: ${stdout.slice(-1000)}${stderr.slice(-2000)}`).toBe(0);
  }

  /** One process for each shard. Until all kills are done, one of them is killed at a random moment and started again. */
  async function campaign(count: number, kills: number): Promise<void> {
    const start = (index: number) => startProgram(["run", "--config", config(index, count)], env());
    const running: Program[] = Array.from({ length: count }, (_, index) => start(index));
    try {
      for (let kill = 0; kill < kills; kill++) {
        simulator.control.burst(BURST);
        await sleep(200 + Math.random() * 1800);
        const victim = Math.floor(Math.random() * count);
        await running[victim]!.kill();
        running[victim] = start(victim);
      }
    } finally {
      for (const program of running) await program.kill();
    }
  }

  async function readAll(count: number): Promise<void> {
    simulator.control.faults.set([]);
    // The last indexed events are visible before the last read.
    await sleep(LATE_MS + 1500);
    for (let index = 0; index < count; index++) await done(index, count, "run", "--once");
  }

  async function objects(): Promise<string[]> {
    const found: string[] = [];
    for await (const page of paginateListObjectsV2({ client }, { Bucket: "shards" }))
      for (const { Key } of page.Contents ?? []) {
        const object = await client.send(new GetObjectCommand({ Bucket: "shards", Key }));
        const bytes = await object.Body!.transformToByteArray();
        found.push(...linesOf(Key!.endsWith(".gz") ? gunzipSync(bytes) : bytes));
      }
    return found;
  }

  async function expectEachOnce(what: string): Promise<void> {
    const served = [...simulator.control.allEvents()].map((bytes) => Buffer.from(bytes).toString());
    const found = {
      disk: linesBelow(join(folder, "disk")),
      lake: (await readTopic(broker.address, topic)).map(({ payload }) => payload!),
      bucket: await objects(),
    };
    for (const [sink, lines] of Object.entries(found)) {
      const { lost, surplus } = compare(served, lines);
      process.stderr.write(`${what}, ${sink}: ${served.length} events, lost ${lost}, twice ${surplus}\n`);
      expect({ sink, lost, surplus }).toEqual({ sink, lost: 0, surplus: 0 });
    }
  }

  test(`${KILLS} kill -9 of three shards, then two: every event once in files, Kafka and S3`, {
    timeout: 600_000 + KILLS * 15_000,
  }, async () => {
    const owners = new Set(simulator.organizations.map(({ id }) => shareOf(id, 3)));
    expect(owners.size).toBe(3);
    await campaign(3, KILLS);
    await readAll(3);
    expect(simulator.control.countEvents()).toBeGreaterThanOrEqual(KILLS * BURST);
    await expectEachOnce(`three shards, ${KILLS} kills`);

    const copies = [0, 1, 2].map((index) => join(folder, `final-${index}.db`));
    for (const index of [0, 1, 2]) await done(index, 3, "backup", "--final", copies[index]!);
    for (const index of [0, 1]) await done(index, 2, "restore", "--reshard", ...copies);
    simulator.control.faults.set(FAULTS);
    await campaign(2, Math.ceil(KILLS / 3));
    await readAll(2);
    await expectEachOnce(`moved to two shards, ${Math.ceil(KILLS / 3)} more kills`);
  });
});

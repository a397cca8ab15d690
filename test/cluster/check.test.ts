import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { PutObjectCommand, type S3Client } from "@aws-sdk/client-s3";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { signCheckpoint } from "../../src/archive/log/checkpoint.ts";
import { newSignerText } from "../../src/archive/log/note.ts";
import { signerOf } from "../../src/archive/open.ts";
import { takeLock } from "../../src/journal/lock.ts";
import { drive } from "../contract/drive.ts";
import { skipUnless } from "../support/components.ts";
import { makeEvents } from "../support/events.ts";
import { useKafka } from "../support/kafka-suite.ts";
import { freePort } from "../support/ports.ts";
import {
  findVersitygw,
  openBucket,
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  startVersitygw,
  type Versitygw,
} from "../support/versitygw.ts";
import { openWorld, type World } from "../support/world.ts";
import { newCluster } from "./kafka-support.ts";

const suite = await useKafka();
const program = await findVersitygw();
const skipsS3 = skipUnless("versitygw", program, "needs go: TIDEMARK_REQUIRE=versitygw builds it");
const ORIGIN = "example.com/audit";
const Bucket = "evidence";

describe.skipIf(suite.skip || skipsS3)("check of a cluster", () => {
  let world: World;
  let server: Versitygw;
  let s3: S3Client;
  const keyText = newSignerText(ORIGIN);

  beforeAll(async () => {
    [world, server] = await Promise.all([
      openWorld({ organizations: 1, events: 1 }),
      startVersitygw(program!),
    ]);
    s3 = await openBucket(server, Bucket);
    writeFileSync(world.at("archive.key"), keyText, { mode: 0o600 });
    // A machine has run here: the state is a directory.
    mkdirSync(world.at("state"));
  });
  afterAll(async () => {
    s3?.destroy();
    await server?.close();
    await world?.close();
  });

  async function putCheckpoint(lane: number, origin: string, size: number): Promise<void> {
    const signer = signerOf({ origin }, keyText);
    const Body = signCheckpoint({ origin, size, root: Buffer.alloc(32) }, [signer]);
    await s3.send(new PutObjectCommand({ Bucket, Key: `audit/lane-${lane}/log/checkpoint`, Body }));
  }

  function check(cluster: string, more: readonly string[] = [], sinks: readonly string[] = []) {
    const place = `bucket: ${Bucket}, prefix: audit/, endpoint: '${server.url}', pathStyle: true`;
    const keys = "accessKeyId: { env: S3_KEY }, secretAccessKey: { env: S3_SECRET }";
    const key = `key: { file: ${world.at("archive.key")} }`;
    const config = world.configure({
      state: world.at("state"),
      sinks: [
        `{ name: evidence, type: archive, origin: ${ORIGIN}, ${key}, store: { s3: { ${place}, ${keys} } } }`,
        ...sinks,
      ],
      more: [
        `cluster: { name: ${cluster}, brokers: ${JSON.stringify(suite.address.split(","))}, trial: true }`,
        ...more,
      ],
    });
    const env = { S3_KEY: S3_ACCESS_KEY, S3_SECRET: S3_SECRET_KEY };
    return world.run(["check", "--online", "--config", config], { env });
  }

  test("C10 looks at the place of each lane, and names what is wrong in one of them", async () => {
    const { name } = await newCluster(suite.address, 4);
    await putCheckpoint(1, `${ORIGIN}/lane-1`, 12);
    const fine = await check(name);
    expect(fine).toMatchObject({ code: 0, stderr: "" });
    expect(fine.stdout).toContain(`cluster ${name}: its topics are there, for 4 lanes`);
    expect(fine.stdout).toContain("archive evidence, lanes 0, 2-3: its place holds no archive");
    expect(fine.stdout).toMatch(
      /ok +archive evidence, lane 1: 12 log entries, .*; whether the lane knows them is seen when/,
    );
    await putCheckpoint(2, `${ORIGIN}/lane-3`, 7);
    const wrong = await check(name);
    expect(wrong.code).toBe(1);
    expect(wrong.stdout).toMatch(/FAILED +archive evidence, lane 2: The checkpoint is of the log .*lane-3"/);
    expect(existsSync(world.at("state.lock"))).toBe(false);
  });

  test("C10 probes a Kafka sink under the transactional id of each lane", async () => {
    const { name } = await newCluster(suite.address, 4);
    const { topic, config, ...target } = suite.newTarget();
    await drive({ ...target, config: { ...config, transactionalId: `${name}.bus.2` } }, makeEvents(1));
    await suite.admin.deleteTopics({ topics: [topic] });
    await expect.poll(async () => (await suite.admin.listTopics()).includes(topic)).toBe(false);
    const places = `topic: ${topic}, positionsTopic: ${suite.positionsTopic}`;
    const creation = "createTopics: { partitions: 1, replication: 1 }";
    const brokers = JSON.stringify(suite.address.split(","));
    const bus = `{ name: bus, type: kafka, brokers: ${brokers}, ${places}, ${creation} }`;
    const { code, stdout } = await check(name, [], [bus]);
    expect(code).toBe(1);
    expect(stdout).toContain(`FAILED  sink bus, lane 2: The topic ${topic} is gone`);
    expect(stdout).toContain("ok      sink bus, lanes 0-1, 3: kafka is ready");
  });

  test("a cluster that was not made yet is named, and its archives are not called fine", async () => {
    const { code, stdout } = await check("not-made");
    expect(code).toBe(1);
    expect(stdout).toMatch(/FAILED +cluster not-made: The cluster "not-made" lacks the topics/);
    expect(stdout).toContain("archive evidence: not looked at: the lanes are not known");
  });

  test("the port of a machine that runs here is not called taken", async () => {
    const port = await freePort();
    const { name } = await newCluster(suite.address, 1);
    const server = [`server: { port: ${port} }`];
    expect((await check(name, server)).stdout).toContain(`port ${port}`);
    writeFileSync(world.at("state/lane-0.db"), "");
    const lock = takeLock(world.at("state/lane-0.db"));
    expect((await check(name, server)).stdout).not.toContain(`port ${port}`);
    lock.release();
  });
});

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  CreateBucketCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  type S3Client,
} from "@aws-sdk/client-s3";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { configSchema } from "../../src/config/schema.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import { ocsf180 } from "../../src/formats/ocsf/schema-1.8.0.ts";
import { ocsf } from "../../src/formats/ocsf.ts";
import { parquet } from "../../src/formats/parquet.ts";
import { describe as describeEvent } from "../../src/services/index.ts";
import { s3 } from "../../src/sinks/s3/sink.ts";
import { securityLake } from "../../src/sinks/security-lake/sink.ts";
import { CLASS_NAMES } from "../../src/sinks/security-lake/sources.ts";
import { drive } from "../contract/drive.ts";
import { type Destination, testSink } from "../contract/sink.ts";
import { skipUnless } from "../support/components.ts";
import { makeEvents } from "../support/events.ts";
import { findDuckdb } from "../support/parquet-readers.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";
import {
  clientOf,
  findVersitygw,
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  startVersitygw,
  type Versitygw,
} from "../support/versitygw.ts";
import { restored } from "./parquet-rows.ts";

const program = await findVersitygw();
const duckdb = await findDuckdb();
const skip =
  skipUnless("versitygw", program, "run once with TIDEMARK_REQUIRE=versitygw to build it (Go)") ||
  skipUnless("duckdb", duckdb, "npm install @duckdb/node-api");
const SECRETS = { ID: S3_ACCESS_KEY, SECRET: S3_SECRET_KEY };
const KEYS = { accessKeyId: { env: "ID" }, secretAccessKey: { env: "SECRET" } };
const LAKE = { region: "us-east-1", accountId: "123456789012" };
const format = parquet.create(parquet.options.parse({}), { describe: describeEvent });

let real: Versitygw;
let reader: S3Client;
let folder: string;
let bucketNumber = 0;

beforeAll(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), "tidemark-lake-"));
  real = await startVersitygw(program!);
  reader = clientOf(real);
});
afterAll(async () => {
  reader?.destroy();
  await real?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

async function keysOf(Bucket: string): Promise<string[]> {
  const { Contents = [] } = await reader.send(new ListObjectsV2Command({ Bucket }));
  return Contents.map(({ Key }) => Key!);
}

async function rowsOf(Bucket: string, Key: string): Promise<readonly unknown[]> {
  const { Body } = await reader.send(new GetObjectCommand({ Bucket, Key }));
  const file = join(folder, "object.parquet");
  writeFileSync(file, await Body!.transformToByteArray());
  return duckdb!.rows(file);
}

const textOf = (event: unknown) => JSON.stringify(sorted(restored(event)));

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([name, inner]) => [name, sorted(inner)]));
}

const expected = (event: JournalEvent) => textOf(JSON.parse(Buffer.from(format.encode(event)).toString()));

async function start(
  definition: Destination["definition"],
  config: Record<string, unknown>,
): Promise<Destination & { readonly bucket: string }> {
  const bucket = `lake-${++bucketNumber}`;
  await reader.send(new CreateBucketCommand({ Bucket: bucket }));
  const proxy = await startTcpProxy(Number(new URL(real.url).port));
  const secrets = { ...SECRETS };
  let isKilled = false;
  return {
    definition,
    bucket,
    config: { bucket, endpoint: `http://127.0.0.1:${proxy.port}`, pathStyle: true, ...KEYS, ...config },
    secrets,
    format,
    expected,
    async read() {
      const found: string[] = [];
      for (const key of await keysOf(bucket)) found.push(...(await rowsOf(bucket, key)).map(textOf));
      return found;
    },
    missing: () => ({ bucket: "no-such-bucket" }),
    async unavailable() {
      await real.kill();
      isKilled = true;
    },
    unauthorized() {
      secrets.SECRET = "another-secret-access-key";
    },
    hangs: () => proxy.hang(),
    storesAndCuts: () => proxy.cutAnswerTo(/^PUT /),
    async normal() {
      proxy.normal();
      secrets.SECRET = S3_SECRET_KEY;
      if (isKilled) await real.restart();
      isKilled = false;
    },
    close: () => proxy.close(),
  };
}

const can = ["unavailable", "unauthorized", "hangs", "storesAndCuts", "missing", "dated"] as const;
testSink("security_lake, against a real gateway, read by DuckDB", {
  skip,
  can,
  unordered: true,
  start: () => start(securityLake, LAKE),
});
testSink("s3 with Parquet, against a real gateway, read by DuckDB", {
  skip,
  can,
  start: () => start(s3, {}),
});

describe.skipIf(skip)("the security_lake sink", () => {
  test("one source for each class, partitions by region, account and day, records by time", async () => {
    const destination = await start(securityLake, { ...LAKE, sourceVersion: "2.0" });
    const types = ["user_update", "user_login_attempt", "group_create"];
    const events = makeEvents(300).map((event, at) => {
      const eventType = types[at % types.length]!;
      const timestampMs = event.timestampMs + (at % 7) * 60_000 - (at % 2) * 86_400_000;
      const fields = { id: event.id, event_type: eventType, service: "directory", username: "amy" };
      const bytes = Buffer.from(
        JSON.stringify({ ...fields, timestamp: new Date(timestampMs).toISOString() }),
      );
      return { ...event, eventType, timestampMs, bytes, size: bytes.length };
    });
    await drive(destination, events, { batchEvents: 300 });
    const keys = await keysOf(destination.bucket);
    expect(keys.length).toBeGreaterThan(3);
    let count = 0;
    for (const key of keys) {
      const match =
        /^ext\/tidemark_(\w+)\/2\.0\/region=us-east-1\/accountId=123456789012\/eventDay=(\d{8})\/test\..+\.parquet$/.exec(
          key,
        );
      expect(match, key).not.toBeNull();
      const rows = (await rowsOf(destination.bucket, key)) as { class_name: string; time: number }[];
      expect(new Set(rows.map(({ class_name: name }) => name.toLowerCase().replaceAll(/\W+/g, "_")))).toEqual(
        new Set([match![1]]),
      );
      const times = rows.map(({ time }) => time);
      expect(times).toEqual(times.toSorted((a, b) => a - b));
      for (const time of times)
        expect(new Date(time).toISOString().slice(0, 10).replaceAll("-", "")).toBe(match![2]);
      const head = await reader.send(new HeadObjectCommand({ Bucket: destination.bucket, Key: key }));
      expect(head.ContentType).toBe("application/vnd.apache.parquet");
      expect(head.Metadata?.["tidemark-events"]).toBe(String(rows.length));
      count += rows.length;
    }
    expect(count).toBe(300);
    await destination.close();
  });
});

test("every class of the format has a name for its custom source", () => {
  expect(CLASS_NAMES.toSorted()).toEqual(Object.keys(ocsf180.classes).toSorted());
});

test("OCSF lines begin with their class, by which the source is chosen", () => {
  const made = ocsf.create(ocsf.options.parse({}), { describe: describeEvent });
  for (const event of makeEvents(8)) expect(String(made.encode(event))).toMatch(/^\{"class_uid":\d+,/);
});

test("Parquet is accepted where files or objects are written, and nowhere else", () => {
  const config = (sink: object) =>
    configSchema.safeParse({
      accounts: [{ name: "a", region: "us", apiKey: { env: "K" } }],
      sinks: [{ name: "x", ...sink }],
    });
  expect(config({ type: "file", directory: "d", format: "parquet" }).success).toBe(true);
  expect(config({ type: "s3", bucket: "b", format: { type: "parquet", rawData: true } }).success).toBe(true);
  const lake = { type: "security_lake", bucket: "b", ...LAKE };
  expect(config(lake).success).toBe(true);
  expect(config({ ...lake, format: "raw" }).success).toBe(false);
  expect(config({ type: "console", format: "parquet" }).success).toBe(false);
  expect(config({ type: "kafka", brokers: ["k:1"], topic: "t", format: "parquet" }).success).toBe(false);
});

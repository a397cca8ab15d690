import { gunzipSync } from "node:zlib";
import {
  CreateBucketCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  type S3Client,
} from "@aws-sdk/client-s3";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DecisionNeededError } from "../../src/core/errors.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import { decompress } from "../../src/core/zstd.ts";
import { s3 } from "../../src/sinks/s3/sink.ts";
import { attempt, drive, openSink } from "../contract/drive.ts";
import { type Destination, testSink } from "../contract/sink.ts";
import { skipUnless } from "../support/components.ts";
import { makeBatch, makeEvent, makeEvents, TEST_JOURNAL } from "../support/events.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";
import {
  clientOf,
  findVersitygw,
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  startVersitygw,
  type Versitygw,
} from "../support/versitygw.ts";

const program = await findVersitygw();
const skip = skipUnless("versitygw", program, "run once with TIDEMARK_REQUIRE=versitygw to build it (Go)");
const SECRETS = { ID: S3_ACCESS_KEY, SECRET: S3_SECRET_KEY };
const PARTITION = "dt={date}/service={service}";

let real: Versitygw;
let reader: S3Client;
let bucketNumber = 0;

beforeAll(async () => {
  if (skip) return;
  real = await startVersitygw(program!);
  reader = clientOf(real);
});
afterAll(async () => {
  reader?.destroy();
  await real?.close();
});

async function newTarget(config: Record<string, unknown> = {}, endpoint = real.url) {
  const bucket = `lake-${++bucketNumber}`;
  await reader.send(new CreateBucketCommand({ Bucket: bucket }));
  const keys = { accessKeyId: { env: "ID" }, secretAccessKey: { env: "SECRET" } };
  return {
    definition: s3,
    bucket,
    config: { bucket, endpoint, pathStyle: true, partition: PARTITION, ...keys, ...config },
    secrets: SECRETS,
  };
}

async function objectsOf(Bucket: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const objects = new Map<string, readonly string[]>();
  const { Contents = [] } = await reader.send(new ListObjectsV2Command({ Bucket }));
  for (const { Key } of Contents) {
    const { Body } = await reader.send(new GetObjectCommand({ Bucket, Key }));
    const bytes = Buffer.from(await Body!.transformToByteArray());
    const plain = Key!.endsWith(".gz")
      ? gunzipSync(bytes)
      : Key!.endsWith(".zst")
        ? decompress(bytes)
        : bytes;
    objects.set(Key!, plain.toString().split("\n").slice(0, -1));
  }
  return objects;
}

testSink("s3 in partitions, against a real gateway", {
  skip,
  can: ["unavailable", "hangs", "storesAndCuts", "missing", "dated"],
  unordered: true,
  triesAgain: true,
  async start(): Promise<Destination> {
    const proxy = await startTcpProxy(Number(new URL(real.url).port));
    const target = await newTarget({}, `http://127.0.0.1:${proxy.port}`);
    let isKilled = false;
    return {
      ...target,
      read: async () => [...(await objectsOf(target.bucket)).values()].flat(),
      async unavailable() {
        await real.kill();
        isKilled = true;
      },
      missing: () => ({ bucket: "no-such-bucket" }),
      hangs: () => proxy.hang(),
      storesAndCuts: () => proxy.cutAnswerTo(/^PUT /),
      async normal() {
        proxy.normal();
        if (isKilled) await real.restart();
        isKilled = false;
      },
      close: () => proxy.close(),
    };
  },
});

describe.skipIf(skip)("s3 as a lake", () => {
  const dayOf = ({ timestampMs }: JournalEvent) => new Date(timestampMs).toISOString().slice(0, 10);

  test.each([
    ["zstd", ".jsonl.zst"],
    ["gzip", ".jsonl.gz"],
    ["none", ".jsonl"],
  ])(
    "puts every event into its partition, with the bounds in the name: %s",
    async (compression, extension) => {
      const target = await newTarget({ compression });
      const events = makeEvents(600);
      await drive(target, events, { batchEvents: 300 });
      const objects = await objectsOf(target.bucket);
      const wanted = new Set(events.map((event) => `dt=${dayOf(event)}/service=${event.service}`));
      for (const [key, lines] of objects) {
        const match =
          /^tidemark\/(dt=[\d-]+\/service=\w+)\/test\.(.+)\.(\d{12}\.\d{6})-(\d{12}\.\d{6})(\..+)$/.exec(
            key,
          )!;
        expect(wanted).toContain(match[1]);
        expect(match[2]).toBe(TEST_JOURNAL);
        expect(match[5]).toBe(extension);
        const own = events.filter((event) => `dt=${dayOf(event)}/service=${event.service}` === match[1]);
        for (const line of lines)
          expect(own.some(({ bytes }) => Buffer.from(bytes).toString() === line)).toBe(true);
      }
      expect([...objects.values()].flat()).toHaveLength(600);
      expect(objects.size).toBeGreaterThan(wanted.size);
    },
  );

  test("R19 a batch that was written in part is completed by its repetition, with the same objects", async () => {
    const target = await newTarget();
    const events = makeEvents(200);
    const sink = await openSink(target);
    const batch = makeBatch(sink, events);
    const stopped = new AbortController();
    const writing = attempt(sink, batch, stopped.signal);
    await expect.poll(async () => (await objectsOf(target.bucket)).size, { interval: 1 }).toBeGreaterThan(0);
    stopped.abort(new Error("killed"));
    await writing;
    await sink.close();
    const before = (await objectsOf(target.bucket)).size;
    const again = await openSink(target);
    expect(await attempt(again, batch)).toBeUndefined();
    await again.close();
    const objects = await objectsOf(target.bucket);
    expect(objects.size).toBeGreaterThanOrEqual(before);
    expect([...objects.values()].flat()).toHaveLength(200);
  });

  test("R26 an object of other content under the same key needs a person", async () => {
    const target = await newTarget();
    const events = makeEvents(20);
    const sink = await openSink(target);
    expect(await attempt(sink, makeBatch(sink, events))).toBeUndefined();
    const others = events.map((event) => ({ ...event, bytes: Buffer.from('{"other":1}') }));
    expect(await attempt(sink, makeBatch(sink, others))).toBeInstanceOf(DecisionNeededError);
    await sink.close();
  });

  test("R22 two tenants never share a folder, and 200 tenants in one batch are written", async () => {
    const target = await newTarget({ partition: "org={organization}" });
    const names = ["a/b", "a_2fb", null, ...Array.from({ length: 200 }, (_, at) => `tenant${at}`)];
    const events = names.map((organization, index) => makeEvent({ organization, index, id: `${index}` }));
    const driven = await drive(target, events, { batchEvents: events.length });
    expect(driven.errors).toEqual([]);
    const objects = await objectsOf(target.bucket);
    expect(objects.size).toBe(names.length);
    expect([...objects.keys()].some((key) => key.includes("/org=_none/"))).toBe(true);
  });
});

/** TIDEMARK_TENANTS=3000 for the size that docs/s3.md names. */
const TENANTS = Number(process.env.TIDEMARK_TENANTS ?? 300);

describe.skipIf(skip)("a lake of many tenants", () => {
  test(
    "R22 R19 every tenant has its folder, a few objects are in flight at once, and a repeat adds none",
    async () => {
      const target = await newTarget({ partition: "org={organization}/dt={date}", compression: "zstd" });
      const events = makeEvents(TENANTS * 3).map((event, at) => ({
        ...event,
        organization: `tenant${at % TENANTS}`,
      }));
      const sink = await openSink(target);
      const batch = makeBatch(sink, events);
      const startedMs = Date.now();
      expect(await attempt(sink, batch)).toBeUndefined();
      const seconds = (Date.now() - startedMs) / 1000;
      const before = await keysOf(target.bucket);
      const wanted = new Set(events.map((event) => `org=${event.organization}/dt=${dayOfEvent(event)}`));
      expect(new Set(before.map((key) => key.split("/").slice(1, 3).join("/")))).toEqual(wanted);
      expect(await attempt(sink, batch)).toBeUndefined();
      expect(await keysOf(target.bucket)).toEqual(before);
      await sink.close();
      const figures = { tenants: TENANTS, objects: before.length, seconds: Math.round(seconds) };
      process.stderr.write(`Lake of many tenants: ${JSON.stringify(figures)}\n`);
    },
    Math.max(180_000, TENANTS * 400),
  );
});

const dayOfEvent = ({ timestampMs }: JournalEvent) => new Date(timestampMs).toISOString().slice(0, 10);

async function keysOf(Bucket: string): Promise<string[]> {
  const keys: string[] = [];
  let token: string | undefined;
  do {
    const page = await reader.send(
      new ListObjectsV2Command({ Bucket, ...(token !== undefined && { ContinuationToken: token }) }),
    );
    keys.push(...(page.Contents ?? []).map(({ Key }) => Key!));
    token = page.NextContinuationToken;
  } while (token !== undefined);
  return keys;
}

test.each(["{date}/", "/x", "a b", "x//{date}", "{nope}", "{organization}{service}"])(
  "refuses the partition %s",
  (partition) => {
    expect(s3.config.safeParse({ bucket: "b", partition }).success).toBe(false);
  },
);

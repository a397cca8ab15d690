import { gunzipSync } from "node:zlib";
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from "@aws-sdk/client-s3";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { DecisionNeededError, PausedError, RetryableError, TooLargeError } from "../../src/core/errors.ts";
import type { Format } from "../../src/core/format.ts";
import type { Sink } from "../../src/core/sink.ts";
import { s3 } from "../../src/sinks/s3/sink.ts";
import { attempt, drive, openSink, type Target } from "../contract/drive.ts";
import { type Destination, testSink } from "../contract/sink.ts";
import { type Reply, type StandInServer, startServer } from "../stand-ins/server.ts";
import { skipUnless } from "../support/components.ts";
import { cefFormat, makeBatch, makeEvents, TEST_JOURNAL } from "../support/events.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";
import {
  clientOf,
  findVersitygw,
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  startVersitygw,
  type Versitygw,
} from "../support/versitygw.ts";
import { eventsOfSize, measured } from "./limits.ts";

const program = await findVersitygw();
const skip = skipUnless("versitygw", program, "run once with TIDEMARK_REQUIRE=versitygw to build it (Go)");
const SECRETS = { ID: S3_ACCESS_KEY, SECRET: S3_SECRET_KEY };
const KEYS = { accessKeyId: { env: "ID" }, secretAccessKey: { env: "SECRET" } };

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

async function makeBucket(objectLock = false): Promise<string> {
  const Bucket = `bucket-${++bucketNumber}`;
  await reader.send(new CreateBucketCommand({ Bucket, ObjectLockEnabledForBucket: objectLock }));
  return Bucket;
}

async function keysOf(Bucket: string): Promise<string[]> {
  const { Contents = [] } = await reader.send(new ListObjectsV2Command({ Bucket }));
  return Contents.map(({ Key }) => Key!);
}

/** The lines of all objects, in the order of their keys, which is the journal's. */
async function linesOf(Bucket: string): Promise<string[]> {
  const lines: string[] = [];
  for (const Key of await keysOf(Bucket)) {
    const { Body } = await reader.send(new GetObjectCommand({ Bucket, Key }));
    const bytes = await Body!.transformToByteArray();
    const text = (Key.endsWith(".gz") ? gunzipSync(bytes) : Buffer.from(bytes)).toString();
    expect(text.endsWith("\n")).toBe(true);
    lines.push(...text.slice(0, -1).split("\n"));
  }
  return lines;
}

function configOf(bucket: string, more: Record<string, unknown> = {}): Record<string, unknown> {
  return { bucket, endpoint: real.url, pathStyle: true, ...KEYS, ...more };
}

async function startDestination(more: Record<string, unknown> = {}): Promise<Destination> {
  const bucket = await makeBucket();
  const proxy = await startTcpProxy(Number(new URL(real.url).port));
  const secrets = { ...SECRETS };
  let isKilled = false;
  return {
    definition: s3,
    config: configOf(bucket, { endpoint: `http://127.0.0.1:${proxy.port}`, ...more }),
    secrets,
    read: () => linesOf(bucket),
    async unavailable() {
      await real.kill();
      isKilled = true;
    },
    unauthorized() {
      secrets.SECRET = "another-secret-access-key";
    },
    missing: () => ({ bucket: "no-such-bucket" }),
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
testSink("s3, against a real service", { skip, can, start: startDestination });
testSink("s3 without compression, against a real service", {
  skip,
  can,
  start: () => startDestination({ gzip: false }),
});

describe.skipIf(skip)("the s3 sink, against a real service", () => {
  const signal = new AbortController().signal;
  let sink: Sink | undefined;

  async function open(bucket: string, more: Record<string, unknown> = {}): Promise<Sink> {
    sink = await openSink(target(bucket, more));
    return sink;
  }

  function target(bucket: string, more: Record<string, unknown> = {}): Target {
    return { definition: s3, config: configOf(bucket, more), secrets: SECRETS };
  }

  afterEach(async () => {
    await sink?.close();
    sink = undefined;
  });

  test("R26 a key is the sink, the journal and the bounds, and keys sort as the journal does", async () => {
    const bucket = await makeBucket();
    const events = makeEvents(250);
    await drive(target(bucket), events, { batchEvents: 90 });
    expect(await keysOf(bucket)).toEqual([
      `tidemark/test/${TEST_JOURNAL}/000000000001.000000-000000000001.000090.jsonl.gz`,
      `tidemark/test/${TEST_JOURNAL}/000000000001.000090-000000000002.000080.jsonl.gz`,
      `tidemark/test/${TEST_JOURNAL}/000000000002.000080-000000000003.000050.jsonl.gz`,
    ]);
    expect(await linesOf(bucket)).toEqual(events.map((event) => Buffer.from(event.bytes).toString()));
  });

  test("R26 an existing object with the same content is done, whatever it was compressed with", async () => {
    const bucket = await makeBucket();
    const events = makeEvents(20);
    const opened = await open(bucket);
    await opened.write(makeBatch(opened, events), signal);
    const [Key] = await keysOf(bucket);
    const { ETag } = await reader.send(new HeadObjectCommand({ Bucket: bucket, Key }));
    await opened.write(makeBatch(opened, events), signal);
    expect((await reader.send(new HeadObjectCommand({ Bucket: bucket, Key }))).ETag).toBe(ETag);
    expect(await linesOf(bucket)).toHaveLength(20);
  });

  test("C12 an object that an earlier version wrote from the same events is done, and is not replaced", async () => {
    const bucket = await makeBucket();
    const opened = await open(bucket);
    const events = makeEvents(5);
    await opened.write(makeBatch(opened, events), signal);
    await opened.close();
    const wrapping: Format = {
      name: "wrapping",
      mediaType: "application/json",
      encode: (event) => JSON.stringify({ wrapped: Buffer.from(event.bytes).toString() }),
    };
    sink = await openSink({ ...target(bucket), format: wrapping });
    await sink.write(makeBatch(sink, events), signal);
    expect(await linesOf(bucket)).toEqual(events.map((event) => Buffer.from(event.bytes).toString()));
    const others = [...events.slice(0, 4), { ...events[4]!, bytes: Buffer.from('{"another":"history"}') }];
    expect(await attempt(sink, makeBatch(sink, others))).toBeInstanceOf(DecisionNeededError);
  });

  test("R26 an existing object with other content needs a decision and is not replaced", async () => {
    const bucket = await makeBucket();
    const opened = await open(bucket);
    const events = makeEvents(5);
    await opened.write(makeBatch(opened, events), signal);
    const others = [...events.slice(0, 4), { ...events[4]!, bytes: Buffer.from('{"another":"history"}') }];
    const error = (await attempt(opened, makeBatch(opened, others))) as DecisionNeededError;
    expect(error).toBeInstanceOf(DecisionNeededError);
    expect(error.choices.length).toBeGreaterThan(1);
    expect(await linesOf(bucket)).toEqual(events.map((event) => Buffer.from(event.bytes).toString()));
  });

  test("R26 a foreign object without our digest under our key needs a decision", async () => {
    const bucket = await makeBucket();
    const opened = await open(bucket);
    const batch = makeBatch(opened, makeEvents(5));
    await opened.write(batch, signal);
    const [Key] = await keysOf(bucket);
    await reader.send(new PutObjectCommand({ Bucket: bucket, Key, Body: "foreign" }));
    expect(await attempt(opened, batch)).toBeInstanceOf(DecisionNeededError);
  });

  test("Object Lock protects what was written, and a repeated batch is still done", async () => {
    const bucket = await makeBucket(true);
    const opened = await open(bucket, { objectLock: { mode: "compliance", retention: "1d" } });
    const batch = makeBatch(opened, makeEvents(5));
    await opened.write(batch, signal);
    const [Key] = await keysOf(bucket);
    const head = await reader.send(new HeadObjectCommand({ Bucket: bucket, Key }));
    expect(head.ObjectLockMode).toBe("COMPLIANCE");
    expect(Math.abs(head.ObjectLockRetainUntilDate!.getTime() - Date.now() - 86_400_000)).toBeLessThan(
      60_000,
    );
    const removal = new DeleteObjectCommand({ Bucket: bucket, Key, VersionId: head.VersionId });
    await expect(reader.send(removal)).rejects.toMatchObject({ name: "AccessDenied" });
    expect(await attempt(opened, batch)).toBeUndefined();
  });

  test("Object Lock on a bucket that has none pauses with a remedy", async () => {
    const opened = await open(await makeBucket(), { objectLock: { mode: "governance", retention: "1d" } });
    expect(await attempt(opened, makeBatch(opened, makeEvents(1)))).toBeInstanceOf(PausedError);
  });

  test("where the service answers 403 for a locked object, a repeated batch is done all the same", async () => {
    const other = await startVersitygw(program!, { versioning: false });
    const to = { ...target("locked"), config: { ...configOf("locked"), endpoint: other.url } };
    const client = clientOf(other);
    try {
      await client.send(new CreateBucketCommand({ Bucket: "locked", ObjectLockEnabledForBucket: true }));
      sink = await openSink({
        ...to,
        config: { ...to.config, objectLock: { mode: "compliance", retention: "1d" } },
      });
      const batch = makeBatch(sink, makeEvents(5));
      await sink.write(batch, signal);
      expect(await attempt(sink, batch)).toBeUndefined();
    } finally {
      client.destroy();
      await other.close();
    }
  });

  test("a bucket that does not exist and an unknown key are reported at open", async () => {
    await expect(open("missing-bucket")).rejects.toMatchObject({
      name: "PausedError",
      remedy: expect.stringContaining("Create the bucket"),
    });
    const bucket = await makeBucket();
    const wrong = { ...target(bucket), secrets: { ...SECRETS, ID: "nobody" } };
    await expect(openSink(wrong)).rejects.toMatchObject({ name: "PausedError" });
  });

  test("a batch of exactly objectBytesMax is one object, and one byte more exceeds the limit", async () => {
    const bucket = await makeBucket();
    const opened = await open(bucket, { objectBytesMax: 5000, objectAgeMax: "10s", gzip: false });
    expect(opened.limits).toMatchObject({ bytesMax: 5000, ageMsMax: 10_000 });
    const fitting = makeBatch(opened, eventsOfSize(opened, 7, 5000));
    expect(
      measured(
        opened.limits,
        fitting.records.map((record) => record.body),
      ),
    ).toBe(5000);
    await opened.write(fitting, signal);
    const [Key] = await keysOf(bucket);
    expect((await reader.send(new HeadObjectCommand({ Bucket: bucket, Key }))).ContentLength).toBe(5000);
    const larger = makeBatch(opened, eventsOfSize(opened, 7, 5001));
    expect(
      measured(
        opened.limits,
        larger.records.map((record) => record.body),
      ),
    ).toBe(5001);
  });

  test("text formats become lines of .log objects", async () => {
    const bucket = await makeBucket();
    const events = makeEvents(3);
    await drive({ ...target(bucket), format: cefFormat }, events);
    expect((await keysOf(bucket))[0]).toMatch(/\.log\.gz$/);
    expect(await linesOf(bucket)).toEqual(events.map((event) => cefFormat.encode(event)));
  });
});

describe("the s3 sink and a service in trouble", () => {
  let server: StandInServer;
  let sink: Sink;

  const xml = (status: number, code: string): Reply => ({
    status,
    headers: { "content-type": "application/xml" },
    body: `<?xml version="1.0"?><Error><Code>${code}</Code><Message>words of the service</Message></Error>`,
  });

  afterEach(async () => {
    await sink.close();
    await server.close();
  });

  test.each([
    [503, "SlowDown", RetryableError],
    [500, "InternalError", RetryableError],
    [409, "ConditionalRequestConflict", RetryableError],
    [400, "RequestTimeout", RetryableError],
    [400, "BadDigest", RetryableError],
    [400, "EntityTooLarge", TooLargeError],
    [403, "AccessDenied", PausedError],
    [403, "SignatureDoesNotMatch", PausedError],
    [400, "ExpiredToken", PausedError],
    [404, "NoSuchBucket", PausedError],
    [301, "PermanentRedirect", PausedError],
    [501, "NotImplemented", PausedError],
  ])("an answer of %i %s has its one consequence", async (status, code, kind) => {
    server = await startServer((received) =>
      received.method === "PUT"
        ? xml(status, code)
        : { status: received.method === "HEAD" ? 404 : 200, body: "" },
    );
    sink = await openSink({
      definition: s3,
      config: { bucket: "b", endpoint: server.url, pathStyle: true, ...KEYS },
      secrets: SECRETS,
    });
    const error = await attempt(sink, makeBatch(sink, makeEvents(2)));
    expect(error).toBeInstanceOf(kind);
    expect((error as Error).message).toContain(code);
  });
});

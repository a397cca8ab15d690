import { PassThrough } from "node:stream";
import { gunzipSync } from "node:zlib";
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  type S3Client,
} from "@aws-sdk/client-s3";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createAlarms } from "../../src/core/alarms.ts";
import {
  DecisionNeededError,
  PausedError,
  RejectedEventsError,
  RetryableError,
} from "../../src/core/errors.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import { silentLog } from "../../src/core/log.ts";
import { silentMetrics } from "../../src/core/metrics.ts";
import { createWake } from "../../src/core/wake.ts";
import { createDelivery } from "../../src/delivery/deliver.ts";
import { STORED_MAX, storedObjects } from "../../src/sinks/objects/stored.ts";
import { writeParts } from "../../src/sinks/objects/write-parts.ts";
import { s3 } from "../../src/sinks/s3/sink.ts";
import { inParallel } from "../../src/sinks/shared/in-parallel.ts";
import { attempt, drive, openSink, parseConfig, type Target } from "../contract/drive.ts";
import { stepUntilIdle } from "../delivery/support.ts";
import { openFixture } from "../journal/support.ts";
import { createFakeClock } from "../support/clock.ts";
import { skipUnless } from "../support/components.ts";
import { makeBatch, makeEvents, rawFormat } from "../support/events.ts";
import { type Fate, type HttpProxy, type ProxiedRequest, startHttpProxy } from "../support/http-proxy.ts";
import { eventText, FETCHED_MS, pageOf } from "../support/pages.ts";
import {
  findVersitygw,
  openBucket,
  S3_ACCESS_KEY,
  S3_SECRET_KEY,
  startVersitygw,
  type Versitygw,
} from "../support/versitygw.ts";

const program = await findVersitygw();
const skip = skipUnless("versitygw", program, "run once with TIDEMARK_REQUIRE=versitygw to build it (Go)");

const OBJECTS = 96;
const EVENTS = eventsOf(OBJECTS);
const LINES = textsOf(EVENTS);

/** Three events for every two objects. */
function eventsOf(objects: number): readonly JournalEvent[] {
  const events = makeEvents(objects * 1.5);
  return events.map((event, at) => ({ ...event, organization: `tenant${at % objects}` }));
}

function textsOf(events: readonly JournalEvent[]): readonly string[] {
  return events.map(({ bytes }) => Buffer.from(bytes).toString()).toSorted();
}

const error = (status: number, code: string, headers = {}): Fate => ({
  status,
  headers: { "content-type": "application/xml", ...headers },
  body: `<?xml version="1.0"?><Error><Code>${code}</Code><Message>words of the service</Message></Error>`,
});
const SLOW_DOWN = error(503, "SlowDown");

describe.skipIf(skip)("a batch of many objects, against a real gateway with faults", () => {
  let real: Versitygw;
  let reader: S3Client;
  let proxy: HttpProxy;
  let bucket = "";
  let bucketNumber = 0;

  beforeAll(async () => {
    real = await startVersitygw(program!);
    reader = await openBucket(real, "unused");
  });
  afterAll(async () => {
    reader?.destroy();
    await real?.close();
  });
  beforeEach(async () => {
    bucket = `faults-${++bucketNumber}`;
    await reader.send(new CreateBucketCommand({ Bucket: bucket }));
    proxy = await startHttpProxy(real.url);
  });
  afterEach(() => proxy.close());

  function newTarget(memory = new Map<string, unknown>()): Target {
    const keys = { accessKeyId: { env: "ID" }, secretAccessKey: { env: "SECRET" } };
    const place = { bucket, endpoint: proxy.url, pathStyle: true };
    return {
      definition: s3,
      config: { ...place, ...keys, partition: "org={organization}" },
      secrets: { ID: S3_ACCESS_KEY, SECRET: S3_SECRET_KEY },
      memory,
    };
  }

  async function keysOf(): Promise<string[]> {
    const { Contents = [] } = await reader.send(new ListObjectsV2Command({ Bucket: bucket }));
    return Contents.map(({ Key }) => Key!);
  }

  async function linesOf(): Promise<string[]> {
    const lines: string[] = [];
    await inParallel(await keysOf(), 16, async (Key) => {
      const { Body } = await reader.send(new GetObjectCommand({ Bucket: bucket, Key }));
      lines.push(
        ...gunzipSync(await Body!.transformToByteArray())
          .toString()
          .split("\n")
          .slice(0, -1),
      );
    });
    return lines.toSorted();
  }

  /** The PUTs that the service answered with this status. */
  const putsWith = (status: number | undefined) =>
    proxy.seen.filter((seen) => seen.method === "PUT" && seen.status === status).length;
  const putAll = () => drive(newTarget(), EVENTS, { batchEvents: EVENTS.length });

  /** Takes so many objects, then refuses all until the sink is opened again. */
  function takesAtOnce(count: number): (request: ProxiedRequest) => Fate {
    let left = count;
    return ({ method }) => {
      if (method === "GET") left = count;
      if (method !== "PUT") return "pass";
      return left-- > 0 ? "pass" : SLOW_DOWN;
    };
  }

  test("one SlowDown in fifty does not end the attempt, and nothing is asked for twice", async () => {
    const objects = 300;
    const events = eventsOf(objects);
    proxy.decide(({ method, number }) => (method === "PUT" && number % 50 === 0 ? SLOW_DOWN : "pass"));
    const { errors } = await drive(newTarget(), events, { batchEvents: events.length });
    expect(errors).toEqual([]);
    expect(await linesOf()).toEqual(textsOf(events));
    expect([putsWith(200), putsWith(412), putsWith(undefined)]).toEqual([objects, 0, 6]);
  });

  test("answers that are lost in the same attempt are found to be ours, with one HEAD for each", async () => {
    let lost = 0;
    proxy.decide(({ method, number }) => {
      if (method !== "PUT" || number > OBJECTS || number % 10 !== 0) return "pass";
      lost++;
      return "cut";
    });
    const { errors } = await putAll();
    expect(errors).toEqual([]);
    expect(await linesOf()).toEqual(LINES);
    expect(lost).toBeGreaterThan(5);
    expect([putsWith(200), putsWith(412)]).toEqual([OBJECTS, lost]);
    expect(proxy.seen.filter(({ method }) => method === "HEAD")).toHaveLength(lost);
  });

  test("the next attempt goes on with the objects that are left, soon, and asks for no other", async () => {
    proxy.decide(takesAtOnce(32));
    const { errors } = await putAll();
    expect(errors.length).toBeGreaterThan(1);
    expect(errors.length).toBeLessThanOrEqual(OBJECTS / 32);
    for (const each of errors) expect(each).toMatchObject({ name: "RetryableError", retryAfterMs: 1000 });
    expect(await linesOf()).toEqual(LINES);
    expect([putsWith(200), putsWith(412)]).toEqual([OBJECTS, 0]);
  });

  test("a restart between the attempts repeats the stored objects, and doubles none", async () => {
    proxy.decide(takesAtOnce(60));
    const memory = new Map<string, unknown>();
    const target = newTarget(memory);
    const { errors } = await drive(target, EVENTS, {
      batchEvents: EVENTS.length,
      onError: () => {
        memory.clear();
        proxy.decide(() => "pass");
      },
    });
    expect(errors).toHaveLength(1);
    expect(putsWith(412)).toBeGreaterThanOrEqual(60);
    expect(putsWith(200)).toBe(OBJECTS);
    expect(await linesOf()).toEqual(LINES);
  });

  describe("objects that are refused as too large", () => {
    const LARGE = error(413, "EntityTooLarge");
    /** Ten objects of 1 to 19 events; a proxy in front of the service refuses bodies beyond a size. */
    const events = makeEvents(100).map((event, at) => ({
      ...event,
      organization: `tenant${Math.floor(Math.sqrt(at))}`,
    }));
    const texts = textsOf(events);
    const allowing =
      (bytesMax: number, puts = Number.POSITIVE_INFINITY) =>
      ({ method, bytes }: ProxiedRequest): Fate => {
        if (method !== "PUT") return "pass";
        if (bytes > bytesMax) return LARGE;
        return puts-- > 0 ? "pass" : SLOW_DOWN;
      };
    const plain = () => {
      const target = newTarget();
      return { ...target, config: { ...(target.config as object), compression: "none" } };
    };
    const largest = Math.max(...events.map(({ bytes }) => bytes.length)) + 1;
    const plainLines = async () => {
      const lines: string[] = [];
      for (const Key of await keysOf()) {
        const { Body } = await reader.send(new GetObjectCommand({ Bucket: bucket, Key }));
        lines.push(...(await Body!.transformToString()).split("\n").slice(0, -1));
      }
      return lines.toSorted();
    };

    describe("of one object, stored while the answer was lost", () => {
      /** The first PUT is stored and not answered. From then on bodies of its size are refused. */
      function cutsThenRefuses(): (request: ProxiedRequest) => Fate {
        let first = 0;
        return ({ method, bytes }) => {
          if (method !== "PUT") return "pass";
          if (first === 0) {
            first = bytes;
            return "cut";
          }
          return bytes < first ? "pass" : LARGE;
        };
      }
      const whole = () => {
        const target = plain();
        return { ...target, config: { ...target.config, partition: undefined } };
      };

      test("the same attempt finds it and stores no halves", async () => {
        proxy.decide(cutsThenRefuses());
        await drive(whole(), events, { batchEvents: events.length });
        expect(await plainLines()).toEqual(texts);
        expect(await keysOf()).toHaveLength(1);
      });

      test("so does a new process", async () => {
        const decide = cutsThenRefuses();
        const refusing = ({ method }: ProxiedRequest): Fate => (method === "PUT" ? SLOW_DOWN : "pass");
        // The client repeats a request that was cut: the service is down then, and the attempt ends.
        proxy.decide((request) =>
          request.method === "PUT" && request.number > 1 ? refusing(request) : decide(request),
        );
        const sink = await openSink(whole());
        expect(await attempt(sink, makeBatch(sink, events))).toBeInstanceOf(RetryableError);
        await sink.close();
        proxy.decide(decide);
        const { errors } = await drive(whole(), events, { batchEvents: events.length });
        expect(errors).toEqual([]);
        expect(await plainLines()).toEqual(texts);
        expect(await keysOf()).toHaveLength(1);
      });

      test("R26 one with other content stops the sink, and one that is not there is stored in halves", async () => {
        const others = events.map((event) => ({ ...event, bytes: Buffer.from('{"other":1}') }));
        const sink = await openSink(whole());
        expect(await attempt(sink, makeBatch(sink, others))).toBeUndefined();
        proxy.decide(allowing(1));
        expect(await attempt(sink, makeBatch(sink, events))).toBeInstanceOf(DecisionNeededError);
        await sink.close();
        for (const Key of await keysOf()) await reader.send(new DeleteObjectCommand({ Bucket: bucket, Key }));
        proxy.decide(allowing(largest * 30));
        const { errors } = await drive(whole(), events, { batchEvents: events.length });
        expect(errors.map(({ name }) => name)).toContain("TooLargeError");
        expect(await plainLines()).toEqual(texts);
      });
    });

    test("they are stored in pieces, and no other object is stored again", async () => {
      proxy.decide(allowing(largest * 4));
      const { errors } = await drive(plain(), events, { batchEvents: events.length });
      expect(errors).toEqual([]);
      expect(await plainLines()).toEqual(texts);
    });

    test("cut off after each request, and then with another limit: every event is there once", async () => {
      for (const next of [allowing(largest * 4), allowing(largest * 2), allowing(Number.POSITIVE_INFINITY)])
        for (let [puts, isOver] = [1, false]; !isOver; puts += 5) {
          bucket = `faults-${++bucketNumber}`;
          await reader.send(new CreateBucketCommand({ Bucket: bucket }));
          proxy.decide(allowing(largest * 4, puts));
          const sink = await openSink(plain());
          const failure = await attempt(sink, makeBatch(sink, events));
          isOver = failure === undefined;
          if (!isOver) expect(failure).toBeInstanceOf(RetryableError);
          await sink.close();
          // Nothing is remembered: this is a new process.
          proxy.decide(next);
          const again = await openSink(plain());
          expect(await attempt(again, makeBatch(again, events))).toBeUndefined();
          await again.close();
          expect(await plainLines(), `after ${puts} requests`).toEqual(texts);
        }
    });

    test("an event that is too large alone is refused, also again after a restart, and the others are stored", async () => {
      const odd = events.map((event, at) =>
        at % 20 === 9 ? { ...event, bytes: Buffer.concat([event.bytes, Buffer.alloc(5000, 32)]) } : event,
      );
      proxy.decide(allowing(largest * 4));
      for (let attempts = 0; attempts < 2; attempts++) {
        const sink = await openSink(plain());
        const failure = (await attempt(sink, makeBatch(sink, odd))) as RejectedEventsError;
        expect(failure).toBeInstanceOf(RejectedEventsError);
        expect(failure.remaining).toBeUndefined();
        expect(failure.rejected.map(({ index }) => index).toSorted((a, b) => a - b)).toEqual([
          9, 29, 49, 69, 89,
        ]);
        await sink.close();
        expect(await plainLines()).toEqual(textsOf(odd.filter((_, at) => at % 20 !== 9)));
      }
    });
  });

  test("a service that is down ends the attempt after a few objects", async () => {
    proxy.decide(({ method }) => (method === "PUT" ? SLOW_DOWN : "pass"));
    const sink = await openSink(newTarget());
    const failure = await attempt(sink, makeBatch(sink, EVENTS));
    expect(failure).toMatchObject({ name: "RetryableError", retryAfterMs: undefined });
    expect((failure as Error).message).toContain("SlowDown");
    // Eight failures, and those that had begun by then.
    expect(putsWith(undefined)).toBeLessThan(16);
    await sink.close();
  });

  test("Retry-After is waited for by delivery: the refused object is not asked for before", async () => {
    const wait = error(503, "SlowDown", { "retry-after": "7" });
    proxy.decide(({ method, number }) => (method === "PUT" && number === 30 ? wait : "pass"));
    const memory = new Map<string, unknown>();
    const sink = await openSink(newTarget(memory));
    expect(await attempt(sink, makeBatch(sink, EVENTS))).toMatchObject({
      name: "RetryableError",
      retryAfterMs: 7000,
    });
    await sink.close();
    expect(putsWith(200)).toBe(OBJECTS - 1);
    const again = await openSink(newTarget(memory));
    expect(await attempt(again, makeBatch(again, EVENTS))).toBeUndefined();
    await again.close();
    expect([putsWith(200), putsWith(412)]).toEqual([OBJECTS, 0]);
  });

  test("R26 an object that an earlier attempt stored does not stand for other content", async () => {
    proxy.decide(takesAtOnce(50));
    const memory = new Map<string, unknown>();
    const sink = await openSink(newTarget(memory));
    expect(await attempt(sink, makeBatch(sink, EVENTS))).toBeInstanceOf(RetryableError);
    await sink.close();
    proxy.decide(() => "pass");
    const others = EVENTS.map((event) => ({ ...event, bytes: Buffer.from('{"other":1}') }));
    const again = await openSink(newTarget(memory));
    expect(await attempt(again, makeBatch(again, others))).toBeInstanceOf(DecisionNeededError);
    await again.close();
  });

  test.each([
    ["the bucket was away", PausedError],
    ["the operator resumed the sink", RetryableError],
  ])("writes all objects again where they may be gone: %s", async (situation, kind) => {
    const isAway = kind === PausedError;
    const memory = new Map<string, unknown>();
    const isLate = ({ method, number }: ProxiedRequest) => method === "PUT" && number > 50;
    proxy.decide((request) => (isLate(request) ? (isAway ? error(404, "NoSuchBucket") : SLOW_DOWN) : "pass"));
    const sink = await openSink(newTarget(memory));
    expect(await attempt(sink, makeBatch(sink, EVENTS)), situation).toBeInstanceOf(kind);
    await sink.close();
    proxy.decide(() => "pass");
    // The operator's resume opens the sink without a write.
    if (!isAway) await (await openSink(newTarget(memory))).close();
    for (const Key of await keysOf()) await reader.send(new DeleteObjectCommand({ Bucket: bucket, Key }));
    expect((await drive(newTarget(memory), EVENTS, { batchEvents: EVENTS.length })).errors).toEqual([]);
    expect(await linesOf()).toEqual(LINES);
  });

  test("R19 a delivery says what is wrong while the service is down, then goes on from object to object", async () => {
    const clock = createFakeClock(FETCHED_MS);
    const fixture = openFixture(clock);
    const kinds = 96;
    const texts = Array.from({ length: 150 }, (_, at) => eventText(at, { event_type: `kind_${at % kinds}` }));
    await fixture.journal.append(pageOf(texts));
    const target = newTarget();
    const config = parseConfig({ ...target, config: { ...target.config, partition: "{event_type}" } });
    const delivery = createDelivery({
      ...{ name: "lake", definition: s3, config, format: rawFormat, clock, log: silentLog },
      ...{ reader: await fixture.journal.reader("lake"), journal: fixture.journal.id, wants: () => true },
      ...{ alarms: createAlarms(clock, silentLog), metrics: silentMetrics, stdout: new PassThrough() },
      ...{ wake: createWake(clock), end: () => fixture.journal.end(), draining: () => true },
    });
    try {
      proxy.decide(({ method }) => (method === "PUT" ? SLOW_DOWN : "pass"));
      await stepUntilIdle(delivery);
      expect(delivery.status()).toMatchObject({ state: "retrying", sentEvents: 0 });
      expect(delivery.status().reason).toContain("SlowDown");
      proxy.decide(takesAtOnce(32));
      for (let attempts = 1; attempts <= kinds / 32 + 1; attempts++) {
        clock.advance(1000);
        await stepUntilIdle(delivery);
      }
      expect(delivery.status()).toMatchObject({ state: "running", sentEvents: texts.length });
      expect([putsWith(200), putsWith(412)]).toEqual([kinds, 0]);
      expect(await linesOf()).toHaveLength(texts.length);
    } finally {
      await delivery.close();
      fixture.close();
    }
  });
});

describe("the parts of a batch", () => {
  const parts = Array.from({ length: 500 }, (_, at) => at);

  test("where two of three tries fail, few attempts store every part once", async () => {
    const stored = new Set<number>();
    let tries = 0;
    let attempts = 0;
    const write = async (part: number) => {
      if (stored.has(part)) return false;
      if (++tries % 3 !== 0) throw new RetryableError("busy");
      stored.add(part);
      return true;
    };
    for (let isDone = false; !isDone; attempts++)
      isDone = await writeParts(parts, write).then(
        () => true,
        () => false,
      );
    expect(stored.size).toBe(parts.length);
    expect(attempts).toBeLessThan(6);
    expect(tries).toBe(parts.length * 3);
  });

  test("parts that were stored before do not hide that the destination is down", async () => {
    let tries = 0;
    const failure = await writeParts(parts, async (part) => {
      if (part % 2 === 0) return false;
      tries++;
      throw new RetryableError("down");
    }).catch((thrown: unknown) => thrown);
    expect(failure).toMatchObject({ message: "down", retryAfterMs: undefined });
    expect(tries).toBe(8);
  });

  test("an error that does not pass ends the attempt at once", async () => {
    let tries = 0;
    const refused = new PausedError("refused", "allow it");
    const failure = writeParts(parts, async () => {
      tries++;
      throw refused;
    });
    await expect(failure).rejects.toBe(refused);
    expect(tries).toBe(8);
  });

  test("the memory for stored objects has a limit, and each object counts with its own content", () => {
    const memory = new Map<string, unknown>();
    const before = storedObjects(memory);
    for (let at = 0; at < STORED_MAX + 10; at++) before.add(`key${at}`, "digest");
    before.failed(new RetryableError("busy"));
    const after = storedObjects(memory);
    expect(after.has("key0", "digest")).toBe(true);
    expect(after.has("key0", "another")).toBe(false);
    expect(after.has(`key${STORED_MAX - 1}`, "digest")).toBe(true);
    expect(after.has(`key${STORED_MAX}`, "digest")).toBe(false);
    after.written();
    expect(after.has("key0", "digest")).toBe(false);
  });
});

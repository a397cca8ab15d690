import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { PausedError, RejectedEventsError, RetryableError, TooLargeError } from "../../src/core/errors.ts";
import type { Log } from "../../src/core/log.ts";
import type { Sink } from "../../src/core/sink.ts";
import { otlp } from "../../src/sinks/otlp.ts";
import { attempt, drive, openSink } from "../contract/drive.ts";
import { type Destination, testSink } from "../contract/sink.ts";
import { type Reply, startServer } from "../stand-ins/server.ts";
import { skipUnless } from "../support/components.ts";
import { makeBatch, makeEvent, makeEvents } from "../support/events.ts";
import { findOtelcol, type Otelcol, startOtelcol } from "../support/otelcol.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";
import { eventsOfSize, measured } from "./limits.ts";

const program = await findOtelcol();
const skip = skipUnless("otelcol", program, "run once with TIDEMARK_REQUIRE=otelcol to build it (Go)");
const SECRETS = { OTLP_TOKEN: "Bearer s3cr3t-of-the-collector" };
const BODY_BYTES_MAX = 100_000;

async function startCollector(): Promise<Destination> {
  const collector = await startOtelcol(program!, BODY_BYTES_MAX);
  const proxy = await startTcpProxy(Number(new URL(collector.url).port));
  let isKilled = false;
  return {
    definition: otlp,
    config: { url: `http://127.0.0.1:${proxy.port}`, headers: { Authorization: { env: "OTLP_TOKEN" } } },
    secrets: SECRETS,
    read: async () => collector.records().map(({ body }) => body),
    async unavailable() {
      await collector.kill();
      isKilled = true;
    },
    hangs: () => proxy.hang(),
    storesAndCuts: () => proxy.cutAnswerTo(/^POST .*content-encoding: gzip/s),
    async normal() {
      proxy.normal();
      if (isKilled) await collector.restart();
      isKilled = false;
    },
    async close() {
      await proxy.close();
      await collector.close();
    },
  };
}

testSink("otlp, against a real collector", {
  skip,
  can: ["unavailable", "hangs", "storesAndCuts", "dated"],
  start: startCollector,
});

function inProtobuf(body: Buffer): Reply {
  return { status: 200, headers: { "content-type": "application/x-protobuf" }, body };
}

/** partial_success { rejected_log_records, error_message }, as a protobuf library writes it. */
function partialSuccess(rejected: number, message: string): Buffer {
  const count = rejected < 128 ? [rejected] : [(rejected & 0x7f) | 0x80, rejected >> 7];
  const words = Buffer.from(message);
  const inner = Buffer.concat([Buffer.of(0x08, ...count, 0x12, words.length), words]);
  return Buffer.concat([Buffer.of(0x0a, inner.length), inner]);
}

/** A receiver that refuses by the specification: partial success, which is answered with a 200. */
async function startPartial({ isProtobuf = false } = {}) {
  const stored: string[] = [];
  const state = {
    refusedIds: [] as readonly string[],
    recordsMax: Number.POSITIVE_INFINITY,
    token: SECRETS.OTLP_TOKEN,
  };
  const server = await startServer((received) => {
    if (received.path !== "/v1/logs") return { status: 404 };
    if (received.headers.authorization !== state.token) return { status: 401, body: { message: "no" } };
    const request = JSON.parse(received.body.toString()) as {
      resourceLogs: { scopeLogs: { logRecords: { body: { stringValue: string } }[] }[] }[];
    };
    const records = request.resourceLogs.flatMap((r) => r.scopeLogs.flatMap((s) => s.logRecords));
    if (records.length > state.recordsMax) return { status: 413 };
    const bodies = records.map((record) => record.body.stringValue);
    const taken = bodies.filter((body) => !state.refusedIds.some((id) => body.includes(id)));
    stored.push(...taken);
    const rejected = bodies.length - taken.length;
    if (isProtobuf) return inProtobuf(rejected === 0 ? Buffer.of() : partialSuccess(rejected, "too odd"));
    if (rejected === 0) return { status: 200, body: { partialSuccess: {} } };
    return {
      status: 200,
      body: { partialSuccess: { rejectedLogRecords: String(rejected), errorMessage: "too odd" } },
    };
  });
  return {
    definition: otlp,
    config: { url: `${server.url}/`, headers: { Authorization: { env: "OTLP_TOKEN" } } },
    secrets: SECRETS,
    server,
    read: async () => stored,
    unavailable: () => server.answerAll({ status: 503 }),
    unauthorized() {
      state.token = "another";
    },
    takesAtMost(events: number) {
      state.recordsMax = events;
    },
    refuses(ids: readonly string[]) {
      state.refusedIds = ids;
    },
    hangs: () => server.hang(),
    storesAndCuts: () => server.cutNext(),
    normal() {
      server.normal();
      Object.assign(state, {
        refusedIds: [],
        recordsMax: Number.POSITIVE_INFINITY,
        token: SECRETS.OTLP_TOKEN,
      });
    },
    close: () => server.close(),
  } satisfies Destination & { server: unknown };
}

testSink("otlp, against a receiver that refuses in part", {
  can: ["unavailable", "unauthorized", "takesAtMost", "refuses", "hangs", "storesAndCuts", "dated"],
  start: () => startPartial(),
});

testSink("otlp, against a receiver that refuses in part and answers in protobuf", {
  can: ["unavailable", "unauthorized", "takesAtMost", "refuses", "hangs", "storesAndCuts", "dated"],
  start: () => startPartial({ isProtobuf: true }),
});

describe.skipIf(skip)("the otlp sink, against a real collector", () => {
  let collector: Otelcol;
  const signal = new AbortController().signal;

  beforeAll(async () => {
    collector = await startOtelcol(program!, BODY_BYTES_MAX);
  });
  afterAll(() => collector?.close());

  test("a record carries the event's time at full precision, severity and the identity", async () => {
    const sink = await openSink({
      definition: otlp,
      config: { url: collector.url, resource: { env: "test" } },
    });
    const event = makeEvent({ timestamp: "2026-03-14T15:09:26.535897932Z" });
    await sink.write(makeBatch(sink, [event]), signal);
    await sink.close();
    expect(collector.records().at(-1)).toMatchObject({
      body: Buffer.from(event.bytes).toString(),
      timestamp: "2026-03-14 15:09:26.535897932 +0000 UTC",
      severity: "INFO",
      attributes: { "tidemark.identity": event.identity, "event.name": "user_update" },
    });
  });

  test("a body of exactly the receiver's limit is taken, of one byte more the halves arrive", async () => {
    const config = { url: collector.url, gzip: false, batchBytesMax: BODY_BYTES_MAX };
    const sink = await openSink({ definition: otlp, config });
    const before = collector.records().length;
    const fitting = makeBatch(sink, eventsOfSize(sink, 30, BODY_BYTES_MAX));
    expect(
      measured(
        sink.limits,
        fitting.records.map((record) => record.body),
      ),
    ).toBe(BODY_BYTES_MAX);
    expect(await attempt(sink, fitting)).toBeUndefined();
    expect(collector.records()).toHaveLength(before + 30);
    const larger = eventsOfSize(sink, 30, BODY_BYTES_MAX + 1);
    await sink.close();
    const driven = await drive({ definition: otlp, config }, larger, { batchEvents: 30 });
    expect(driven.deadLetters.size).toBe(0);
    expect(collector.records()).toHaveLength(before + 60);
  });
});

describe("the otlp sink and a receiver in trouble", () => {
  let receiver: Awaited<ReturnType<typeof startPartial>>;
  let sink: Sink;

  async function open(): Promise<Sink> {
    receiver = await startPartial();
    sink = await openSink(receiver);
    return sink;
  }

  afterEach(async () => {
    await sink.close();
    await receiver.close();
  });

  test.each([
    [429, RetryableError],
    [502, RetryableError],
    [503, RetryableError],
    [504, RetryableError],
    [500, PausedError],
    [501, PausedError],
    [401, PausedError],
    [403, PausedError],
    [404, PausedError],
    [415, PausedError],
    [413, TooLargeError],
    [400, RejectedEventsError],
  ])("answers of %i have their one consequence", async (status, kind) => {
    const opened = await open();
    receiver.server.answerAll({ status });
    expect(await attempt(opened, makeBatch(opened, makeEvents(2)))).toBeInstanceOf(kind);
  });

  test("R27 where all of a part is refused, its records are named without asking for each", async () => {
    const opened = await open();
    const events = makeEvents(8);
    receiver.refuses(events.map((event) => event.id!));
    const error = (await attempt(opened, makeBatch(opened, events))) as RejectedEventsError;
    expect(error.rejected.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(error.rejected[0]!.reason).toContain("too odd");
    expect(receiver.server.received).toHaveLength(2);
  });

  test("a count beyond one byte and a message are read from protobuf", async () => {
    const opened = await open();
    receiver.server.answerAll(inProtobuf(partialSuccess(300, "über quota")));
    const error = (await attempt(opened, makeBatch(opened, makeEvents(300)))) as RejectedEventsError;
    expect(error.rejected).toHaveLength(300);
    expect(error.rejected[0]).toMatchObject({ reason: expect.stringContaining("über quota") });
    expect(error.rejected[0]!.answer).toBe("über quota");
  });

  test("a secret that the receiver repeats in protobuf is hidden, and its message is read all the same", async () => {
    const opened = await open();
    const token = SECRETS.OTLP_TOKEN;
    receiver.server.answerAll(inProtobuf(partialSuccess(2, `no quota for ${token}`)));
    const error = (await attempt(opened, makeBatch(opened, makeEvents(2)))) as RejectedEventsError;
    expect(error.rejected).toHaveLength(2);
    expect(error.rejected[0]!.reason).toContain(`no quota for ${"*".repeat(token.length)}`);
    expect(JSON.stringify(error.rejected)).not.toContain(token);
  });

  test.each([
    ["fields that are not known", Buffer.of(0x10, 0x01, 0x1a, 0x02, 0x68, 0x69, 0x25, 0, 0, 0, 0)],
    ["an empty partial success", Buffer.of(0x0a, 0x00)],
  ])("protobuf with %s is a success", async (_, body) => {
    const opened = await open();
    receiver.server.answerAll(inProtobuf(body));
    expect(await attempt(opened, makeBatch(opened, makeEvents(2)))).toBeUndefined();
  });

  test.each([
    ["a cut message", partialSuccess(5, "quota").subarray(0, 9)],
    ["a cut number", Buffer.of(0x0a, 0x02, 0x08, 0x80)],
    ["a number without end", Buffer.of(0x0a, 0x0c, 0x08, ...Array<number>(11).fill(0xff))],
    ["a count that is no number", Buffer.of(0x0a, 0x03, 0x0a, 0x01, 0x35)],
    ["a partial success that is no message", Buffer.of(0x08, 0x05)],
    ["words", Buffer.from("default backend - ok\n")],
  ])("protobuf with %s confirms nothing: the batch is sent again", async (_, body) => {
    const opened = await open();
    receiver.server.answerAll(inProtobuf(body));
    const error = await attempt(opened, makeBatch(opened, makeEvents(2)));
    expect(error).toBeInstanceOf(RetryableError);
    expect(String(error)).toContain("instead of an answer by the specification of OTLP");
  });

  test("a warning without refusals is logged and counts as success", async () => {
    receiver = await startPartial();
    const warnings: object[] = [];
    const log: Log = {
      error() {},
      warn: (fields) => warnings.push(fields),
      info() {},
      debug() {},
      child: () => log,
    };
    sink = await openSink({ ...receiver, log });
    receiver.server.answerAll({ status: 200, body: { partialSuccess: { errorMessage: "deprecated" } } });
    expect(await attempt(sink, makeBatch(sink, makeEvents(2)))).toBeUndefined();
    expect(warnings).toEqual([{ said: "deprecated" }]);
  });
});

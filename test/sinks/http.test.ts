import { createHmac } from "node:crypto";
import { afterEach, describe, expect, test } from "vitest";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { PausedError, RejectedEventsError, RetryableError, TooLargeError } from "../../src/core/errors.ts";
import type { Sink } from "../../src/core/sink.ts";
import { raw } from "../../src/formats/raw.ts";
import { describe as describeEvent } from "../../src/services/index.ts";
import { http } from "../../src/sinks/http.ts";
import { attempt, drive, openSink } from "../contract/drive.ts";
import { type Destination, testSink } from "../contract/sink.ts";
import { elementSlices } from "../stand-ins/json-slices.ts";
import { type Received, type Reply, startServer } from "../stand-ins/server.ts";
import { cefFormat, makeBatch, makeEvents } from "../support/events.ts";
import { eventsOfSize, measured } from "./limits.ts";

const SECRETS = { RECEIVER_TOKEN: "Bearer s3cr3t-receiver", HMAC_KEY: "hmac-k3y-of-the-test" };

/** A receiver as the sink's documentation describes one: it stores a batch or refuses it as a whole. */
async function startReceiver(config: Record<string, unknown> = {}) {
  const stored: string[] = [];
  let token = SECRETS.RECEIVER_TOKEN;
  let eventsMax = Number.POSITIVE_INFINITY;
  let bytesMax = Number.POSITIVE_INFINITY;
  let refused: readonly string[] = [];
  const server = await startServer((received: Received): Reply => {
    if (received.headers.authorization !== token) return { status: 401 };
    if (received.method !== "POST") return { status: 405 };
    const text = received.body.toString();
    const bodies = config.body === "ndjson" ? text.split("\n").slice(0, -1) : elementSlices(text);
    if (bodies.length > eventsMax || received.body.length > bytesMax) return { status: 413 };
    if (bodies.some((body) => refused.some((id) => body.includes(id))))
      return { status: 422, body: { code: "invalid_event", title: "an event is invalid" } };
    stored.push(...bodies);
    return { status: 200 };
  });
  const destination = {
    definition: http,
    config: { url: `${server.url}/in`, headers: { Authorization: { env: "RECEIVER_TOKEN" } }, ...config },
    secrets: SECRETS,
    server,
    largestBody: () => Math.max(...server.received.map(({ body }) => body.length)),
    limit(bytes: number) {
      bytesMax = bytes;
    },
    read: async () => stored,
    unavailable: () => server.answerAll({ status: 503 }),
    unauthorized() {
      token = "another";
    },
    takesAtMost(events: number) {
      eventsMax = events;
    },
    refuses(ids: readonly string[]) {
      refused = ids;
    },
    hangs: () => server.hang(),
    storesAndCuts: () => server.cutNext(),
    normal() {
      server.normal();
      token = SECRETS.RECEIVER_TOKEN;
      eventsMax = Number.POSITIVE_INFINITY;
      refused = [];
    },
    close: () => server.close(),
  };
  return destination satisfies Destination;
}

const ABILITIES = [
  "largestBody",
  "unavailable",
  "unauthorized",
  "takesAtMost",
  "refuses",
  "hangs",
  "storesAndCuts",
  "dated",
] as const;

testSink("http with a JSON array", { can: ABILITIES, start: () => startReceiver() });
testSink("http with gzipped lines", {
  can: ABILITIES,
  start: () => startReceiver({ body: "ndjson", gzip: true }),
});

describe("the http sink", () => {
  let receiver: Awaited<ReturnType<typeof startReceiver>>;
  let sink: Sink | undefined;

  async function open(config: Record<string, unknown> = {}): Promise<Sink> {
    receiver = await startReceiver(config);
    sink = await openSink(receiver);
    return sink;
  }

  afterEach(async () => {
    await sink?.close();
    await receiver.close();
  });

  test("R19 the idempotency key is the same for the same batch and another for another", async () => {
    const opened = await open();
    const [first, second] = [makeEvents(5), makeEvents(5, 5)];
    receiver.server.cutNext();
    expect(await attempt(opened, makeBatch(opened, first))).toBeInstanceOf(RetryableError);
    await opened.write(makeBatch(opened, first), new AbortController().signal);
    await opened.write(makeBatch(opened, second), new AbortController().signal);
    const keys = receiver.server.received.map((received) => received.headers["idempotency-key"]);
    expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
    expect(keys[1]).toBe(keys[0]);
    expect(keys[2]).not.toBe(keys[0]);
  });

  test("the parts of a batch that was refused have keys of their own", async () => {
    receiver = await startReceiver();
    const events = makeEvents(4);
    receiver.refuses([events[2]!.id!]);
    await drive(receiver, events, { batchEvents: 4 });
    const keys = receiver.server.received.map((received) => received.headers["idempotency-key"]);
    expect(new Set(keys).size).toBe(keys.length);
  });

  test.each([false, true])("signs the time and the body before compression (gzip %s)", async (gzip) => {
    const opened = await open({ gzip, hmac: { secret: { env: "HMAC_KEY" }, header: "X-Signature" } });
    await opened.write(makeBatch(opened, makeEvents(3)), new AbortController().signal);
    const [received] = receiver.server.received;
    const match = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(received!.headers["x-signature"]));
    expect(Math.abs(Number(match![1]) - Date.now() / 1000)).toBeLessThan(60);
    const hmac = createHmac("sha256", SECRETS.HMAC_KEY).update(`${match![1]}.`).update(received!.body);
    expect(match![2]).toBe(hmac.digest("hex"));
  });

  test.each([
    ["json_array", 3],
    ["ndjson", 3],
    ["json_array", 1],
  ])("a batch of exactly batchBytesMax fits as %s, one byte more does not", async (body, count) => {
    const opened = await open({ body, batchBytesMax: 2000 });
    receiver.limit(2000);
    expect(opened.limits.bytesMax).toBe(2000);
    const fitting = makeBatch(opened, eventsOfSize(opened, count, 2000));
    expect(
      measured(
        opened.limits,
        fitting.records.map((record) => record.body),
      ),
    ).toBe(2000);
    expect(await attempt(opened, fitting)).toBeUndefined();
    expect(receiver.server.received.at(-1)!.body.length).toBe(2000);
    const larger = makeBatch(opened, eventsOfSize(opened, count, 2001));
    expect(await attempt(opened, larger)).toBeInstanceOf(TooLargeError);
  });

  test.each([
    [408, RetryableError],
    [429, RetryableError],
    [500, RetryableError],
    [503, RetryableError],
    [413, TooLargeError],
    [401, PausedError],
    [403, PausedError],
    [404, PausedError],
    [405, PausedError],
    [302, PausedError],
    [400, RejectedEventsError],
    [422, RejectedEventsError],
  ])("answers of %i have their one consequence", async (status, kind) => {
    const opened = await open();
    receiver.server.answerAll({ status, headers: { location: "http://elsewhere.invalid/" } });
    expect(await attempt(opened, makeBatch(opened, makeEvents(2)))).toBeInstanceOf(kind);
  });

  test.each([
    ["7", 7000],
    ["Sun, 15 Mar 2026 01:01:30 GMT", 90_000],
    ["Sun, 15 Mar 2026 00:00:00 GMT", 0],
    ["tomorrow", undefined],
  ])("passes on Retry-After %s", async (header, waitMs) => {
    receiver = await startReceiver();
    const clock: Clock = { now: () => Date.parse("2026-03-15T01:00:00Z"), sleep: systemClock.sleep };
    sink = await openSink({ ...receiver, clock });
    receiver.server.answerAll({ status: 429, headers: { "retry-after": header } });
    const error = (await attempt(sink, makeBatch(sink, makeEvents(1)))) as RetryableError;
    expect(error.retryAfterMs).toBe(waitMs);
  });

  test("gives up a request after its time-out and says so", async () => {
    const opened = await open({ timeout: "100ms" });
    void receiver.server.hang();
    const error = await attempt(opened, makeBatch(opened, makeEvents(1)));
    expect(error).toBeInstanceOf(RetryableError);
    expect((error as Error).message).toContain("100 ms");
  });

  test("R27 what is refused as a whole is for delivery to halve, so that each part has durable bounds", async () => {
    const opened = await open();
    receiver.server.answerAll({ status: 400 });
    const error = (await attempt(opened, makeBatch(opened, makeEvents(64)))) as RejectedEventsError;
    expect(error.isUnnamed).toBe(true);
    expect(error.rejected).toHaveLength(64);
    expect(receiver.server.received).toHaveLength(1);
  });

  test("a format that is no JSON becomes JSON strings in an array", async () => {
    receiver = await startReceiver();
    const events = makeEvents(2);
    await drive({ ...receiver, format: cefFormat }, events);
    expect(await receiver.read()).toEqual(events.map((event) => JSON.stringify(cefFormat.encode(event))));
  });

  test("a line break between tokens does not end a line", async () => {
    const opened = await open({ body: "ndjson" });
    const [event] = makeEvents(1);
    const pretty = { ...event!, bytes: Buffer.from('{\n  "id": "1",\r\n  "a": "b\\n"\n}') };
    await opened.write(makeBatch(opened, [pretty]), new AbortController().signal);
    expect(await receiver.read()).toEqual(['{   "id": "1",    "a": "b\\n" }']);
  });

  test("elements of an array keep their original bytes, line breaks included", async () => {
    receiver = await startReceiver();
    const text = '{\n  "id": "1",\r\n  "a": "b\\n"\n}';
    const format = raw.create({}, { describe: describeEvent });
    const opened = await openSink({ ...receiver, format });
    const [event] = makeEvents(1);
    const pretty = { ...event!, bytes: Buffer.from(text) };
    await opened.write(makeBatch(opened, [pretty]), new AbortController().signal);
    await opened.close();
    const [request] = receiver.server.received.filter(({ body }) => body.length > 0);
    expect(request!.body.toString()).toBe(`[${text}]`);
  });

  test("puts the identity into every object when asked to", async () => {
    const opened = await open({ addIdentity: true });
    const [event] = makeEvents(1);
    const empty = { ...event!, bytes: Buffer.from("{ }") };
    await opened.write(makeBatch(opened, [event!, empty]), new AbortController().signal);
    const [full, bare] = (await receiver.read()).map((body) => JSON.parse(body));
    expect(full).toMatchObject({ tidemark_identity: event!.identity, id: event!.id });
    expect(bare).toEqual({ tidemark_identity: event!.identity });
  });

  test("a secret that the receiver repeats is hidden", async () => {
    const opened = await open();
    receiver.server.answerAll({ status: 403, body: { title: `bad ${SECRETS.RECEIVER_TOKEN}` } });
    const error = (await attempt(opened, makeBatch(opened, makeEvents(1)))) as Error;
    expect(error.message).toContain("bad [secret]");
  });
});

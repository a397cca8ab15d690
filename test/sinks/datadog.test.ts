import { afterEach, describe, expect, test } from "vitest";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { PausedError, RejectedEventsError, RetryableError, TooLargeError } from "../../src/core/errors.ts";
import type { Sink } from "../../src/core/sink.ts";
import { datadog } from "../../src/sinks/datadog.ts";
import { attempt, openSink } from "../contract/drive.ts";
import { type Destination, testSink } from "../contract/sink.ts";
import { startDatadog } from "../stand-ins/datadog.ts";
import { makeBatch, makeEvent, makeEvents } from "../support/events.ts";
import { eventsOfSize, measured, paddedEvent } from "./limits.ts";

const SECRETS = { DD_KEY: "0123456789abcdef0123456789abcdef" };
const HOURS_MS = 3_600_000;

/** A clock by which the tests' events have just happened. */
const nowMs = Date.parse("2026-03-15T01:00:00Z");
const clock: Clock = { now: () => nowMs, sleep: systemClock.sleep };

async function startDestination() {
  const standIn = await startDatadog({ apiKey: SECRETS.DD_KEY, now: clock.now });
  return {
    definition: datadog,
    clock,
    config: { url: standIn.server.url, apiKey: { env: "DD_KEY" }, tags: ["env:test", "team:audit"] },
    secrets: SECRETS,
    standIn,
    largestBody: () => Math.max(...standIn.server.received.map(({ body }) => body.length)),
    read: async () => standIn.items().map((item) => (JSON.parse(item) as { message: string }).message),
    unavailable: () => standIn.server.answerAll({ status: 503 }),
    unauthorized() {
      standIn.state.apiKey = "another";
    },
    takesAtMost(events: number) {
      standIn.state.itemsMax = events;
    },
    refuses(ids: readonly string[]) {
      standIn.state.refusedIds = ids;
    },
    hangs: () => standIn.server.hang(),
    storesAndCuts: () => standIn.server.cutNext(),
    normal() {
      standIn.server.normal();
      Object.assign(standIn.state, { apiKey: SECRETS.DD_KEY, itemsMax: 1000, refusedIds: [] });
    },
    close: () => standIn.server.close(),
  } satisfies Destination & { standIn: unknown };
}

testSink("datadog, against a stand-in", {
  can: [
    "largestBody",
    "unavailable",
    "unauthorized",
    "takesAtMost",
    "refuses",
    "hangs",
    "storesAndCuts",
    "dated",
  ],
  start: startDestination,
});

describe("the datadog sink, against a stand-in", () => {
  let destination: Awaited<ReturnType<typeof startDestination>>;
  let sink: Sink;

  async function open(): Promise<Sink> {
    destination = await startDestination();
    sink = await openSink(destination);
    return sink;
  }

  afterEach(async () => {
    await sink.close();
    await destination.close();
  });

  test("R27 events of more than 18 hours ago are rejected instead of sent and dropped", async () => {
    const opened = await open();
    const at = (ageMs: number, index: number) =>
      makeEvent({ id: String(index), index, timestampMs: nowMs - ageMs });
    const events = [at(18 * HOURS_MS + 1, 0), at(18 * HOURS_MS, 1), at(90 * 24 * HOURS_MS, 2), at(0, 3)];
    const error = (await attempt(opened, makeBatch(opened, events))) as RejectedEventsError;
    expect(error).toBeInstanceOf(RejectedEventsError);
    expect(error.rejected.map(({ index }) => index)).toEqual([0, 2]);
    expect(error.rejected[0]!.reason).toContain("18 hours");
    expect(error.rejected[0]!.isOld).toBe(true);
    expect(error.remaining).toEqual([1, 3]);
    expect(destination.standIn.server.received).toHaveLength(0);
    expect(await attempt(opened, makeBatch(opened, [events[1]!, events[3]!]))).toBeUndefined();
    expect(destination.standIn.state.dropped).toBe(0);
    expect(destination.standIn.items()).toHaveLength(2);
  });

  test("`check` says that a backfill cannot go there", async () => {
    await open();
    expect(datadog.advise?.({})?.join()).toContain("18 hours");
  });

  test("an item carries source, service, tags, host name, time and the identity", async () => {
    const opened = await open();
    const [event] = makeEvents(1);
    await opened.write(makeBatch(opened, [event!]), new AbortController().signal);
    expect(JSON.parse(destination.standIn.items()[0]!)).toMatchObject({
      ddsource: "tidemark",
      service: "directory",
      hostname: "tidemark",
      ddtags: "env:test,team:audit",
      timestamp: event!.timestampMs,
      tidemark: { identity: event!.identity, organization: event!.organization },
    });
  });

  test("a body of exactly 5 MB is taken, one byte more is too large", async () => {
    const opened = await open();
    expect(opened.limits.bytesMax).toBe(5_000_000);
    const fitting = makeBatch(opened, eventsOfSize(opened, 10, 5_000_000));
    expect(
      measured(
        opened.limits,
        fitting.records.map((record) => record.body),
      ),
    ).toBe(5_000_000);
    expect(await attempt(opened, fitting)).toBeUndefined();
    expect(destination.standIn.server.received.at(-1)!.body.length).toBe(5_000_000);
    const larger = makeBatch(opened, eventsOfSize(opened, 10, 5_000_001));
    expect(await attempt(opened, larger)).toBeInstanceOf(TooLargeError);
  });

  test("an item of exactly 1 MB arrives whole, one byte more exceeds the limit and would be cut", async () => {
    const opened = await open();
    const bodyOf = (padding: number) => makeBatch(opened, [paddedEvent(0, padding)]);
    const base = bodyOf(0).records[0]!.body.length;
    const fits = bodyOf(1_000_000 - base);
    expect(fits.records[0]!.body.length).toBe(opened.limits.recordBytesMax);
    expect(await attempt(opened, fits)).toBeUndefined();
    expect(destination.standIn.items()).toHaveLength(1);
    expect(await attempt(opened, bodyOf(1_000_001 - base))).toBeUndefined();
    expect(destination.standIn.state.cut).toBe(1);
  });

  test("1,000 items are taken and 1,001 are not", async () => {
    const opened = await open();
    expect(opened.limits.recordsMax).toBe(1000);
    expect(await attempt(opened, makeBatch(opened, makeEvents(1000)))).toBeUndefined();
    expect(await attempt(opened, makeBatch(opened, makeEvents(1001)))).toBeInstanceOf(TooLargeError);
  });

  test.each([
    [408, RetryableError],
    [429, RetryableError],
    [500, RetryableError],
    [401, PausedError],
    [403, PausedError],
  ])("answers of %i have their one consequence", async (status, kind) => {
    const opened = await open();
    destination.standIn.server.answerAll({ status });
    expect(await attempt(opened, makeBatch(opened, makeEvents(2)))).toBeInstanceOf(kind);
  });
});

import { afterEach, describe, expect, test } from "vitest";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { PausedError, RejectedEventsError, RetryableError, TooLargeError } from "../../src/core/errors.ts";
import type { Sink } from "../../src/core/sink.ts";
import { sentinel } from "../../src/sinks/sentinel/sink.ts";
import { attempt, openSink } from "../contract/drive.ts";
import { type Destination, testSink } from "../contract/sink.ts";
import { memberSlices } from "../stand-ins/json-slices.ts";
import { startSentinel } from "../stand-ins/sentinel.ts";
import { makeBatch, makeEvents } from "../support/events.ts";
import { eventsOfSize, measured, paddedEvent } from "./limits.ts";

const SECRETS = { CLIENT_SECRET: "cl13nt~s3cret.of-the-test" };
const RULE = {
  tenantId: "contoso.example",
  clientId: "app-1",
  ruleId: "dcr-0123",
  stream: "Custom-Directory_CL",
};
const signal = new AbortController().signal;

async function startDestination() {
  const standIn = await startSentinel({ ...RULE, clientSecret: SECRETS.CLIENT_SECRET });
  const { url } = standIn.server;
  return {
    definition: sentinel,
    config: { endpoint: url, authority: url, clientSecret: { env: "CLIENT_SECRET" }, ...RULE },
    secrets: SECRETS,
    standIn,
    largestBody: () => Math.max(...standIn.server.received.map(({ body }) => body.length)),
    read: async () => standIn.rows().map((row) => memberSlices(row).get("Event")!),
    unavailable() {
      standIn.state.isThrottling = true;
    },
    unauthorized() {
      standIn.state.clientSecret = "another";
      standIn.state.validTokens.clear();
    },
    takesAtMost(events: number) {
      standIn.state.rowsMax = events;
    },
    refuses(ids: readonly string[]) {
      standIn.state.refusedIds = ids;
    },
    missing: () => ({ stream: "Custom-Other_CL" }),
    hangs: () => standIn.server.hang(),
    storesAndCuts: () => standIn.server.cutNext(),
    normal() {
      standIn.server.normal();
      Object.assign(standIn.state, {
        clientSecret: SECRETS.CLIENT_SECRET,
        isThrottling: false,
        rowsMax: Number.POSITIVE_INFINITY,
        refusedIds: [],
      });
    },
    close: () => standIn.server.close(),
  } satisfies Destination & { standIn: unknown };
}

testSink("sentinel, against a stand-in", {
  can: [
    "largestBody",
    "unavailable",
    "unauthorized",
    "takesAtMost",
    "refuses",
    "hangs",
    "storesAndCuts",
    "missing",
    "dated",
  ],
  start: startDestination,
});

describe("the sentinel sink, against a stand-in", () => {
  let destination: Awaited<ReturnType<typeof startDestination>>;
  let sink: Sink | undefined;
  let nowMs = Date.parse("2026-03-15T01:00:00Z");
  const clock: Clock = { now: () => nowMs, sleep: systemClock.sleep };

  async function open(config: Record<string, unknown> = {}): Promise<Sink> {
    destination = await startDestination();
    sink = await openSink({ ...destination, clock, config: { ...destination.config, ...config } });
    return sink;
  }

  afterEach(async () => {
    await sink?.close();
    sink = undefined;
    await destination.close();
  });

  test("a row carries the time, the identity and the steering fields as columns", async () => {
    const opened = await open();
    const [event] = makeEvents(1);
    await opened.write(makeBatch(opened, [event!]), signal);
    expect(JSON.parse(destination.standIn.rows()[0]!)).toEqual({
      TimeGenerated: new Date(event!.timestampMs).toISOString(),
      Identity: event!.identity,
      Account: "acme",
      Organization: event!.organization,
      Service: event!.service,
      EventType: event!.eventType,
      Event: JSON.parse(Buffer.from(event!.bytes).toString()),
    });
  });

  test("a token is used until shortly before it ends", async () => {
    const opened = await open();
    await opened.write(makeBatch(opened, makeEvents(1)), signal);
    nowMs += 50 * 60_000;
    await opened.write(makeBatch(opened, makeEvents(1, 1)), signal);
    expect(destination.standIn.state.tokensIssued).toBe(1);
    nowMs += 6 * 60_000;
    await opened.write(makeBatch(opened, makeEvents(1, 2)), signal);
    expect(destination.standIn.state.tokensIssued).toBe(2);
  });

  test("a token that was revoked early is replaced once", async () => {
    const opened = await open();
    destination.standIn.state.validTokens.clear();
    expect(await attempt(opened, makeBatch(opened, makeEvents(1)))).toBeUndefined();
    expect(destination.standIn.state.tokensIssued).toBe(2);
  });

  test("a wrong client secret is reported at open, in Entra's words", async () => {
    destination = await startDestination();
    const wrong = { ...destination, secrets: { CLIENT_SECRET: "wrong-secret-of-the-test" } };
    await expect(openSink(wrong)).rejects.toMatchObject({
      name: "PausedError",
      message: expect.stringMatching(/invalid_client AADSTS7000215: Invalid client secret provided\.$/),
    });
  });

  test.each([
    ["a missing permission", {}, true],
    ["an unknown rule", { ruleId: "dcr-unknown" }, false],
    ["a stream that the rule does not have", { stream: "Custom-Unknown" }, false],
  ])("%s pauses", async (_, config, isForbidden) => {
    const opened = await open(config);
    destination.standIn.state.isForbidden = isForbidden;
    const error = (await attempt(opened, makeBatch(opened, makeEvents(2)))) as PausedError;
    expect(error).toBeInstanceOf(PausedError);
    expect(error.remedy).not.toBe("");
  });

  test("throttling is retried after what was asked for", async () => {
    const opened = await open();
    destination.standIn.state.isThrottling = true;
    const error = (await attempt(opened, makeBatch(opened, makeEvents(1)))) as RetryableError;
    expect(error).toBeInstanceOf(RetryableError);
    expect(error.retryAfterMs).toBe(5000);
  });

  test("a body of exactly 1 MB uncompressed is taken, one byte more is too large", async () => {
    const opened = await open();
    expect(opened.limits.bytesMax).toBe(1_000_000);
    const fitting = makeBatch(opened, eventsOfSize(opened, 20, 1_000_000));
    expect(
      measured(
        opened.limits,
        fitting.records.map((record) => record.body),
      ),
    ).toBe(1_000_000);
    expect(await attempt(opened, fitting)).toBeUndefined();
    expect(destination.standIn.server.received.at(-1)!.body.length).toBe(1_000_000);
    const larger = makeBatch(opened, eventsOfSize(opened, 20, 1_000_001));
    expect(await attempt(opened, larger)).toBeInstanceOf(TooLargeError);
  });

  test("an event of exactly 64 KB arrives whole, one byte more is rejected instead of cut", async () => {
    const opened = await open();
    const base = paddedEvent(0, 0).bytes.length;
    const fits = paddedEvent(0, 65_536 - base);
    const exceeds = paddedEvent(1, 65_536 - base + 1);
    const error = (await attempt(opened, makeBatch(opened, [fits, exceeds]))) as RejectedEventsError;
    expect(error).toBeInstanceOf(RejectedEventsError);
    expect(error.rejected).toEqual([
      { index: 1, reason: "the event has 65537 bytes; a column of Azure Monitor takes 64 KB" },
    ]);
    expect(error.remaining).toEqual([0]);
    expect(await attempt(opened, makeBatch(opened, [fits]))).toBeUndefined();
    expect(destination.standIn.state.cut).toBe(0);
    expect(destination.standIn.rows()).toHaveLength(1);
  });
});

import { readFileSync } from "node:fs";
import { afterEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { PausedError, RejectedEventsError, RetryableError, TooLargeError } from "../../src/core/errors.ts";
import type { Sink } from "../../src/core/sink.ts";
import { splunkHec } from "../../src/sinks/splunk/sink.ts";
import { attempt, drive, openSink, probeSink } from "../contract/drive.ts";
import { type Destination, testSink } from "../contract/sink.ts";
import { startSplunk } from "../stand-ins/splunk.ts";
import { cefFormat, makeBatch, makeEvents } from "../support/events.ts";
import { eventsOfSize, measured } from "./limits.ts";

const SECRETS = { HEC_TOKEN: "11111111-2222-3333-4444-555555555555" };

async function startDestination(config: Record<string, unknown> = {}) {
  const splunk = await startSplunk({ token: SECRETS.HEC_TOKEN, acknowledgement: "acknowledge" in config });
  return {
    definition: splunkHec,
    config: { url: splunk.server.url, token: { env: "HEC_TOKEN" }, ...config },
    secrets: SECRETS,
    splunk,
    largestBody: () => Math.max(...splunk.server.received.map(({ body }) => body.length)),
    read: async () => splunk.events(),
    unavailable() {
      splunk.state.isBusy = true;
    },
    unauthorized() {
      splunk.state.token = "another";
    },
    takesAtMost(events: number) {
      splunk.state.eventsMax = events;
    },
    refuses(ids: readonly string[]) {
      splunk.state.refusedIds = ids;
    },
    hangs: () => splunk.server.hang(),
    storesAndCuts: () => splunk.server.cutNext(),
    normal() {
      splunk.server.normal();
      Object.assign(splunk.state, {
        isBusy: false,
        token: SECRETS.HEC_TOKEN,
        eventsMax: Number.POSITIVE_INFINITY,
        refusedIds: [],
      });
    },
    close: () => splunk.server.close(),
  } satisfies Destination & { splunk: unknown };
}

const ABILITIES = [
  "largestBody",
  "unavailable",
  "unauthorized",
  "takesAtMost",
  "refuses",
  "hangs",
  "dated",
] as const;

testSink("splunk_hec, against a stand-in", {
  can: [...ABILITIES, "storesAndCuts"],
  start: () => startDestination(),
});
testSink("splunk_hec with acknowledgement, against a stand-in", {
  can: ABILITIES,
  start: () => startDestination({ acknowledge: { interval: "10ms", timeout: "100ms" }, gzip: false }),
});

/** The config of that name in the guide, for a stand-in at this address. */
function recipe(name: string, url: string): Record<string, unknown> {
  const guide = readFileSync("docs/splunk.md", "utf8");
  const blocks = [...guide.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, text]) => parse(text!));
  const found = blocks.flatMap(({ sinks }) => sinks).find((sink) => sink.name === name);
  const { name: _, type, ...config } = found as Record<string, unknown>;
  expect(type).toBe("splunk_hec");
  return { ...config, url };
}

test.each([
  ["logscale", "LOGSCALE_INGEST_TOKEN", { path: "/services/collector", scheme: "Bearer" }],
  ["cribl", "CRIBL_HEC_TOKEN", {}],
])(
  "the guide's recipe for %s delivers, probes, and names refused events",
  async (name, variable, dialect) => {
    const splunk = await startSplunk({ token: SECRETS.HEC_TOKEN, ...dialect });
    const target = {
      definition: splunkHec,
      config: recipe(name, splunk.server.url),
      secrets: { [variable]: SECRETS.HEC_TOKEN },
    };
    await probeSink(target);
    expect(splunk.envelopes()).toEqual([]);
    const events = makeEvents(40);
    splunk.state.refusedIds = [events[7]!.id!];
    const driven = await drive(target, events, { batchEvents: 20 });
    expect([...driven.deadLetters.keys()]).toEqual([events[7]!.identity]);
    const held = events.filter((_, at) => at !== 7).map(({ bytes }) => Buffer.from(bytes).toString());
    expect(splunk.events()).toEqual(held);
    splunk.state.token = "another";
    expect(await probeSink(target).catch((error) => error)).toBeInstanceOf(PausedError);
    await splunk.server.close();
  },
);

test("a probe finds an index that the token does not allow, without an event", async () => {
  const destination = await startDestination({ index: "audit" });
  destination.splunk.state.allowedIndexes = ["main"];
  const error = await probeSink(destination).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(PausedError);
  expect(error.remedy).toContain("index");
  expect(destination.splunk.envelopes()).toEqual([]);
  await destination.close();
});

describe("the splunk_hec sink, against a stand-in", () => {
  let destination: Awaited<ReturnType<typeof startDestination>>;
  let sink: Sink | undefined;

  async function open(config: Record<string, unknown> = {}): Promise<Sink> {
    destination = await startDestination(config);
    sink = await openSink(destination);
    return sink;
  }

  afterEach(async () => {
    await sink?.close();
    sink = undefined;
    await destination.close();
  });

  test("an envelope carries time, host, source, sourcetype, index and the identity", async () => {
    const opened = await open({ index: "audit", sourcetype: "acme:directory", host: "exporter-1" });
    const [event] = makeEvents(1);
    await opened.write(makeBatch(opened, [event!]), new AbortController().signal);
    const [envelope] = destination.splunk.envelopes().map((text) => JSON.parse(text));
    expect(envelope).toMatchObject({
      time: event!.timestampMs / 1000,
      host: "exporter-1",
      source: "tidemark",
      sourcetype: "acme:directory",
      index: "audit",
      fields: { tidemark_identity: event!.identity, organization: event!.organization },
      event: { id: event!.id },
    });
  });

  test("a format that is no JSON goes in as a string", async () => {
    destination = await startDestination();
    const events = makeEvents(2);
    await drive({ ...destination, format: cefFormat }, events);
    expect(destination.splunk.events()).toEqual(events.map((e) => JSON.stringify(cefFormat.encode(e))));
    expect(JSON.parse(destination.splunk.envelopes()[0]!)).not.toHaveProperty("sourcetype");
  });

  test("an invalid event that Splunk names is rejected, and all others remain to be sent", async () => {
    const opened = await open();
    const events = makeEvents(5);
    destination.refuses([events[3]!.id!]);
    const error = (await attempt(opened, makeBatch(opened, events))) as RejectedEventsError;
    expect(error).toBeInstanceOf(RejectedEventsError);
    expect(error.rejected).toMatchObject([
      { index: 3, reason: "Splunk answered Invalid data format (code 6)" },
    ]);
    expect(error.rejected[0]!.answer).toContain('"invalid-event-number":3');
    expect(error.remaining).toEqual([0, 1, 2, 4]);
    expect(destination.splunk.events()).toEqual([]);
  });

  test("an index that the token does not allow pauses instead of rejecting every event", async () => {
    const opened = await open({ index: "secret" });
    destination.splunk.state.allowedIndexes = ["main"];
    const error = (await attempt(opened, makeBatch(opened, makeEvents(2)))) as PausedError;
    expect(error).toBeInstanceOf(PausedError);
    expect(error.remedy).toContain("index");
  });

  test("a disabled token is reported at open, with a remedy", async () => {
    destination = await startDestination();
    destination.splunk.state.tokenDisabled = true;
    await expect(openSink(destination)).rejects.toMatchObject({
      name: "PausedError",
      remedy: "Enable the token in Splunk.",
    });
  });

  test("a batch that is not acknowledged in time is sent again", async () => {
    const opened = await open({ acknowledge: { interval: "10ms", timeout: "100ms" } });
    const batch = makeBatch(opened, makeEvents(3));
    destination.splunk.state.acknowledges = false;
    expect(await attempt(opened, batch)).toBeInstanceOf(RetryableError);
    expect(destination.splunk.events()).toHaveLength(0);
    destination.splunk.state.acknowledges = true;
    expect(await attempt(opened, batch)).toBeUndefined();
    expect(destination.splunk.events()).toHaveLength(3);
  });

  /** The ids that were asked for. */
  const questions = () =>
    destination.splunk.server.received
      .filter(({ path }) => path === "/services/collector/ack")
      .map(({ body }) => (JSON.parse(body.toString()) as { acks: number[] }).acks);

  /** Tries until the batch is taken. Its events must be stored then. */
  async function deliver(opened: Sink, events: ReturnType<typeof makeEvents>): Promise<void> {
    const batch = makeBatch(opened, events);
    while ((await attempt(opened, batch)) !== undefined);
    const stored = destination.splunk.events();
    for (const { bytes } of events) expect(stored).toContain(Buffer.from(bytes).toString());
  }

  /** A batch of three events is taken, and is not acknowledged yet. */
  async function withWaitingBatch() {
    const opened = await open({ acknowledge: { interval: "10ms", timeout: "1m" } });
    const { splunk } = destination;
    splunk.state.acknowledges = false;
    const early = deliver(opened, makeEvents(3));
    await expect.poll(() => questions().length, { timeout: 60_000 }).toBeGreaterThan(0);
    return { opened, splunk, early };
  }

  test("many batches wait for their acknowledgements at once, and one request asks for all of them", async () => {
    const opened = await open({ acknowledge: { interval: "10ms", timeout: "1m" } });
    expect(opened.writesMax).toBe(32);
    const { splunk } = destination;
    splunk.state.acknowledges = false;
    const events = makeEvents(40);
    const { signal } = new AbortController();
    const writes = Array.from({ length: 20 }, (_, at) =>
      opened.write(makeBatch(opened, events.slice(2 * at, 2 * at + 2)), signal),
    );
    await expect.poll(() => questions().at(-1)?.length).toBe(20);
    const asked = questions().length;
    splunk.state.acknowledges = true;
    await Promise.all(writes);
    expect(splunk.events()).toHaveLength(40);
    expect(questions().length).toBeLessThanOrEqual(asked + 2);
  });

  test("a receiver that restarts and numbers from 0 again: what it lost is sent again", async () => {
    const opened = await open({ acknowledge: { interval: "10ms", timeout: "2s" } });
    const { splunk } = destination;
    const events = makeEvents(16);
    const some = (from: number) =>
      Array.from({ length: 4 }, (_, at) => events.slice(from + 2 * at, from + 2 * at + 2));
    splunk.state.acknowledges = false;
    const early = some(0).map((each) => deliver(opened, each));
    await expect.poll(() => new Set(questions().flat()).size, { timeout: 60_000 }).toBeGreaterThanOrEqual(4);
    splunk.restart();
    splunk.state.acknowledges = true;
    await Promise.all([...early, ...some(8).map((each) => deliver(opened, each))]);
  });

  test("a batch whose answer was lost is not taken for the batch that had its number before", async () => {
    const { opened, splunk, early } = await withWaitingBatch();
    splunk.restart();
    splunk.server.cutNext();
    const late = makeBatch(opened, makeEvents(6).slice(3));
    expect(await attempt(opened, late)).toBeInstanceOf(RetryableError);
    splunk.state.acknowledges = true;
    await early;
  });

  test.each([
    [504, { code: 504, message: "upstream timed out" }],
    [503, { code: 14, message: "upstream connect error" }],
    [502, { code: 9, text: "bad gateway" }],
    [500, { code: 8, text: "Internal server error" }],
  ])(
    "a gateway's answer %i %j says nothing about the batch: no other one is taken for it",
    async (status, body) => {
      const { opened, splunk, early } = await withWaitingBatch();
      splunk.restart();
      splunk.state.gateway = { status, body };
      const late = makeBatch(opened, makeEvents(6).slice(3));
      expect(await attempt(opened, late)).toBeInstanceOf(RetryableError);
      Object.assign(splunk.state, { gateway: undefined, acknowledges: true });
      await early;
    },
  );

  test("an acknowledgement does not count while the id of another batch is not known", async () => {
    const { opened, splunk, early } = await withWaitingBatch();
    splunk.restart();
    let answer = () => {};
    splunk.state.delay = new Promise((resolve) => {
      answer = resolve;
    });
    const late = deliver(opened, makeEvents(6).slice(3));
    // The restarted receiver holds the late batch under the id of the early one, and its answer is on the way.
    await expect.poll(() => splunk.pending(), { timeout: 60_000 }).toBe(1);
    splunk.state.acknowledges = true;
    await expect.poll(() => splunk.events().length, { timeout: 60_000 }).toBe(3);
    answer();
    splunk.state.delay = undefined;
    await Promise.all([early, late]);
  });

  test("a question for acknowledgements that fails is asked again, and no batch is sent twice", async () => {
    const opened = await open({ acknowledge: { interval: "10ms", timeout: "1m" } });
    const { splunk } = destination;
    splunk.state.acknowledges = false;
    const writing = opened.write(makeBatch(opened, makeEvents(3)), new AbortController().signal);
    const count = (path: string) => splunk.server.received.filter((each) => each.path.endsWith(path)).length;
    await expect.poll(() => count("/ack")).toBeGreaterThan(0);
    splunk.state.isBusy = true;
    const before = count("/ack");
    await expect.poll(() => count("/ack")).toBeGreaterThan(before + 2);
    Object.assign(splunk.state, { isBusy: false, acknowledges: true });
    await writing;
    expect(splunk.events()).toHaveLength(3);
    // One request at opening, one with the events.
    expect(count("/event")).toBe(2);
  });

  test("a token that stops to be valid while batches wait pauses", async () => {
    const opened = await open({ acknowledge: { interval: "10ms", timeout: "1m" } });
    destination.splunk.state.acknowledges = false;
    const writing = attempt(opened, makeBatch(opened, makeEvents(3)));
    await expect
      .poll(() => destination.splunk.server.received.some(({ path }) => path.endsWith("/ack")), {
        timeout: 30_000,
      })
      .toBe(true);
    destination.unauthorized();
    expect(await writing).toBeInstanceOf(PausedError);
  });

  test("waiting for an acknowledgement ends promptly when aborted", async () => {
    const opened = await open({ acknowledge: { interval: "1m", timeout: "1h" } });
    destination.splunk.state.acknowledges = false;
    const controller = new AbortController();
    const failed = attempt(opened, makeBatch(opened, makeEvents(1)), controller.signal);
    while (!destination.splunk.server.received.some((received) => received.path.endsWith("/ack")))
      await new Promise((resolve) => setImmediate(resolve));
    controller.abort(new Error("stop"));
    expect(await failed).toEqual(new Error("stop"));
  });

  test("a token without acknowledgement is reported when acknowledgement is configured", async () => {
    destination = await startDestination();
    const opened = await openSink({ ...destination, config: { ...destination.config, acknowledge: {} } });
    sink = opened;
    expect(await attempt(opened, makeBatch(opened, makeEvents(1)))).toBeInstanceOf(PausedError);
  });

  test("after acknowledgement was enabled for the token, the next batch is delivered", async () => {
    const opened = await open({ acknowledge: { interval: "10ms", timeout: "1m" } });
    const { state } = destination.splunk;
    state.gateway = { status: 200, body: { text: "Success", code: 0 } };
    const batch = makeBatch(opened, makeEvents(3));
    expect(await attempt(opened, batch)).toBeInstanceOf(PausedError);
    state.gateway = undefined;
    expect(await attempt(opened, batch)).toBeUndefined();
  });

  test("a batch of exactly batchBytesMax fits, one byte more does not", async () => {
    const opened = await open();
    destination.splunk.state.contentLengthMax = 1_000_000;
    expect(opened.limits.bytesMax).toBe(1_000_000);
    const fitting = makeBatch(opened, eventsOfSize(opened, 4, 1_000_000));
    expect(
      measured(
        opened.limits,
        fitting.records.map((record) => record.body),
      ),
    ).toBe(1_000_000);
    expect(await attempt(opened, fitting)).toBeUndefined();
    expect(destination.splunk.server.received.at(-1)!.body.length).toBe(1_000_000);
    const larger = makeBatch(opened, eventsOfSize(opened, 4, 1_000_001));
    expect(await attempt(opened, larger)).toBeInstanceOf(TooLargeError);
  });
});

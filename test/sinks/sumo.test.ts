import { inspect } from "node:util";
import { afterEach, describe, expect, test } from "vitest";
import {
  explain,
  PausedError,
  RejectedEventsError,
  RetryableError,
  TooLargeError,
} from "../../src/core/errors.ts";
import type { Sink } from "../../src/core/sink.ts";
import { sumo } from "../../src/sinks/sumo.ts";
import { attempt, drive, openSink } from "../contract/drive.ts";
import { type Destination, testSink } from "../contract/sink.ts";
import { startSumo } from "../stand-ins/sumo.ts";
import { cefFormat, makeBatch, makeEvents } from "../support/events.ts";
import { eventsOfSize, measured, paddedEvent } from "./limits.ts";

const TOKEN = "ZaVnC4dhaV2secretaddress";

async function startDestination(config: Record<string, unknown> = {}) {
  const standIn = await startSumo({ token: TOKEN });
  return {
    definition: sumo,
    config: { url: { env: "SUMO_URL" }, category: "audit/directory", ...config },
    secrets: { SUMO_URL: `${standIn.server.url}/receiver/v1/http/${TOKEN}`, TOKEN },
    standIn,
    largestBody: () => Math.max(...standIn.server.received.map(({ body }) => body.length)),
    expected: (event) =>
      `{"tidemark_identity":"${event.identity}",${Buffer.from(event.bytes).toString().slice(1)}`,
    read: async () => standIn.messages(),
    unavailable() {
      standIn.state.isThrottling = true;
    },
    unauthorized() {
      standIn.state.token = "another";
    },
    takesAtMost(events: number) {
      standIn.state.messagesMax = events;
    },
    hangs: () => standIn.server.hang(),
    storesAndCuts: () => standIn.server.cutNext(),
    normal() {
      standIn.server.normal();
      Object.assign(standIn.state, {
        token: TOKEN,
        isThrottling: false,
        messagesMax: Number.POSITIVE_INFINITY,
      });
    },
    close: () => standIn.server.close(),
  } satisfies Destination & { standIn: unknown };
}

testSink("sumo, against a stand-in", {
  can: ["largestBody", "unavailable", "unauthorized", "takesAtMost", "hangs", "storesAndCuts", "dated"],
  start: () => startDestination(),
});

describe("the sumo sink, against a stand-in", () => {
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

  test("sends the source's category, name and host", async () => {
    const opened = await open({ sourceName: "tidemark", host: "exporter-1" });
    await opened.write(makeBatch(opened, makeEvents(1)), new AbortController().signal);
    expect(destination.standIn.server.received[0]!.headers).toMatchObject({
      "x-sumo-category": "audit/directory",
      "x-sumo-name": "tidemark",
      "x-sumo-host": "exporter-1",
    });
  });

  test("the address is in no error, whatever happens to it", async () => {
    const opened = await open();
    const batch = makeBatch(opened, makeEvents(1));
    const errors: unknown[] = [];
    for (const status of [401, 404, 301, 429, 500]) {
      const body = { message: `no source at ${destination.secrets.SUMO_URL}` };
      destination.standIn.server.answerAll({
        status,
        body,
        headers: { location: destination.secrets.SUMO_URL },
      });
      errors.push(await attempt(opened, batch));
    }
    await destination.close();
    errors.push(await attempt(opened, batch));
    for (const error of errors) {
      expect(error).toBeInstanceOf(Error);
      expect(explain(error) + inspect(error, { depth: 9 })).not.toContain(TOKEN);
    }
  });

  test("an invalid address is reported without repeating it", async () => {
    destination = await startDestination();
    const wrong = { ...destination, secrets: { SUMO_URL: "no address but secret" } };
    const error = await openSink(wrong).catch((e) => e as Error);
    expect((error as Error).name).toBe("PausedError");
    expect((error as Error).message).not.toContain("no address but secret");
  });

  test("a text format is sent unchanged", async () => {
    destination = await startDestination();
    const events = makeEvents(3);
    await drive({ ...destination, format: cefFormat }, events);
    expect(destination.standIn.messages()).toEqual(events.map((event) => cefFormat.encode(event)));
  });

  test("a message of exactly 64 KB arrives whole, one byte more is rejected", async () => {
    const opened = await open();
    const base = makeBatch(opened, [paddedEvent(0, 0)]).records[0]!.body.length;
    const fits = paddedEvent(0, 65_536 - base);
    const exceeds = paddedEvent(1, 65_536 - base + 1);
    expect(opened.limits.recordBytesMax).toBe(65_536);
    const error = (await attempt(opened, makeBatch(opened, [exceeds, fits]))) as RejectedEventsError;
    expect(error).toBeInstanceOf(RejectedEventsError);
    expect(error.rejected.map(({ index }) => index)).toEqual([0]);
    expect(error.remaining).toEqual([1]);
    expect(await attempt(opened, makeBatch(opened, [fits]))).toBeUndefined();
    expect(destination.standIn.messages()).toHaveLength(1);
  });

  test("a body of exactly 1 MB is taken, one byte more is too large", async () => {
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
    const larger = makeBatch(opened, eventsOfSize(opened, 20, 1_000_001));
    expect(await attempt(opened, larger)).toBeInstanceOf(TooLargeError);
  });

  test.each([
    [408, RetryableError],
    [429, RetryableError],
    [503, RetryableError],
    [504, RetryableError],
    [401, PausedError],
    [400, RejectedEventsError],
  ])("answers of %i have their one consequence", async (status, kind) => {
    const opened = await open();
    destination.standIn.server.answerAll({ status });
    expect(await attempt(opened, makeBatch(opened, makeEvents(2)))).toBeInstanceOf(kind);
  });
});

import { afterEach, describe, expect, test } from "vitest";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { RejectedEventsError } from "../../src/core/errors.ts";
import { loki } from "../../src/sinks/loki.ts";
import { attempt, openSink, parseConfig } from "../contract/drive.ts";
import { testSink } from "../contract/sink.ts";
import { startLoki } from "../stand-ins/loki.ts";
import { makeBatch, makeEvents } from "../support/events.ts";

const SECRETS = { TOKEN: "glc_t0ken-of-the-test" };
const clock: Clock = { now: () => Date.parse("2026-03-15T01:00:00Z"), sleep: systemClock.sleep };

async function startDestination(config: Record<string, unknown> = {}) {
  const standIn = await startLoki({ login: `123:${SECRETS.TOKEN}`, tenant: "audit" });
  const own = { url: standIn.server.url, tenant: "audit", username: "123", password: { env: "TOKEN" } };
  return {
    definition: loki,
    clock,
    config: { ...own, ...config },
    secrets: SECRETS,
    standIn,
    read: async () => standIn.lines(),
    unavailable: () => standIn.server.answerAll({ status: 429, body: "ingestion rate limit exceeded" }),
    unauthorized() {
      standIn.state.login = "another";
    },
    takesAtMost(lines: number) {
      standIn.state.linesMax = lines;
    },
    refuses(ids: readonly string[]) {
      standIn.state.refusedIds = ids;
    },
    hangs: () => standIn.server.hang(),
    storesAndCuts: () => standIn.server.cutNext(),
    normal() {
      standIn.server.normal();
      const linesMax = Number.POSITIVE_INFINITY;
      Object.assign(standIn.state, { login: `123:${SECRETS.TOKEN}`, refusedIds: [], linesMax });
    },
    close: () => standIn.server.close(),
  };
}

testSink("loki, against a stand-in", {
  can: ["unavailable", "unauthorized", "takesAtMost", "refuses", "hangs", "storesAndCuts", "dated"],
  unordered: true,
  start: () => startDestination(),
});

describe("the loki sink, against a stand-in", () => {
  let destination: Awaited<ReturnType<typeof startDestination>>;
  afterEach(() => destination.close());

  test("a stream for each service, with the identity as structured metadata", async () => {
    destination = await startDestination({ labels: { job: "audit", env: "test" } });
    const sink = await openSink(destination);
    const events = makeEvents(8);
    expect(await attempt(sink, makeBatch(sink, events))).toBeUndefined();
    await sink.close();
    const { streams } = JSON.parse(destination.standIn.server.received[0]!.body.toString());
    expect(streams).toHaveLength(4);
    expect(streams[0].stream).toEqual({ job: "audit", env: "test", service_name: "directory" });
    expect(streams[0].values[0][0]).toBe(`${events[0]!.timestampMs}000000`);
    expect(streams[0].values[0][2]).toMatchObject({ identity: events[0]!.identity });
  });

  test("the body of a full batch stays below batchBytesMax", async () => {
    destination = await startDestination({ batchBytesMax: "100KB" });
    const sink = await openSink(destination);
    const { bytesMax, batchOverheadBytes = 0, recordOverheadBytes = 0 } = sink.limits;
    const events = makeEvents(1000);
    const batch = makeBatch(sink, events);
    let bytes = batchOverheadBytes;
    const records = batch.records.filter(({ size }) => {
      bytes += size + recordOverheadBytes;
      return bytes <= bytesMax;
    });
    expect(await attempt(sink, { ...batch, records })).toBeUndefined();
    await sink.close();
    expect(destination.standIn.server.received[0]!.body.length).toBeLessThanOrEqual(bytesMax);
  });

  test("a batchBytesMax that leaves no bytes for events is refused, and the smallest one takes events", async () => {
    destination = await startDestination({ batchBytesMax: "20KB" });
    expect(() => parseConfig(destination)).toThrow(
      /at least 32000 bytes, of which 20000 are for labels .* raise it/,
    );
    const sink = await openSink({ ...destination, config: { ...destination.config, batchBytesMax: "32KB" } });
    const { bytesMax, batchOverheadBytes = 0, recordOverheadBytes = 0 } = sink.limits;
    expect(bytesMax - batchOverheadBytes - recordOverheadBytes).toBeGreaterThan(10_000);
    await sink.close();
  });

  test("R27 events that are too old or too large become dead letters, the others arrive", async () => {
    destination = await startDestination({ ageMax: "1d", lineBytesMax: 2000 });
    const sink = await openSink(destination);
    const [fresh, old, large] = makeEvents(3);
    const events = [
      fresh!,
      { ...old!, timestampMs: clock.now() - 86_400_001 },
      { ...large!, bytes: Buffer.from(`{"x":"${"y".repeat(3000)}"}`) },
    ];
    const error = await attempt(sink, makeBatch(sink, events));
    expect(error).toBeInstanceOf(RejectedEventsError);
    expect((error as RejectedEventsError).rejected.map(({ index }) => index)).toEqual([1, 2]);
    expect((error as RejectedEventsError).remaining).toEqual([0]);
    await sink.close();
  });
});

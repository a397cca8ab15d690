import { afterEach, describe, expect, test } from "vitest";
import { silentMetrics } from "../../src/core/metrics.ts";
import { openProxied } from "./proxied.ts";
import type { AnswerProxy, Exchange } from "./proxy.ts";
import { COMPLETE, DAY, HOUR, START_MS, type World } from "./support.ts";

let world: World | undefined;
let proxy: AnswerProxy | undefined;
afterEach(async () => {
  await world?.close();
  await proxy?.close();
});

test("R8 an event that gets its name only with a later pass is counted once", async () => {
  ({ world, proxy } = await openProxied({
    simulator: { organizations: 1, events: 60, gzip: false },
    account: { bodyMax: "20KB" },
  }));
  const it = world;
  const [organization] = it.organizations as [string];
  const timestamp = new Date(START_MS - 2 * DAY).toISOString();
  it.simulator.control.append(organization, [
    { id: "cccccccccccccccccccccccc", timestamp, filler: "x".repeat(30_000) },
  ]);
  // The request for the name of the event is refused.
  proxy.change = (exchange) => {
    const { fields, limit } = exchange.query;
    if (fields !== undefined && limit === 1)
      Object.assign(exchange, { status: 400, body: Buffer.from('{"message":"search_after has expired"}') });
  };
  await it.drain();
  // The pass left a gap without a name. The comparison that follows shows the name, and the gap gets it.
  expect(await it.journal.gaps()).toMatchObject([{ events: 1, detail: expect.stringContaining("listed") }]);
  proxy.change = undefined;
  await it.account.poller.reconcile({ fromMs: 0, toMs: START_MS }, it.signal);
  await it.drain();
  const gaps = await it.journal.gaps();
  expect(gaps).toMatchObject([
    {
      organization,
      reason: "unreadable",
      events: 1,
      detail: expect.stringMatching(/ccccc.*larger than the limit/),
    },
  ]);
  // Another comparison finds the same gap.
  await it.account.poller.reconcile({ fromMs: 0, toMs: START_MS }, it.signal);
  await it.drain();
  expect(await it.journal.gaps()).toEqual(gaps);
});

describe("an event that was passed over", () => {
  /** In each answer, those about the identity fields alone included. */
  const WHOLE = /\{[^{}]*"id":"bad0"[^{}]*\}/;
  const spoil = (text: string | RegExp) => (exchange: Exchange) => {
    exchange.body = Buffer.from(exchange.body.toString("latin1").replace(text, "NaN"), "latin1");
  };
  const kinds = (it: World) => it.alarms().map(({ kind }) => kind);

  async function openWithBad(spoiled: string | RegExp): Promise<World> {
    ({ world, proxy } = await openProxied({ simulator: { organizations: 1, events: 60 } }));
    const timestamp = new Date(START_MS - 2 * DAY).toISOString();
    const event = `{"id":"bad0","service":"directory","event_type":"x","marker":"BAD","timestamp":"${timestamp}","organization":"${world.organizations[0]}"}`;
    world.simulator.control.append(world.organizations[0]!, [event]);
    proxy.change = spoil(spoiled);
    await world.drain();
    return world;
  }

  async function correct(it: World): Promise<void> {
    proxy!.change = undefined;
    await it.account.poller.reconcile({ fromMs: 0, toMs: START_MS }, it.signal);
    await it.drain();
  }

  test.each([
    ["with a name", '"BAD"'],
    ["without a name", WHOLE],
  ])("R32 %s is no gap and no alarm once it is corrected and fetched", async (_, spoiled) => {
    const it = await openWithBad(spoiled);
    const detail = expect.stringContaining(spoiled === WHOLE ? "one event" : "bad0");
    expect(await it.journal.gaps()).toMatchObject([{ reason: "unreadable", events: 1, detail }]);
    expect(kinds(it)).toEqual(["unreadable_event"]);
    await correct(it);
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(await it.journal.gaps()).toEqual([]);
    expect(it.alarms()).toEqual([]);
  });

  test("R32 stays a gap when the service deletes it", async () => {
    const it = await openWithBad(WHOLE);
    proxy!.change = (exchange) => {
      if (!exchange.path.endsWith("/events")) return;
      const events = JSON.parse(exchange.body.toString()) as { id: string }[];
      const left = events.filter(({ id }) => id !== "bad0");
      if (left.length === events.length) return;
      exchange.body = Buffer.from(JSON.stringify(left));
      exchange.headers["x-result-count"] = String(left.length);
    };
    await it.account.poller.reconcile({ fromMs: 0, toMs: START_MS }, it.signal);
    await it.drain();
    expect(await it.journal.gaps()).toMatchObject([{ reason: "unreadable", events: 1 }]);
  });

  test("R32 is an alarm again after a restart, and a gap without one after a week", async () => {
    const it = await openWithBad('"BAD"');
    const alarms = it.alarms();
    expect(alarms).toMatchObject([{ kind: "unreadable_event", message: expect.stringContaining("bad0") }]);
    it.forgetAlarms();
    await it.restart({ account: { insightsUrl: proxy!.url } });
    await it.drain();
    expect(it.alarms()).toMatchObject(
      alarms.map(({ kind, subject, message }) => ({ kind, subject, message })),
    );
    await it.pass(8 * DAY, 12 * HOUR);
    expect(kinds(it)).toEqual([]);
    expect(await it.journal.gaps()).toMatchObject([{ reason: "unreadable" }]);
  });
});

describe("R32 an unreadable event among others of its second", () => {
  const SECOND_MS = START_MS - 2 * DAY;
  const at = (ms: number, more = {}) => ({ timestamp: new Date(SECOND_MS + ms).toISOString(), ...more });
  let repeated = 0;

  async function openSecond(
    pageSize: number,
    events: readonly Readonly<Record<string, unknown>>[],
  ): Promise<World> {
    repeated = 0;
    const metrics = {
      ...silentMetrics,
      add(name: string, value: number) {
        if (name === "tidemark_journal_repeated_events_total") repeated += value;
      },
    };
    const simulator = { organizations: 1, events: 0 };
    ({ world, proxy } = await openProxied({ simulator, metrics, polling: { pageSize } }));
    world.simulator.control.append(world.organizations[0]!, events);
    proxy.change = (exchange) => {
      exchange.body = Buffer.from(exchange.body.toString("latin1").replaceAll('"BAD"', "NaN"), "latin1");
    };
    await world.drain();
    return world;
  }

  test.each([10_000, 20, 7])(
    "with pages of %i, what is asked for again is no repeat of the service's own",
    async (size) => {
      const burst = Array.from({ length: 60 }, (_, index) => at(0, index === 31 ? { marker: "BAD" } : {}));
      const it = await openSecond(size, burst);
      await it.pass(2 * HOUR, HOUR);
      expect(await it.compare()).toMatchObject({ held: 59, lost: 1 });
      expect(it.alarms().map(({ kind }) => kind)).not.toContain("unordered_answers");
      expect(repeated).toBe(0);
    },
  );

  test("counts in the window of its own time alone", async () => {
    const it = await openSecond(100, [at(0)]);
    const counted = async () => {
      const windows = (await it.windows()).filter(({ apiCount }) => apiCount !== null);
      const sum = (name: "apiCount" | "heldCount") => windows.reduce((all, one) => all + one[name]!, 0);
      return [sum("apiCount"), sum("heldCount")];
    };
    // Windows that end in the middle of a second: a request for their time shows the whole second.
    await it.pass(12 * HOUR + 400, 12 * HOUR + 400);
    const edges = (await it.windows()).filter(({ live }) => live).map(({ fromMs }) => fromMs);
    expect(edges.map((ms) => ms % 1000)).toEqual([400]);
    const events = [100, 450, 700].map((ms) =>
      at(edges[0]! - 400 + ms - SECOND_MS, ms === 450 ? { marker: "BAD" } : {}),
    );
    it.simulator.control.append(it.organizations[0]!, events);
    await it.pass(3 * DAY, 6 * HOUR);
    expect(await counted()).toEqual([4, 3]);
    proxy!.change = undefined;
    await it.account.poller.reconcile({ fromMs: 0, toMs: START_MS + 3 * DAY }, it.signal);
    await it.drain();
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 4 });
    expect(await counted()).toEqual([4, 4]);
    expect((await it.windows()).map(({ reason }) => reason).filter((reason) => reason !== null)).toEqual([]);
  });
});

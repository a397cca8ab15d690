import { afterEach, describe, expect, test } from "vitest";
import { openProxied } from "./proxied.ts";
import type { AnswerProxy, Exchange } from "./proxy.ts";
import { DAY, HOUR, MINUTE, START_MS, type World } from "./support.ts";

let world: World | undefined;
let proxy: AnswerProxy | undefined;
afterEach(async () => {
  await world?.close();
  await proxy?.close();
});

const EVENT = /\{[^{}]*"id":"(bad\d+)"[^{}]*\}/g;

/** The service sends `null` in place of these, and nothing in place of those that it has deleted. */
function spoil(deleted: readonly string[] = []): (exchange: Exchange) => void {
  return (exchange) => {
    if (!exchange.path.endsWith("/events") || exchange.status !== 200) return;
    const events = (JSON.parse(exchange.body.toString()) as { id?: string }[]).filter(
      ({ id }) => !deleted.includes(id ?? ""),
    );
    exchange.headers["x-result-count"] = String(events.length);
    exchange.body = Buffer.from(JSON.stringify(events).replace(EVENT, "null"));
  };
}

const wholeSeconds = ({ start_time, end_time, ...query }: Record<string, unknown>) => ({
  ...query,
  start_time: cut(start_time),
  ...(end_time !== undefined && { end_time: cut(end_time) }),
});
const cut = (time: unknown) => new Date(Math.floor(Date.parse(time as string) / 1000) * 1000).toISOString();

async function open(): Promise<World> {
  ({ world, proxy } = await openProxied({ simulator: { organizations: 1, events: 0 } }));
  proxy.change = spoil();
  return world;
}

/** Good ones and unreadable ones in turn. */
function append(it: World, firstMs: number, stepMs: number, count: number): number[] {
  const times = Array.from({ length: count }, (_, index) => firstMs + index * stepMs);
  it.simulator.control.append(
    it.organizations[0]!,
    times.map((ms, index) => ({
      timestamp: new Date(ms).toISOString(),
      ...(index % 2 === 1 && { id: `bad${index}` }),
    })),
  );
  return times.filter((_, index) => index % 2 === 1);
}

async function reconcile(it: World): Promise<void> {
  await it.account.poller.reconcile({ fromMs: 0, toMs: it.clock.now() }, it.signal);
  await it.drain();
}

/** Each event has a gap around its time. */
async function expectCovered(it: World, times: readonly number[]): Promise<void> {
  const gaps = await it.journal.gaps();
  expect(gaps).toHaveLength(times.length);
  expect(times.filter((ms) => !gaps.some(({ fromMs, toMs }) => fromMs <= ms && ms < toMs))).toEqual([]);
}

describe("R32 the gaps of events without a name, each between readable ones", () => {
  test.each([
    ["inside a window", 10 * MINUTE, false],
    ["inside a window, of a service that knows whole seconds only", 10 * MINUTE, true],
    // The one at the end of a window is met from both sides.
    ["over the end of a window, in the middle of a second", 12 * 70, false],
    ["over such an end, of a service that knows whole seconds only", 12 * 70, true],
  ])("stay as many, and where they are: %s", async (_, beforeMs, isCut) => {
    const it = await open();
    if (isCut) proxy!.ask = wholeSeconds;
    await it.drain();
    await it.pass(12 * HOUR + 400, 12 * HOUR + 400);
    const [edge] = (await it.windows()).filter(({ live }) => live);
    const times = append(it, edge!.fromMs - beforeMs, 70, 25);
    await it.pass(2 * DAY, 6 * HOUR);
    await expectCovered(it, times);
    for (let again = 0; again < 3; again++) await reconcile(it);
    await expectCovered(it, times);
  });

  test("stay where the service deletes the event, although the one behind it came after the gap was found", async () => {
    const it = await open();
    await it.drain();
    await it.pass(HOUR, MINUTE);
    const [time] = append(it, it.clock.now() - 2 * MINUTE, 1000, 3);
    await it.pass(3 * MINUTE, MINUTE);
    await expectCovered(it, [time!]);
    proxy!.change = spoil(["bad1"]);
    await it.pass(DAY, HOUR);
    await reconcile(it);
    await expectCovered(it, [time!]);
  });
});

describe("R32 unreadable events without a name in one place", () => {
  const firstMs = START_MS - 2 * DAY;
  const at = (index: number, id?: string) => ({
    timestamp: new Date(firstMs + index * 300).toISOString(),
    ...(id !== undefined && { id }),
  });

  test.each([
    ["behind a readable one", 1, 24],
    ["at the beginning of a window", 0, 8],
  ])(
    "are a gap each and do not hold up the others, however many there are in a row %s",
    async (_, first, count) => {
      const it = await open();
      const good = [at(0), at(count + 1)].slice(1 - first);
      const row = Array.from({ length: count }, (_, index) => at(1 + index, `bad${index}`));
      it.simulator.control.append(it.organizations[0]!, [...row, ...good]);
      await it.drain();
      expect(await it.compare()).toMatchObject({ held: good.length });
      for (let times = 0; times < 2; times++) {
        expect(await it.journal.gapTotals()).toMatchObject({ gaps: count, events: count });
        await reconcile(it);
      }
      proxy!.change = undefined;
      await reconcile(it);
      expect(await it.journal.gaps()).toEqual([]);
    },
  );

  test.each([
    ["first", "bad1", 0],
    ["second", "bad2", 0],
    // A comparison cannot tell events without an id apart by their identity fields: the window is read whole.
    ["first, where the window is read whole,", "bad1", 160],
    ["second, where the window is read whole,", "bad2", 160],
  ])("are one gap less when the %s is corrected", async (_, corrected, others) => {
    const it = await open();
    const withoutId = Array.from({ length: others }, (_, index) => at(10 + index, `none${index}`));
    it.simulator.control.append(it.organizations[0]!, [
      ...[at(0), at(1, "bad1"), at(2, "bad2"), at(3)],
      ...withoutId,
    ]);
    let unreadable = ["bad1", "bad2"];
    proxy!.change = (exchange) => {
      if (!exchange.path.endsWith("/events")) return;
      const text = exchange.body
        .toString()
        .replace(EVENT, (event, id: string) => (unreadable.includes(id) ? "null" : event));
      exchange.body = Buffer.from(text.replace(/"id":"none\d+",?/g, ""));
    };
    await it.drain();
    expect(await it.journal.gapTotals()).toMatchObject({ gaps: 2, events: 2 });
    unreadable = unreadable.filter((id) => id !== corrected);
    await reconcile(it);
    expect(await it.journal.gapTotals()).toMatchObject({ gaps: 1, events: 1 });
    await reconcile(it);
    expect(await it.journal.gapTotals()).toMatchObject({ gaps: 1, events: 1 });
    unreadable = [];
    await reconcile(it);
    expect(await it.journal.gaps()).toEqual([]);
    expect(it.alarms()).toEqual([]);
  });
});

test("R32 an event without a name that comes again, because a request shows its whole second, counts once", async () => {
  const it = await open();
  proxy!.ask = wholeSeconds;
  const firstMs = START_MS - 2 * DAY;
  // Behind two readable ones pages are full again: the request begins anew there, and again at the next unreadable one.
  const row = ["", "bad1", "", "", "bad2", "", "", "bad3", ""].map((id, index) => ({
    timestamp: new Date(firstMs + index * 100).toISOString(),
    ...(id !== "" && { id }),
  }));
  it.simulator.control.append(it.organizations[0]!, row);
  await it.drain();
  for (let times = 0; times < 2; times++) {
    expect(await it.journal.gapTotals()).toMatchObject({ gaps: 3, events: 3 });
    const counts = (await it.windows()).filter(({ live }) => !live).map(({ apiCount }) => apiCount ?? 0);
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(9);
    await reconcile(it);
  }
});

test("R29 the gap of an event that the service deletes stays when its window is read whole again", async () => {
  const it = await open();
  const firstMs = START_MS - 2 * DAY;
  // A comparison cannot tell events without an id apart by their identity fields: the window is read whole.
  const others = Array.from({ length: 160 }, (_, index) => ({
    timestamp: new Date(firstMs + index * 1000).toISOString(),
    id: `none${index}`,
  }));
  const bad = { timestamp: new Date(firstMs + 50_500).toISOString(), id: "nan0", marker: "BAD" };
  it.simulator.control.append(it.organizations[0]!, [...others, bad]);
  let isDeleted = false;
  let wholeReads = 0;
  proxy!.change = (exchange) => {
    if (!exchange.path.endsWith("/events") || exchange.status !== 200) return;
    const isWhole = exchange.query.fields === undefined;
    if (isWhole) wholeReads++;
    const all = JSON.parse(exchange.body.toString()) as { id?: string }[];
    const events = isDeleted ? all.filter(({ id }) => id !== "nan0") : all;
    exchange.headers["x-result-count"] = String(events.length);
    const text = JSON.stringify(events).replace(/"id":"none\d+",?/g, "");
    exchange.body = Buffer.from(isWhole ? text.replace('"BAD"', "NaN") : text);
  };
  proxy!.ask = ({ fields, ...query }: Record<string, unknown> & { limit?: number }) =>
    query.limit === 1 || fields === undefined ? query : { ...query, fields };
  await it.drain();
  const before = await it.journal.gaps();
  expect(before).toMatchObject([{ events: 1, detail: expect.stringContaining("nan0") }]);
  isDeleted = true;
  wholeReads = 0;
  await reconcile(it);
  expect(wholeReads).toBeGreaterThan(0);
  expect(await it.journal.gaps()).toEqual(before);
  // Corrected after all, it is delivered, and the gap ends.
  isDeleted = false;
  const change = proxy!.change!;
  proxy!.change = (exchange) => {
    change(exchange);
    exchange.body = Buffer.from(exchange.body.toString().replace("NaN", '"good"'));
  };
  await reconcile(it);
  expect(await it.journal.gaps()).toEqual([]);
});

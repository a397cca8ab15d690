// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterEach, describe, expect, test } from "vitest";
import { summaryLines } from "../../src/commands/coverage-text.ts";
import type { OrganizationsView } from "../../src/core/view/organizations.ts";
import type { StatusView } from "../../src/core/view/status.ts";
import { createReadProgress } from "../../src/journal/progress.ts";
import { createLedgerView } from "../../src/journal/view/ledger.ts";
import { isRising } from "../../src/polling/read/pass.ts";
import { openProxied } from "./proxied.ts";
import type { AnswerProxy, Exchange } from "./proxy.ts";
import { COMPLETE, DAY, HOUR, MINUTE, SECOND, START_MS, type World } from "./support.ts";

let world: World | undefined;
let proxy: AnswerProxy | undefined;
afterEach(async () => {
  await world?.close();
  await proxy?.close();
  world = undefined;
  proxy = undefined;
});

async function openBehindProxy(pageSize: number): Promise<{ it: World; proxy: AnswerProxy }> {
  const simulator = { organizations: 1, events: 0 };
  ({ world, proxy } = await openProxied({ simulator, account: { since: "2d" }, polling: { pageSize } }));
  return { it: world, proxy };
}

/** A burst 47 hours ago and few events since then, behind a proxy that asks for descending order. */
async function openDescending(pageSize: number): Promise<{ it: World; proxy: AnswerProxy }> {
  const { it, proxy } = await openBehindProxy(pageSize);
  proxy.ask = (query) => ({ ...query, sort: "DESC" });
  const burst = Array.from({ length: 30 }, (_, at) => START_MS - 47 * HOUR + at * SECOND);
  const rest = Array.from({ length: 12 }, (_, at) => START_MS - 40 * HOUR + at * 3 * HOUR + at);
  const events = [...burst, ...rest].map((ms) => ({ timestamp: new Date(ms).toISOString() }));
  it.simulator.control.append(it.organizations[0]!, events);
  return { it, proxy };
}

const isUnordered = (it: World) => it.alarms().some(({ kind }) => kind === "unordered_answers");

describe("R3 events of equal time in an order that changes between the pages", () => {
  /** The second page of a read, and with `always` of a comparison, begins with an event of the first in place of its own. */
  async function openShuffled(always: boolean): Promise<{ it: World; proxy: AnswerProxy }> {
    const { it, proxy } = await openBehindProxy(10);
    const timestamp = new Date(START_MS - 30 * HOUR).toISOString();
    const events = Array.from({ length: 25 }, () => ({ timestamp }));
    it.simulator.control.append(it.organizations[0]!, events);
    let first: unknown;
    let left = always ? Number.POSITIVE_INFINITY : 1;
    proxy.change = (exchange) => {
      if (!exchange.path.endsWith("/events") || (exchange.query.fields !== undefined && !always)) return;
      const page = JSON.parse(exchange.body.toString()) as unknown[];
      if (exchange.query.search_after === undefined) first = page[0] ?? first;
      else if (page.length === 10 && left-- > 0)
        exchange.body = Buffer.from(JSON.stringify([first, ...page.slice(1)]));
    };
    return { it, proxy };
  }
  const statesOf = async (it: World) =>
    (await it.windows())
      .filter(({ fromMs, toMs }) => fromMs <= START_MS - 30 * HOUR && toMs > START_MS - 30 * HOUR)
      .map(({ state }) => state);

  test("R3 are compared before the window is sealed, and an alarm says so", async () => {
    const { it } = await openShuffled(false);
    await it.drain();
    expect(await it.compare()).toMatchObject({ held: 24, lost: 1 });
    expect(await statesOf(it)).toEqual(["read"]);
    expect(createReadProgress(it.db, ["acme"])().windowsDoubted).toBe(1);
    const { doubted } = await createLedgerView(it.db, it.clock).survey();
    const status = { totals: { doubted, windows: {} } } as unknown as StatusView;
    expect(summaryLines(status, { problems: 0 } as OrganizationsView).join("\n")).toContain(
      "1 time range may lack events, because the service listed some events twice there",
    );
    expect(isUnordered(it)).toBe(true);
    await it.pass(3 * HOUR, HOUR);
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 25 });
    await it.pass(2 * DAY, 6 * HOUR);
    expect(await statesOf(it)).toEqual(["sealed"]);
    expect(createReadProgress(it.db, ["acme"])().windowsDoubted).toBe(0);
  });

  test("R3 seal nothing for as long as it changes", async () => {
    const { it } = await openShuffled(true);
    await it.drain();
    await it.pass(2 * DAY, 6 * HOUR);
    expect(await it.compare()).toMatchObject({ held: 24, lost: 1 });
    expect(await statesOf(it)).toEqual(["read"]);
    expect(createReadProgress(it.db, ["acme"])().windowsDoubted).toBe(1);
    expect(isUnordered(it)).toBe(true);
  });
});

describe("R1 the end of a page is a place only where answers rise in time", () => {
  test("R1 everything is read of a service that answers in descending order, and an alarm says so", async () => {
    const { it } = await openDescending(10);
    await it.drain();
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 42 });
    expect(it.alarms()).toContainEqual(
      expect.objectContaining({ kind: "unordered_answers", message: expect.stringContaining('"DESC"') }),
    );
  });

  test("R1 the events alone show the order, without a header", async () => {
    const { it, proxy } = await openDescending(10);
    proxy.change = ({ headers }) => {
      delete headers["x-sort"];
    };
    await it.drain();
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 42 });
    expect(isUnordered(it)).toBe(true);
  });

  test("R1 a refused token of a page that begins before the one before it starts the pass again", async () => {
    const { it, proxy } = await openDescending(1);
    let pages = 0;
    proxy.change = (exchange) => {
      delete exchange.headers["x-sort"];
      if (exchange.query.search_after === undefined || ++pages !== 5) return;
      Object.assign(exchange, { status: 400, body: Buffer.from('{"message":"search_after has expired"}') });
    };
    await it.drain();
    await it.pass(10 * MINUTE, MINUTE);
    expect(pages).toBeGreaterThan(5);
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 42 });
  });

  test("R1 the order is trusted again after a day of answers in order", async () => {
    const { it, proxy } = await openDescending(10);
    await it.drain();
    proxy.ask = undefined;
    await it.pass(23 * HOUR, HOUR);
    expect(isUnordered(it)).toBe(true);
    await it.pass(3 * HOUR, HOUR);
    expect(isUnordered(it)).toBe(false);
  });

  test("R40 the order is not trusted after a restart either, until a day of answers was in order", async () => {
    const { it, proxy } = await openDescending(10);
    await it.drain();
    const [raised] = it.alarms();
    proxy.ask = undefined;
    const restart = async () => {
      it.forgetAlarms();
      await it.restart();
      await it.drain();
    };
    await restart();
    expect(it.alarms()).toEqual([{ ...raised, sinceMs: expect.any(Number) }]);
    await it.pass(26 * HOUR, HOUR);
    expect(isUnordered(it)).toBe(false);
    await restart();
    expect(isUnordered(it)).toBe(false);
  });

  /** A service that gives the third event of a read, or of a comparison, later than its time says, though its pages rise. */
  async function openAlmostRising(events: number, everyMs: number, isRefusing: boolean): Promise<World> {
    const { it, proxy } = await openBehindProxy(10);
    const times = Array.from({ length: events }, (_, at) => START_MS - 47 * HOUR + at * everyMs);
    const list = times.map((ms) => ({ timestamp: new Date(ms).toISOString() }));
    it.simulator.control.append(it.organizations[0]!, list);
    const left = { read: 1, comparison: isRefusing ? 1 : 0 };
    const refused = { read: isRefusing, comparison: isRefusing };
    const kindOf = ({ fields }: Exchange["query"]) => (fields === undefined ? "read" : "comparison");
    const isHidden = (query: Exchange["query"]) =>
      query.search_after === undefined && query.limit === 10 && left[kindOf(query)] > 0;
    proxy.ask = (query) => (isHidden(query) ? { ...query, limit: 11 } : query);
    proxy.change = (exchange) => {
      const { query } = exchange;
      if (!exchange.path.endsWith("/events")) return;
      if (query.search_after !== undefined && refused[kindOf(query)]) {
        refused[kindOf(query)] = false;
        Object.assign(exchange, { status: 400, body: Buffer.from('{"message":"search_after has expired"}') });
        return;
      }
      const page = JSON.parse(exchange.body.toString()) as unknown[];
      if (page.length < 11 || !isHidden(query)) return;
      left[kindOf(query)]--;
      exchange.body = Buffer.from(JSON.stringify(page.filter((_, at) => at !== 2)));
      Object.assign(exchange.headers, { "x-result-count": "10", "x-limit": "10" });
    };
    return it;
  }

  test("R2 a window that was cut at the end of its first page is compared before it is sealed", async () => {
    const it = await openAlmostRising(80, MINUTE, false);
    await it.drain();
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 80 });
    const closed = (await it.windows()).filter(({ live }) => !live);
    for (const { fromMs, toMs } of closed) expect(toMs).toBeGreaterThan(fromMs);
    expect(closed.reduce((sum, { heldCount }) => sum + heldCount!, 0)).toBe(80);
  });

  test("R1 a refused token after pages that rose by chance: the window is compared from its start before it is sealed", async () => {
    // Few enough events that the window is read with tokens, not in parts.
    const it = await openAlmostRising(13, 105 * MINUTE, true);
    await it.drain();
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 13 });
    expect(isUnordered(it)).toBe(false);
    expect((await it.windows()).find(({ fromMs }) => fromMs < START_MS - 47 * HOUR)?.state).toBe("read");
    await it.pass(15 * MINUTE, MINUTE);
    expect((await it.windows()).find(({ fromMs }) => fromMs < START_MS - 47 * HOUR)?.state).toBe("sealed");
  });

  test.each([
    ["equal and later times", [1000, 1000, 1400, 2000], true],
    ["a whole second whose fraction may have been cut off", [1000, 1400, 1000, 1500], true],
    ["the whole second before", [1000, 2400, 1000], false],
    ["an earlier fraction of the second", [1400, 1300], false],
    ["no readable time", [1400, Number.NaN, 1500], true],
  ])("R1 the order of a page: %s", (_, times, isInOrder) => {
    expect(isRising({ timesMs: Float64Array.from(times), count: times.length })).toBe(isInOrder);
  });

  test("R1 a service that ignores tokens is read from the last time on, page by page", async () => {
    const { it, proxy } = await openBehindProxy(10);
    const { exchanges } = proxy;
    proxy.ask = ({ search_after: _, ...query }) => query;
    proxy.change = ({ headers }) => {
      if (headers["x-search_after"] !== undefined) headers["x-search_after"] = `["${exchanges.length}"]`;
    };
    const times = Array.from({ length: 40 }, (_, at) => START_MS - 30 * HOUR + at * SECOND);
    const events = times.map((ms) => ({ timestamp: new Date(ms).toISOString() }));
    it.simulator.control.append(it.organizations[0]!, events);
    await it.pass(30 * MINUTE, MINUTE);
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 40 });
    expect(exchanges.length).toBeLessThan(400);
  });

  test.each([
    ["the same token again", (token: string) => token],
    ["another token each time", (token: string, count: number) => JSON.stringify([count, token])],
  ])(
    "R33 a token that leads back to an earlier page ends the request, not the reading: %s",
    async (_, write) => {
      const { it, proxy } = await openBehindProxy(2);
      const { exchanges } = proxy;
      /** The tokens of each request so far; that of its third page is replaced by that of its first. */
      const trails = new Map<unknown, string[]>();
      proxy.ask = (query) => {
        if (query.search_after === undefined) trails.set(query.start_time, []);
        const [, token] = (query.search_after ?? []) as [unknown, unknown?];
        const isWrapped = typeof token === "string" && token.startsWith("[");
        return isWrapped ? { ...query, search_after: JSON.parse(token) } : query;
      };
      let turns = 0;
      proxy.change = ({ headers, query }) => {
        const token = headers["x-search_after"];
        const trail = trails.get((query as { start_time?: unknown }).start_time);
        if (token === undefined || trail === undefined) return;
        // The simulator writes another token for the same place each time; they begin with its time.
        const placeOf = (one: string) => (JSON.parse(one) as unknown[])[0];
        if (trail.length < 3 && !trail.some((one) => placeOf(one) === placeOf(token))) trail.push(token);
        const isBack = trail[2] !== undefined && placeOf(token) === placeOf(trail[2]);
        if (isBack) turns++;
        headers["x-search_after"] = write(isBack ? trail[0]! : token, exchanges.length);
      };
      const times = Array.from({ length: 70 }, (_, at) => START_MS - 30 * HOUR + at * SECOND);
      const events = times.map((ms) => ({ timestamp: new Date(ms).toISOString() }));
      it.simulator.control.append(it.organizations[0]!, events);
      await it.pass(30 * MINUTE, MINUTE);
      expect(turns).toBeGreaterThan(0);
      expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 70 });
      expect(exchanges.length).toBeLessThan(1500);
    },
  );

  test("R36 tokens in a circle, by a service that ignores the start: no event is counted twice", async () => {
    const { it, proxy } = await openBehindProxy(10);
    const times = Array.from({ length: 38 }, (_, at) => START_MS - 47 * HOUR + at * 35 * MINUTE);
    const events = times.map((ms) => ({ timestamp: new Date(ms).toISOString() }));
    it.simulator.control.append(it.organizations[0]!, events);
    const rows = [...it.simulator.control.allEvents({ organization: it.organizations[0]! })].map(String);
    let isBad = true;
    let circles = 0;
    proxy.ask = (query) => (isBad ? { ...query, search_after: undefined } : query);
    proxy.change = (exchange) => {
      const { path, query, headers } = exchange;
      if (!isBad || !path.endsWith("/events") || query.fields !== undefined) return;
      const page = JSON.parse(exchange.body.toString()) as unknown[];
      const [, token] = (query.search_after ?? []) as [unknown, unknown?];
      if (token === undefined && page.length < 10) return;
      if (token === "b") circles++;
      const from = token === "a" ? 10 : 0;
      exchange.body = Buffer.from(`[${rows.slice(from, from + 10).join(",")}]`);
      Object.assign(headers, {
        "x-result-count": "10",
        "x-limit": "10",
        "x-search_after": `[1,"${token === "a" ? "b" : "a"}"]`,
      });
    };
    await it.pass(5 * MINUTE, 20 * SECOND);
    expect(circles).toBeGreaterThan(2);
    isBad = false;
    await it.pass(30 * MINUTE, MINUTE);
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 38 });
    const closed = (await it.windows()).filter(({ live }) => !live);
    expect(closed.reduce((sum, { apiCount }) => sum + apiCount!, 0)).toBe(38);
  });
});

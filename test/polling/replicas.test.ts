// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterEach, expect, test } from "vitest";
import { openProxied } from "./proxied.ts";
import type { AnswerProxy, Exchange } from "./proxy.ts";
import { COMPLETE, DAY, HOUR, MINUTE, START_MS, type World } from "./support.ts";

let world: World | undefined;
let proxy: AnswerProxy | undefined;
afterEach(async () => {
  await world?.close();
  await proxy?.close();
});

const LATE = "bbbbbbbbbbbbbbbbbbbbbbbb";
const LATER = "cccccccccccccccccccccccc";

/** A service of two replicas: one answers the comparisons of sweeps, the other one whole reads. */
async function openReplicas(isHidden: (exchange: Exchange) => boolean): Promise<World> {
  const account = { since: "2h" };
  const simulator = { organizations: 1, events: 0 };
  ({ world, proxy } = await openProxied({ simulator, account, polling: { pageSize: 20 } }));
  proxy.change = (exchange) => {
    if (!exchange.path.endsWith("/events") || !isHidden(exchange)) return;
    const events = JSON.parse(exchange.body.toString()) as { id: string }[];
    const left = events.filter(({ id }) => id !== LATE && id !== LATER);
    if (left.length === events.length) return;
    exchange.body = Buffer.from(JSON.stringify(left));
    exchange.headers["x-result-count"] = String(left.length);
  };
  await world.drain();
  await world.pass(90 * MINUTE, 30 * MINUTE);
  const timestamp = new Date(START_MS - 20 * MINUTE).toISOString();
  world.simulator.control.append(world.organizations[0]!, [{ id: LATE, timestamp }]);
  return world;
}

const around = async (it: World) =>
  (await it.windows()).find(
    ({ live, fromMs, toMs }) => !live && fromMs <= START_MS - 20 * MINUTE && toMs > START_MS - 20 * MINUTE,
  )!;

test("R9 an event that the comparison shows and the read does not return is named, and fetched when the read returns it", async () => {
  let hidden = true;
  const it = await openReplicas(({ query }) => hidden && query.fields === undefined);
  await it.pass(24 * HOUR, HOUR);
  expect(await it.held()).toHaveLength(0);
  expect(await around(it)).toMatchObject({ state: "read", apiCount: 1, heldCount: 0 });
  expect(await it.journal.gaps()).toMatchObject([
    {
      reason: "unreadable",
      detail: expect.stringContaining(LATE),
      events: 1,
      fromMs: START_MS - 20 * MINUTE,
    },
  ]);
  hidden = false;
  await it.pass(3 * HOUR, HOUR);
  expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 1 });
  expect(await it.journal.gaps()).toEqual([]);
  await it.pass(3 * HOUR, HOUR);
  expect(await around(it)).toMatchObject({ state: "sealed", apiCount: 1, heldCount: 1 });
});

test("R36 an event that was listed and is found by a sweep that fails afterwards is in the service's count once", async () => {
  let [hidden, broken] = [true, true];
  const it = await openReplicas((exchange) => {
    const isRead = exchange.query.fields === undefined;
    // The first of both events is returned; the request for the second one fails.
    if (isRead && !hidden && broken && exchange.body.includes(LATER)) exchange.status = 503;
    return isRead && hidden;
  });
  const timestamp = new Date(START_MS - 10 * MINUTE).toISOString();
  it.simulator.control.append(it.organizations[0]!, [{ id: LATER, timestamp }]);
  await it.pass(24 * HOUR, HOUR);
  expect(await around(it)).toMatchObject({ state: "read", apiCount: 2, heldCount: 0 });
  hidden = false;
  await it.pass(HOUR, 30 * MINUTE);
  expect(await it.held()).toHaveLength(1);
  expect(await around(it)).toMatchObject({ apiCount: 2, heldCount: 1 });
  broken = false;
  await it.pass(3 * HOUR, HOUR);
  expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 2 });
  expect(await around(it)).toMatchObject({ apiCount: 2, heldCount: 2 });
});

test("R9 an event that no read returns keeps its window open for a limited time, and stays a named gap with an alarm", async () => {
  const it = await openReplicas(({ query }) => query.fields === undefined);
  await it.pass(80 * HOUR, HOUR);
  expect(await around(it)).toMatchObject({ state: "sealed", apiCount: 1, heldCount: 0 });
  expect(await it.journal.gaps()).toMatchObject([
    { reason: "unreadable", detail: expect.stringContaining(LATE) },
  ]);
  expect(it.alarms().map(({ kind }) => kind)).toContain("unreadable_event");
});

test("R9 an event that the service deleted before it was read does not keep its window open, and stays named", async () => {
  let seen = 0;
  const it = await openReplicas(({ query, body }) => {
    if (query.fields !== undefined && body.includes(LATE)) seen++;
    return query.fields === undefined || seen > 1;
  });
  await it.pass(30 * HOUR, HOUR);
  expect(await around(it)).toMatchObject({ state: "sealed", apiCount: 1, heldCount: 0 });
  expect(await it.journal.gaps()).toMatchObject([
    { reason: "unreadable", detail: expect.stringContaining(LATE) },
  ]);
});

test("R9 a comparison that turned into a whole read remembers after an interruption which events it had seen", async () => {
  let [isBroken, isDeleted, pages] = [true, false, 0];
  const it = await openReplicas((exchange) => {
    const isRead = exchange.query.fields === undefined;
    if (isRead && exchange.body.length > 10) pages++;
    if (isRead && isBroken && exchange.query.search_after !== undefined) exchange.status = 503;
    return isRead || isDeleted;
  });
  // More places than a sweep fetches one by one, all before the one that is missing.
  const late = Array.from({ length: 60 }, (_, at) => START_MS - 40 * MINUTE + at * 3000);
  const events = late.map((ms) => ({ timestamp: new Date(ms).toISOString() }));
  it.simulator.control.append(it.organizations[0]!, events);
  it.simulator.control.clock.advance(24 * HOUR);
  for (let steps = 0; pages < 2; steps++) {
    if (steps > 1000) throw new Error("The window is not read again.");
    await it.account.poller.step(it.signal);
  }
  expect((await around(it)).pass).toMatchObject({ pages: 1 });
  [isBroken, isDeleted] = [false, true];
  await it.restart();
  await it.pass(HOUR, 10 * MINUTE);
  expect(await it.held()).toHaveLength(60);
  expect(await it.journal.gaps()).toMatchObject([
    { reason: "unreadable", detail: expect.stringContaining(LATE) },
  ]);
});

test("R36 after a long window was cut by its last comparison, the counts of each organization have a listed event once", async () => {
  const account = { since: "5d" };
  ({ world, proxy } = await openProxied({ simulator: { organizations: 2, events: 120, days: 5 }, account }));
  const it = world;
  proxy.change = (exchange) => {
    if (!exchange.path.endsWith("/events") || exchange.query.fields !== undefined) return;
    const events = JSON.parse(exchange.body.toString()) as { id: string }[];
    const left = events.filter(({ id }) => id !== LATE);
    if (left.length === events.length) return;
    exchange.body = Buffer.from(JSON.stringify(left));
    exchange.headers["x-result-count"] = String(left.length);
  };
  await it.drain();
  await it.pass(3 * DAY, 12 * HOUR);
  const [owner] = it.organizations;
  const timestamp = new Date(START_MS - 4.5 * DAY).toISOString();
  it.simulator.control.append(owner!, [{ id: LATE, timestamp }]);
  const history = async () => (await it.windows()).filter(({ fromMs }) => fromMs < START_MS);
  const before = (await history()).length;
  const isCut = async () => (await history()).length > before;
  await it.pass(76 * DAY, 4 * DAY);
  for (let hours = 0; hours < 240 && !(await isCut()); hours += 12) await it.pass(12 * HOUR);
  expect(await isCut()).toBe(true);
  expect(await it.journal.gaps()).toMatchObject([{ reason: "unreadable", events: 1 }]);
  const windows = await it.windows();
  const sumOf = (id: string, at: 0 | 1) =>
    windows.reduce((sum, { counts }) => sum + (counts?.[id]?.[at] ?? 0), 0);
  for (const id of it.organizations) {
    const served = [...it.simulator.control.allEvents({ organization: id })].length;
    expect(sumOf(id, 0)).toBe(served);
    expect(sumOf(id, 1)).toBe(id === owner ? served - 1 : served);
  }
});

test("R36 a comparison that finds a late event while the service hides another one counts both as shown", async () => {
  const it = await openReplicas(() => false);
  for (let hours = 0; hours < 24 && (await it.held()).length === 0; hours++) await it.pass(HOUR);
  expect(await around(it)).toMatchObject({ apiCount: 1, heldCount: 1 });
  const timestamp = new Date(START_MS - 10 * MINUTE).toISOString();
  it.simulator.control.append(it.organizations[0]!, [{ id: LATER, timestamp }]);
  proxy!.change = (exchange) => {
    if (!exchange.path.endsWith("/events")) return;
    const events = JSON.parse(exchange.body.toString()) as { id: string }[];
    const left = events.filter(({ id }) => id !== LATE);
    exchange.body = Buffer.from(JSON.stringify(left));
    exchange.headers["x-result-count"] = String(left.length);
  };
  await it.pass(30 * HOUR, HOUR);
  expect(await it.held()).toHaveLength(2);
  expect(await around(it)).toMatchObject({ apiCount: 2, heldCount: 2 });
});

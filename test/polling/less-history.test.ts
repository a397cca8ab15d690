// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterEach, expect, test } from "vitest";
import { openProxied } from "./proxied.ts";
import type { AnswerProxy } from "./proxy.ts";
import { COMPLETE, DAY, HOUR, START_MS, type World, type WorldOptions } from "./support.ts";

let world: World | undefined;
let proxy: AnswerProxy | undefined;
afterEach(async () => {
  await world?.close();
  await proxy?.close();
});

/** The first full answer leaves out most events, with a count that fits. */
async function openShort(options: WorldOptions): Promise<World> {
  ({ world, proxy } = await openProxied({
    simulator: { organizations: 1, events: 600, days: 14 },
    ...options,
  }));
  let isShort = true;
  proxy.change = (exchange) => {
    if (!isShort || !exchange.path.endsWith("/events") || exchange.status !== 200) return;
    const events = JSON.parse(exchange.body.toString()) as object[];
    if (events.length < 100) return;
    isShort = false;
    exchange.body = Buffer.from(JSON.stringify(events.slice(0, 50)));
    exchange.headers["x-result-count"] = "50";
  };
  return world;
}

const heldIds = async (it: World) => new Set((await it.held()).map((text) => JSON.parse(text).id as string));

/** Events that the service showed, that are not held, and that no gap names. */
async function unnamed(it: World): Promise<number> {
  const held = await heldIds(it);
  const gaps = await it.journal.gaps();
  const isNamed = (ms: number) => gaps.some(({ fromMs, toMs }) => ms >= fromMs && ms < toMs);
  return it
    .served()
    .map((text) => JSON.parse(text) as { id: string; timestamp: string })
    .filter(({ id, timestamp }) => !held.has(id) && !isNamed(Date.parse(timestamp))).length;
}

const PLAN_DAYS = 15;

test("R34 where the plan keeps less than `retention`, what it serves is compared, and the rest is a gap and an alarm", async () => {
  const it = await openShort({ account: { since: "14d" } });
  const [organization] = it.organizations;
  it.simulator.control.limitHistory(organization!, PLAN_DAYS);
  await it.drain();
  expect((await it.held()).length).toBeLessThan(300);
  await it.pass(50 * HOUR, HOUR);
  expect(await unnamed(it)).toBe(0);
  const gaps = await it.journal.gaps();
  expect(gaps).toMatchObject([{ reason: "unchecked", events: null, fromMs: START_MS - 14 * DAY }]);
  expect(gaps[0]!.toMs).toBeLessThanOrEqual(START_MS - (PLAN_DAYS - 3) * DAY);
  expect(it.alarms()).toContainEqual(
    expect.objectContaining({ kind: "history_limited", message: expect.stringContaining("last 1") }),
  );
  // Plans change: what was not compared is compared then, and is no gap any more.
  it.simulator.control.limitHistory(organization!, null);
  await it.pass(26 * HOUR, HOUR);
  expect(await it.compare()).toMatchObject(COMPLETE);
  expect(await it.journal.gaps()).toEqual([]);
  expect(it.alarms().map(({ kind }) => kind)).not.toContain("history_limited");
});

test.each([1, 2])(
  "R32 R34 organization %i of a group has its own limit of history: the others' limits are not its own",
  async (own) => {
    const simulator = { organizations: 3, events: 900, days: 60 };
    ({ world, proxy } = await openProxied({ simulator, account: { since: "60d" } }));
    const it = world;
    for (const [at, id] of it.organizations.entries())
      it.simulator.control.limitHistory(id, at === own ? 30 : PLAN_DAYS);
    await it.drain();
    const oldestMs = async (at: number) => {
      const held = (await it.held()).map(
        (text) => JSON.parse(text) as { organization: string; timestamp: string },
      );
      const times = held.filter(({ organization }) => organization === it.organizations[at]);
      return Math.min(...times.map(({ timestamp }) => Date.parse(timestamp)));
    };
    expect(await oldestMs(own)).toBeLessThan(START_MS - 28 * DAY);
    expect(await oldestMs(0)).toBeGreaterThan(START_MS - (PLAN_DAYS + 1) * DAY);
    expect(await unnamed(it)).toBe(0);
    const gaps = (await it.journal.gaps()).filter(
      ({ organization }) => organization === it.organizations[own],
    );
    expect(Math.max(...gaps.map(({ toMs }) => toMs))).toBeLessThan(START_MS - 29 * DAY);
  },
);

test("R32 R34 a limit of history in a group: an organization that fails when it is asked alone holds up no other", async () => {
  const simulator = { organizations: 3, events: 900, days: 60 };
  ({ world, proxy } = await openProxied({ simulator, account: { since: "60d" } }));
  const it = world;
  const [limited, full, failing] = it.organizations;
  it.simulator.control.limitHistory(limited!, PLAN_DAYS);
  proxy.change = (exchange) => {
    const isAlone = exchange.organizations.length === 1 && exchange.organizations[0] === failing;
    if (exchange.path.endsWith("/events") && isAlone) exchange.status = 500;
  };
  await it.pass(4 * HOUR, HOUR / 4);
  const held = (await it.held()).map((text) => JSON.parse(text) as { id: string; organization: string });
  const heldOf = (id: string) => held.filter(({ organization }) => organization === id).length;
  const servedOf = (id: string) => it.served().filter((text) => JSON.parse(text).organization === id).length;
  expect(servedOf(full!)).toBeGreaterThan(100);
  expect(heldOf(full!)).toBe(servedOf(full!));
  expect(heldOf(limited!)).toBeGreaterThan(20);
});

test("R40 a restart does not forget that the plan keeps less than `retention`", async () => {
  const it = await openShort({ account: { since: "14d" } });
  it.simulator.control.limitHistory(it.organizations[0]!, 5);
  await it.drain();
  const isRaised = () => it.alarms().some(({ kind }) => kind === "history_limited");
  await it.pass(26 * HOUR, HOUR);
  expect(isRaised()).toBe(true);
  await it.restart();
  it.forgetAlarms();
  expect(isRaised()).toBe(false);
  // Too short for another refusal: it is known from the ledger alone.
  await it.pass(HOUR / 12, HOUR / 60);
  expect(isRaised()).toBe(true);
});

test("R34 `reconcile` compares what a plan serves of a time range that begins before its limit", async () => {
  const it = await openShort({ account: { since: "14d" } });
  it.simulator.control.limitHistory(it.organizations[0]!, PLAN_DAYS);
  await it.drain();
  expect(await unnamed(it)).toBeGreaterThan(100);
  it.simulator.control.clock.advance(3 * DAY);
  const request = { fromMs: START_MS - 5 * DAY, toMs: START_MS };
  expect(await it.account.poller.reconcile(request, it.signal)).toBeGreaterThan(0);
  await it.drain();
  expect(await unnamed(it)).toBe(0);
});

test.each([
  ["a shorter list of sweeps", ["10m"]],
  ["another list of sweeps", ["30m", "2h"]],
  ["a longer list of sweeps", ["10m", "1h", "24h", "48h", "72h"]],
])("R3 history that waits for its second look has it after a restart with %s", async (_, sweeps) => {
  const it = await openShort({ account: { since: "14d" } });
  await it.drain();
  await it.pass(2 * HOUR, HOUR);
  await it.restart({ polling: { sweeps } });
  await it.pass(26 * HOUR, HOUR);
  expect(await it.compare()).toMatchObject(COMPLETE);
});

test("R3 the last sweeps of a long window's days are made after a restart with a shorter list of sweeps", async () => {
  const simulator = { organizations: 1, events: 100, days: 10 };
  ({ world, proxy } = await openProxied({ simulator, account: { since: "10d" } }));
  const it = world;
  await it.drain();
  await it.pass(2 * DAY, HOUR);
  await it.restart({ polling: { sweeps: ["10m"] } });
  const timestamp = new Date(START_MS - 4 * DAY).toISOString();
  it.simulator.control.append(it.organizations[0]!, [{ timestamp }]);
  await it.pass(90 * DAY, DAY / 2);
  expect(await it.compare()).toMatchObject(COMPLETE);
});

test("R36 when the service has deleted events of a long window's first day, no count says that some are missing", async () => {
  const simulator = { organizations: 1, events: 800, days: 80 };
  ({ world, proxy } = await openProxied({ simulator, account: { since: "80d" } }));
  const it = world;
  await it.drain();
  await it.pass(8 * DAY, DAY / 2);
  const held = (await it.held()).length;
  let hidden = 0;
  // The last comparison of the first days shows fewer events than before.
  proxy.change = (exchange) => {
    if (!exchange.path.endsWith("/events") || exchange.query.fields === undefined) return;
    const events = JSON.parse(exchange.body.toString()) as object[];
    if (hidden > 0 || events.length < 5 || events.length > 40) return;
    hidden = 3;
    exchange.body = Buffer.from(JSON.stringify(events.slice(3)));
    exchange.headers["x-result-count"] = String(events.length - 3);
  };
  await it.pass(6 * DAY, DAY / 4);
  expect(hidden).toBe(3);
  expect((await it.held()).length).toBeGreaterThanOrEqual(held);
  const differing = (await it.windows()).filter(({ apiCount, heldCount }) => apiCount !== heldCount);
  expect(differing).toEqual([]);
});

test("R5 `reconcile` compares the part of a long window that the service still holds", async () => {
  const simulator = { organizations: 1, events: 300, days: 88 };
  ({ world, proxy } = await openProxied({ simulator, account: { since: "89d" } }));
  const it = world;
  await it.drain();
  await it.pass(30 * HOUR, HOUR);
  const events = Array.from({ length: 20 }, (_, at) => ({
    timestamp: new Date(START_MS - 20 * DAY + at * HOUR).toISOString(),
  }));
  it.simulator.control.append(it.organizations[0]!, events);
  // The long window begins before the horizon now, and nothing has cut it yet.
  it.simulator.control.clock.advance(3 * DAY);
  const request = { fromMs: START_MS - 40 * DAY, toMs: START_MS };
  expect(await it.account.poller.reconcile(request, it.signal)).toBeGreaterThan(0);
  await it.drain();
  expect(await it.compare()).toMatchObject(COMPLETE);
});

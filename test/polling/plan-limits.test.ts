// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterEach, expect, test } from "vitest";
import { openProxied } from "./proxied.ts";
import type { AnswerProxy, Exchange } from "./proxy.ts";
import { DAY, HOUR, MINUTE, START_MS, type World } from "./support.ts";

let world: World | undefined;
let proxy: AnswerProxy | undefined;
afterEach(async () => {
  await world?.close();
  await proxy?.close();
});

interface Plan {
  /** The oldest time that is served now. */
  readonly edgeMs: (nowMs: number) => number;
  readonly message: string;
}

/** An event each hour for 40 days, and a plan for each organization; undefined serves everything. */
async function openPlans(plans: readonly (Plan | undefined)[], days = 40): Promise<World> {
  const simulator = { organizations: plans.length, events: 0 };
  ({ world, proxy } = await openProxied({ simulator, account: { since: `${days}d` } }));
  const it = world;
  for (const id of it.organizations) {
    const times = Array.from({ length: days * 24 }, (_, at) => START_MS - at * HOUR - 5 * MINUTE);
    const events = times.map((ms) => ({ timestamp: new Date(ms).toISOString() }));
    it.simulator.control.append(id, events);
  }
  proxy.change = (exchange) => void refuseBy(it, plans, exchange);
  return it;
}

const startOf = ({ query }: Exchange) => Date.parse((query as { start_time: string }).start_time);
const isRead = ({ path }: Exchange) => path.endsWith("/events");

/** Answers 402 where a plan of one of the organizations does not reach so far back; gives whether it did. */
function refuseBy(it: World, plans: readonly (Plan | undefined)[], exchange: Exchange): boolean {
  if (!isRead(exchange)) return false;
  for (const [at, plan] of plans.entries()) {
    const isAsked = exchange.organizations.includes(it.organizations[at]!);
    if (plan === undefined || !isAsked || startOf(exchange) >= plan.edgeMs(it.clock.now())) continue;
    Object.assign(exchange, {
      status: 402,
      body: Buffer.from(JSON.stringify({ message: plan.message })),
    });
    return true;
  }
  return false;
}

const keeps = (days: number, message = "Payment required"): Plan => ({
  edgeMs: (nowMs) => nowMs - days * DAY,
  message,
});

async function oldestHeldMs(it: World, at = 0): Promise<number> {
  const held = (await it.held()).map(
    (text) => JSON.parse(text) as { organization: string; timestamp: string },
  );
  const own = held.filter(({ organization }) => organization === it.organizations[at]);
  return Math.min(...own.map(({ timestamp }) => Date.parse(timestamp)));
}

test.each([
  [
    "counts calendar days",
    (nowMs: number) => Math.ceil((nowMs - 15 * DAY) / DAY) * DAY,
    "Your plan keeps 15 days",
  ],
  [
    "has a clock that is two minutes ahead",
    (nowMs: number) => nowMs + 2 * MINUTE - 15 * DAY,
    "Your plan keeps 15 days",
  ],
  ["names the days of another plan", (nowMs: number) => nowMs - 15 * DAY, "Upgrade to the plan with 30 days"],
  ["names a number that is no limit", (nowMs: number) => nowMs - 15 * DAY, "Your trial ends in 5 days"],
  ["names no number", (nowMs: number) => nowMs - 15 * DAY, "Payment required"],
])(
  "R34 a service that %s: all that its plan serves is read, in a few windows",
  async (_, edgeMs, message) => {
    const it = await openPlans([{ edgeMs, message }]);
    await it.drain();
    expect(await oldestHeldMs(it)).toBeLessThan(edgeMs(START_MS) + 2 * HOUR);
    expect((await it.windows()).length).toBeLessThan(10);
    expect(proxy!.exchanges.length).toBeLessThan(60);
    // What is read was served: the rest is a gap.
    const gaps = await it.journal.gaps();
    expect(gaps).toMatchObject([{ reason: "refused", open: true, fromMs: START_MS - 40 * DAY }]);
  },
);

test.each([503, 429])(
  "R34 one answer %i while the limit is looked for says nothing about the plan",
  async (status) => {
    const plan = keeps(15);
    const it = await openPlans([plan]);
    let refused = 0;
    let others = 0;
    proxy!.change = (exchange) => {
      if (refuseBy(it, [plan], exchange)) refused++;
      // The second question about an older time than the last hour's.
      else if (isRead(exchange) && refused >= 2 && startOf(exchange) < START_MS - DAY && others++ === 0)
        exchange.status = status;
    };
    await it.drain();
    await it.pass(10 * MINUTE, MINUTE);
    expect(others).toBeGreaterThan(0);
    expect(await oldestHeldMs(it)).toBeLessThan(START_MS - 15 * DAY + 2 * HOUR);
  },
);

test("R32 a fault instead of the last hour sets no organization aside", async () => {
  const plan = keeps(15);
  const it = await openPlans([plan]);
  let isFirst = true;
  proxy!.change = (exchange) => {
    if (refuseBy(it, [plan], exchange) || !isRead(exchange)) return;
    const isLastHour = exchange.query.limit === 1 && startOf(exchange) > START_MS - 2 * HOUR;
    if (!isLastHour || !isFirst) return;
    isFirst = false;
    exchange.status = 503;
  };
  await it.drain();
  await it.pass(5 * MINUTE, MINUTE);
  expect(isFirst).toBe(false);
  expect((await it.windows()).some(({ live }) => live)).toBe(true);
  expect(it.alarms().map(({ kind }) => kind)).not.toContain("organization_refused");
  expect(await oldestHeldMs(it)).toBeLessThan(START_MS - 15 * DAY + 2 * HOUR);
});

test("R34 after a plan has grown, `backfill` and `reconcile` ask again at once", async () => {
  const plans: (Plan | undefined)[] = [keeps(15), keeps(15), undefined];
  const it = await openPlans(plans);
  await it.drain();
  expect(await oldestHeldMs(it, 0)).toBeGreaterThan(START_MS - 16 * DAY);
  plans[0] = undefined;
  const request = { fromMs: START_MS - 38 * DAY, toMs: START_MS, reader: null };
  await it.account.poller.addHistory(request, it.signal);
  await it.drain();
  expect(await oldestHeldMs(it, 0)).toBeLessThan(START_MS - 37 * DAY);
  expect(await oldestHeldMs(it, 1)).toBeGreaterThan(START_MS - 16 * DAY);
});

test("R40 where plans differ, the alarm names no number that is one organization's alone, and a restart does not change that", async () => {
  const it = await openPlans([keeps(15), keeps(30), undefined]);
  const alarm = () => it.alarms().find(({ kind }) => kind === "history_limited");
  await it.drain();
  expect(alarm()?.message).toContain(
    "The plans of 2 organizations serve only between about the last 15 days and the last 30 days.",
  );
  expect(alarm()?.remedy).toContain("an account of their own");
  it.forgetAlarms();
  await it.restart();
  await it.pass(5 * MINUTE, MINUTE);
  expect(alarm()?.message).toContain("The plans of 2 organizations serve only a part of the history.");
});

import { afterEach, describe, expect, test } from "vitest";
import { openProxied } from "./proxied.ts";
import type { AnswerProxy, Exchange } from "./proxy.ts";
import { COMPLETE, DAY, HOUR, START_MS, type World } from "./support.ts";

let world: World | undefined;
let proxy: AnswerProxy | undefined;
afterEach(async () => {
  await world?.close();
  await proxy?.close();
});

const isPage = ({ path }: Exchange) => path.endsWith("/events");
/** With a name: a service whose tokens are not bound to the fields, so that it can tell the name of any event. */
function spoil(isNamed: boolean): void {
  proxy!.ask = ({ fields, ...query }) =>
    query.limit === 1 ? query : { ...query, ...(fields ? { fields } : {}) };
  proxy!.change = (exchange) => {
    if (!isPage(exchange) || (isNamed && exchange.query.fields !== undefined)) return;
    const text = exchange.body.toString("latin1").replace(/\{[^{}]*"id":"bad\d+"[^{}]*\}/g, "null");
    exchange.body = Buffer.from(text, "latin1");
  };
}

/** So many unreadable events are the first of all; a readable one follows each second of the next minute. */
async function openWith(unreadable: number, readable = 60): Promise<World> {
  ({ world, proxy } = await openProxied({ simulator: { organizations: 1, events: 0 } }));
  const at = (ms: number, more = {}) => ({
    timestamp: new Date(START_MS - 2 * DAY + ms).toISOString(),
    ...more,
  });
  world.simulator.control.append(world.organizations[0]!, [
    ...Array.from({ length: unreadable }, (_, index) => at(100 * index, { id: `bad${index}` })),
    ...Array.from({ length: readable }, (_, index) => at(100 * unreadable + 1000 * (index + 1))),
  ]);
  return world;
}

async function correct(it: World): Promise<void> {
  proxy!.change = undefined;
  await it.account.poller.reconcile({ fromMs: 0, toMs: it.clock.now() }, it.signal);
  await it.drain();
}

describe("R32 any number of unreadable events at the beginning of a window", () => {
  test.each([
    ["with names", true, 100],
    ["without names", false, 60],
  ])("%s are gaps, and the events behind them are delivered", async (_, isNamed, unreadable) => {
    const it = await openWith(unreadable);
    spoil(isNamed);
    await it.drain();
    expect(await it.compare()).toEqual({ held: 60, lost: unreadable, twice: 0 });
    expect(await it.journal.gapTotals()).toMatchObject({ gaps: unreadable, events: unreadable });
    expect(it.alarms().map(({ kind }) => kind)).not.toContain("window_failing");
    expect(proxy!.exchanges.filter(isPage).length).toBeLessThan(16 * unreadable);
    await it.pass(2 * DAY, 6 * HOUR);
    expect(await it.journal.gapTotals()).toMatchObject({ gaps: unreadable, events: unreadable });
    await correct(it);
    expect(await it.compare()).toEqual({ ...COMPLETE, held: 60 + unreadable });
    expect(await it.journal.gaps()).toEqual([]);
    expect(it.alarms()).toEqual([]);
  });

  test("is the service's fault where nothing is readable: nothing is passed over", async () => {
    const it = await openWith(60, 0);
    spoil(true);
    await it.drain();
    expect(await it.journal.gaps()).toEqual([]);
    expect(proxy!.exchanges.filter(isPage).length).toBeLessThan(200);
    await correct(it);
    await it.pass(HOUR, HOUR / 4);
    expect(await it.compare()).toEqual({ ...COMPLETE, held: 60 });
  });
});

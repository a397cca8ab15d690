// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterEach, describe, expect, test } from "vitest";
import { startOf } from "../../src/core/position.ts";
import { openProxied } from "./proxied.ts";
import type { AnswerProxy } from "./proxy.ts";
import { COMPLETE, HOUR, MINUTE, SECOND, START_MS, type World, type WorldOptions } from "./support.ts";

let world: World | undefined;
let proxy: AnswerProxy | undefined;
afterEach(async () => {
  await world?.close();
  await proxy?.close();
  world = undefined;
  proxy = undefined;
});

const SECONDS = 900;
const FIRST_MS = START_MS - 90 * MINUTE;
const request = { fromMs: FIRST_MS, toMs: FIRST_MS + SECONDS * SECOND, reader: "late-comer" };

/** Every second of a quarter of an hour has an event of each organization, so every border between pieces has some. */
async function openDense(organizations: number, more: Partial<WorldOptions> = {}): Promise<World> {
  const simulator = { organizations, events: 0 };
  ({ world, proxy } = await openProxied({ simulator, polling: { pageSize: 50 }, ...more }));
  for (const id of world.organizations)
    world.simulator.control.append(
      id,
      Array.from({ length: SECONDS }, (_, at) => ({
        timestamp: new Date(FIRST_MS + at * SECOND).toISOString(),
      })),
    );
  await world.drain();
  expect(await world.compare()).toMatchObject(COMPLETE);
  return world;
}

/** How many events the reader's own pages hold so many times. */
async function timesOf(it: World): Promise<Record<number, number>> {
  const shared = new Map<string, number>();
  const own = new Map<string, number>();
  await count(it, "test", shared);
  await count(it, request.reader, own);
  const times: Record<number, number> = {};
  for (const [text, all] of own) {
    const extra = all - shared.get(text)!;
    times[extra] = (times[extra] ?? 0) + 1;
  }
  return times;
}

async function count(it: World, name: string, counts: Map<string, number>): Promise<void> {
  const reader = await it.journal.reader(name);
  for (let after = startOf(it.journal.id); ; ) {
    const page = await reader.read(after);
    if (page === null) return;
    for (let at = 0; at < page.count; at++) {
      const text = Buffer.from(page.event(page.first + at).bytes).toString("latin1");
      counts.set(text, (counts.get(text) ?? 0) + 1);
    }
    after = page.after(page.first + page.count - 1);
  }
}

describe("R21 a stretch that is read again for one reader", () => {
  test("has each event once, where its window is cut into pieces", async () => {
    const it = await openDense(1);
    await it.account.poller.addHistory(request, it.signal);
    await it.account.poller.step(it.signal);
    expect((await it.windows()).filter(({ reader }) => reader !== null).length).toBeGreaterThan(2);
    await it.drain();
    expect(await timesOf(it)).toEqual({ 1: SECONDS });
  });

  test.each([
    [500, "and its group is split"],
    [403, "and it is refused for a time"],
  ])("has each event once, where an organization is answered with %i in the middle %s", async (status) => {
    const it = await openDense(4);
    const bad = [...it.organizations].sort()[2]!;
    let served = 0;
    proxy!.change = (exchange) => {
      if (!exchange.organizations.includes(bad) || ++served <= 4) return;
      Object.assign(exchange, { status, body: Buffer.from("{}") });
    };
    // Its first page reaches so far that the window is not cut: pages of it are held when the fault comes.
    const uncut = { ...request, fromMs: FIRST_MS - 2 * SECONDS * SECOND };
    await it.account.poller.addHistory(uncut, it.signal);
    await it.pass(10 * MINUTE, 10 * SECOND);
    const others = await timesOf(it);
    expect(others[1]).toBeGreaterThanOrEqual(3 * SECONDS);
    proxy!.change = undefined;
    await it.pass(3 * HOUR, MINUTE);
    expect((await it.windows()).filter(({ reader }) => reader !== null)).toEqual([]);
    expect(await timesOf(it)).toEqual({ 1: 4 * SECONDS });
  });
});

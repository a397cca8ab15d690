// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterEach, describe, expect, test } from "vitest";
import { newWindow } from "../../src/core/window.ts";
import { createServiceClock } from "../../src/polling/limits/service-clock.ts";
import { settledAfter } from "../../src/polling/plan/sweep-times.ts";
import { openProxied } from "./proxied.ts";
import type { AnswerProxy } from "./proxy.ts";
import { COMPLETE, DAY, HOUR, MINUTE, SECOND, START_MS, type World } from "./support.ts";

describe("the estimate of the service's time", () => {
  const START = 1_800_000_000_000;
  const open = () => {
    const local = { nowMs: START };
    const time = createServiceClock({ now: () => local.nowMs, sleep: async () => {} });
    /** An answer after so long, whose Date is off by so much. */
    const answer = (afterMs: number, offMs: number) => {
      local.nowMs += afterMs;
      time.learn(local.nowMs + offMs);
      return { offMs: time.now() - local.nowMs, earlierMs: time.earlierNow() - local.nowMs };
    };
    return { answer, time };
  };

  test("each Date is followed, and comparisons are due by the earlier clock", () => {
    const { answer } = open();
    expect(answer(0, 2 * DAY)).toEqual({ offMs: 2 * DAY, earlierMs: 0 });
    expect(answer(SECOND, 0)).toEqual({ offMs: 0, earlierMs: 0 });
    expect(answer(SECOND, -2 * DAY)).toEqual({ offMs: -2 * DAY, earlierMs: -2 * DAY });
  });

  test("a fall back of the service's time shows once", () => {
    const { answer, time } = open();
    answer(0, 0);
    expect(time.hasFallenBack()).toBe(false);
    answer(SECOND, 20 * HOUR);
    expect(time.hasFallenBack()).toBe(false);
    answer(SECOND, 0);
    expect(time.hasFallenBack()).toBe(true);
    expect(time.hasFallenBack()).toBe(false);
  });

  test("a Date that falls behind this machine's clock is no fall back: either may be wrong", () => {
    const { answer, time } = open();
    answer(0, 0);
    answer(SECOND, -40 * DAY);
    expect(time.hasFallenBack()).toBe(false);
  });
});

describe("R3 a window is sealed by both clocks", () => {
  const times = { sweepsMs: [10 * MINUTE, DAY], lastSweepMs: 3 * DAY, retentionMs: 90 * DAY };
  const stream = { id: 1, account: "acme", provider: null, organizations: ["a"], services: ["all"] };
  const fromMs = 100 * DAY;
  const window = newWindow(stream, fromMs, fromMs + HOUR);
  const settled = (serviceMs: number, localMs: number) =>
    settledAfter(window, { begunMs: fromMs + serviceMs, localMs: fromMs + localMs }, 0, times);

  test("when both say that the last listed sweep is due", () => {
    expect(settled(2 * DAY, 2 * DAY)).toMatchObject({ state: "sealed", sweeps: 2 });
    expect(settled(2 * DAY, 2 * HOUR)).toMatchObject({ state: "read", sweeps: 1 });
    expect(settled(2 * HOUR, 2 * DAY)).toMatchObject({ state: "read", sweeps: 1 });
  });

  test("the last sweep too counts by both", () => {
    expect(settled(88 * DAY, 88 * DAY)).toMatchObject({ sweeps: 3, nextMs: null });
    expect(settled(88 * DAY, 2 * DAY)).toMatchObject({ sweeps: 2, nextMs: fromMs + 87 * DAY });
  });

  test("R5 not where one says that the service had forgotten it: it is compared again after a day", () => {
    expect(settled(60 * DAY, 100 * DAY)).toMatchObject({
      state: "read",
      sweeps: 0,
      nextMs: fromMs + 61 * DAY,
    });
    expect(settled(100 * DAY, 60 * DAY)).toMatchObject({
      state: "read",
      sweeps: 0,
      nextMs: fromMs + 61 * DAY,
    });
  });
});

describe("a service whose Date is wrong for a while", () => {
  let world: World | undefined;
  let proxy: AnswerProxy | undefined;
  afterEach(async () => {
    await world?.close();
    await proxy?.close();
  });

  /** Reads ten minutes, then meets Dates that are off for some minutes. */
  async function meet(offMs: number, forMs: number, eventEveryMs = 10 * SECOND): Promise<World> {
    ({ world, proxy } = await openProxied({
      simulator: { organizations: 1, events: 0, liveEventsPerSecond: SECOND / eventEveryMs },
      account: { since: "2d" },
    }));
    await world.drain();
    await world.pass(10 * MINUTE, MINUTE);
    proxy.change = (exchange) => {
      exchange.headers.date = new Date(world!.clock.now() + offMs).toUTCString();
    };
    await world.pass(forMs, 20 * SECOND);
    return world;
  }

  const kinds = (it: World) => it.alarms().map(({ kind }) => kind);
  const isBeyond = async (it: World) => (await it.windows()).some(({ toMs }) => toMs > it.clock.now());

  test("R40 windows that it has moved into the future are read again at once, and an alarm says so", async () => {
    const it = await meet(2 * HOUR, 5 * MINUTE);
    expect(await isBeyond(it)).toBe(true);
    expect(kinds(it)).toContain("wrong_service_time");
    proxy!.change = undefined;
    // One answer shows the right time.
    await it.pass(MINUTE, 20 * SECOND);
    expect(await isBeyond(it)).toBe(false);
    expect(kinds(it)).not.toContain("wrong_service_time");
    expect(kinds(it)).not.toContain("account_refused");
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("R3 a Date that is days ahead for longer than the last sweep seals no window early", async () => {
    const it = await meet(3 * DAY, 5 * MINUTE, MINUTE);
    await it.pass(2 * HOUR, 10 * MINUTE);
    const sealed = (await it.windows()).filter(({ state }) => state === "sealed");
    expect(sealed.filter(({ toMs }) => toMs + DAY > it.clock.now())).toEqual([]);
    proxy!.change = undefined;
    await it.pass(2 * MINUTE, MINUTE);
    // A late event of that time is found by the sweeps, which are due by both clocks.
    it.simulator.control.append(it.organizations[0]!, [
      { timestamp: new Date(START_MS + 12 * MINUTE).toISOString() },
    ]);
    await it.pass(3 * HOUR, 10 * MINUTE);
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(await isBeyond(it)).toBe(false);
    await it.pass(27 * HOUR, 9 * HOUR);
    const before = it.clock.now() - 26 * HOUR;
    for (const { toMs, state } of await it.windows()) if (toMs < before) expect(state).toBe("sealed");
  });

  test("R2 one that is ahead at the first start leaves out nothing that `since` asks for", async () => {
    ({ world, proxy } = await openProxied({
      simulator: { organizations: 1, events: 0 },
      account: { since: "1d" },
    }));
    const it = world;
    const events = Array.from({ length: 20 }, (_, at) => ({
      timestamp: new Date(START_MS - 20 * HOUR + at * MINUTE).toISOString(),
    }));
    it.simulator.control.append(it.organizations[0]!, events);
    proxy.change = (exchange) => {
      exchange.headers.date = new Date(it.clock.now() + 2 * DAY).toUTCString();
      // A service may answer about the future too: there is nothing.
      if (exchange.status !== 400) return;
      Object.assign(exchange, { status: 200, body: Buffer.from("[]") });
      Object.assign(exchange.headers, { "x-result-count": "0", "x-limit": "10000" });
    };
    await it.drain();
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 20 });
  });

  test("R5 one that is beyond the retention leaves no gap", async () => {
    const it = await meet(91 * DAY, 3 * MINUTE);
    proxy!.change = undefined;
    await it.pass(10 * MINUTE, MINUTE);
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(await it.journal.gaps()).toEqual([]);
    expect((await it.windows()).map(({ state }) => state)).not.toContain("expired");
  });

  test("R29 an early one loses nothing, leaves no gap, and sealed windows stay", async () => {
    const it = await meet(-40 * DAY, 3 * MINUTE);
    const sealed = (await it.windows()).filter(({ state }) => state === "sealed");
    expect(sealed.length).toBeGreaterThan(0);
    const requests = proxy!.exchanges.length;
    await it.pass(20 * MINUTE, MINUTE);
    expect(await it.compare()).toMatchObject(COMPLETE);
    // New events are read as before, and nothing else is.
    expect(proxy!.exchanges.length - requests).toBeLessThan(60);
    proxy!.change = undefined;
    await it.pass(10 * MINUTE, MINUTE);
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(await it.journal.gaps()).toEqual([]);
    expect(await it.windows()).toEqual(expect.arrayContaining(sealed));
  });

  test("a machine whose clock is hours behind reads at once and seals as much later", async () => {
    const it = await meet(0, MINUTE, MINUTE);
    proxy!.change = undefined;
    it.clock.skewMs = -5 * HOUR;
    await it.pass(2 * HOUR, 10 * MINUTE);
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(it.alarms().find(({ kind }) => kind === "wrong_service_time")?.message).toContain("5h later");
    await it.pass(26 * HOUR, 2 * HOUR);
    const early = (await it.windows()).filter(
      ({ state, toMs }) => state === "sealed" && toMs + DAY > it.clock.now(),
    );
    expect(early).toEqual([]);
    expect(await it.compare()).toMatchObject(COMPLETE);
  });
});

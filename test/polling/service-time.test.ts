import { afterEach, describe, expect, test } from "vitest";
import { createServiceClock } from "../../src/polling/limits/service-clock.ts";
import { type AnswerProxy, startProxy } from "./proxy.ts";
import { COMPLETE, DAY, HOUR, MINUTE, openWorld, SECOND, START_MS, type World } from "./support.ts";

describe("the estimate of the service's time", () => {
  const START = 1_800_000_000_000;
  const open = () => {
    const local = { nowMs: START };
    const time = createServiceClock({ now: () => local.nowMs, sleep: async () => {} });
    /** An answer after so long, whose Date is off by so much. */
    const answer = (afterMs: number, offMs: number) => {
      local.nowMs += afterMs;
      time.learn(local.nowMs + offMs);
      return { offMs: time.now() - local.nowMs, isDoubtful: time.isDoubtful };
    };
    return { answer };
  };

  test("a Date that is many hours ahead is not believed until three answers agree over a minute", () => {
    const { answer } = open();
    answer(0, 0);
    expect(answer(SECOND, 20 * HOUR)).toEqual({ offMs: 0, isDoubtful: true });
    expect(answer(30 * SECOND, 20 * HOUR)).toEqual({ offMs: 0, isDoubtful: true });
    expect(answer(29 * SECOND, 20 * HOUR)).toEqual({ offMs: 0, isDoubtful: true });
    expect(answer(SECOND, 20 * HOUR)).toEqual({ offMs: 20 * HOUR, isDoubtful: false });
  });

  test("two answers over an hour are not enough", () => {
    const { answer } = open();
    answer(0, 0);
    answer(SECOND, 20 * HOUR);
    expect(answer(HOUR, 20 * HOUR)).toEqual({ offMs: 0, isDoubtful: true });
  });

  test("a Date near the time so far ends the doubt, and the count begins anew", () => {
    const { answer } = open();
    answer(0, 0);
    answer(SECOND, 20 * HOUR);
    answer(50 * SECOND, 20 * HOUR);
    expect(answer(SECOND, SECOND)).toEqual({ offMs: 0, isDoubtful: false });
    expect(answer(30 * SECOND, 20 * HOUR)).toEqual({ offMs: 0, isDoubtful: true });
  });

  test("an earlier Date counts at once, and is the time as soon as answers agree", () => {
    const { answer } = open();
    answer(0, 0);
    expect(answer(SECOND, -2 * DAY)).toEqual({ offMs: -2 * DAY, isDoubtful: true });
    expect(answer(SECOND, 0)).toEqual({ offMs: 0, isDoubtful: false });
  });

  test("the first answer is believed, because the local clock may be wrong", () => {
    const { answer } = open();
    expect(answer(0, 2 * DAY)).toEqual({ offMs: 2 * DAY, isDoubtful: false });
  });

  test("a clock that runs at another speed is followed", () => {
    const { answer } = open();
    answer(0, 0);
    for (let at = 1; at < 10; at++)
      expect(answer(60 * SECOND, at * 19 * 60 * SECOND)).toEqual({
        offMs: at * 19 * 60 * SECOND,
        isDoubtful: false,
      });
  });

  test("answers that disagree with each other are never believed", () => {
    const { answer } = open();
    answer(0, 0);
    for (let at = 1; at < 20; at++)
      expect(answer(30 * SECOND, at * 20 * HOUR)).toEqual({ offMs: 0, isDoubtful: true });
  });
});

describe("a service whose Date is wrong for a while", () => {
  let world: World | undefined;
  let proxy: AnswerProxy | undefined;
  afterEach(async () => {
    await world?.close();
    await proxy?.close();
  });

  /** Reads ten minutes, then meets Dates that are off for some minutes, with an event every ten seconds. */
  async function meet(offMs: number, forMs: number): Promise<World> {
    world = await openWorld({
      simulator: { organizations: 1, events: 0, liveEventsPerSecond: 0.1 },
      account: { since: "2d" },
    });
    proxy = await startProxy(world.simulator.insightsUrl);
    await world.restart({ account: { since: "2d", insightsUrl: proxy.url } });
    await world.drain();
    await world.pass(10 * MINUTE, MINUTE);
    proxy.change = (exchange) => {
      exchange.headers.date = new Date(world!.clock.now() + offMs).toUTCString();
    };
    await world.pass(forMs, 20 * SECOND);
    return world;
  }

  const isPast = async (it: World) => {
    for (const { toMs, state } of await it.windows())
      expect([toMs <= it.clock.now() || toMs, state]).toEqual([true, state]);
  };

  test("R40 nothing is moved into the future by a short one, and an alarm says so", async () => {
    const it = await meet(2 * DAY, 40 * SECOND);
    await isPast(it);
    expect(it.alarms().map(({ kind }) => kind)).toContain("wrong_service_time");
    proxy!.change = undefined;
    await it.pass(2 * MINUTE, 20 * SECOND);
    expect(it.alarms().map(({ kind }) => kind)).not.toContain("wrong_service_time");
    expect(await it.compare()).toMatchObject(COMPLETE);
    await isPast(it);
  });

  test("R3 windows that a long one has moved into the future are read again when the Date is right", async () => {
    const it = await meet(2 * DAY, 10 * MINUTE);
    expect(Math.max(...(await it.windows()).map(({ toMs }) => toMs))).toBeGreaterThan(START_MS + DAY);
    expect(it.alarms().map(({ kind }) => kind)).toContain("wrong_service_time");
    proxy!.change = undefined;
    // The service refuses a start in the future, which pauses the account.
    await it.pass(40 * MINUTE, MINUTE);
    await isPast(it);
    expect(await it.compare()).toMatchObject(COMPLETE);
    // A late event of that time is found by the sweeps, which are due again.
    it.simulator.control.append(it.organizations[0]!, [
      { timestamp: new Date(START_MS + 12 * MINUTE).toISOString() },
    ]);
    await it.pass(3 * HOUR, 10 * MINUTE);
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("R29 an early Date loses nothing and leaves no gap", async () => {
    const it = await meet(-40 * DAY, 3 * MINUTE);
    proxy!.change = undefined;
    await it.pass(10 * MINUTE, MINUTE);
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(await it.journal.gaps()).toEqual([]);
  });
});

// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { setMaxListeners } from "node:events";
import { afterEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import {
  BACKFILL,
  createPace,
  LIVE,
  type Pace,
  type Priority,
  type Refusal,
  SWEEP,
} from "../../src/polling/limits/pace.ts";
import { COMPLETE, DAY, openGate, openWorld, type World } from "./support.ts";

const forever = new AbortController().signal;
setMaxListeners(0, forever);

/** A clock that jumps to the next sleeper when everybody waits: seconds pass in no time, and in order. */
function createJumpingClock() {
  let nowMs = 0;
  const sleepers: { readonly atMs: number; wake(): void }[] = [];
  let isArmed = false;
  function arm(): void {
    if (isArmed) return;
    isArmed = true;
    setImmediate(() => {
      isArmed = false;
      const next = sleepers.shift();
      if (next === undefined) return;
      nowMs = Math.max(nowMs, next.atMs);
      next.wake();
      arm();
    });
  }
  return {
    now: () => nowMs,
    sleep: (ms: number) =>
      new Promise<void>((resolve) => {
        const atMs = nowMs + Math.max(0, ms);
        const later = sleepers.findIndex((sleeper) => sleeper.atMs > atMs);
        sleepers.splice(later < 0 ? sleepers.length : later, 0, { atMs, wake: resolve });
        arm();
      }),
  };
}

class TooMany extends Error {
  readonly refusal: Refusal;
  constructor(refusal: Refusal) {
    super("too many");
    this.refusal = refusal;
  }
}

/** A service with a bucket of one second's worth of requests, as the simulator throttles, and a latency. */
function createService(clock: ReturnType<typeof createJumpingClock>, perSecond: number, latencyMs: number) {
  let tokens = perSecond;
  let filledMs = 0;
  const served: number[] = [];
  let refused = 0;
  return {
    served,
    refused: () => refused,
    async request(): Promise<void> {
      await clock.sleep(latencyMs);
      tokens = Math.min(perSecond, tokens + ((clock.now() - filledMs) / 1000) * perSecond);
      filledMs = clock.now();
      if (tokens < 1) {
        refused++;
        throw new TooMany({ kind: "too_many", retryAfterMs: undefined });
      }
      tokens--;
      served.push(clock.now());
    },
  };
}

const refusalIn = (error: unknown) => (error instanceof TooMany ? error.refusal : undefined);

/** Keeps the pace busy from `workers` sides until that time. */
async function keepBusy(
  pace: Pace,
  clock: { now(): number },
  request: () => Promise<void>,
  untilMs: number,
  workers = 24,
) {
  await Promise.all(
    Array.from({ length: workers }, async () => {
      while (clock.now() < untilMs) await pace.run(BACKFILL, forever, request, refusalIn).catch(() => {});
    }),
  );
}

describe("an unknown rate limit", () => {
  test.each([
    [5, 50],
    [20, 100],
    [20, 500],
    [50, 20],
    [100, 100],
  ])(
    "%i requests a second at %i ms latency: throughput settles within a tenth of it, and few are refused",
    async (perSecond, latencyMs) => {
      const clock = createJumpingClock();
      const service = createService(clock, perSecond, latencyMs);
      const pace = createPace(clock, { concurrencyMax: 64, requestsPerSecondMax: 0 });
      await keepBusy(pace, clock, service.request, 300_000, 64);
      const settled = service.served.filter((ms) => ms > 60_000).length / 240;
      expect(settled).toBeGreaterThan(0.9 * perSecond);
      expect(settled).toBeLessThan(1.1 * perSecond);
      expect(service.refused() / service.served.length).toBeLessThan(0.03);
    },
  );

  test("a limit that is lifted is left behind within minutes", async () => {
    const clock = createJumpingClock();
    const tight = createService(clock, 5, 20);
    const pace = createPace(clock, { concurrencyMax: 16, requestsPerSecondMax: 0 });
    await keepBusy(pace, clock, tight.request, 60_000);
    const loose = createService(clock, 100_000, 20);
    await keepBusy(pace, clock, loose.request, 260_000);
    expect(loose.served.filter((ms) => ms > 250_000).length / 10).toBeGreaterThan(50);
  });

  test("a service in trouble is not taken for a rate limit: the rate is as before when it is back", async () => {
    const clock = createJumpingClock();
    const pace = createPace(clock, { concurrencyMax: 16, requestsPerSecondMax: 0 });
    let calls = 0;
    await keepBusy(
      pace,
      clock,
      async () => {
        await clock.sleep(20);
        if (calls++ % 50 === 0) throw new TooMany({ kind: "overloaded", retryAfterMs: undefined });
      },
      30_000,
    );
    expect(pace.statistics().rate).toBe(Number.POSITIVE_INFINITY);
    expect(calls / 30).toBeGreaterThan(20);
  });
});

describe("the pace", () => {
  test("Retry-After is honoured to the moment, by everybody who waits", async () => {
    const clock = createJumpingClock();
    const pace = createPace(clock, { concurrencyMax: 4, requestsPerSecondMax: 0 });
    await pace
      .run(
        LIVE,
        forever,
        () => Promise.reject(new TooMany({ kind: "too_many", retryAfterMs: 7000 })),
        refusalIn,
      )
      .catch(() => {});
    const startedMs: number[] = [];
    await Promise.all(
      [LIVE, SWEEP, BACKFILL].map((priority) =>
        pace.run(priority, forever, async () => void startedMs.push(clock.now()), refusalIn),
      ),
    );
    for (const ms of startedMs) expect(ms).toBeGreaterThanOrEqual(7000);
    expect(Math.min(...startedMs)).toBeLessThan(7200);
  });

  test("concurrency grows while answers are quick, and halves once for refusals that come together", async () => {
    const clock = createJumpingClock();
    const pace = createPace(clock, { concurrencyMax: 16, requestsPerSecondMax: 0 });
    await keepBusy(pace, clock, () => clock.sleep(10), 5000);
    expect(pace.statistics().concurrency).toBe(16);
    const refuse = async () => {
      await clock.sleep(10);
      throw new TooMany({ kind: "overloaded", retryAfterMs: undefined });
    };
    await Promise.all(
      Array.from({ length: 16 }, () => pace.run(LIVE, forever, refuse, refusalIn).catch(() => {})),
    );
    expect(pace.statistics()).toMatchObject({ concurrency: 8, refused: 16 });
  });

  test("a configured ceiling is never passed", async () => {
    const clock = createJumpingClock();
    const service = createService(clock, 1000, 5);
    const pace = createPace(clock, { concurrencyMax: 32, requestsPerSecondMax: 8 });
    await keepBusy(pace, clock, service.request, 30_000);
    for (let from = 0; from < 29_000; from += 500)
      expect(service.served.filter((ms) => ms >= from && ms < from + 1000).length).toBeLessThanOrEqual(9);
    expect(service.served.length / 30).toBeGreaterThan(7.2);
  });

  test("live comes before sweep before backfill", async () => {
    const pace = createPace(systemClock, { concurrencyMax: 1, requestsPerSecondMax: 0 });
    const order: string[] = [];
    let begin = () => {};
    const first = pace.run(
      BACKFILL,
      forever,
      () =>
        new Promise<void>((resolve) => {
          begin = resolve;
        }),
      refusalIn,
    );
    const rest = [
      ["backfill", BACKFILL],
      ["sweep", SWEEP],
      ["live", LIVE],
    ] as const;
    const waiting = rest.map(([name, priority]) =>
      pace.run(priority, forever, async () => void order.push(name), refusalIn),
    );
    await Promise.resolve();
    begin();
    await Promise.all([first, ...waiting]);
    expect(order).toEqual(["live", "sweep", "backfill"]);
  });

  test("who gives up waiting leaves the queue", async () => {
    const pace = createPace(systemClock, { concurrencyMax: 1, requestsPerSecondMax: 0 });
    let begin = () => {};
    const first = pace.run(
      LIVE,
      forever,
      () =>
        new Promise<void>((resolve) => {
          begin = resolve;
        }),
      refusalIn,
    );
    const stop = new AbortController();
    const second = pace.run(LIVE, stop.signal, async () => "never", refusalIn);
    stop.abort(new Error("enough"));
    await expect(second).rejects.toThrow("enough");
    begin();
    await first;
    expect(await pace.run(LIVE, forever, async () => "next", refusalIn)).toBe("next");
  });
});

test("live goes first, and yet what waits below gets every fourth request", async () => {
  const pace = createPace(systemClock, { concurrencyMax: 1, requestsPerSecondMax: 0 });
  const { signal } = new AbortController();
  const order: string[] = [];
  const ask = (name: string, priority: Priority) =>
    pace.run(
      priority,
      signal,
      async () => void order.push(name),
      () => undefined,
    );
  await Promise.all([
    ask("first", LIVE),
    ...["b1", "b2"].map((name) => ask(name, BACKFILL)),
    ...["s1", "s2"].map((name) => ask(name, SWEEP)),
    ...Array.from({ length: 8 }, (_, at) => ask(`l${at}`, LIVE)),
  ]);
  expect(order.slice(0, 9)).toEqual(["first", "l0", "l1", "l2", "s1", "l3", "l4", "l5", "s2"]);
  expect(order).toHaveLength(13);
  pace.stop();
});

describe("pages of a pass", () => {
  let world: World | undefined;
  afterEach(async () => {
    await world?.close();
    world = undefined;
  });

  test("the next page is asked for while this one's body still comes, and commits stay in order", async () => {
    world = await openWorld({
      simulator: { organizations: 1, events: 0, gzip: false },
      polling: { pageSize: 50 },
    });
    const it = world;
    const times = Array.from({ length: 180 }, (_, at) =>
      new Date(it.clock.now() - DAY + (at * DAY) / 180).toISOString(),
    );
    it.simulator.control.append(
      it.organizations[0]!,
      times.map((timestamp) => ({ timestamp })),
    );
    // The body of each page takes a while; the token is in its headers.
    await it.account.poller.step(it.signal);
    const log = watchPages(it);
    it.simulator.control.faults.add({ kind: "drip", bytesPerSecond: 20_000 });
    await it.drain();
    const overtaken = log.filter(
      (entry, at) => entry.startsWith("asked") && ahead(log.slice(0, at + 1)) >= 2,
    );
    expect(overtaken.length).toBeGreaterThan(0);
    expect(log.filter((_, at) => ahead(log.slice(0, at + 1)) > 3)).toEqual([]);
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 180 });
    const reader = await it.journal.reader("order");
    const stamps: string[] = [];
    let after = reader.position;
    for (let page = await reader.read(after); page !== null; page = await reader.read(after)) {
      for (let at = page.first; at < page.first + page.count; at++) stamps.push(page.event(at).timestamp);
      after = page.after(page.first + page.count - 1);
    }
    expect(stamps).toEqual([...stamps].sort());
  });

  test("with room for one page alone nothing is asked for ahead", async () => {
    world = await openWorld({
      simulator: { organizations: 1, events: 0, gzip: false },
      polling: { pageSize: 50 },
      gate: oneAtATime(),
    });
    const it = world;
    const times = Array.from({ length: 180 }, (_, at) =>
      new Date(it.clock.now() - DAY + (at * DAY) / 180).toISOString(),
    );
    it.simulator.control.append(
      it.organizations[0]!,
      times.map((timestamp) => ({ timestamp })),
    );
    await it.account.poller.step(it.signal);
    const log = watchPages(it);
    it.simulator.control.faults.add({ kind: "drip", bytesPerSecond: 20_000 });
    await it.drain();
    expect(log.filter((_, at) => ahead(log.slice(0, at + 1)) > 1)).toEqual([]);
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 180 });
  });

  const ahead = (log: readonly string[]) =>
    log.filter((entry) => entry.startsWith("asked")).length -
    log.filter((entry) => entry.startsWith("had")).length;

  /** When each page was asked for and when its body was there. */
  function watchPages({ account }: World): readonly string[] {
    const log: string[] = [];
    const { events } = account.insights;
    let count = 0;
    Object.assign(account.insights, {
      async events(...request: Parameters<typeof events>) {
        const number = ++count;
        log.push(`asked ${number}`);
        const page = await events(...request);
        const body = () =>
          page.body().finally(() => {
            log.push(`had ${number}`);
          });
        return { ...page, body };
      },
    });
    return log;
  }

  /** Room for a single page, however small. */
  function oneAtATime() {
    const gate = openGate(1, systemClock);
    return {
      enter: (_: number, priority: 0 | 1 | 2, signal: AbortSignal) => gate.enter(10_000, priority, signal),
      tryEnter: () => gate.tryEnter(10_000),
      commit: gate.commit,
    };
  }

  test("workers side by side hold no more pages than there is room for, and hold every event once", async () => {
    let [now, most] = [0, 0];
    const gate = openGate(1, systemClock);
    const counting = (release: () => void) => {
      most = Math.max(most, ++now);
      return () => {
        now--;
        release();
      };
    };
    world = await openWorld({
      simulator: { organizations: 3, events: 6000, days: 5 },
      polling: { pageSize: 2500, concurrency: 16 },
      gate: {
        enter: async (events, priority, signal) => counting(await gate.enter(events, priority, signal)),
        tryEnter(events) {
          const release = gate.tryEnter(events);
          return release && counting(release);
        },
        commit: gate.commit,
      },
    });
    await world.account.poller.once(world.signal);
    expect(await world.compare()).toMatchObject(COMPLETE);
    expect(most).toBeLessThanOrEqual(4);
  });
});

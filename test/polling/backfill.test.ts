// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { Command } from "commander";
import { afterEach, describe, expect, test } from "vitest";
import { registerCoverage } from "../../src/commands/coverage.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Window } from "../../src/core/window.ts";
import { newWindow } from "../../src/core/window.ts";
import { createView } from "../../src/journal/view/view.ts";
import type { PollContext } from "../../src/polling/context.ts";
import { createServiceClock } from "../../src/polling/limits/service-clock.ts";
import { createAgenda } from "../../src/polling/plan/agenda.ts";
import {
  COMPLETE,
  DAY,
  HOUR,
  MINUTE,
  openWorld,
  SECOND,
  START_MS,
  type World,
  type WorldOptions,
} from "./support.ts";

let world: World | undefined;
afterEach(async () => {
  await world?.close();
  world = undefined;
});

async function open(options: WorldOptions = {}): Promise<World> {
  world = await openWorld(options);
  return world;
}

const dense: WorldOptions = {
  simulator: { organizations: 2, events: 3000, days: 5 },
  polling: { pageSize: 100 },
};
/** An agenda over the world's journal. A live window is polled again after `pollMs`. */
const agendaOf = ({ journal, clock }: Pick<World, "journal" | "clock">, pollMs: number, workers: number) => {
  const settings = { order: "oldest_first" };
  const now = () => clock.now();
  const serviceClock = { now, earlierNow: now };
  const context = { account: "acme", journal, clock, serviceClock, settings };
  return createAgenda(context as unknown as PollContext, { nextPollMs: (ms) => ms + pollMs, workers });
};
const insights = (it: World) =>
  it.simulator.control.requests().filter(({ path }) => path.startsWith("/insights"));
const startOf = ({ query }: { query: unknown }) => Date.parse((query as { start_time: string }).start_time);

describe("backfill", () => {
  test.each([
    ["oldest_first", 1],
    ["newest_first", -1],
  ] as const)("%s: windows are taken in that order", async (order, direction) => {
    const it = await open({ ...dense, polling: { pageSize: 100, order } });
    await it.drain();
    const history = insights(it)
      .filter(({ query }) => (query as { end_time?: string }).end_time !== undefined)
      .filter(({ query }) => (query as { search_after?: unknown }).search_after === undefined)
      .map(startOf);
    const half = Math.floor(history.length / 2);
    const mean = (list: readonly number[]) => list.reduce((sum, ms) => sum + ms / list.length, 0);
    expect((mean(history.slice(half)) - mean(history.slice(0, half))) * direction).toBeGreaterThan(12 * HOUR);
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("it goes on after the process ended in the middle, and nothing is read from the beginning", async () => {
    const it = await open(dense);
    for (let steps = 0; steps < 12; steps++) await it.account.poller.step(it.signal);
    const before = (await it.held()).length;
    const first = insights(it).length;
    await it.restart();
    await it.drain();
    expect(before).toBeGreaterThan(100);
    expect(await it.compare()).toMatchObject(COMPLETE);
    // Thirty full pages, and a part of one for each piece: far from twice the work.
    expect(insights(it).length - first).toBeLessThan(80);
  });

  test("many windows are read at once: what waits for the service waits together", async () => {
    const together: number[] = [];
    for (const concurrency of [1, 16]) {
      const it = await openWorld({
        simulator: {
          organizations: 2,
          events: 6000,
          days: 20,
          faults: [{ kind: "latency", ms: concurrency === 1 ? 20 : 500, api: "insights" }],
        },
        account: { since: "20d" },
        polling: { pageSize: 100, concurrency },
      });
      // Real sleep: a virtual one would move the time during a request, and the limiter would find it slow.
      Object.assign(it.clock, { sleep: systemClock.sleep });
      await it.account.poller.once(it.signal);
      together.push(it.simulator.control.statistics().concurrentMax);
      expect(await it.compare()).toMatchObject(COMPLETE);
      await it.close();
    }
    expect(together[0]).toBeLessThanOrEqual(3);
    expect(together[1]).toBeGreaterThan(8);
  });

  test("live polling goes on unhurt while history is read", async () => {
    const it = await open({
      simulator: {
        organizations: 2,
        events: 12_000,
        days: 5,
        liveEventsPerSecond: 2,
        clock: { speed: 1 },
        faults: [{ kind: "latency", ms: 30, api: "insights" }],
      },
      polling: { pageSize: 50, interval: "500ms", concurrency: 4, pagesInFlight: 1 },
    });
    // Real time: the simulator's clock runs, and the local one with it.
    Object.assign(it.clock, { sleep: systemClock.sleep });
    const stop = new AbortController();
    const running = it.account.poller.run(stop.signal);
    // While history is unread, the live windows move on. Counted, since a busy machine makes both slower.
    const ends = new Set<number>();
    for (let isUnread = true; isUnread && ends.size < 5; ) {
      await sleep(50);
      const windows = await it.windows();
      isUnread = windows.some(({ state, live }) => state === "unread" && !live) || ends.size === 0;
      for (const { live, askedMs, toMs } of windows) if (live && askedMs !== null) ends.add(toMs);
    }
    stop.abort(new Error("enough"));
    await running.catch(() => {});
    expect(ends.size).toBeGreaterThanOrEqual(5);
  });

  test("fair between organizations: the one that is least under way comes next, however old another's history is", async () => {
    const { journal, organizations, clock } = await open({ simulator: { organizations: 2, events: 0 } });
    const streams = await Promise.all(
      organizations.map((id) =>
        journal.stream({ account: "acme", provider: null, organizations: [id], services: ["all"] }),
      ),
    );
    const add = streams.flatMap((stream, at) =>
      Array.from({ length: 10 }, (_, piece) =>
        newWindow(
          stream,
          START_MS - (10 - 4 * at) * DAY + piece * HOUR,
          START_MS - (10 - 4 * at) * DAY + (piece + 1) * HOUR,
        ),
      ),
    );
    await journal.changeWindows({ add });
    const agenda = agendaOf({ journal, clock }, SECOND, 8);
    const taken = [];
    for (let work = await agenda.next(); work !== undefined; work = await agenda.next())
      taken.push(work.window.stream.id);
    expect(taken).toHaveLength(8);
    expect(taken.filter((id) => id === streams[0]!.id)).toHaveLength(4);
  });

  test("a window that failed waits, longer each time, and is forgotten when it was replaced", async () => {
    const { journal, organizations, clock, simulator } = await open({
      simulator: { organizations: 1, events: 0 },
    });
    const stream = await journal.stream({
      account: "acme",
      provider: null,
      organizations,
      services: ["all"],
    });
    await journal.changeWindows({ add: [newWindow(stream, START_MS - DAY, START_MS)] });
    const agenda = agendaOf({ journal, clock }, SECOND, 2);
    for (const waitMs of [1000, 2000, 4000]) {
      const work = (await agenda.next())!;
      agenda.failed(work, true);
      agenda.finished(work);
      simulator.control.clock.advance(waitMs / 2 - 1);
      expect(await agenda.next()).toBeUndefined();
      simulator.control.clock.advance(waitMs / 2 + 1);
    }
    const { window } = (await agenda.next())!;
    agenda.finished({ kind: "history", window });
    await journal.changeWindows({ remove: [window.id] });
    expect(agenda.waiting).toBe(1);
    expect(await agenda.next()).toBeUndefined();
    expect(agenda.waiting).toBe(0);
  });

  test("a live window that replaced another one is polled at its interval, not without end", async () => {
    const { journal, organizations, clock } = await open({ simulator: { organizations: 2, events: 0 } });
    const streamOf = (services: string[]) =>
      journal.stream({ account: "acme", provider: null, organizations, services });
    const [first, second] = [await streamOf(["sso"]), await streamOf(["ldap"])];
    await journal.changeWindows({ add: [newWindow(first, START_MS - HOUR, START_MS, { live: true })] });
    const agenda = agendaOf({ journal, clock }, HOUR, 2);
    const before = (await agenda.next())!;
    agenda.finished(before);
    // The plan replaces the window.
    await journal.changeWindows({ remove: [before.window.id] });
    await journal.changeWindows({ add: [newWindow(second, START_MS - HOUR, START_MS, { live: true })] });
    const polled: number[] = [];
    for (let look = 0; look < 10; look++) {
      const work = await agenda.next();
      if (work === undefined) continue;
      polled.push(work.window.id);
      agenda.succeeded(work, clock.now());
      agenda.finished(work);
    }
    expect(polled).toHaveLength(1);
    expect(polled).not.toContain(before.window.id);
  });

  test("a sweep is due by the earlier of both clocks", async () => {
    const { journal, organizations } = await open({ simulator: { organizations: 2, events: 0 } });
    const stream = await journal.stream({
      account: "acme",
      provider: null,
      organizations,
      services: ["all"],
    });
    const read = { state: "read", nextMs: START_MS } as const;
    await journal.changeWindows({ add: [newWindow(stream, START_MS - HOUR, START_MS, read)] });
    const dueAt = async (localMs: number, serviceMs: number) => {
      const clock = { now: () => localMs, sleep: async () => {} };
      const serviceClock = createServiceClock(clock);
      serviceClock.learn(serviceMs);
      const context = { account: "acme", journal, clock, serviceClock, settings: { order: "oldest_first" } };
      const options = { nextPollMs: () => 0, workers: 2 };
      return (await createAgenda(context as unknown as PollContext, options).next())?.kind;
    };
    expect(await dueAt(START_MS + DAY, START_MS - DAY)).toBeUndefined();
    expect(await dueAt(START_MS - DAY, START_MS + DAY)).toBeUndefined();
    expect(await dueAt(START_MS + DAY, START_MS + DAY)).toBe("sweep");
  });

  test("R36 a window that is merged with its neighbour while work is looked for is taken as it is then", async () => {
    const it = await open({ simulator: { organizations: 1, events: 0 } });
    const { journal } = it;
    const stream = await journal.stream({
      account: "acme",
      provider: null,
      organizations: it.organizations,
      services: ["all"],
    });
    const sealed = { state: "sealed", nextMs: START_MS } as const;
    const middleMs = START_MS - DAY - HOUR;
    await journal.changeWindows({
      add: [
        newWindow(stream, middleMs - HOUR, middleMs, sealed),
        newWindow(stream, middleMs, middleMs + HOUR, sealed),
      ],
    });
    const windows = async (filter: Parameters<typeof journal.windows>[0]) => {
      const found = await journal.windows(filter);
      const [left, right] = found;
      // What upkeep does, after the look and before the window is marked as under way.
      if (left !== undefined && right !== undefined)
        await journal.changeWindows({ put: [{ ...left, toMs: right.toMs }], remove: [right.id] });
      return found;
    };
    const agenda = agendaOf({ journal: { ...journal, windows }, clock: it.clock }, HOUR, 2);
    // With a window that waits, the agenda looks at more than one.
    agenda.failed({ kind: "sweep", window: { id: 99 } as Window }, true);
    const work = await agenda.next();
    expect(work?.window).toMatchObject({ fromMs: middleMs - HOUR, toMs: middleMs + HOUR });
  });

  test("R36 a live window whose read ends while a plan is made leaves no time in two windows", async () => {
    const it = await open({ simulator: { organizations: 1, events: 50 } });
    await it.drain();
    it.simulator.control.clock.advance(3 * HOUR);
    const { windows, changeWindows } = it.journal;
    let looks = 0;
    const journal = it.journal as { windows: typeof windows };
    journal.windows = async (filter) => {
      const found = await windows(filter);
      const [live] = found;
      // The end of the read, after the plan has looked for live windows that are far behind.
      if (filter?.live === true && live !== undefined && looks++ === 0) {
        const nowMs = it.clock.now();
        const read = { ...live, fromMs: nowMs, toMs: nowMs, askedMs: nowMs };
        const closed = newWindow(live.stream, live.fromMs, nowMs, {
          state: "read",
          askedMs: nowMs,
          nextMs: nowMs,
        });
        await changeWindows({ put: [read], add: [closed] });
      }
      return found;
    };
    await it.drain();
    journal.windows = windows;
    expect(looks).toBeGreaterThan(0);
    const all = (await it.windows()).toSorted((a, b) => a.fromMs - b.fromMs);
    const overlapping = all.filter(
      (window, at) =>
        at > 0 && all[at - 1]!.stream.id === window.stream.id && all[at - 1]!.toMs > window.fromMs,
    );
    expect(overlapping).toEqual([]);
  });

  test("a one-off stretch is read once, and for one reader alone it is read again", async () => {
    const it = await open({
      simulator: { organizations: 2, events: 400, days: 10 },
      account: { since: "2d" },
    });
    await it.drain();
    const request = { fromMs: START_MS - 8 * DAY, toMs: START_MS - 4 * DAY, reader: null };
    expect(await it.account.poller.addHistory(request, it.signal)).toBe(1);
    await it.drain();
    expect(await it.account.poller.addHistory(request, it.signal)).toBe(0);
    const held = (await it.held()).length;
    expect(await it.account.poller.addHistory({ ...request, reader: "late-comer" }, it.signal)).toBe(1);
    await it.drain();
    expect(await it.held()).toHaveLength(held);
    const pages = it.db.prepare("SELECT SUM(events) FROM pages WHERE reader = 'late-comer'").pluck().get();
    const inside = it.served().filter((text) => {
      const ms = Date.parse((JSON.parse(text) as { timestamp: string }).timestamp);
      return ms >= request.fromMs && ms < request.toMs;
    });
    expect(pages).toBe(inside.length);
  });

  test("reconcile compares what was read, sealed and live alike, and fetches what is missing", async () => {
    const it = await open({ simulator: { organizations: 1, events: 100, days: 5 } });
    await it.drain();
    await it.pass(30 * MINUTE, MINUTE);
    const [organization] = it.organizations as [string];
    const missing = [START_MS - 4 * DAY, START_MS - 2 * HOUR, START_MS + 10 * MINUTE];
    it.simulator.control.append(
      organization,
      missing.map((ms) => ({ timestamp: new Date(ms).toISOString() })),
    );
    await it.drain();
    expect(await it.compare()).toMatchObject({ lost: 3, twice: 0 });
    const count = await it.account.poller.reconcile(
      { fromMs: START_MS - 5 * DAY, toMs: it.clock.now() },
      it.signal,
    );
    expect(count).toBe(3);
    await it.drain();
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("R12 a window whose organization was refused while it was swept stays read, and is swept when that ends", async () => {
    const it = await open({ simulator: { organizations: 3, events: 60 } });
    await it.drain();
    it.simulator.control.refuseOrganization(it.organizations[0]!, 403);
    await it.pass(3 * HOUR, 10 * MINUTE);
    const read = (await it.windows()).filter(
      ({ live, state, fromMs }) => !live && fromMs < START_MS - HOUR && state !== "sealed",
    );
    expect(new Set(read.map(({ state }) => state))).toEqual(new Set(["read"]));
    it.simulator.control.refuseOrganization(it.organizations[0]!, null);
    await it.pass(30 * HOUR, HOUR);
    const late = (await it.windows()).filter(
      ({ live, state, toMs }) => !live && state !== "sealed" && toMs < it.clock.now() - 26 * HOUR,
    );
    expect(late).toEqual([]);
  });
});

describe("run --once", () => {
  test("ends when everything up to now is read", async () => {
    const it = await open({ simulator: { organizations: 3, events: 300 } });
    await it.account.poller.once(it.signal);
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect((await it.windows()).filter(({ state, live }) => state === "unread" && !live)).toEqual([]);
  });

  test("reads a live window once more when it only finished a pass of the process before", async () => {
    const it = await open({ simulator: { organizations: 1, events: 0 }, polling: { pageSize: 10 } });
    await it.drain();
    const [organization] = it.organizations as [string];
    it.simulator.control.append(
      organization,
      Array.from({ length: 25 }, () => ({ event_type: "x" })),
    );
    it.simulator.control.faults.add({ kind: "status", status: 500, cursor: true, skip: 1, times: 1 });
    it.simulator.control.clock.advance(30 * SECOND);
    await it.account.poller.step(it.signal);
    expect((await it.windows()).find(({ live }) => live)!.pass?.pages).toBe(2);
    // Indexed a little late, behind the cursor of the pass that the end of the process interrupts.
    const timestamp = new Date(it.clock.now() - 31 * SECOND).toISOString();
    it.simulator.control.append(organization, [{ event_type: "late", timestamp }]);
    await it.restart();
    await it.account.poller.once(it.signal);
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 26 });
  });

  test("rejects when the account is refused, and when a window cannot be read at all", async () => {
    const it = await open({ simulator: { organizations: 1, events: 50 } });
    it.simulator.control.faults.add({ kind: "broken_json", api: "insights", skip: 1 });
    await expect(it.account.poller.once(it.signal)).rejects.toThrow(/cannot be read/);
    it.simulator.control.faults.set([{ kind: "unauthorized" }]);
    await it.restart();
    await expect(it.account.poller.once(it.signal)).rejects.toThrow(/401|Unauthorized/i);
  });
});

describe("coverage", () => {
  async function coverage(it: World, ...args: string[]): Promise<string> {
    const stdout = new PassThrough();
    const program = new Command().exitOverride();
    const io = {
      stdout,
      stderr: stdout,
      stdin: process.stdin,
      env: {},
      signal: it.signal,
      interactive: false,
      setExitCode() {},
    };
    const view = createView(it.db, null, {
      clock: it.clock,
      version: "test",
      file: `${it.folder}/state.db`,
      budgetBytes: null,
      sinkBehindMs: 300_000,
      accounts: [{ name: "acme", retentionMs: 90 * DAY }],
      sinks: [],
    });
    registerCoverage(program, io, async () => ({ view, close: async () => {} }));
    await program.parseAsync(["coverage", ...args], { from: "user" });
    return (stdout.read() as Buffer | null)?.toString() ?? "";
  }

  test("shows for each organization and day what is sealed, read, refused and a gap, with counts and late events", async () => {
    const it = await open({
      simulator: { organizations: 1, events: 600, days: 5, retentionDays: 5 },
      account: { retention: "5d" },
      polling: { pageSize: 50 },
    });
    await it.account.poller.step(it.signal);
    it.simulator.control.clock.advance(12 * HOUR);
    await it.drain();
    const rows = (await coverage(it, "--json"))
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, number | string | null>);
    const sum = (field: string) => rows.reduce((total, row) => total + Number(row[field]), 0);
    expect(new Set(rows.map(({ organization }) => organization))).toEqual(new Set(it.organizations));
    expect(sum("gapHours")).toBeCloseTo(11.97, 1);
    expect(sum("sealedHours")).toBeGreaterThan(60);
    expect(sum("readHours")).toBeGreaterThan(20);
    expect(sum("unreadHours")).toBe(0);
    expect(sum("apiCount")).toBe(sum("heldCount"));
    // A day that shares a window with its neighbour has no counts of its own; the totals have them all.
    const [, counted, heldOf] = /service counts (\d+) events.*?, (\d+) are held/.exec(await coverage(it))!;
    expect([Number(counted) > 100, counted]).toEqual([true, heldOf]);
    expect(
      rows.every(({ lastAsked }) => lastAsked === null || Date.parse(String(lastAsked)) >= START_MS),
    ).toBe(true);
    const text = await coverage(it, "--since", "2025-03-01T00:00:00Z");
    expect(text).toMatch(/day +unread +read +complete +refused +lost +late +service +held +compared/);
    expect(text).not.toContain("2025-02-27");
    await expect(coverage(it, "--organization", "nobody")).rejects.toThrow(/are not known/);
  });

  test("R36 organizations that are read together have counts of their own", async () => {
    const it = await open({
      simulator: { organizations: 3, events: 300, days: 1 },
      account: { since: "12h" },
    });
    await it.drain();
    const rows = (await coverage(it, "--json"))
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(rows.every(({ groupSize }) => groupSize === 3)).toBe(true);
    const windows = (await it.windows()).filter(({ live }) => !live);
    for (const organization of it.organizations) {
      const sum = (side: 0 | 1) =>
        windows.reduce((total, { counts }) => total + (counts?.[organization]?.[side] ?? 0), 0);
      const held = windows.map((window) =>
        it.journal.countHeld({ ...heldIn(window), owners: [organization] }),
      );
      const counted = (await Promise.all(held)).reduce(
        (total, map) => total + (map.get(organization) ?? 0),
        0,
      );
      expect(counted).toBeGreaterThan(0);
      expect([sum(0), sum(1)]).toEqual([counted, counted]);
      const shown = rows.filter((row) => row.organization === organization && row.apiCount !== null);
      expect(shown.reduce((total, { apiCount }) => total + Number(apiCount), 0)).toBeGreaterThan(0);
      expect(shown.every(({ apiCount, heldCount }) => apiCount === heldCount)).toBe(true);
    }
    const total = windows.reduce((sum, { apiCount }) => sum + (apiCount ?? 0), 0);
    const parts = windows.flatMap(({ counts }) => Object.values(counts ?? {}));
    expect(parts.reduce((sum, [apiCount]) => sum + apiCount, 0)).toBe(total);
  });
});

describe("the alarm before loss", () => {
  test("a stretch that nears the service's retention unread raises an alarm with the time left, which is cleared when it is read", async () => {
    const it = await open({
      simulator: { organizations: 1, events: 50, days: 5 },
      account: { since: "5d", retention: "6d" },
    });
    await it.account.poller.step(it.signal);
    it.simulator.control.faults.add({ kind: "broken_json", api: "insights" });
    await it.pass(30 * MINUTE, 30 * SECOND);
    const alarm = it.alarms().find(({ kind }) => kind === "loss_near")!;
    expect(alarm.message).toMatch(/unread, and the service forgets them in 23h/);
    expect(alarm.severity).toBe("warning");
    await it.pass(14 * HOUR, 30 * MINUTE);
    expect(it.alarms().find(({ kind }) => kind === "loss_near")!.severity).toBe("critical");
    it.simulator.control.faults.clear();
    await it.pass(10 * MINUTE, MINUTE);
    expect(it.alarms().map(({ kind }) => kind)).not.toContain("loss_near");
    expect(await it.compare()).toMatchObject(COMPLETE);
  });
});

function heldIn({ fromMs, toMs, stream }: Window) {
  return { fromMs, toMs, account: stream.account, provider: stream.provider };
}

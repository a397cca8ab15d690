// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterEach, describe, expect, test } from "vitest";
import { newWindow } from "../../src/core/window.ts";
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

function at(ms: number): { timestamp: string } {
  return { timestamp: new Date(ms).toISOString() };
}

/** One event every `everyMs`, from `fromMs` on. */
function appendEvery(
  { simulator, organizations }: World,
  fromMs: number,
  everyMs: number,
  count: number,
): void {
  const events = Array.from({ length: count }, (_, index) => at(fromMs + index * everyMs));
  simulator.control.append(organizations[0]!, events);
}

const lostHours = async (it: World) =>
  (await it.journal.gaps()).map(({ reason, fromMs, toMs }) => [reason, (toMs - fromMs) / HOUR]);

describe("R29 since applies once", () => {
  const one: WorldOptions = { simulator: { organizations: 1, events: 0 }, account: { since: "1h" } };

  test("R29 after two days away everything since the last read is read, not only the last hour", async () => {
    const it = await open(one);
    appendEvery(it, START_MS - 2 * HOUR, 10 * MINUTE, 12);
    await it.drain();
    expect(await it.held()).toHaveLength(6);
    appendEvery(it, START_MS + HOUR, HOUR, 47);
    it.simulator.control.clock.advance(2 * DAY);
    await it.restart();
    await it.drain();
    expect(await it.held()).toHaveLength(6 + 47);
    expect(await it.journal.gaps()).toEqual([]);
  });

  test("R29 an organization that vanishes from the list and comes back is read from where it was left", async () => {
    const it = await open({ simulator: { organizations: 2, events: 0 }, account: { since: "1h" } });
    await it.drain();
    const [first, second] = it.organizations as [string, string];
    await it.restart({ account: { since: "1h", organizations: [second] } });
    await it.drain();
    it.simulator.control.clock.advance(DAY);
    it.simulator.control.append(first, [at(START_MS + 6 * HOUR)]);
    await it.restart({ account: { since: "1h", organizations: [first, second] } });
    await it.drain();
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 1 });
  });

  test("R29 an organization that is taken out of the config while the program is stopped is refused from its last read on", async () => {
    const it = await open({ simulator: { organizations: 2, events: 0 }, account: { since: "1h" } });
    const [kept, dropped] = it.organizations as [string, string];
    await it.drain();
    it.simulator.control.append(dropped, [at(START_MS + HOUR)]);
    it.simulator.control.clock.advance(3 * HOUR);
    await it.restart({ account: { since: "1h", organizations: [kept] } });
    await it.drain();
    const [gap, ...others] = (await it.journal.gaps()).filter(({ toMs }) => toMs > START_MS + HOUR);
    expect(others).toEqual([]);
    expect(gap).toMatchObject({
      organization: dropped,
      reason: "refused",
      detail: "not in the config any more",
    });
    expect(gap!.fromMs).toBeLessThan(START_MS + HOUR);
    await it.restart({ account: { since: "1h", organizations: [kept, dropped] } });
    await it.drain();
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(await it.journal.gaps()).toEqual([]);
  });

  test("R36 the windows of an organization that goes before its first read do not overlap", async () => {
    const it = await open({ simulator: { organizations: 2, events: 0 }, account: { since: "1h" } });
    const [kept, dropped] = it.organizations as [string, string];
    await it.restart({ account: { since: "1h", organizations: [kept] } });
    await it.drain();
    const [live] = await it.journal.windows({ live: true });
    const own = await it.journal.stream({ ...live!.stream, organizations: [dropped] });
    const placedMs = START_MS + MINUTE;
    await it.journal.changeWindows({ add: [newWindow(own, placedMs, placedMs, { live: true })] });
    it.simulator.control.clock.advance(HOUR);
    await it.restart({ account: { since: "1h", organizations: [kept] } });
    await it.drain();
    const windows = await it.journal.windows({ stream: own.id });
    expect(windows.length).toBeGreaterThan(1);
    expect(windows[0]!.fromMs).toBe(placedMs);
    for (const [index, { fromMs }] of windows.slice(1).entries()) expect(fromMs).toBe(windows[index]!.toMs);
  });

  test("R29 an outage longer than the service's retention is a gap with its hours, for every organization", async () => {
    const it = await open({
      simulator: { organizations: 2, events: 0 },
      account: { since: "1h", retention: "5d" },
    });
    await it.drain();
    it.simulator.control.clock.advance(6 * DAY);
    await it.restart();
    await it.drain();
    const gaps = (await it.journal.gaps()).filter(({ reason }) => reason === "expired");
    expect(new Set(gaps.map(({ organization }) => organization))).toEqual(new Set(it.organizations));
    const hours = gaps.reduce((sum, gap) => sum + (gap.toMs - gap.fromMs) / HOUR, 0) / 2;
    expect(hours).toBeGreaterThan(23.9);
    expect(hours).toBeLessThan(24.3);
    expect(it.alarms().map(({ kind }) => kind)).toContain("expired");
  });

  test("a backfill of an old day does not make the time after it wanted", async () => {
    const it = await open(one);
    await it.drain();
    appendEvery(it, START_MS - 3 * DAY + MINUTE, HOUR, 60);
    const fromMs = START_MS - 3 * DAY;
    await it.account.poller.addHistory({ fromMs, toMs: fromMs + DAY, reader: null }, it.signal);
    await it.pass(HOUR, 10 * MINUTE);
    expect(await it.held()).toHaveLength(24);
  });
});

describe("R30 what the service has forgotten", () => {
  const dense: WorldOptions = {
    simulator: { organizations: 1, events: 0 },
    account: { since: "5d", retention: "5d" },
    polling: { pageSize: 100 },
  };

  test("R30 a pass that resumes after the rest was forgotten is cut there: a gap, never sealed", async () => {
    const it = await open(dense);
    // Four pages of history, too few to be cut up; the process ends after the first.
    appendEvery(it, START_MS - 4 * DAY, 12 * MINUTE, 330);
    it.simulator.control.faults.add({ kind: "status", status: 500, cursor: true });
    for (let step = 0; step < 4; step++) await it.account.poller.step(it.signal);
    const held = (await it.held()).length;
    expect(held).toBeGreaterThan(50);
    expect(held).toBeLessThan(330);
    it.simulator.control.faults.clear();
    it.simulator.control.clock.advance(10 * DAY);
    await it.restart();
    await it.drain();
    expect(await it.held()).toHaveLength(held);
    const expired = (await it.journal.gaps()).filter(({ reason }) => reason === "expired");
    expect(expired.length).toBeGreaterThan(0);
    // Every event that is not held is inside a gap.
    const lost = Array.from({ length: 330 }, (_, index) => START_MS - 4 * DAY + index * 12 * MINUTE).slice(
      held,
    );
    for (const timeMs of lost)
      expect(expired.some(({ fromMs, toMs }) => timeMs >= fromMs && timeMs < toMs)).toBe(true);
    for (const { state, fromMs, toMs } of await it.windows())
      if (state === "sealed") expect(lost.some((timeMs) => timeMs >= fromMs && timeMs < toMs)).toBe(false);
  });

  test("R30 an outage does not cancel the last sweep of a long row: what is left of it stays due", async () => {
    const it = await open({
      simulator: { organizations: 1, events: 20 },
      account: { since: "5d", retention: "6d" },
    });
    await it.drain();
    const before = (await it.windows()).find(({ live, state }) => !live && state === "sealed")!;
    expect(before.toMs - before.fromMs).toBeGreaterThan(3 * DAY);
    it.simulator.control.clock.advance(2 * DAY);
    await it.restart();
    await it.drain();
    const horizonMs = START_MS + 2 * DAY - 6 * DAY + 2 * MINUTE;
    const [forgotten, rest] = (await it.windows()).filter(({ live }) => !live);
    expect(forgotten).toMatchObject({ fromMs: before.fromMs, toMs: horizonMs, nextMs: null });
    expect(rest!.fromMs).toBe(horizonMs);
    expect(rest!.nextMs ?? rest!.askedMs).toBeGreaterThan(START_MS);
    expect(forgotten!.apiCount! + countOf(await it.windows(), horizonMs)).toBe(before.apiCount);
    expect((await lostHours(it)).map(([reason]) => reason)).toEqual(["unchecked"]);
  });

  test("R30 time of a refused organization that was not compared for the last time is a gap", async () => {
    const it = await open({
      simulator: { organizations: 2, events: 0 },
      account: { since: "1d", retention: "5d" },
      polling: { sweeps: ["1h"], lastSweep: "1d" },
    });
    for (const id of it.organizations) it.simulator.control.append(id, [at(START_MS - HOUR)]);
    await it.drain();
    const [gone] = it.organizations as [string];
    it.simulator.control.refuseOrganization(gone, 403);
    for (let day = 0; day < 7; day++) await it.pass(DAY, HOUR);
    const timeMs = START_MS - HOUR;
    const gaps = (await it.journal.gaps({ owner: gone })).filter(({ reason }) => reason === "unchecked");
    expect(gaps.filter(({ fromMs, toMs }) => fromMs <= timeMs && timeMs < toMs)).toHaveLength(1);
  });

  test("R30 a gap is remembered long after the service has forgotten the time around it", async () => {
    const it = await open(dense);
    await it.drain();
    it.simulator.control.clock.advance(7 * DAY);
    await it.restart();
    await it.drain();
    const before = await lostHours(it);
    expect(before.length).toBeGreaterThan(0);
    // The alarm is made from the ledger: it goes when the gap is a week old.
    await it.pass(8 * DAY, DAY);
    expect(it.alarms().map(({ kind }) => kind)).not.toContain("expired");
    await it.pass(30 * DAY, 3 * DAY);
    expect((await lostHours(it)).slice(0, before.length)).toEqual(before);
  });
});

function countOf(windows: Awaited<ReturnType<World["windows"]>>, fromMs: number): number {
  return windows
    .filter((window) => !window.live && window.fromMs >= fromMs && window.toMs <= START_MS - DAY)
    .reduce((sum, { apiCount }) => sum + (apiCount ?? 0), 0);
}

describe("R34 a refusal is never final", () => {
  const limited: WorldOptions = {
    simulator: { organizations: 1, events: 0 },
    account: { since: "30d" },
  };
  const limit = (it: World, days: number | null) =>
    it.simulator.control.limitHistory(it.organizations[0]!, days);

  test("R34 a stretch refused for entitlement is read within a day after the limit was lifted", async () => {
    const it = await open(limited);
    appendEvery(it, START_MS - 29 * DAY, 12 * HOUR, 58);
    limit(it, 15);
    await it.drain();
    const before = (await it.held()).length;
    expect(before).toBeLessThan(58);
    expect((await it.journal.gaps()).some(({ open: isOpen }) => isOpen)).toBe(true);
    limit(it, null);
    await it.pass(25 * HOUR, HOUR);
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(await it.journal.gaps()).toEqual([]);
  });

  test.each(["backfill", "reconcile"])("R34 %s reopens it at once", async (command) => {
    const it = await open(limited);
    appendEvery(it, START_MS - 29 * DAY, 12 * HOUR, 58);
    limit(it, 15);
    await it.drain();
    limit(it, null);
    const stretch = { fromMs: START_MS - 30 * DAY, toMs: START_MS };
    const { poller } = it.account;
    const count =
      command === "backfill"
        ? await poller.addHistory({ ...stretch, reader: null }, it.signal)
        : await poller.reconcile(stretch, it.signal);
    expect(count).toBeGreaterThan(0);
    await it.drain();
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("a stretch that is refused until the service forgets it becomes a gap with its reason", async () => {
    const it = await open({
      simulator: { organizations: 2, events: 0 },
      account: { since: "2d", retention: "5d" },
    });
    const [bad] = it.organizations as [string];
    it.simulator.control.refuseOrganization(bad, 403);
    await it.pass(6 * DAY, 6 * HOUR);
    const gaps = (await it.journal.gaps({ owner: bad })).filter((gap) => !gap.open);
    expect(gaps).toMatchObject([{ reason: "refused", detail: expect.stringContaining("403") }]);
    expect((gaps[0]!.toMs - gaps[0]!.fromMs) / DAY).toBeGreaterThan(2.5);
    expect(it.alarms().find(({ kind }) => kind === "expired")?.severity).toBe("critical");
    // The loss goes on, and so does its alarm.
    await it.pass(9 * DAY, 12 * HOUR);
    expect(it.alarms().map(({ kind }) => kind)).toContain("expired");
  });
});

describe("refused cursors", () => {
  const cursors: WorldOptions = {
    simulator: { organizations: 1, events: 0 },
    account: { since: "5d" },
    polling: { pageSize: 100 },
  };

  test("where every cursor is refused everything is read all the same, page by page", async () => {
    const it = await open(cursors);
    appendEvery(it, START_MS - 4 * DAY, 12 * MINUTE, 350);
    it.simulator.control.faults.add({ kind: "refused_cursor", cursor: true });
    await it.drain();
    await it.pass(MINUTE, 10 * SECOND);
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 350 });
  });

  test("a backfill for one sink repeats no page after a refused cursor", async () => {
    const it = await open(cursors);
    appendEvery(it, START_MS - 4 * DAY, 12 * MINUTE, 350);
    await it.drain();
    await it.journal.reader("late");
    it.simulator.control.faults.add({ kind: "refused_cursor", cursor: true, times: 3 });
    const stretch = { fromMs: START_MS - 5 * DAY, toMs: START_MS, reader: "late" };
    await it.account.poller.addHistory(stretch, it.signal);
    await it.drain();
    await it.pass(MINUTE, 10 * SECOND);
    const copies = it.db.prepare("SELECT SUM(events) FROM pages WHERE reader = 'late'").pluck().get();
    expect(copies).toBe(350);
  });
});

test("R5 the first start reports no gap, although time passes while it plans", async () => {
  const it = await open({
    simulator: { organizations: 30, events: 100, days: 89 },
    account: { since: "90d" },
    polling: { headerBytes: 1024 },
  });
  const clock = it.clock as { now(): number };
  const { now } = clock;
  let calls = 0;
  // Every look at the clock is a millisecond later.
  clock.now = () => now.call(clock) + calls++;
  await it.drain();
  expect(await it.journal.gaps()).toEqual([]);
  expect(calls).toBeGreaterThan(30);
});

describe("R36 counts are counted", () => {
  test("R36 two events with one identity and other bytes are counted as two, after a sweep too", async () => {
    const it = await open({ simulator: { organizations: 2, events: 20 } });
    const [first] = it.organizations as [string];
    const twin = (text: string) =>
      `{"id":"twin","service":"sso","event_type":"x","timestamp":"2025-02-27T00:00:00Z","organization":"${first}","text":"${text}"}`;
    it.simulator.control.append(first, [twin("one"), twin("other")]);
    await it.drain();
    await it.account.poller.reconcile({ fromMs: 0, toMs: START_MS }, it.signal);
    await it.drain();
    expect(await it.compare()).toMatchObject(COMPLETE);
    const windows = (await it.windows()).filter(({ live }) => !live);
    const sum = (key: "apiCount" | "heldCount") => windows.reduce((total, window) => total + window[key]!, 0);
    expect([sum("apiCount"), sum("heldCount")]).toEqual([22, 22]);
  });
});

describe("R30 a window at the horizon while time passes", () => {
  /** Every look at the clock takes a millisecond, as work does. */
  function letTimePass({ clock, simulator }: World): void {
    const now = clock.now.bind(clock);
    clock.now = () => {
      simulator.control.clock.advance(1);
      return now();
    };
  }

  /** Ends early where the work has no end. */
  async function stepsUntilIdle({ account, signal }: World, max: number): Promise<number> {
    let steps = 0;
    while (steps < max && (await account.poller.step(signal)) !== "idle") steps++;
    return steps;
  }

  test("is cut once, and its rest is read", async () => {
    const it = await open({ account: { since: "5d", retention: "5d" } });
    for (let steps = 0; steps < 2; steps++) await it.account.poller.step(it.signal);
    expect((await it.windows()).some(({ live, state }) => !live && state === "unread")).toBe(true);
    await it.restart();
    it.simulator.control.clock.advance(2 * DAY);
    letTimePass(it);
    expect(await stepsUntilIdle(it, 200)).toBeLessThan(200);
    const windows = (await it.windows()).filter(({ live }) => !live);
    expect(windows.filter(({ state }) => state === "unread")).toEqual([]);
    expect(windows.filter(({ state }) => state === "expired").length).toBeLessThan(5);
  });

  test("is cut once, and its rest is compared", async () => {
    const it = await open({
      account: { since: "4d", retention: "5d" },
      polling: { sweeps: ["1h"], lastSweep: "6h" },
    });
    await it.drain();
    it.simulator.control.clock.advance(2 * DAY);
    letTimePass(it);
    expect(await stepsUntilIdle(it, 300)).toBeLessThan(300);
    const gaps = (await it.journal.gaps()).filter(({ reason }) => reason === "unchecked");
    expect(gaps.length).toBeGreaterThan(0);
    expect(gaps.length).toBeLessThan(10);
  });

  test("is cut once while this machine's clock is behind, and its rest waits", async () => {
    const it = await open({
      account: { since: "4d", retention: "5d" },
      polling: { sweeps: ["1h"], lastSweep: "6h" },
    });
    await it.drain();
    it.simulator.control.clock.advance(2 * DAY);
    it.clock.skewMs = -HOUR;
    letTimePass(it);
    expect(await stepsUntilIdle(it, 300)).toBeLessThan(300);
    expect((await it.windows()).length).toBeLessThan(30);
  });
});

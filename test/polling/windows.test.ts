// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterEach, describe, expect, test } from "vitest";
import type { Window } from "../../src/core/window.ts";
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

/** An event every five minutes of the last day: three pages of a hundred, too few to be cut up. */
function appendEvenly({ simulator, organizations }: World): void {
  const times = Array.from({ length: 288 }, (_, at) =>
    new Date(START_MS - DAY + at * 5 * MINUTE).toISOString(),
  );
  simulator.control.append(
    organizations[0]!,
    times.map((timestamp) => ({ timestamp })),
  );
}

const closed = (windows: readonly Window[]) => windows.filter((window) => !window.live);
const statesOf = (windows: readonly Window[]) => new Set(closed(windows).map(({ state }) => state));

describe("reading from since to now", () => {
  test("every event of the time before is held once, byte for byte, and old windows are sealed at once", async () => {
    const { drain, windows } = await open();
    await drain();
    expect(await world!.compare()).toMatchObject(COMPLETE);
    const old = closed(await windows()).filter(({ toMs }) => toMs <= START_MS - DAY);
    expect(old.length).toBeGreaterThan(0);
    expect(statesOf(old)).toEqual(new Set(["sealed"]));
  });

  test("a quiet stretch of many organizations is one window, not one a day", async () => {
    const { drain, windows } = await open({ simulator: { organizations: 20, events: 500 } });
    await drain();
    // One that is sealed at once, one that has its sweeps before it, and the live one.
    expect(await windows()).toHaveLength(3);
  });

  test("R2 a service that is added later is read from since, and nothing is held twice", async () => {
    const it = await open({ account: { services: ["sso"] } });
    await it.drain();
    const before = (await it.held()).length;
    await it.restart({ account: { services: ["sso", "all"] } });
    await it.drain();
    expect(before).toBeGreaterThan(0);
    expect(before).toBeLessThan(it.served().length);
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("R2 an organization that is added later is read from since, and nothing is held twice", async () => {
    const it = await open({ simulator: { organizations: 3, events: 300 } });
    await it.restart({ account: { organizations: it.organizations.slice(0, 2) } });
    await it.drain();
    await it.pass(2 * HOUR);
    await it.restart({ account: { organizations: it.organizations, since: "6d" } });
    await it.drain();
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("a since that reaches further back than before is read up to what is covered", async () => {
    const it = await open({ account: { since: "1d" } });
    await it.drain();
    const before = (await it.held()).length;
    await it.restart({ account: { since: "5d" } });
    await it.drain();
    expect((await it.held()).length).toBeGreaterThan(before);
    expect(await it.compare()).toMatchObject(COMPLETE);
  });
});

describe("a window's query", () => {
  const dense: WorldOptions = { simulator: { organizations: 1, events: 2000 }, polling: { pageSize: 100 } };

  test("R2 a dense window is cut up after its first full page, in the transaction of that page", async () => {
    const { account, signal, windows, simulator } = await open(dense);
    // The first steps: the live window, then the first page of the history.
    await account.poller.step(signal);
    await account.poller.step(signal);
    const all = closed(await windows());
    expect(simulator.control.requests().filter(({ events }) => events === 100)).toHaveLength(1);
    expect(all.length).toBeGreaterThan(4);
    const [first] = all;
    // It is sealed only after a comparison: one page may be in the order of time by chance.
    expect(first).toMatchObject({ state: "read", nextMs: START_MS });
    expect(first!.apiCount).toBe(first!.heldCount);
    for (const [at, window] of all.entries()) if (at > 0) expect(window.fromMs).toBe(all[at - 1]!.toMs);
    expect(all.at(-1)!.toMs).toBe(START_MS);
  });

  test("R1 a pass goes on after a restart with the very request it began with, from its cursor", async () => {
    const { account, simulator, restart, drain, signal } = await open({
      ...dense,
      simulator: { organizations: 1, events: 0 },
    });
    appendEvenly(world!);
    simulator.control.faults.add({ kind: "status", status: 500, cursor: true, skip: 1, times: 1 });
    let unfinished: Window | undefined;
    for (let steps = 0; steps < 10 && unfinished === undefined; steps++) {
      await account.poller.step(signal);
      unfinished = (await world!.windows()).find(({ pass }) => pass?.cursor != null);
    }
    expect(unfinished).toBeDefined();
    simulator.control.clock.advance(10 * MINUTE);
    await restart({ polling: { pageSize: 37 } });
    simulator.control.resetStatistics();
    await drain();
    const { cursor, startMs, endMs } = unfinished!.pass!;
    const gone = simulator.control
      .requests()
      .map(({ query }) => (query ?? {}) as Record<string, unknown>)
      .find((query) => JSON.stringify(query.search_after) === cursor);
    expect(gone).toMatchObject({
      limit: 100,
      start_time: new Date(startMs).toISOString(),
      end_time: new Date(Math.ceil(endMs! / 1000) * 1000).toISOString(),
    });
    expect(await world!.compare()).toMatchObject(COMPLETE);
  });

  test("R1 after a refused cursor the window goes on from its last event's time, and nothing is held twice", async () => {
    const { simulator, drain, account } = await open({
      ...dense,
      simulator: { organizations: 1, events: 0 },
    });
    appendEvenly(world!);
    simulator.control.faults.add({ kind: "refused_cursor", cursor: true, times: 2 });
    await drain();
    await world!.pass(MINUTE, 10 * SECOND);
    expect(await world!.compare()).toMatchObject(COMPLETE);
    const asked = simulator.control.requests().filter(({ path }) => path.startsWith("/insights"));
    const refused = asked.findIndex(({ status }) => status === 400);
    const queries = asked.map(
      ({ query }) => query as { start_time: string; end_time?: string; search_after?: unknown },
    );
    const next = queries.slice(refused + 1).find(({ end_time }) => end_time === queries[refused]!.end_time);
    expect(queries[refused]!.search_after).toBeDefined();
    expect(next!.search_after).toBeUndefined();
    expect(next!.start_time > queries[refused]!.start_time).toBe(true);
    expect(account.poller.status().pausedUntilMs).toBeNull();
    expect(world!.alarms()).toEqual([]);
  });
});

describe("R3 read", () => {
  test("R3 the live window's end moves only to the moment at which a whole pass began", async () => {
    const it = await open({ simulator: { organizations: 1, events: 0 }, polling: { pageSize: 10 } });
    await it.drain();
    const [organization] = it.organizations as [string];
    it.simulator.control.append(
      organization,
      Array.from({ length: 25 }, () => ({ event_type: "x" })),
    );
    it.simulator.control.faults.add({ kind: "status", status: 500, cursor: true, skip: 1, times: 1 });
    const before = (await it.windows()).find(({ live }) => live)!;
    it.simulator.control.clock.advance(30 * SECOND);
    await it.account.poller.step(it.signal);
    const during = (await it.windows()).find(({ live }) => live)!;
    expect(during.pass?.pages).toBe(2);
    expect(during.toMs).toBe(before.toMs);
    it.simulator.control.clock.advance(20 * SECOND);
    await it.drain();
    const after = (await it.windows()).find(({ live }) => live)!;
    // The pass that was interrupted began at the first of the two moments, and saw nothing of what came after.
    expect(after.toMs - before.toMs).toBe(30 * SECOND);
    expect(after.askedMs).toBe(after.toMs);
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("R3 a stretch that has not ended when its pass begins is not read by it", async () => {
    const it = await open({ simulator: { organizations: 1, events: 50 } });
    await it.drain();
    for (const window of closed(await it.windows()))
      expect(window.askedMs!).toBeGreaterThanOrEqual(window.toMs);
  });

  test("R3 a pass begun later than a sweep was due counts as that sweep", async () => {
    const it = await open({ simulator: { organizations: 1, events: 0 } });
    await it.drain();
    const [organization] = it.organizations as [string];
    await it.pass(10 * DAY);
    // The process was down for ten days; what it missed and is older than a day is sealed by the first pass.
    it.simulator.control.append(organization, [{ timestamp: new Date(START_MS + 5 * DAY).toISOString() }]);
    const missed = closed(await it.windows()).filter(
      ({ fromMs, toMs }) => fromMs >= START_MS && toMs < START_MS + 9 * DAY,
    );
    for (const window of missed) expect(window.state).toBe("sealed");
  });
});

describe("late events", () => {
  const quiet: WorldOptions = { simulator: { organizations: 1, events: 0 } };

  test("what is indexed a little late arrives with the next poll, and counts as late", async () => {
    const it = await open(quiet);
    await it.drain();
    await it.pass(2 * MINUTE, 30 * SECOND);
    const timestamp = new Date(it.clock.now() - SECOND).toISOString();
    it.simulator.control.append(it.organizations[0]!, [{ timestamp }], 45 * SECOND);
    await it.pass(90 * SECOND, 30 * SECOND);
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(it.served()).toHaveLength(1);
    const rows = it.db.prepare("SELECT at_most_ms, events FROM lateness").raw().all();
    expect(rows).toEqual([[300_000, 1]]);
  });

  test("R3 the overlap reaches across the edge of the window that was closed last", async () => {
    const it = await open({ ...quiet, polling: { window: "1h", overlap: "5m", sweeps: ["6h", "24h"] } });
    await it.drain();
    await it.pass(HOUR, MINUTE);
    const edge = closed(await it.windows())
      .filter(({ fromMs }) => fromMs >= START_MS)
      .at(-1)!;
    it.simulator.control.append(it.organizations[0]!, [
      { timestamp: new Date(edge.toMs - MINUTE).toISOString() },
    ]);
    await it.pass(MINUTE, 30 * SECOND);
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(await it.held()).toHaveLength(1);
  });

  test("R4 a sweep finds what came hours late, by identities, and the window is swept again before it is sealed", async () => {
    const it = await open(quiet);
    await it.drain();
    await it.pass(2 * HOUR, 30 * MINUTE);
    const timestamp = new Date(START_MS + 20 * MINUTE).toISOString();
    it.simulator.control.append(it.organizations[0]!, [{ timestamp }], 15 * HOUR);
    await it.pass(16 * HOUR, HOUR);
    expect(await it.held()).toHaveLength(0);
    const states: string[] = [];
    for (let passed = 0; passed < 10 * HOUR; passed += 5 * MINUTE) {
      await it.pass(5 * MINUTE);
      const around = closed(await it.windows()).find(({ late }) => late > 0);
      if (around !== undefined && around.state !== states.at(-1)) states.push(around.state);
    }
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 1 });
    // Sealed not by the sweep that found it, but by another after it.
    expect(states).toEqual(["read", "sealed"]);
    expect(it.db.prepare("SELECT at_most_ms, events FROM lateness").raw().all()).toEqual([[604_800_000, 1]]);
  });

  test("R4 equal counts do not seal: one event expired while another came late", async () => {
    const it = await open({
      ...quiet,
      simulator: { ...quiet.simulator, optionalEndpoints: true, retentionDays: 90 },
    });
    const [organization] = it.organizations as [string];
    const at = (ms: number) => ({ timestamp: new Date(START_MS + ms).toISOString() });
    await it.drain();
    await it.pass(90 * MINUTE, 30 * MINUTE);
    it.simulator.control.append(organization, [at(10 * MINUTE)]);
    await it.pass(2 * HOUR, 30 * MINUTE);
    const counted = closed(await it.windows()).find(({ apiCount }) => apiCount === 1)!;
    expect(counted.heldCount).toBe(1);
    // The ledger believes that the service shows as many as it holds; what it shows is another event.
    it.simulator.control.append(organization, [at(20 * MINUTE)], 0);
    await it.journal.changeWindows({ put: [{ ...counted, apiCount: 2, heldCount: 2, nextMs: 0 }] });
    await it.drain();
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(await it.held()).toHaveLength(2);
  });

  test("R4 a find in a sealed window reopens it", async () => {
    const it = await open({
      simulator: { organizations: 1, events: 40 },
      account: { since: "5d", retention: "6d" },
    });
    await it.drain();
    const sealed = closed(await it.windows()).find(({ state }) => state === "sealed")!;
    it.simulator.control.append(it.organizations[0]!, [
      { timestamp: new Date(sealed.fromMs + HOUR).toISOString() },
    ]);
    // The last sweep comes half a day before the service forgets its beginning.
    await it.pass(sealed.fromMs + 6 * DAY - 12 * HOUR - it.clock.now() + MINUTE);
    const around = closed(await it.windows()).find(({ fromMs }) => fromMs === sealed.fromMs)!;
    expect(around).toMatchObject({ state: "read", late: 1 });
    expect(await it.compare()).toMatchObject(COMPLETE);
    await it.pass(HOUR, 10 * MINUTE);
    const again = closed(await it.windows()).find(({ fromMs }) => fromMs === sealed.fromMs)!;
    expect(again).toMatchObject({ state: "sealed", nextMs: null });
  });

  test("R9 a sweep asks for identity fields alone, and re-reads only the slice around what is missing", async () => {
    const it = await open({
      ...quiet,
      simulator: { organizations: 1, events: 2000, days: 1 },
      account: { since: "1h" },
    });
    await it.drain();
    await it.pass(HOUR + MINUTE, 30 * MINUTE);
    const timestamp = new Date(START_MS - 30 * MINUTE).toISOString();
    it.simulator.control.append(it.organizations[0]!, [{ timestamp, event_type: "late_one" }]);
    it.simulator.control.resetStatistics();
    await it.pass(23 * HOUR + 50 * MINUTE);
    const queries = it.simulator.control
      .requests()
      .map(({ query, events }) => ({ ...(query as object), events })) as {
      fields?: string[];
      start_time: string;
      end_time?: string;
      events: number;
    }[];
    const slice = queries.find(
      (query) => query.start_time <= timestamp && query.end_time! > timestamp && query.fields === undefined,
    )!;
    expect(Date.parse(slice.end_time!) - Date.parse(slice.start_time)).toBeLessThan(5 * SECOND);
    const wide = queries.filter(
      (query) => query.start_time <= timestamp && query.end_time! > timestamp && query !== slice,
    );
    expect(wide.length).toBeGreaterThan(0);
    for (const query of wide)
      expect(query.fields).toEqual(["id", "timestamp", "service", "event_type", "organization"]);
    expect((await it.held()).some((text) => text.includes("late_one"))).toBe(true);
  });

  test("R9 events without an id cannot be distinguished by fields: their slice is re-read, and only the late one is new", async () => {
    const it = await open(quiet);
    const [organization] = it.organizations as [string];
    const ldap = (operation: string) =>
      `{"service":"ldap","event_type":"ldap_bind","timestamp":"2025-03-01T12:10:00.000Z","organization":"${organization}","operation":"${operation}"}`;
    await it.drain();
    it.simulator.control.clock.set(START_MS + 11 * MINUTE);
    it.simulator.control.append(organization, [ldap("request")]);
    await it.pass(90 * MINUTE, 15 * MINUTE);
    expect(await it.held()).toEqual([ldap("request")]);
    it.simulator.control.append(organization, [ldap("result")]);
    await it.pass(2 * HOUR, 15 * MINUTE);
    expect(await it.held()).toEqual([ldap("request"), ldap("result")].sort());
  });

  test("R5 a window is swept a last time before the service forgets it, and never after", async () => {
    const it = await open({
      ...quiet,
      account: { since: "1h", retention: "3d" },
      simulator: { organizations: 1, events: 200, days: 1, retentionDays: 3 },
    });
    await it.drain();
    const first = closed(await it.windows())[0]!;
    await it.pass(2 * DAY, HOUR);
    const sealed = closed(await it.windows()).find(({ fromMs }) => fromMs === first.fromMs)!;
    expect(sealed.state).toBe("sealed");
    expect(sealed.nextMs).toBe(first.fromMs + 3 * DAY - 12 * HOUR);
    await it.pass(2 * DAY, HOUR);
    const done = closed(await it.windows()).find(({ fromMs }) => fromMs === first.fromMs)!;
    expect(done).toMatchObject({ state: "sealed", nextMs: null });
    expect(done.apiCount).toBeGreaterThan(0);
    expect(done.heldCount).toBe(done.apiCount);
  });

  test("R5 what the service has forgotten in part is not compared: the answer is not '0 of 0'", async () => {
    const it = await open({
      ...quiet,
      account: { since: "1h", retention: "3d" },
      simulator: { organizations: 1, events: 200, days: 1, retentionDays: 3 },
    });
    await it.drain();
    const first = closed(await it.windows())[0]!;
    expect(first.apiCount).toBeGreaterThan(0);
    // The process is down for four days: all sweeps come too late.
    it.simulator.control.clock.advance(4 * DAY);
    await it.drain();
    const after = closed(await it.windows()).find(({ id }) => id === first.id)!;
    expect(after).toMatchObject({
      state: "read",
      nextMs: null,
      apiCount: first.apiCount,
      heldCount: first.heldCount,
    });
    expect(after.reason).toMatch(/forgot/);
  });
});

describe("R5 gaps", () => {
  test("R5 what the service forgot before its first whole pass is an expired gap with an alarm, never sealed", async () => {
    const it = await open({
      simulator: { organizations: 1, events: 100, retentionDays: 5 },
      account: { retention: "5d" },
    });
    await it.account.poller.step(it.signal);
    it.simulator.control.clock.advance(DAY);
    await it.drain();
    const expired = closed(await it.windows()).filter(({ state }) => state === "expired");
    expect(expired).toHaveLength(1);
    // It is cut two minutes ahead of the horizon, so that the rest can be read.
    expect(expired[0]!.toMs).toBe(START_MS - 4 * DAY + 120_000);
    expect(it.alarms().map(({ kind }) => kind)).toContain("expired");
    await it.pass(3 * DAY, 6 * HOUR);
    expect(closed(await it.windows()).filter(({ state }) => state === "expired")).toHaveLength(1);
  });
});

describe("repeats and changes", () => {
  test("repeats in the service's own answer are counted, so that its number and ours can be compared", async () => {
    const it = await open({ simulator: { organizations: 1, events: 20 } });
    const [organization] = it.organizations as [string];
    const twice = `{"id":"aaaaaaaaaaaaaaaaaaaaaaaa","service":"sso","event_type":"sso_auth","timestamp":"2025-02-27T10:00:00.5Z","organization":"${organization}"}`;
    it.simulator.control.append(organization, [twice, twice]);
    await it.drain();
    const all = closed(await it.windows());
    expect(all.reduce((sum, { repeated }) => sum + repeated, 0)).toBe(1);
    expect(all.reduce((sum, { apiCount }) => sum + apiCount!, 0)).toBe(21);
    expect(all.reduce((sum, { heldCount }) => sum + heldCount!, 0)).toBe(21);
    expect((await it.held()).filter((text) => text === twice)).toHaveLength(1);
  });

  test("R11 an event exactly at the edge of two windows is held once, whichever end the service includes", async () => {
    for (const endTimeInclusive of [true, false]) {
      const it = await openWorld({
        simulator: { organizations: 1, events: 900, endTimeInclusive },
        polling: { pageSize: 50 },
      });
      try {
        await it.drain();
        expect(await it.compare()).toMatchObject(COMPLETE);
      } finally {
        await it.close();
      }
    }
  });
});

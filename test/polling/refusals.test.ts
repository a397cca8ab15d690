// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterEach, describe, expect, test } from "vitest";
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

const kinds = (it: World) => it.alarms().map(({ kind }) => kind);
const roster = (it: World) =>
  new Map(
    (
      it.db.prepare("SELECT id, state, reason FROM organizations").all() as {
        id: string;
        state: string;
        reason: string | null;
      }[]
    ).map(({ id, state, reason }) => [id, { state, reason }]),
  );

describe("R6 an organization at fault", () => {
  test.each([402, 403, 404])(
    "R6 one that answers %i is found in its group by halving and set aside; the others go on",
    async (status) => {
      const it = await open({ simulator: { organizations: 8, events: 400 } });
      const [, , bad] = it.organizations as string[];
      it.simulator.control.refuseOrganization(bad!, status);
      await it.drain();
      expect([...roster(it)].filter(([, { state }]) => state === "refused").map(([id]) => id)).toEqual([bad]);
      const others = it.organizations.filter((id) => id !== bad);
      const expected = others.flatMap((organization) => [
        ...it.simulator.control.allEvents({ organization }),
      ]).length;
      expect(await it.held()).toHaveLength(expected);
      expect(kinds(it)).toEqual(["organization_refused"]);
      expect(it.account.poller.status().pausedUntilMs).toBeNull();
      // The others keep being polled, together, while it is set aside.
      it.simulator.control.resetStatistics();
      await it.pass(30 * SECOND);
      const live = it.simulator.control.requests().filter(({ path }) => path.startsWith("/insights"));
      expect(live.length).toBeLessThanOrEqual(2);
      expect(live.flatMap(({ organizations }) => organizations).sort()).toEqual(others.sort());
    },
  );

  test("R40 a refusal that lasts keeps its alarm after a restart, and has its words of the last try", async () => {
    const it = await open({ simulator: { organizations: 3, events: 60 } });
    const bad = it.organizations[1]!;
    it.simulator.control.refuseOrganization(bad, 403);
    await it.drain();
    expect(kinds(it)).toEqual(["organization_refused"]);
    const [before] = it.alarms();
    await it.restart();
    await it.drain();
    expect(it.alarms()).toMatchObject([{ kind: "organization_refused", message: before!.message }]);
    it.simulator.control.refuseOrganization(bad, 404);
    await it.pass(2 * HOUR, 30 * MINUTE);
    expect(kinds(it)).toEqual(["organization_refused"]);
    expect(it.alarms()[0]!.message).not.toBe(before!.message);
    it.simulator.control.refuseOrganization(bad, null);
    await it.pass(2 * HOUR, 30 * MINUTE);
    expect(kinds(it)).toEqual([]);
  });

  test("R5 the time of a refusal is in the ledger as refused, with its reason; when it ends all of it is read", async () => {
    const it = await open({ simulator: { organizations: 4, events: 200, liveEventsPerSecond: 0.01 } });
    await it.drain();
    const bad = it.organizations[1]!;
    it.simulator.control.refuseOrganization(bad, 403);
    await it.pass(DAY, HOUR);
    const refused = (await it.windows()).filter(({ state }) => state === "refused");
    expect(refused).toHaveLength(1);
    expect(refused[0]!.stream.organizations).toEqual([bad]);
    expect(refused[0]!.reason).toMatch(/Forbidden|403/);
    expect(refused[0]!.toMs - refused[0]!.fromMs).toBeGreaterThan(20 * HOUR);
    it.simulator.control.refuseOrganization(bad, null);
    await it.pass(2 * HOUR, 30 * MINUTE);
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect((await it.windows()).filter(({ state }) => state === "refused")).toHaveLength(0);
    expect(kinds(it)).toEqual([]);
  });

  test.each(["once", "planNow", "reconcile"] as const)(
    "R40 one that was refused is asked again at once when a person asks for a look (%s)",
    async (how) => {
      const it = await open({ simulator: { organizations: 3, events: 120 } });
      const bad = it.organizations[1]!;
      it.simulator.control.refuseOrganization(bad, 403);
      await it.drain();
      expect(roster(it).get(bad)).toMatchObject({ state: "refused" });
      it.simulator.control.refuseOrganization(bad, null);
      await it.pass(MINUTE);
      expect(roster(it).get(bad)).toMatchObject({ state: "refused" });
      const { poller } = it.account;
      const signal = AbortSignal.timeout(60_000);
      if (how === "once") await poller.once(signal);
      else if (how === "planNow") poller.planNow();
      else await poller.reconcile({ fromMs: START_MS - DAY, toMs: START_MS }, signal);
      await it.drain();
      expect(roster(it).get(bad)).toMatchObject({ state: "active" });
      expect(await it.compare()).toMatchObject(COMPLETE);
    },
  );

  test("R40 `run --once` asks every refused organization, however many there are", async () => {
    const it = await open({ simulator: { organizations: 30, events: 120 } });
    const bad = it.organizations.slice(2);
    for (const id of bad) it.simulator.control.refuseOrganization(id, 403);
    await it.drain();
    const refused = () => [...roster(it).values()].filter(({ state }) => state === "refused").length;
    expect(refused()).toBe(28);
    for (const id of bad) it.simulator.control.refuseOrganization(id, null);
    await it.pass(MINUTE);
    expect(refused()).toBe(28);
    await it.account.poller.once(AbortSignal.timeout(300_000));
    expect(refused()).toBe(0);
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("R5 a refused organization that answers otherwise keeps its reason, is asked again soon, and is named by `run --once`", async () => {
    const it = await open({ simulator: { organizations: 3, events: 120, liveEventsPerSecond: 0.01 } });
    const bad = it.organizations[1]!;
    const { poller } = it.account;
    const once = () => poller.once(AbortSignal.timeout(300_000));
    it.simulator.control.refuseOrganization(bad, 403);
    await it.drain();
    const refused = roster(it).get(bad)!;
    await it.pass(HOUR, 30 * MINUTE);
    it.simulator.control.refuseOrganization(bad, 503);
    await it.pass(2 * HOUR, 30 * MINUTE);
    expect(roster(it).get(bad)).toEqual(refused);
    const [alarm] = it.alarms();
    expect(alarm).toMatchObject({ kind: "organization_refused", subject: `acme/${bad}` });
    expect(alarm!.message).toContain(refused.reason);
    expect(alarm!.message).toMatch(/The last try failed otherwise: .*503/);
    for (const { state, reason } of await it.windows())
      if (state === "refused") expect(reason).toBe(refused.reason);
    await expect(once()).rejects.toThrow(
      new RegExp(`^acme/${bad} \\(.*503.*\\) cannot be read\\. The service refused this before`),
    );
    it.simulator.control.refuseOrganization(bad, 404);
    it.simulator.control.clock.advance(SECOND);
    await once();
    expect(roster(it).get(bad)!.reason).toMatch(/404/);
    it.simulator.control.refuseOrganization(bad, 503);
    await it.pass(HOUR + MINUTE);
    it.simulator.control.refuseOrganization(bad, null);
    await it.pass(6 * MINUTE, MINUTE);
    expect(kinds(it)).toEqual([]);
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("`run --once` tries a refused organization again after one bad answer", async () => {
    const it = await open({ simulator: { organizations: 3, events: 120 } });
    const bad = it.organizations[1]!;
    it.simulator.control.refuseOrganization(bad, 403);
    await it.drain();
    it.simulator.control.refuseOrganization(bad, null);
    it.simulator.control.faults.add({ kind: "status", status: 503, organization: bad, times: 2 });
    it.simulator.control.clock.advance(SECOND);
    await it.account.poller.once(AbortSignal.timeout(300_000));
    expect(roster(it).get(bad)).toMatchObject({ state: "active" });
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("R6 a deleted organization that is not listed any more holds up nothing, also where all others are refused", async () => {
    const it = await open({ simulator: { organizations: 2, events: 60 } });
    const [refused, deleted] = it.organizations as [string, string];
    const { control } = it.simulator;
    await it.drain();
    control.refuseOrganization(refused, 403);
    await it.pass(2 * HOUR, 30 * MINUTE);
    control.refuseOrganization(deleted, 404);
    const { management } = it.account;
    const { organizations } = management;
    Object.assign(management, {
      organizations: async function* (...args: Parameters<typeof organizations>) {
        for await (const one of organizations(...args)) if (one._id !== deleted) yield one;
      },
    });
    control.clock.advance(DAY);
    const startedMs = it.clock.now();
    await it.account.poller.once(AbortSignal.timeout(300_000));
    expect(it.clock.now() - startedMs).toBeLessThan(20 * SECOND);
    expect(kinds(it)).not.toContain("window_failing");
  });

  test("R6 two at fault, one in each half, are found even where nothing has worked before", async () => {
    const it = await open({ simulator: { organizations: 8, events: 200 } });
    const bad = [...it.organizations].sort();
    for (const id of [bad[1]!, bad[6]!]) it.simulator.control.refuseOrganization(id, 403);
    await it.drain();
    expect(
      [...roster(it)]
        .filter(([, { state }]) => state === "refused")
        .map(([id]) => id)
        .sort(),
    ).toEqual([bad[1], bad[6]]);
    expect(kinds(it)).not.toContain("account_refused");
  });

  test("R6 when both halves fail alike it is the account's fault: one alarm, no organization is set aside, and polling resumes automatically", async () => {
    const it = await open({ simulator: { organizations: 6, events: 100 } });
    it.simulator.control.faults.add({
      kind: "status",
      status: 403,
      api: "insights",
      message: "Forbidden: wrong role",
    });
    await it.drain();
    expect(kinds(it)).toEqual(["account_refused"]);
    expect([...roster(it).values()].every(({ state }) => state === "active")).toBe(true);
    expect(it.account.poller.status().pausedUntilMs).toBeGreaterThan(it.clock.now());
    it.simulator.control.faults.clear();
    await it.pass(20 * MINUTE, MINUTE);
    expect(kinds(it)).toEqual([]);
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("R6 the organization that lately worked may itself be the one that is refused now", async () => {
    const it = await open({ simulator: { organizations: 5, events: 100 } });
    await it.drain();
    for (const id of [...it.organizations].sort().slice(0, 1))
      it.simulator.control.refuseOrganization(id, 403);
    await it.pass(MINUTE, 30 * SECOND);
    expect([...roster(it).values()].filter(({ state }) => state === "refused")).toHaveLength(1);
    expect(kinds(it)).toEqual(["organization_refused"]);
  });

  test("R6 a 400 about the query is the account's fault, for any organization", async () => {
    const it = await open({ simulator: { organizations: 3, events: 50 } });
    it.simulator.control.faults.add({
      kind: "status",
      status: 400,
      api: "insights",
      message: "Unknown service",
    });
    await it.drain();
    expect(kinds(it)).toEqual(["account_refused"]);
    expect([...roster(it).values()].every(({ state }) => state === "active")).toBe(true);
  });

  test("R6 a service that answers 400 to everything is asked less and less often", async () => {
    const it = await open({ simulator: { organizations: 3, events: 50 } });
    it.simulator.control.faults.add({ kind: "status", status: 400, api: "insights", message: "No" });
    const counts: number[] = [];
    for (let quarter = 0; quarter < 8; quarter++) {
      const before = it.simulator.control.requests().length;
      await it.pass(15 * MINUTE, 15 * SECOND);
      counts.push(it.simulator.control.requests().length - before);
    }
    expect(Math.max(...counts.slice(2))).toBeLessThan(counts[0]! / 2);
    expect(kinds(it)).toEqual(["account_refused"]);
    it.simulator.control.faults.clear();
    await it.pass(15 * MINUTE, MINUTE);
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(kinds(it)).toEqual([]);
  });

  test("R6 a 400 about one organization sets aside that one alone", async () => {
    const it = await open({ simulator: { organizations: 3, events: 50 } });
    await it.restart({ account: { organizations: [...it.organizations, "not-an-id"] } });
    await it.drain();
    expect(roster(it).get("not-an-id")).toMatchObject({ state: "refused" });
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("R6 a portal that is refused does not hold up the organizations", async () => {
    const it = await open({ simulator: { organizations: 3, events: 50 } });
    await it.restart({ account: { provider: "ffffffffffffffffffffffff" } });
    await it.drain();
    expect(kinds(it)).toEqual(["organization_refused"]);
    const whose = it.organizations.flatMap((organization) => [
      ...it.simulator.control.allEvents({ organization }),
    ]);
    expect(await it.held()).toHaveLength(whose.length);
  });

  test("a wrong key stops the account with one alarm, and a right one lets it go on", async () => {
    const it = await open({ simulator: { organizations: 2, events: 50 } });
    it.simulator.control.faults.add({ kind: "unauthorized" });
    await it.drain();
    expect(kinds(it)).toEqual(["account_refused"]);
    it.simulator.control.faults.clear();
    await it.pass(2 * MINUTE, 30 * SECOND);
    expect(await it.compare()).toMatchObject(COMPLETE);
  });
});

describe("the plan's limit", () => {
  test.each([
    ["with a number of days", "Your plan allows 15 days of Directory Insights history"],
    ["without one", "Upgrade your plan to see more history"],
  ])(
    "R5 a 402 %s refuses what lies before it until the next day, and the rest is read",
    async (_, message) => {
      const it = await open({
        simulator: { organizations: 2, events: 300, days: 30 },
        account: { since: "30d" },
      });
      const limitMs = START_MS - 15 * DAY;
      const stop = limitOlder(it, limitMs, message);
      try {
        await it.drain();
      } finally {
        stop();
      }
      const refused = (await it.windows()).filter(({ state }) => state === "refused");
      expect(refused.length).toBeGreaterThan(0);
      for (const window of refused)
        expect(window).toMatchObject({ nextMs: START_MS + DAY, reason: expect.stringContaining("plan") });
      const edgeMs = Math.max(...refused.map(({ toMs }) => toMs));
      expect(Math.abs(edgeMs - limitMs)).toBeLessThan(7 * HOUR);
      const since = new Date(edgeMs).toISOString();
      const expected = it
        .served()
        .filter((text) => (JSON.parse(text) as { timestamp: string }).timestamp >= since);
      expect((await it.held()).length).toBeGreaterThanOrEqual(expected.length);
      expect(kinds(it)).toEqual(["history_limited"]);
    },
  );

  /** The simulator's faults know no dates: one is set before each request that asks for too old a time. */
  function limitOlder(it: World, limitMs: number, message: string): () => void {
    const events = it.account.insights.events;
    const { faults } = it.simulator.control;
    (it.account.insights as { events: typeof events }).events = async (query, scope, options) => {
      faults.set(Date.parse(query.startTime) < limitMs ? [{ kind: "status", status: 402, message }] : []);
      return events(query, scope, options);
    };
    return () => {
      (it.account.insights as { events: typeof events }).events = events;
    };
  }
});

describe("R7 attribution", () => {
  test("R7 a page with a foreign event is not committed; its organizations are read singly, and the foreign one is kept apart", async () => {
    const it = await open({ simulator: { organizations: 3, events: 60 }, account: { since: "5d" } });
    await it.restart({ account: { organizations: it.organizations.slice(0, 2) } });
    it.simulator.control.faults.add({ kind: "foreign_event", api: "insights", path: "/insights", skip: 1 });
    for (let steps = 0; steps < 40; steps++) await it.account.poller.step(it.signal);
    it.simulator.control.faults.clear();
    await it.drain();
    const own = it.organizations
      .slice(0, 2)
      .flatMap((organization) => [...it.simulator.control.allEvents({ organization })]);
    expect(await it.held()).toHaveLength(own.length);
    expect(it.db.prepare("SELECT COUNT(*) FROM unattributed").pluck().get()).toBeGreaterThan(0);
    expect(kinds(it)).toContain("foreign_events");
  });

  test("R7 an event without an organization has no owner in a group, and belongs to an organization that was asked for alone", async () => {
    const it = await open({ simulator: { organizations: 3, events: 30 } });
    const owner = it.organizations[1]!;
    const text =
      '{"id":"bbbbbbbbbbbbbbbbbbbbbbbb","service":"directory","event_type":"x","timestamp":"2025-02-28T00:00:00Z","organization":null}';
    it.simulator.control.append(owner, [text]);
    await it.drain();
    expect(await it.compare()).toMatchObject(COMPLETE);
    const reader = await it.journal.reader("attribution");
    const owners = new Set<string | null>();
    let after = reader.position;
    for (let page = await reader.read(after); page !== null; page = await reader.read(after)) {
      for (let at = page.first; at < page.first + page.count; at++)
        if (page.event(at).id === "bbbbbbbbbbbbbbbbbbbbbbbb") owners.add(page.event(at).organization);
      after = page.after(page.first + page.count - 1);
    }
    expect(owners).toEqual(new Set([owner]));
  });

  test("R7 ids compare without case, and of duplicate keys the last counts", async () => {
    const it = await open({ simulator: { organizations: 2, events: 0 } });
    const [first, second] = it.organizations as [string, string];
    it.simulator.control.append(first, [
      `{"id":"c1","service":"sso","timestamp":"2025-02-28T00:00:00Z","organization":"${first.toUpperCase()}"}`,
      `{"id":"c2","service":"sso","timestamp":"2025-02-28T00:00:01Z","organization":"nobody","organization":"${second}"}`,
    ]);
    await it.drain();
    expect(await it.held()).toHaveLength(2);
    expect(kinds(it)).toEqual([]);
  });
});

describe("R8 bodies over the limit", () => {
  test("R8 a body over the limit is given up and read again with smaller pages, and nothing is lost", async () => {
    const it = await open({
      simulator: { organizations: 1, events: 300, gzip: false },
      account: { bodyMax: "20KB" },
    });
    await it.drain();
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("R8 a single event above the limit is a named gap with an alarm, and all others are held", async () => {
    const it = await open({
      simulator: { organizations: 1, events: 60, gzip: false },
      account: { bodyMax: "20KB" },
    });
    const [organization] = it.organizations as [string];
    const at = new Date(START_MS - 2 * DAY).toISOString();
    it.simulator.control.append(organization, [{ timestamp: at, filler: "x".repeat(30_000) }]);
    await it.drain();
    expect(await it.compare()).toMatchObject({ lost: 1, twice: 0 });
    expect(kinds(it)).toEqual(["oversized_event"]);
    const gap = (await it.windows()).filter(({ reason }) => reason?.includes("larger than the limit"));
    expect(gap).toHaveLength(1);
    expect(gap[0]!.apiCount! - gap[0]!.heldCount!).toBe(1);
    expect(await it.journal.gaps()).toMatchObject([{ organization, reason: "unreadable", events: 1 }]);
    // With a larger limit, comparing again fetches it.
    await it.restart({ account: { bodyMax: "10MB" } });
    await it.account.poller.reconcile({ fromMs: 0, toMs: START_MS }, it.signal);
    await it.drain();
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(await it.journal.gaps()).toEqual([]);
    expect(kinds(it)).toEqual([]);
  });
});

describe("answers that do not hold together", () => {
  test.each([
    { kind: "wrong_count", by: 1 },
    { kind: "broken_json" },
    { kind: "missing_token" },
    { kind: "same_token" },
    { kind: "cut_body" },
    { kind: "cut_headers" },
  ] as const)(
    "nothing of a page with $kind is committed, and the next try reads all of it",
    async (fault) => {
      const it = await open({ simulator: { organizations: 1, events: 250 }, polling: { pageSize: 20 } });
      it.simulator.control.faults.add({ ...fault, api: "insights", skip: 2, times: 4 });
      await it.drain();
      await it.pass(MINUTE, 5 * SECOND);
      expect(await it.compare()).toMatchObject(COMPLETE);
      expect(it.simulator.control.faults.list()[0]!.struck).toBe(4);
    },
  );
});

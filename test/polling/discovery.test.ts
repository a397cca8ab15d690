// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterEach, describe, expect, test } from "vitest";
import { groupMembers } from "../../src/polling/plan/groups.ts";
import { startProxy } from "./proxy.ts";
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

const insights = (it: World) =>
  it.simulator.control.requests().filter(({ path }) => path.startsWith("/insights"));
const live = async (it: World) => (await it.windows()).filter((window) => window.live);

interface List {
  readonly results: readonly unknown[];
}

describe("discovery", () => {
  test("the list is read page by page, and every organization in it is read", async () => {
    const it = await open({ simulator: { organizations: 230, events: 500 } });
    await it.drain();
    const lists = it.simulator.control.requests().filter(({ path }) => path.includes("organizations"));
    expect(lists.length).toBeGreaterThan(1);
    expect((await live(it)).flatMap(({ stream }) => stream.organizations).sort()).toEqual(
      [...it.organizations].sort(),
    );
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("include and exclude choose by id or by name, and a change of them sets aside or lets join", async () => {
    const it = await open({
      simulator: {
        organizations: [{ name: "Alder Inc" }, { name: "Birch Ltd" }, { name: "Birch Test" }],
        events: 90,
      },
    });
    const [alder, birch, testing] = it.organizations as [string, string, string];
    await it.restart({ account: { include: ["birch*", alder], exclude: ["*test"] } });
    await it.drain();
    const owners = () =>
      live(it).then((windows) => windows.flatMap(({ stream }) => stream.organizations).sort());
    expect(await owners()).toEqual([alder, birch].sort());
    await it.restart({ account: { include: ["birch*"] } });
    await it.drain();
    expect(await owners()).toEqual([birch, testing].sort());
    await it.restart({ account: {} });
    await it.drain();
    expect(await owners()).toEqual([alder, birch, testing].sort());
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("R3 what came late before a live window ended is read when its organization is grouped anew", async () => {
    const it = await open({ simulator: { organizations: 3, events: 0 }, polling: { overlap: "30s" } });
    await it.drain();
    await it.pass(5 * MINUTE, MINUTE);
    // Indexed a moment after the last poll, which is the live window's last as well.
    const timestamp = new Date(it.clock.now() - SECOND).toISOString();
    it.simulator.control.append(it.organizations[0]!, [{ event_type: "late", timestamp }]);
    it.simulator.control.clock.advance(2 * MINUTE);
    await it.restart({ account: { organizations: it.organizations.slice(0, 1) } });
    await it.drain();
    expect(await it.held()).toHaveLength(1);
  });

  test("an organization that vanishes from the list is set aside, and is read without a gap when it comes back", async () => {
    const it = await open({
      simulator: { organizations: 4, events: 100, liveEventsPerSecond: 0.01 },
      polling: { discovery: "10m" },
    });
    await it.restart({ account: { organizations: it.organizations } });
    await it.drain();
    await it.restart({ account: { organizations: it.organizations.slice(1) } });
    await it.pass(3 * HOUR, 30 * MINUTE);
    const gone = it.db
      .prepare("SELECT state, reason FROM organizations WHERE id = ?")
      .get(it.organizations[0]);
    expect(gone).toMatchObject({ state: "vanished", reason: "not in the config any more" });
    expect(insights(it).at(-1)!.organizations).not.toContain(it.organizations[0]);
    await it.restart({ account: { organizations: it.organizations } });
    await it.drain();
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("a list that cannot be had does not keep the known organizations from being read", async () => {
    const it = await open({ simulator: { organizations: 2, events: 20, liveEventsPerSecond: 0.05 } });
    await it.drain();
    it.simulator.control.faults.add({ kind: "status", status: 500, api: "management" });
    await it.pass(HOUR, MINUTE);
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(it.alarms().map(({ kind }) => kind)).toEqual(["discovery_failed"]);
    it.simulator.control.faults.clear();
    await it.pass(20 * MINUTE, MINUTE);
    expect(it.alarms()).toEqual([]);
  });

  test.each([
    ["an empty list", () => ({ results: [], totalCount: 0 })],
    ["a list that leaves one out", ({ results }: List) => ({ results: results.slice(1), totalCount: 3 })],
  ])("%s does not keep known organizations from being read, and is named", async (_name, changed) => {
    const it = await open({ simulator: { organizations: 3, events: 20, liveEventsPerSecond: 0.05 } });
    await it.drain();
    const proxy = await startProxy(it.simulator.managementUrl);
    try {
      proxy.change = (exchange) => {
        if (exchange.path.includes("skip=0"))
          exchange.body = Buffer.from(JSON.stringify(changed(JSON.parse(exchange.body.toString()))));
      };
      const managementUrl = proxy.url + new URL(it.simulator.managementUrl).pathname;
      await it.restart({ account: { managementUrl } });
      await it.pass(HOUR, MINUTE);
      expect(await it.compare()).toMatchObject(COMPLETE);
      expect(it.alarms().map(({ kind }) => kind)).toEqual(["discovery_failed"]);
      proxy.change = undefined;
      await it.pass(20 * MINUTE, MINUTE);
      expect(it.alarms()).toEqual([]);
    } finally {
      await proxy.close();
    }
  });

  test("several accounts stand side by side: each has its own windows, and what both see is held once", async () => {
    const it = await open({
      simulator: { organizations: 3, events: 90 },
      accounts: [{ name: "one" }, { name: "two" }],
    });
    await it.drain();
    expect(new Set((await it.windows()).map(({ stream }) => stream.account))).toEqual(
      new Set(["one", "two"]),
    );
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("the provider's portal is read beside the organizations", async () => {
    const it = await open({ simulator: { organizations: 3, events: 3000 } });
    await it.restart({ account: { provider: it.simulator.providerId } });
    await it.drain();
    const portal = [...it.simulator.control.allEvents({ organization: "provider" })].length;
    expect(portal).toBeGreaterThan(0);
    expect(await it.compare()).toMatchObject(COMPLETE);
    const windows = (await it.windows()).filter(({ stream, live }) => stream.provider !== null && !live);
    const counts = windows.flatMap((window) => Object.values(window.counts ?? {}));
    const sum = (side: 0 | 1) => counts.reduce((total, pair) => total + pair[side], 0);
    expect([sum(0), sum(1)]).toEqual([portal, portal]);
    expect(windows.reduce((total, { heldCount }) => total + heldCount!, 0)).toBe(portal);
  });
});

describe("groups", () => {
  const bytes = (organizations: readonly string[]) => 200 + organizations.length * 36;

  test("a group's header block stays within the limit", () => {
    const members = Array.from({ length: 1000 }, (_, at) => ({
      id: String(at).padStart(24, "0"),
      traffic: 0,
    }));
    const groups = groupMembers(members, 8192, bytes);
    for (const group of groups) expect(bytes(group)).toBeLessThanOrEqual(8192);
    expect(groups).toHaveLength(5);
    expect(groups.flat().sort()).toEqual(members.map(({ id }) => id));
  });

  test("busy organizations are read alone, and a group's traffic is bounded", () => {
    const members = Array.from({ length: 40 }, (_, at) => ({
      id: String(at).padStart(2, "0"),
      traffic: at === 7 ? 5000 : 300,
    }));
    const groups = groupMembers(members, 8192, bytes);
    expect(groups).toContainEqual(["07"]);
    for (const group of groups) expect(group.length).toBeLessThanOrEqual(6);
  });

  test("R1 one that grows busy leaves its group: the old window ends, later ones have another query, and nothing is lost", async () => {
    const it = await open({ simulator: { organizations: 4, events: 40 }, polling: { discovery: "10m" } });
    await it.drain();
    const [before] = await live(it);
    expect(before!.stream.organizations).toHaveLength(4);
    const busy = it.organizations[2]!;
    for (let hour = 0; hour < 4; hour++) {
      const now = it.clock.now();
      const events = Array.from({ length: 1500 }, (_, at) => ({
        timestamp: new Date(now + at).toISOString(),
      }));
      it.simulator.control.clock.advance(5 * SECOND);
      it.simulator.control.append(busy, events);
      await it.pass(HOUR, 15 * MINUTE);
    }
    const streams = (await live(it)).map(({ stream }) => stream.organizations);
    expect(streams).toContainEqual([busy]);
    expect(streams.flat().sort()).toEqual([...it.organizations].sort());
    expect(await it.compare()).toMatchObject(COMPLETE);
  });

  test("a history that is read within minutes does not make an organization busy", async () => {
    const it = await open({ simulator: { organizations: 4, events: 5000, days: 5 } });
    await it.drain();
    await it.pass(2 * HOUR, 10 * MINUTE);
    expect((await live(it)).map(({ stream }) => stream.organizations.length)).toEqual([4]);
  });

  test("a 431 halves the group, and the limit that was learned holds for all groups from then on", async () => {
    const it = await open({ simulator: { organizations: 120, events: 200, headerBytesMax: 2400 } });
    await it.drain();
    expect(await it.compare()).toMatchObject(COMPLETE);
    it.simulator.control.resetStatistics();
    await it.pass(20 * MINUTE, 30 * SECOND);
    expect(it.simulator.control.statistics().byStatus["431"]).toBeUndefined();
    expect((await live(it)).flatMap(({ stream }) => stream.organizations)).toHaveLength(120);
    expect(it.alarms()).toEqual([]);
  });

  test("a server that says 400 to a large header block is understood the same way", async () => {
    const it = await open({ simulator: { organizations: 120, events: 200 } });
    const { events } = it.account.insights;
    const { faults } = it.simulator.control;
    Object.assign(it.account.insights, {
      events: (...[query, scope, options]: Parameters<typeof events>) => {
        faults.set(
          (scope.organizations?.length ?? 0) > 50
            ? [{ kind: "status", status: 400, message: "Bad Request" }]
            : [],
        );
        return events(query, scope, options);
      },
    });
    await it.drain();
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(it.alarms()).toEqual([]);
    expect(
      Math.max(...(await live(it)).map(({ stream }) => stream.organizations.length)),
    ).toBeLessThanOrEqual(50);
  });

  test("1,000 quiet organizations cost at most 20 requests a cycle", async () => {
    const it = await open({
      simulator: { organizations: 1000, events: 2000 },
      polling: { headerBytes: "8KiB" },
    });
    await it.drain();
    it.simulator.control.resetStatistics();
    await it.pass(30 * SECOND);
    expect(insights(it).length).toBeGreaterThan(0);
    expect(insights(it).length).toBeLessThanOrEqual(20);
    const polled = (await live(it)).filter(({ askedMs }) => askedMs === START_MS + 30 * SECOND);
    expect(polled.flatMap(({ stream }) => stream.organizations)).toHaveLength(1000);
  });
});

describe("now is the service's", () => {
  test.each([
    ["fast", HOUR],
    ["slow", -HOUR],
  ])(
    "with a local clock that is an hour %s nothing is asked for in the future and no gap is left",
    async (_, skewMs) => {
      const it = await open({
        skewMs,
        simulator: { organizations: 2, events: 100, liveEventsPerSecond: 0.05 },
      });
      await it.drain();
      await it.pass(3 * HOUR, 5 * MINUTE);
      expect(await it.compare()).toMatchObject(COMPLETE);
      const nowMs = it.simulator.control.clock.read().nowMs;
      for (const window of await it.windows()) expect(window.toMs).toBeLessThanOrEqual(nowMs);
      expect(Math.max(...(await live(it)).map(({ toMs }) => toMs))).toBeGreaterThan(nowMs - 6 * MINUTE);
      for (const { status } of insights(it)) expect(status).toBe(200);
    },
  );

  test("a local clock that jumps by an hour while running moves no window past the service's now", async () => {
    const it = await open({ simulator: { organizations: 1, events: 20, liveEventsPerSecond: 0.05 } });
    await it.drain();
    await it.pass(10 * MINUTE, MINUTE);
    for (const skewMs of [HOUR, -HOUR, 0]) {
      it.clock.skewMs = skewMs;
      await it.pass(10 * MINUTE, MINUTE);
      const nowMs = it.simulator.control.clock.read().nowMs;
      for (const window of await it.windows()) expect(window.toMs).toBeLessThanOrEqual(nowMs);
      expect(await it.compare()).toMatchObject(COMPLETE);
    }
  });

  test("an event stamped in the future is delivered once, when it is first seen, and moves nothing past now", async () => {
    const it = await open({ simulator: { organizations: 1, events: 0 } });
    await it.drain();
    const [organization] = it.organizations as [string];
    it.simulator.control.append(organization, [{ timestamp: new Date(START_MS + 2 * DAY).toISOString() }]);
    await it.pass(30 * SECOND);
    expect(await it.held()).toHaveLength(1);
    for (const window of await it.windows()) expect(window.toMs).toBeLessThanOrEqual(it.clock.now());
    // Events of the time between still arrive, and the one from the future stays one when its time has come.
    it.simulator.control.append(organization, [
      { timestamp: new Date(it.clock.now() - SECOND).toISOString() },
    ]);
    await it.pass(4 * DAY, HOUR);
    expect(await it.compare()).toMatchObject({ ...COMPLETE, held: 2 });
    expect(
      (await it.windows()).filter(
        ({ state, live, toMs }) => !live && state !== "sealed" && toMs < it.clock.now() - 26 * HOUR,
      ),
    ).toEqual([]);
  });
});

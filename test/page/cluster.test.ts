import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createClusterActions } from "../../src/app/cluster/actions.ts";
import { machinesView } from "../../src/app/cluster/machines-view.ts";
import { createMachineView, type LaneView } from "../../src/app/cluster/view.ts";
import type { MachineSummary } from "../../src/cluster/machines.ts";
import type { Actions } from "../../src/core/actions.ts";
import { systemClock } from "../../src/core/clock.ts";
import { UsageError } from "../../src/core/errors.ts";
import type { LaneAnswer, LaneQuestion } from "../../src/core/lane-requests.ts";
import { RouteError } from "../../src/core/route.ts";
import { numberInAll, shareOf } from "../../src/core/shard.ts";
import { createView } from "../../src/journal/view/view.ts";
import { ask, serve } from "../server/start.ts";
import { fillSmall, liveOf, makeState, NOW_MS } from "../server/state.ts";
import { launchChromium, openPage, skipBrowser, violationsOf } from "../support/chromium.ts";
import { useCleanups } from "../support/cleanups.ts";

const summary = (machine: string, lanes: MachineSummary["lanes"]): MachineSummary => ({
  ...{ machine, version: "1.2.3", atMs: NOW_MS },
  alarms: lanes.some(({ state }) => state === "stopped")
    ? [{ kind: "lane_stopped", subject: "3", message: "Lane 3 cannot run here." }]
    : [],
  lanes,
});
const lane = (number: number, state: string, more: object = {}): MachineSummary["lanes"][number] => ({
  ...{ lane: number, state, sinceMs: NOW_MS - 90_000, records: 10, behindEvents: 0 },
  ...{ organizations: 4, events: 100, deadLetters: 1, ...more },
});

describe("the page of a machine of a cluster", () => {
  const cleanups = useCleanups();

  /** Two lanes run here, each with a state of its own. */
  async function machine(machines: readonly MachineSummary[]) {
    const views: LaneView[] = [];
    for (const number of [0, 1]) {
      const state = makeState();
      cleanups.push(() => state.close());
      await fillSmall(state);
      views.push({ lane: number, view: createView(state.db, liveOf(state.clock), state.options) });
    }
    const clock = { now: () => NOW_MS, sleep: () => Promise.resolve() };
    const view = createMachineView({
      ...{ version: "1.2.3", clock, startedMs: NOW_MS - 3_600_000, sinkBehindMs: 300_000 },
      lanes: () => views,
      alarms: () => [],
    });
    return { views, view, others: async () => machinesView(machines, "machine-a", 4, NOW_MS) };
  }

  it("adds up the lanes that run here: totals, sinks, organizations, calendar, dead letters", async () => {
    const { view, views } = await machine([]);
    const [one, both] = [await views[0]!.view.status(), await view.status()];
    expect(both.totals.events).toBe(2 * one.totals.events);
    expect(both.totals.windows.sealed).toBe(2 * one.totals.windows.sealed);
    expect(both.accounts[0]!.organizations.active).toBe(2 * one.accounts[0]!.organizations.active);
    expect(both.alarms).toHaveLength(2 * one.alarms.length);
    expect(both.health).toBe(one.health);
    const [sink] = (await views[0]!.view.sinks()).sinks;
    expect((await view.sinks()).sinks[0]).toMatchObject({ name: sink!.name, lagEvents: 2 * sink!.lagEvents });
    const query = { search: "", problems: false, sort: "lag", offset: 0, limit: 100 } as const;
    const rows = await view.organizations(query);
    expect(rows.rows).toHaveLength(2 * (await views[0]!.view.organizations(query)).rows.length);
    const lags = rows.rows.map(({ lagMs }) => lagMs).filter((lagMs) => lagMs !== null);
    expect(lags).toEqual([...lags].sort((a, b) => b - a));
    expect(await view.organizations({ ...query, offset: 1, limit: 2 })).toMatchObject({
      rows: rows.rows.slice(1, 3),
    });
    const [day, whole] = [await views[0]!.view.calendar(), await view.calendar()];
    expect(whole.days.at(-2)!.sealed).toBe(2 * day.days.at(-2)!.sealed);
    const letters = await view.deadLetters({ limit: 50 });
    expect(letters.total).toBe(2 * (await views[0]!.view.deadLetters({ limit: 50 })).total);
    expect(new Set(letters.letters.map(({ id }) => id)).size).toBe(letters.letters.length);
    expect(await view.deadLetter(letters.letters[0]!.id)).toMatchObject({ id: letters.letters[0]!.id });
    const first = await view.recent(0, 5);
    expect(first.events).toHaveLength(5);
    expect((await view.recent(first.endPage, 5)).events).toEqual([]);
  });

  it("C3 carries an action out in the lanes that it is about, here or on the machine that runs them", async () => {
    const asked: unknown[] = [];
    const actionsOf = (number: number) =>
      new Proxy({} as Actions, {
        get: (_, kind) => async (body: unknown) => {
          asked.push([number, kind, body]);
          if (kind === "retry" && number === 1) throw new Error("no such sink here");
          return { count: 1, message: "Done." };
        },
      });
    const ask = async (lane: number, question: LaneQuestion) => {
      asked.push([lane, question]);
      return lane === 2 ? { to: "0:", lane, ok: true, message: "Done there.", count: 5 } : undefined;
    };
    const own = (number: number) => ({ lane: number, app: { actions: actionsOf(number) } });
    const actions = createClusterActions({
      ...{
        lanes: 2,
        providers: [],
        sinks: ["lake"],
        messenger: { ask },
        clock: { ...systemClock, now: () => 99 },
      },
      running: () => [own(0), own(1)],
    });
    const signal = new AbortController().signal;
    await actions.replay({ ids: [numberInAll(1, 7)] }, signal);
    expect(asked.splice(0)).toEqual([[1, "replay", { ids: [7], untilMs: 99 }]]);
    expect(await actions.poll({}, signal)).toMatchObject({ count: 2 });
    await expect(actions.retry({ sink: "lake" }, signal)).rejects.toMatchObject({
      ...{ name: RouteError.name, status: 502, body: { count: 1 } },
      message: "Done. Lane 1 could not: no such sink here",
    });
    asked.splice(0);
    const wider = createClusterActions({
      ...{ lanes: 4, providers: [], sinks: ["lake"], messenger: { ask } },
      running: () => [own(0), own(1)],
    });
    const { count, message } = await wider.poll({}, signal);
    expect(asked).toContainEqual([2, { kind: "action", action: "poll", body: {} }]);
    expect([count, message]).toEqual([7, expect.stringContaining("Lane 3 has not answered yet")]);
    const organizations = ["one", "other"];
    asked.splice(0);
    await wider.backfill({ organizations, fromMs: 0, toMs: 1 }, signal);
    expect(asked.map((entry) => (entry as unknown[])[0]).sort()).toEqual(
      [...new Set(organizations.map((id) => shareOf(id, 4)))].sort(),
    );
  });

  it("C3 a list of holds without an answer of every lane is an error, and a lane that refuses to prune is named", async () => {
    const archive = async ({ operation }: { operation: { kind: string } }) => {
      if (operation.kind !== "holds") throw new UsageError("it refuses");
      return { count: 1, message: "Nothing is on hold." };
    };
    const own = { lane: 0, app: { actions: { archive } as unknown as Actions } };
    let answer: LaneAnswer | undefined;
    const actions = createClusterActions({
      ...{ lanes: 2, providers: [], sinks: [], messenger: { ask: async () => answer } },
      running: () => [own],
    });
    const ask = (operation: object) =>
      actions.archive({ operation } as never, new AbortController().signal).then(({ message }) => message);
    await expect(ask({ kind: "holds" })).rejects.toThrow(
      "Lane 0: Nothing is on hold.\nLane 1 has not answered.\nThe list of holds is not complete",
    );
    answer = { ok: true, message: "Done.", count: 1, lane: 1 } as LaneAnswer;
    expect(await ask({ kind: "holds" })).toBe("Lane 0: Nothing is on hold.\nLane 1: Done.");
    await expect(ask({ kind: "prune", dryRun: false })).rejects.toThrow(
      "Lane 0 could not: it refuses\nLane 1: Done.",
    );
    expect(await ask({ kind: "release", hold: "hold-1" })).toBe("Lane 1: Done.");
  });

  it("C3 a request about dead letters ends with its own time, and a name that matches none is an error", async () => {
    const asked: unknown[] = [];
    let [count, isSilent] = [0, false];
    const drop = async (body: unknown) => {
      asked.push(body);
      return { count, message: "Done." };
    };
    const app = { actions: { drop, replay: drop } as unknown as Actions };
    const actions = createClusterActions({
      ...{ lanes: 2, providers: [], sinks: ["lake"], clock: { ...systemClock, now: () => 99 } },
      messenger: { ask: async () => undefined },
      running: () => (isSilent ? [{ lane: 0, app }] : [0, 1].map((number) => ({ lane: number, app }))),
    });
    const signal = new AbortController().signal;
    for (const kind of ["drop", "replay"] as const) {
      for (const named of [{ sink: "laek" }, { group: "3f2a91c0" }, { ids: [numberInAll(1, 7)] }])
        await expect(actions[kind](named, signal)).rejects.toThrow("No dead letter matches");
      for (const open of [{ sink: "lake" }, { reason: "x" }, {}])
        expect(await actions[kind](open, signal)).toMatchObject({ count: 0 });
      isSilent = true;
      expect((await actions[kind]({ sink: "laek" }, signal)).message).toContain("not answered yet");
      isSilent = false;
      count = 3;
      expect(await actions[kind]({ group: "3f2a91c0" }, signal)).toMatchObject({ count: 6 });
      count = 0;
    }
    for (const body of asked) expect(body).toMatchObject({ untilMs: 99 });
  });

  describe.skipIf(skipBrowser())("in the browser", () => {
    let browser: Browser;
    beforeAll(async () => {
      browser = await launchChromium();
    });
    afterAll(() => browser?.close());

    it("shows the whole cluster: machines, who runs which lane since when, lag, alarms, lanes that no machine runs", async () => {
      const { view, others } = await machine([
        summary("machine-a", [lane(0, "running"), lane(1, "running", { behindEvents: 12 })]),
        summary("machine-b", [lane(2, "opening"), lane(3, "stopped", { reason: "The log is shorter." })]),
      ]);
      const server = await serve(view, { others });
      const { page, problems } = await openPage(browser, server.url);
      cleanups.push(
        () => server.close(),
        () => page.context().close(),
      );
      await page.locator("#peers-panel:not([hidden])").waitFor();
      await expect.poll(() => page.locator("#peers > li").count()).toBe(2);
      expect(await page.innerText("#peers-title")).toBe("All machines");
      const [worst, own] = await page.locator("#peers > li").allInnerTexts();
      expect(worst).toContain("machine-b runs 0 of its 2 lanes.");
      expect(worst).toMatch(/Lane 2: opening for \d+ min \d+ s/);
      expect(worst).toMatch(/Lane 3: stopped for \d+ min \d+ s\. The log is shorter\./);
      expect(worst).toContain("lane stopped");
      expect(own).toContain("this page");
      expect(own).toContain("lane 1 has up to 12 events to deliver");
      expect(own).toMatch(/Lane 1: running for \d+ min \d+ s, up to 12 events to deliver/);
      expect(await page.innerText("#peers-problems")).toContain("No machine runs lane 2 just now.");
      expect(await page.innerText("#peers-total")).toContain("16 organizations, 400 events read");
      const status = (await ask(server, "/api/status")).json;
      await expect.poll(() => page.innerText("#headline")).toBe(status.headline);
      expect(await violationsOf(page, "peers-panel")).toEqual([]);
      expect(problems).toEqual([]);
    });
  });
});

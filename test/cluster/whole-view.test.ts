import { describe, expect, test } from "vitest";
import type { MessengerOptions } from "../../src/app/cluster/messenger.ts";
import { createLook, type RunningLane } from "../../src/app/cluster/own-lanes.ts";
import { createRemoteMachines } from "../../src/app/cluster/remote-machines.ts";
import { createMachineView, type MachineViewOptions } from "../../src/app/cluster/view.ts";
import type { App } from "../../src/app.ts";
import type { LaneSummary, MachineSummary } from "../../src/cluster/machines.ts";
import { withoutLostLanes } from "../../src/cluster/owners.ts";
import { createAlarms } from "../../src/core/alarms.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { LaneQuestion } from "../../src/core/lane-requests.ts";
import { silentLog } from "../../src/core/log.ts";
import { numberInAll, numberInLane } from "../../src/core/shard.ts";
import type { View } from "../../src/core/view.ts";
import { createView } from "../../src/journal/view/view.ts";
import { fillSmall, liveOf, makeState, NOW_MS } from "../server/state.ts";
import { useCleanups } from "../support/cleanups.ts";

const LANES = 4;
const HOUR_MS = 3_600_000;
const never = new AbortController().signal;
const query = { search: "", problems: false, sort: "lag", offset: 0, limit: 1000 } as const;

const lane = (number: number, state = "running", sinceMs = 1000): LaneSummary =>
  ({ lane: number, state, sinceMs }) as Partial<LaneSummary> as LaneSummary;
const summary = (machine: string, lanes: readonly LaneSummary[]): MachineSummary =>
  ({ machine, lanes }) as Partial<MachineSummary> as MachineSummary;

/** The same events, with nothing to complain about. */
function inGoodHealth(view: View): View {
  return {
    ...view,
    async status() {
      const status = await view.status();
      const accounts = status.accounts.map((one) => ({ ...one, state: "reading" as const, liveLagMs: 1000 }));
      return { ...status, accounts, alarms: [] };
    },
    async sinks() {
      const { sinks } = await view.sinks();
      const nothing = { reason: null, remedy: null, lagEvents: 0, lagMs: 0, deadLetters: 0 };
      return { sinks: sinks.map((sink) => ({ ...sink, state: "running" as const, ...nothing })) };
    },
  };
}

describe("the whole cluster on the page and in commands", () => {
  const cleanups = useCleanups();

  /** Lanes with equal states. `runs` says which machine runs which lane; machines that are not in it are silent. */
  async function cluster(reported: readonly MachineSummary[], runs: Readonly<Record<string, number[]>>) {
    const state = makeState();
    cleanups.push(() => state.close());
    await fillSmall(state);
    const one = inGoodHealth(createView(state.db, liveOf(state.clock), state.options));
    const app = () => ({ view: { ...one }, imports: { routes: [] } }) as unknown as App;
    const apps = new Map<string, RunningLane>();
    const now: { reported: typeof reported; runs: typeof runs; refusal?: string; silentPart?: keyof View } = {
      reported,
      runs,
    };
    const clock = { now: () => NOW_MS, sleep: () => Promise.resolve() };
    const alarms = createAlarms(systemClock, silentLog);

    const viewOf = (
      options: Pick<MachineViewOptions, "lanes" | "startedMs" | "laneCount">,
      list: MachineViewOptions["alarms"],
    ) => createMachineView({ version: "1.2.3", clock, sinkBehindMs: 300_000, ...options, alarms: list });
    const running = (machine: string) =>
      (now.runs[machine] ?? []).map((number) => {
        const key = `${machine} ${number}`;
        const known = apps.get(key) ?? { lane: number, sinceMs: 2000, app: app() };
        apps.set(key, known);
        return known;
      });
    const lookOf = (machine: string, startedMs = NOW_MS - HOUR_MS): MessengerOptions["look"] =>
      createLook(
        (lanes) => viewOf({ startedMs, lanes }, () => []),
        () => running(machine),
      );
    async function ask(number: number, question: LaneQuestion) {
      if (now.refusal !== undefined) return { to: "0:x", lane: number, ok: false, message: now.refusal };
      const machine = Object.keys(now.runs).find((name) => now.runs[name]!.includes(number));
      if (machine === undefined) return undefined;
      // A machine that is stopped for seconds answers one question and not another.
      if (machine === "a" && question.kind === "look" && question.part === now.silentPart) return undefined;
      const startedMs = NOW_MS - (machine === "a" ? 5 : 1) * HOUR_MS;
      const value = await lookOf(machine, startedMs)({ ...question, id: "0:x" } as never, never);
      return { to: "0:x", lane: number, ok: true, message: "", value: JSON.parse(JSON.stringify(value)) };
    }
    const remoteOf = (own: string | undefined) =>
      createRemoteMachines({
        ...{ own, alarms, messenger: { ask }, board: { list: () => withoutLostLanes(now.reported) } },
        ...(own === undefined ? {} : { running: () => running(own) }),
      });
    return {
      ...{ now, alarms, lookOf, remoteOf },
      totals: (await one.status()).totals,
      organizations: (await one.organizations(query)).total,
      command: () =>
        viewOf({ startedMs: undefined, laneCount: LANES, lanes: remoteOf(undefined).views }, () =>
          alarms.list(),
        ),
      page(own: string, remote = remoteOf(own)) {
        const lanes = () => [
          ...running(own)
            .filter((here) => remote.here().includes(here.lane))
            .map(({ lane: number, app: its }) => ({ lane: number, view: its.view })),
          ...remote.views(),
        ];
        return viewOf({ startedMs: NOW_MS, laneCount: LANES, lanes }, () => alarms.list());
      },
    };
  }

  const both = [summary("a", [lane(2), lane(3)]), summary("b", [lane(0), lane(1)])];

  test("a lane counts once while the last report of its silent owner still names it", async () => {
    const { page, command, totals, organizations } = await cluster(both, { b: [0, 1, 2, 3] });
    for (const view of [page("b"), page("c"), command()]) {
      const status = await view.status();
      expect(status.totals.events).toBe(LANES * totals.events);
      expect(status.totals.organizations).toBe(LANES * totals.organizations);
      expect((await view.organizations(query)).total).toBe(LANES * organizations);
      expect(status.headline).not.toContain("No machine answers");
    }
  });

  test("lanes that two machines took from a silent one count once, and a lane whose owner is not known yet is named", async () => {
    const { page, totals } = await cluster(both, { b: [0, 1, 2], c: [3] });
    const status = await page("d").status();
    expect(status.totals.events).toBe(3 * totals.events);
    expect(status.headline).toContain("No machine answers for lane 3: its organizations are missing");
    expect((await page("c").status()).totals.events).toBe(LANES * totals.events);
  });

  test("a machine that wakes up and still has lanes shows those of the machine that took them", async () => {
    const taken = [lane(2, "running", 9000), lane(3, "running", 9000)];
    const reported = [summary("a", [lane(2), lane(3)]), summary("b", [lane(0), lane(1), ...taken])];
    const { remoteOf, page, totals } = await cluster(reported, { b: [0, 1, 2, 3], a: [2, 3] });
    expect(remoteOf("a").here()).toEqual([]);
    expect((await page("a").status()).totals.events).toBe(LANES * totals.events);
  });

  test("the state is not good while a lane is opened or has no owner, and the headline names the lanes", async () => {
    const opening = [summary("a", [lane(2, "opening")]), summary("b", [lane(0), lane(1)])];
    const { page, command, now } = await cluster(opening, { b: [0, 1], a: [] });
    for (const view of [page("b"), page("a"), command()]) {
      const { health, headline } = await view.status();
      expect(health).toBe("degraded");
      expect(headline).toContain(
        "No machine answers for lanes 2-3: their organizations are missing in all lists and numbers.",
      );
    }
    now.reported = both;
    now.runs = { b: [0, 1], a: [2, 3] };
    expect((await page("b").status()).health).toBe("good");
    expect((await command().status()).health).toBe("good");
  });

  test("an account whose organizations are all refused is not called starting; one with an unread lane is", async () => {
    const state = makeState();
    cleanups.push(() => state.close());
    await fillSmall(state);
    const one = inGoodHealth(createView(state.db, liveOf(state.clock), state.options));
    const laneOf = (polledMs: number | null): View => ({
      ...one,
      async status() {
        const status = await one.status();
        const organizations = { active: 0, vanished: 0, refused: 3 };
        return { ...status, accounts: status.accounts.map((own) => ({ ...own, organizations, polledMs })) };
      },
    });
    const viewOf = (...polls: (number | null)[]) =>
      createMachineView({
        ...{ version: "1.2.3", clock: state.clock, startedMs: NOW_MS, sinkBehindMs: 300_000 },
        lanes: () => polls.map((polledMs, at) => ({ lane: at, view: laneOf(polledMs) })),
        alarms: () => [],
      });
    const refused = await viewOf(NOW_MS - 1000, NOW_MS).status();
    expect(refused.accounts[0]!.polledMs).toBe(NOW_MS - 1000);
    expect(refused.headline).not.toContain("Starting");
    expect((await viewOf(NOW_MS, null).status()).headline).toContain("Starting");
  });

  test("a machine that does not answer is an alarm until other machines run all of its lanes", async () => {
    const { page, remoteOf, alarms, now } = await cluster(both, { b: [0, 1] });
    const remote = remoteOf("b");
    expect((await page("b", remote).status()).headline).toContain("No machine answers for lanes 2-3");
    const subjects = () => alarms.list().map(({ kind, subject }) => `${kind} ${subject}`);
    expect(subjects()).toEqual(["cluster_silent a"]);
    now.runs = { b: [0, 1, 2] };
    remote.settle();
    expect(subjects()).toEqual(["cluster_silent a"]);
    now.runs = { b: [0, 1, 2, 3] };
    remote.settle();
    expect(subjects()).toEqual([]);
  });

  test("a silent machine that is gone from the list is no alarm; its lanes are named until one runs them", async () => {
    const { page, remoteOf, alarms, now } = await cluster(both, { b: [0, 1] });
    const view = page("b", remoteOf("b"));
    await view.status();
    now.reported = [both[1]!];
    const { headline, health } = await view.status();
    expect(alarms.list()).toEqual([]);
    expect(health).not.toBe("good");
    expect(headline).toContain("No machine answers for lanes 2-3");
  });

  test("a command says since when the longest running machine runs, and nothing where none answers", async () => {
    const { command, page, now } = await cluster(both, { b: [0, 1], a: [2, 3] });
    expect((await command().status()).startedMs).toBe(NOW_MS - 5 * HOUR_MS);
    expect((await page("b").status()).startedMs).toBe(NOW_MS);
    now.reported = [];
    expect(await command().status()).toMatchObject({
      startedMs: null,
      health: "degraded",
      headline: "No machine answers for lanes 0-3: their organizations are missing in all lists and numbers.",
    });
  });

  const lists = async (view: View) => ({
    status: await view.status(),
    organizations: await view.organizations(query),
    calendar: await view.calendar(),
    gaps: await view.gaps({ limit: 10 }),
    sinks: await view.sinks(),
    archives: await view.archives(),
    deadLetters: await view.deadLetters({ limit: 10 }),
    drift: await view.drift(10),
  });

  test("every list names the lanes that it lacks, whether their machine is silent or gone", async () => {
    const { command, page, now, remoteOf } = await cluster(both, { b: [0, 1], a: [2, 3] });
    const views = () => [command(), page("b", remoteOf("b"))];
    for (const view of views())
      for (const answer of Object.values(await lists(view))) expect(answer).not.toHaveProperty("incomplete");
    now.runs = { b: [0, 1] };
    for (const reported of [both, [both[1]!]]) {
      now.reported = reported;
      for (const view of views())
        for (const [name, answer] of Object.entries(await lists(view)))
          expect(answer, name).toHaveProperty(
            "incomplete",
            "No machine answers for lanes 2-3: their organizations are missing in all lists and numbers",
          );
    }
  });

  test("an answer names the lanes that it lacks itself, also where the same machine answers another question", async () => {
    const { command, page, now, remoteOf } = await cluster(both, { b: [0, 1], a: [2, 3] });
    const text = "No machine answers for lanes 2-3: their organizations are missing in all lists and numbers";
    const views = () => [command(), page("b", remoteOf("b"))];
    now.silentPart = "sinks";
    for (const view of views()) {
      expect(await view.sinks()).toMatchObject({ sinks: [{ name: "lake" }, {}], incomplete: text });
      expect(await view.archives()).not.toHaveProperty("incomplete");
      expect(await view.status()).toMatchObject({ incomplete: text, health: "degraded" });
    }
    now.silentPart = "archives";
    for (const view of views()) {
      expect(await view.archives()).toEqual({ archives: [], incomplete: text });
      expect(await view.status()).not.toHaveProperty("incomplete");
    }
  });

  test("sinks and archives travel as bare lists, as earlier versions ask and answer", async () => {
    const { lookOf } = await cluster([], { b: [0, 1] });
    const look = { kind: "look", id: "0:x", values: [], lanes: [0, 1] } as const;
    expect(await lookOf("b")({ ...look, part: "sinks" }, never)).toMatchObject({
      ...{ lanes: [0, 1], found: [{ name: "lake" }, {}] },
    });
    expect(await lookOf("b")({ ...look, part: "archives" }, never)).toEqual({ lanes: [0, 1], found: [] });
  });

  test("a list names the reason of a machine that could not answer", async () => {
    const { command, now } = await cluster(both, { b: [0, 1], a: [2, 3] });
    now.refusal = "The answer is too large for one message: ask for less.";
    const { incomplete, letters } = await command().deadLetters({ limit: 1000 });
    expect(letters).toEqual([]);
    expect(incomplete).toBe(
      "There is no answer for lanes 2-3: their organizations are missing in all lists and numbers (The answer is too large for one message: ask for less). There is no answer for lanes 0-1: their organizations are missing in all lists and numbers (The answer is too large for one message: ask for less)",
    );
  });

  test("the dead letters of all lanes are paged through by their numbers", async () => {
    const { command, page, remoteOf } = await cluster(both, { b: [0, 1], a: [2, 3] });
    for (const view of [command(), page("b", remoteOf("b"))]) {
      const { letters: all, total } = await view.deadLetters({ limit: 1000 });
      expect(all).toHaveLength(total);
      const paged: number[] = [];
      for (let before: number | undefined; paged.length <= total; before = paged.at(-1)) {
        const { letters } = await view.deadLetters({ before, limit: 3 });
        if (letters.length === 0) break;
        paged.push(...letters.map(({ id }) => id));
      }
      expect(paged).toEqual(all.map(({ id }) => id));
      expect(new Set(paged.map((id) => numberInLane(id).lane)).size).toBe(LANES);
    }
  });

  test("what may be in a lane without an answer is not called unknown", async () => {
    const { command, now } = await cluster(both, { b: [0, 1], a: [2, 3] });
    const windows = { account: "acme", organization: "nobody", limit: 1 };
    const letter = (lane: number) => command().deadLetter(numberInAll(lane, 999));
    expect(await command().windows(windows)).toBeUndefined();
    expect(await letter(2)).toBeUndefined();
    now.runs = { b: [0, 1] };
    await expect(command().windows(windows)).rejects.toThrow("No machine answers for lanes 2-3");
    await expect(letter(2)).rejects.toThrow("No machine answers for lane 2: its");
    expect(await letter(1)).toBeUndefined();
    expect(await letter(LANES)).toBeUndefined();
    now.refusal = "The dead letter 1023977 cannot be used: the state file is damaged there.";
    await expect(letter(1)).rejects.toThrow(/^The dead letter 1023977 cannot be used/);
  });

  test("a look is answered for the lanes that are asked for and run here; without lanes for all, as earlier versions ask", async () => {
    const { lookOf, totals } = await cluster([], { b: [0, 1, 2] });
    const look = { kind: "look", id: "0:x", part: "status", values: [] } as const;
    expect(await lookOf("b")({ ...look, lanes: [1, 2, 3] }, never)).toMatchObject({
      lanes: [1, 2],
      found: { totals: { events: 2 * totals.events } },
    });
    expect(await lookOf("b")(look, never)).toMatchObject({ totals: { events: 3 * totals.events } });
  });

  test("a lane that two machines report as running belongs to the one on which it began to run last", () => {
    const machines = [
      summary("a", [lane(0, "running", 5), lane(1, "running", 5), lane(2, "opening", 9)]),
      summary("b", [lane(0, "running", 7), lane(1, "opening", 8), lane(2, "running", 3)]),
    ];
    expect(
      withoutLostLanes(machines).map(({ lanes }) => lanes.map((one) => `${one.lane} ${one.state}`)),
    ).toEqual([
      ["1 running", "2 opening"],
      ["0 running", "1 opening", "2 running"],
    ]);
  });
});

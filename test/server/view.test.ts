// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterAll, beforeAll, describe, expect, it, test } from "vitest";
import { archivesSchema } from "../../src/core/view/archives.ts";
import { deadLetterBodySchema, deadLettersSchema } from "../../src/core/view/dead-letters.ts";
import { driftSchema, recentSchema } from "../../src/core/view/events.ts";
import { organizationsQuerySchema, organizationsSchema } from "../../src/core/view/organizations.ts";
import { sinksSchema } from "../../src/core/view/sinks.ts";
import { statusSchema } from "../../src/core/view/status.ts";
import { calendarSchema, windowsSchema } from "../../src/core/view/windows.ts";
import type { View } from "../../src/core/view.ts";
import { newWindow } from "../../src/core/window.ts";
import { openStateForReading } from "../../src/journal/database.ts";
import { keepUnattributed } from "../../src/journal/dead-letters.ts";
import { createDriftStore } from "../../src/journal/drift-counts.ts";
import { storeLive } from "../../src/journal/view/live.ts";
import { createView } from "../../src/journal/view/view.ts";
import {
  append,
  DAY_MS,
  fillLarge,
  fillSmall,
  HOUR_MS,
  liveOf,
  makeState,
  NOW_MS,
  organizationId,
  streamOf,
  type TestState,
} from "./state.ts";

const organizationsOf = (view: View, query: object = {}) =>
  view.organizations(organizationsQuerySchema.parse(query));

describe("an organization with a gap", () => {
  it.each([
    ["of the last weeks is a problem", NOW_MS - DAY_MS, 1],
    ["of long ago is none", NOW_MS - 200 * DAY_MS, 0],
  ])("%s", async (_name, fromMs, problems) => {
    const state = makeState();
    await fillSmall(state);
    const view = () => createView(state.db, liveOf(state.clock), state.options);
    const before = (await organizationsOf(view())).problems;
    const well = (await organizationsOf(view())).rows.map(({ id }) => id);
    const troubled = (await organizationsOf(view(), { problems: "true" })).rows.map(({ id }) => id);
    const organization = well.find((id) => !troubled.includes(id))!;
    await state.db.change(() =>
      state.db
        .prepare(
          `INSERT INTO gaps (account, provider, organization, services, from_ms, to_ms, reason, detail, events, found_ms)
           SELECT account, NULL, id, 'all', ?, ?, 'unreadable', '', 1, ? FROM organizations WHERE id = ?`,
        )
        .run(fromMs, fromMs + 1, NOW_MS, organization),
    );
    expect((await organizationsOf(view())).problems - before).toBe(problems);
    state.close();
  });
});

test("R36 the events of an organization are counted with the page that brings them: a kill right after it loses none", async () => {
  const state = makeState();
  await fillSmall(state);
  const counted = async () => {
    const { rows } = await organizationsOf(createView(state.db, liveOf(state.clock), state.options));
    return rows.find(({ id }) => id === organizationId(1))!.events!;
  };
  const before = await counted();
  await append(state, organizationId(1), 7, NOW_MS + 60_000);
  expect(await counted()).toBe(before + 7);
  state.close();
});

describe("the view of a small state file", () => {
  let state: TestState;
  let view: View;
  beforeAll(async () => {
    state = makeState();
    await fillSmall(state);
    view = createView(state.db, liveOf(state.clock), state.options);
  });
  afterAll(() => state.close());

  it("gives what its schemas say", async () => {
    statusSchema.parse(await view.status());
    calendarSchema.parse(await view.calendar());
    organizationsSchema.parse(await organizationsOf(view));
    windowsSchema.parse(await view.windows({ account: "acme", organization: organizationId(1), limit: 10 }));
    sinksSchema.parse(await view.sinks());
    archivesSchema.parse(await view.archives());
    deadLettersSchema.parse(await view.deadLetters({ limit: 10 }));
    deadLetterBodySchema.parse(await view.deadLetter(1));
    driftSchema.parse(await view.drift(10));
    recentSchema.parse(await view.recent(0, 10));
  });

  it("counts windows, organizations and events, and says what was held against what the service said", async () => {
    const status = await view.status();
    expect(status.totals).toEqual({
      events: 40,
      apiCount: 131,
      heldCount: 130,
      differing: 1,
      doubted: 0,
      late: 2,
      organizations: 3,
      deadLetters: 2,
      windows: { unread: 1, read: 1, sealed: 1, expired: 1, refused: 1, live: 2 },
      importJobs: {},
      gaps: {
        gaps: 0,
        organizations: 0,
        durationMs: 0,
        events: 0,
        open: 1,
        openMs: 86_400_000,
        aside: 0,
        asideMs: 0,
      },
    });
    expect(status.accounts[0]).toMatchObject({
      state: "reading",
      organizations: { active: 2, vanished: 0, refused: 1 },
      pace: { requestsPerSecondMax: null, refused: 2 },
    });
    expect(status.health).toBe("bad");
    expect(status.lateness).toEqual([{ atMostMs: 60_000, events: 2 }]);
  });

  it("says how far the live reading is behind the service's clock, and when the unread is lost", async () => {
    const [account] = (await view.status()).accounts;
    expect(account!.liveLagMs).toBe(2 * HOUR_MS + 5000);
    const unreadFromMs = NOW_MS - (NOW_MS % DAY_MS) - 2 * DAY_MS;
    expect(account!.unreadFromMs).toBe(unreadFromMs);
    expect(account!.lossInMs).toBe(unreadFromMs + 90 * DAY_MS - NOW_MS - 5000);
  });

  it("names the reader that holds the journal up, and what lies before each sink", async () => {
    const { journal } = await view.status();
    expect(journal).toMatchObject({ heldUpBy: "siem", backlogEvents: 28, budgetBytes: 1_000_000_000 });
    expect(journal.usedBytes).toBeGreaterThan(10_000);
    const [lake, siem] = (await view.sinks()).sinks;
    expect(lake).toMatchObject({ name: "lake", type: "kafka", state: "running", lagEvents: 0, lagMs: 0 });
    expect(siem).toMatchObject({ state: "paused", lagEvents: 28, lagMs: 60_000, deadLetters: 2 });
  });

  it("lists the worst first: refused, then the one furthest behind", async () => {
    const { rows, total, worstLagMs } = await organizationsOf(view);
    expect(rows.map(({ name }) => name)).toEqual(["Cirrus Clinic", "Borealis Bank", "Aurora Labs"]);
    expect(rows.map(({ lagMs }) => lagMs)).toEqual([null, 2 * HOUR_MS + 5000, 35_000]);
    expect(rows[1]).toMatchObject({ unreadMs: DAY_MS, gapMs: DAY_MS, events: 10 });
    expect(rows[0]).toMatchObject({ state: "refused", reason: "403: not entitled" });
    expect({ total, worstLagMs }).toEqual({ total: 3, worstLagMs: 2 * HOUR_MS + 5000 });
  });

  it("finds organizations by any part of name or id, and pages", async () => {
    expect((await organizationsOf(view, { search: "BANK" })).rows).toHaveLength(1);
    expect((await organizationsOf(view, { search: organizationId(3) })).rows[0]!.name).toBe("Cirrus Clinic");
    const second = await organizationsOf(view, { sort: "name", offset: "1", limit: "1" });
    expect(second.rows.map(({ name }) => name)).toEqual(["Borealis Bank"]);
    expect(second.matched).toBe(3);
  });

  it("shows each day of an organization with the counts of both sides", async () => {
    const bank = await view.windows({ account: "acme", organization: organizationId(2), limit: 10 });
    expect(bank!.days).toHaveLength(90);
    const [gap, unread, read, today] = bank!.days.slice(-4);
    expect(gap).toMatchObject({ day: "2026-03-11", expired: 1 });
    expect(unread).toMatchObject({ day: "2026-03-12", unread: 1, apiCount: null });
    expect(read).toMatchObject({ day: "2026-03-13", read: 1, apiCount: 11, heldCount: 10 });
    expect(today!.live).toBeCloseTo(8 / 24, 5);
    expect(await view.windows({ account: "acme", organization: "nobody", limit: 1 })).toBeUndefined();
  });

  it("shows late events of a group in no organization's row, because they are counted for the group alone", async () => {
    const grouped = makeState();
    try {
      const members = [1, 2, 3].map(organizationId);
      const group = await streamOf(grouped, members);
      const day = NOW_MS - (NOW_MS % DAY_MS) - DAY_MS;
      const read = { state: "read", askedMs: NOW_MS } as const;
      await grouped.journal.changeWindows({
        add: [
          newWindow(group, day, day + HOUR_MS, { ...read, late: 6 }),
          newWindow(await streamOf(grouped, [members[0]!]), day - DAY_MS, day, { ...read, late: 2 }),
        ],
      });
      const all = createView(grouped.db, null, grouped.options);
      const lateOf = async (organization: string) => {
        const found = await all.windows({ account: "acme", organization, limit: 10 });
        return [found!.windows.map(({ late }) => late), found!.days.slice(-3).map(({ late }) => late)];
      };
      expect(await lateOf(members[0]!)).toEqual([
        [null, 2],
        [2, null, 0],
      ]);
      expect(await lateOf(members[1]!)).toEqual([[null], [0, null, 0]]);
      expect((await all.calendar()).days.at(-2)).toMatchObject({ late: 6 });
      expect((await all.status()).totals.late).toBe(8);
    } finally {
      grouped.close();
    }
  });

  it("adds the days of all organizations up", async () => {
    const { days } = await view.calendar();
    expect(days.at(-2)).toMatchObject({
      ...{ day: "2026-03-13", sealed: 1, read: 1, refused: 1, unread: 0 },
      ...{ apiCount: 131, heldCount: 130, late: 2 },
    });
  });

  it("knows the events an hour only where they were measured, or where nothing came for a day", async () => {
    const fresh = makeState();
    try {
      await fillSmall(fresh);
      const change = fresh.db.prepare("UPDATE organizations SET traffic = ?, last_event_ms = ? WHERE id = ?");
      change.run(0, fresh.clock.now() - HOUR_MS, organizationId(3));
      change.run(0, fresh.clock.now() - 2 * DAY_MS, organizationId(1));
      change.run(3.5, fresh.clock.now(), organizationId(2));
      const { rows } = await organizationsOf(createView(fresh.db, null, fresh.options));
      const rates = new Map(rows.map(({ id, eventsPerHour }) => [id, eventsPerHour]));
      expect([3, 1, 2].map((at) => rates.get(organizationId(at)))).toEqual([null, 0, 3.5]);
    } finally {
      fresh.close();
    }
  });

  it("groups drift by field over all services", async () => {
    const row = { kind: "field" as const, path: "trace_context", detail: "", firstSeenMs: 1, lastSeenMs: 2 };
    const rows = ["sso", "radius"].map((service) => ({ ...row, service, count: 5 }));
    await createDriftStore(state.db).save(rows, () => {});
    const found = (await view.drift(100)).rows.filter(({ path }) => path === "trace_context");
    expect(found).toMatchObject([{ events: 10, services: ["radius", "sso"] }]);
  });

  it("lists dead letters without their contents, and one with it", async () => {
    const { total, letters } = await view.deadLetters({ sink: "siem", limit: 1 });
    expect(total).toBe(2);
    expect(letters).toHaveLength(1);
    expect(letters[0]).toMatchObject({ sink: "siem", reason: "400: the field is too long" });
    expect(JSON.stringify(letters)).not.toContain("must not be shown");
    const next = await view.deadLetters({ limit: 10, before: letters[0]!.id });
    expect(next.letters).toHaveLength(1);
    expect((await view.deadLetter(letters[0]!.id))!.body).toContain("must not be shown");
  });

  it("shows the newest events without their contents", async () => {
    const recent = await view.recent(0, 15);
    expect(recent.events).toHaveLength(15);
    expect(recent.events.at(-1)).toMatchObject({ name: "Borealis Bank", page: 2 });
    expect(recent.events[0]).toMatchObject({ name: "Aurora Labs", page: 1 });
    expect(JSON.stringify(recent)).not.toContain("must not be shown");
    expect(recent.more).toBe(0);
    expect(await view.recent(recent.endPage, 15)).toMatchObject({ more: 0, events: [] });
  });

  it("names how many events it cannot show: there are more, or their pages are delivered and gone", async () => {
    const last = await view.recent(1, 3);
    const all = last.events.length + last.more;
    expect(last.events).toHaveLength(3);
    expect(last.more).toBeGreaterThan(0);
    state.db.exec(
      "CREATE TEMP TABLE kept AS SELECT * FROM bodies WHERE page > 1; DELETE FROM bodies WHERE page > 1",
    );
    try {
      expect(await view.recent(1, 3)).toMatchObject({ more: all, events: [] });
    } finally {
      state.db.exec("INSERT INTO bodies SELECT * FROM kept; DROP TABLE kept");
    }
  });
});

describe("the view beside a running process", () => {
  it("reads through a read-only connection what the process left a moment ago", async () => {
    const state = makeState();
    await fillSmall(state);
    await storeLive(state.db, liveOf(state.clock), NOW_MS - 5000);
    const db = openStateForReading(state.file);
    const status = await createView(db, null, state.options).status();
    expect(status.alarms.map(({ kind }) => kind)).toEqual(["sink_paused"]);
    expect(status.accounts[0]!.pace).toMatchObject({ requestsPerSecondMax: null });
    await storeLive(state.db, liveOf(state.clock), NOW_MS - 60_000);
    const later = await createView(db, null, state.options).status();
    expect(later).toMatchObject({ startedMs: null, alarms: [] });
    expect(later.accounts[0]!.state).toBe("unknown");
    expect(later.headline).toContain("not running");
    const silent = createView(db, null, { ...state.options, isRunning: () => true });
    expect(await silent.status()).toMatchObject({
      health: "bad",
      headline: expect.stringContaining("Tidemark is running, but its last report is 1m old"),
    });
    db.close();
    state.close();
  });

  it("R7 names foreign events that are kept apart after the process that saw them has ended", async () => {
    const state = makeState();
    const status = () => createView(state.db, null, state.options).status();
    await keepUnattributed(state.db, "acme", 1, Buffer.from('{"a":1}'), "not readable: x", NOW_MS);
    expect((await status()).alarms).toEqual([]);
    await keepUnattributed(state.db, "acme", 1, Buffer.from('{"b":1}'), null, NOW_MS);
    const { alarms } = await status();
    expect(alarms).toMatchObject([{ kind: "foreign_events", subject: "acme", severity: "critical" }]);
    expect(alarms[0]!.message).toMatch(/^One event of organizations that were not asked for is kept apart/);
    state.close();
  });

  it("carries sums on as pages come and readers pass them", async () => {
    const state = makeState();
    await fillSmall(state);
    const view = createView(state.db, null, state.options);
    const lags = async () => (await view.sinks()).sinks.map(({ lagEvents }) => lagEvents);
    expect(await lags()).toEqual([0, 28]);
    await append(state, organizationId(1), 5, NOW_MS);
    expect(await lags()).toEqual([5, 33]);
    const siem = await state.journal.reader("siem");
    await siem.commit(state.journal.end(), undefined);
    expect(await lags()).toEqual([5, 0]);
    expect((await view.status()).totals.events).toBe(45);
    expect((await view.status()).journal.heldUpBy).toBe("lake");
    state.close();
  });
});

describe("the view of ten thousand organizations", () => {
  it("answers quickly, with the windows of ninety days", async () => {
    const state = makeState();
    try {
      await fillLarge(state, 10_000, 25);
      const view = createView(state.db, liveOf(state.clock), state.options);
      // Processor time, which other work on the machine does not lengthen much.
      const timed = async <T>(work: () => Promise<T>): Promise<[T, number]> => {
        const begun = process.cpuUsage();
        const result = await work();
        const { user, system } = process.cpuUsage(begun);
        return [result, (user + system) / 1000];
      };
      const [status, firstMs] = await timed(() => view.status());
      expect(status.totals.windows).toMatchObject({ sealed: 400 * 87, live: 400 });
      const [list, listMs] = await timed(() => organizationsOf(view, { limit: 1000 }));
      expect(list.total).toBe(10_000);
      const [found, searchMs] = await timed(() => organizationsOf(view, { search: "fjord 00" }));
      expect(found.matched).toBe(100);
      const [one, oneMs] = await timed(() =>
        view.windows({ account: "acme", organization: organizationId(7777), limit: 500 }),
      );
      expect(one!.total).toBe(90);
      expect(one!.windows[0]!.groupSize).toBe(25);
      const [, againMs] = await timed(() => view.status());
      expect(firstMs).toBeLessThan(3000);
      for (const tookMs of [listMs, searchMs, oneMs, againMs]) expect(tookMs).toBeLessThan(500);
    } finally {
      state.close();
    }
  });
});

import { numberInAll } from "../../core/shard.ts";
import type { DeadLettersQuery, DeadLettersView } from "../../core/view/dead-letters.ts";
import type { DriftView } from "../../core/view/events.ts";
import type {
  OrganizationsQuery,
  OrganizationsView,
  OrganizationView,
} from "../../core/view/organizations.ts";
import type { RatesView } from "../../core/view/status.ts";
import type { CalendarDay, CalendarView } from "../../core/view/windows.ts";
import { DAY_STATES } from "../../core/view/windows.ts";
import { extreme } from "./merge-status.ts";

export function mergeRates(list: readonly RatesView[], empty: RatesView): RatesView {
  const newest = [...list].sort((a, b) => b.fromMs - a.fromMs)[0];
  if (newest === undefined) return empty;
  const { bucketMs, fromMs } = newest;
  const buckets = newest.received.length;
  /** The series of a lane that was opened at another time, in the buckets of the newest. */
  const placed = (one: RatesView, series: readonly number[]) => {
    const shift = Math.round((fromMs - one.fromMs) / bucketMs);
    return Array.from({ length: buckets }, (_, at) => series[at + shift] ?? 0);
  };
  const add = (all: readonly (readonly number[])[]) =>
    Array.from({ length: buckets }, (_, at) => all.reduce((sum, series) => sum + series[at]!, 0));
  const names = new Set(list.flatMap((one) => Object.keys(one.sent)));
  return {
    ...{ bucketMs, fromMs },
    received: add(list.map((one) => placed(one, one.received))),
    live: add(list.map((one) => placed(one, one.live))),
    sent: Object.fromEntries(
      [...names].map((name) => [name, add(list.map((one) => placed(one, one.sent[name] ?? [])))]),
    ),
  };
}

export function mergeOrganizations(
  list: readonly OrganizationsView[],
  { sort, offset, limit }: OrganizationsQuery,
): OrganizationsView {
  const sum = (name: "total" | "matched" | "problems") => list.reduce((all, one) => all + one[name], 0);
  const rows = list.flatMap((one) => one.rows).sort(ORDERS[sort]);
  return {
    ...{ total: sum("total"), matched: sum("matched"), problems: sum("problems") },
    worstLagMs: extreme(Math.max, ...list.map(({ worstLagMs }) => worstLagMs)),
    rows: rows.slice(offset, offset + limit),
  };
}

/** The orders of the journal's own view, by what a row shows. */
function rank({ state, lagMs }: OrganizationView): number {
  if (state === "refused") return 0;
  if (state === "vanished") return 3;
  return lagMs === null ? 1 : 2;
}

const byName = (a: OrganizationView, b: OrganizationView) =>
  a.name < b.name ? -1 : a.name > b.name ? 1 : a.id < b.id ? -1 : 1;

const ORDERS: Record<OrganizationsQuery["sort"], (a: OrganizationView, b: OrganizationView) => number> = {
  lag: (a, b) => rank(a) - rank(b) || (b.lagMs ?? 0) - (a.lagMs ?? 0) || byName(a, b),
  name: byName,
  traffic: (a, b) =>
    (b.eventsPerHour ?? 0) - (a.eventsPerHour ?? 0) || (b.events ?? 0) - (a.events ?? 0) || byName(a, b),
  last_event: (a, b) => (a.lastEventMs ?? 0) - (b.lastEventMs ?? 0) || byName(a, b),
};

export function mergeCalendars(list: readonly CalendarView[], nowMs: number): CalendarView {
  const days = new Map<string, CalendarDay>();
  for (const day of list.flatMap((one) => one.days)) {
    const known = days.get(day.day);
    days.set(day.day, known === undefined ? day : mergeDays(known, day));
  }
  return {
    madeMs: list.reduce((oldest, { madeMs }) => Math.min(oldest, madeMs), nowMs),
    days: [...days.values()].sort((a, b) => (a.day < b.day ? -1 : 1)),
  };
}

function mergeDays(a: CalendarDay, b: CalendarDay): CalendarDay {
  const shares = Object.fromEntries(DAY_STATES.map((state) => [state, a[state] + b[state]]));
  const isUnknown = hasUnknownCounts(a) || hasUnknownCounts(b);
  const add = (x: number | null, y: number | null) =>
    isUnknown || (x === null && y === null) ? null : (x ?? 0) + (y ?? 0);
  return {
    ...a,
    ...shares,
    apiCount: add(a.apiCount, b.apiCount),
    heldCount: add(a.heldCount, b.heldCount),
    late: a.late === null || b.late === null ? null : a.late + b.late,
    askedMs: extreme(Math.min, a.askedMs, b.askedMs),
  };
}

/** A lane has sealed windows on this day, but shares their counts with another day. The sum would be a part. */
function hasUnknownCounts({ sealed, apiCount }: CalendarDay): boolean {
  return sealed > 0 && apiCount === null;
}

/** Letters by lane; their numbers become numbers among all lanes. Without a lane they are that already. */
export function mergeDeadLetters(
  list: readonly { readonly lane: number | undefined; readonly view: DeadLettersView }[],
  { limit }: DeadLettersQuery,
): DeadLettersView {
  const groups = new Map<string, DeadLettersView["groups"][number]>();
  for (const { lane, view } of list)
    for (const group of view.groups) {
      const own = { ...group, example: { ...group.example, id: numberInAll(lane, group.example.id) } };
      const known = groups.get(group.id);
      const newer = known === undefined || own.lastMs > known.lastMs ? own : known;
      groups.set(group.id, {
        ...newer,
        count: own.count + (known?.count ?? 0),
        firstMs: Math.min(own.firstMs, known?.firstMs ?? own.firstMs),
      });
    }
  return {
    total: list.reduce((sum, { view }) => sum + view.total, 0),
    groups: [...groups.values()].sort((a, b) => b.count - a.count),
    letters: list
      .flatMap(({ lane, view }) => view.letters.map((one) => ({ ...one, id: numberInAll(lane, one.id) })))
      // By number and not by time: the number of the last one is the `before` of the next page.
      .sort((a, b) => b.id - a.id)
      .slice(0, limit),
  };
}

export function mergeDrift(list: readonly DriftView[], limit: number): DriftView {
  const rows = new Map<string, DriftView["rows"][number]>();
  for (const row of list.flatMap((one) => one.rows)) {
    const key = JSON.stringify([row.kind, row.path, row.detail]);
    const known = rows.get(key);
    rows.set(key, {
      ...row,
      services: [...new Set([...(known?.services ?? []), ...row.services])].sort(),
      firstMs: Math.min(row.firstMs, known?.firstMs ?? row.firstMs),
      lastMs: Math.max(row.lastMs, known?.lastMs ?? row.lastMs),
      events: row.events + (known?.events ?? 0),
    });
  }
  return { total: rows.size, rows: [...rows.values()].sort((a, b) => b.events - a.events).slice(0, limit) };
}

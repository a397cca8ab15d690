import { DAY_MS } from "../core/time.ts";
import type { GapView } from "../core/view/gaps.ts";
import type { OrganizationView } from "../core/view/organizations.ts";
import type { CalendarDay, WindowsView } from "../core/view/windows.ts";

/** One organization's day. docs/operations.md describes the fields. */
export interface CoverageRow {
  readonly account: string;
  readonly organization: string;
  readonly day: string;
  readonly unreadHours: number;
  readonly readHours: number;
  readonly sealedHours: number;
  readonly refusedHours: number;
  /** Deleted by the service before it was read. */
  readonly gapHours: number;
  /** null: some were found in organizations that are read together, and whose they are was not counted. */
  readonly late: number | null;
  /** null: not counted by day. Nothing was read as a whole, or a window that crosses midnight differs from the service. */
  readonly apiCount: number | null;
  readonly heldCount: number | null;
  /** How many organizations are read together with it in one query. */
  readonly groupSize: number;
  readonly lastAsked: string | null;
  readonly reasons: readonly string[];
  /** What is missing on this day, or may be: also in time that was read. */
  readonly gaps: readonly CoverageGap[];
}

export interface CoverageGap {
  /** The same in the rows of all days that the gap reaches over; null: it is open. */
  readonly id: number | null;
  readonly reason: GapView["reason"];
  readonly detail: string;
  readonly services: readonly string[];
  readonly from: string;
  readonly to: string;
  /** Of this day. */
  readonly hours: number;
  /** Of the whole gap, where it is known. */
  readonly events: number | null;
  readonly open: boolean;
}

const HOURS = 24;
/** Their windows count as read: no state of a day shows them. */
const INSIDE_READ_TIME: readonly GapView["reason"][] = ["unchecked", "unreadable"];

export function rowsOf(
  { account, id }: OrganizationView,
  { days, windows }: Pick<WindowsView, "days" | "windows">,
  gaps: readonly GapView[],
  sinceMs: number | undefined,
): CoverageRow[] {
  const rows: CoverageRow[] = [];
  for (const day of [...daysBefore(days[0], gaps), ...days]) {
    const fromMs = Date.parse(day.day);
    const toMs = fromMs + DAY_MS;
    const missing = gaps.filter((gap) => gap.fromMs < toMs && gap.toMs > fromMs);
    const covered = day.expired + day.refused + day.unread + day.live + day.read + day.sealed;
    if ((covered === 0 && missing.length === 0) || (sinceMs !== undefined && toMs <= sinceMs)) continue;
    const within = windows.filter((window) => window.fromMs < toMs && window.toMs > fromMs);
    const asked = within.map(({ askedMs }) => askedMs).filter((ms) => ms !== null);
    const reasons = [
      ...within.map(({ reason }) => reason).filter((reason) => reason !== null),
      ...missing.filter(({ reason }) => INSIDE_READ_TIME.includes(reason)).map(({ detail }) => detail),
    ];
    rows.push({
      account,
      organization: id,
      day: day.day,
      unreadHours: hours(day.unread),
      readHours: hours(day.read + day.live),
      sealedHours: hours(day.sealed),
      refusedHours: hours(day.refused),
      gapHours: hours(day.expired),
      late: day.late,
      apiCount: day.apiCount,
      heldCount: day.heldCount,
      groupSize: Math.max(1, ...within.map(({ groupSize }) => groupSize)),
      lastAsked: asked.length === 0 ? null : new Date(Math.max(...asked)).toISOString(),
      reasons: [...new Set(reasons)],
      gaps: missing.map((gap) => ({
        id: gap.id,
        reason: gap.reason,
        detail: gap.detail,
        services: gap.services,
        from: new Date(gap.fromMs).toISOString(),
        to: new Date(gap.toMs).toISOString(),
        hours: hours(lengthWithin(gap, fromMs, toMs) / DAY_MS),
        events: gap.events,
        open: gap.open,
      })),
    });
  }
  return rows;
}

/** Gaps are remembered longer than the days of the calendar. */
function daysBefore(first: CalendarDay | undefined, gaps: readonly GapView[]): CalendarDay[] {
  const firstMs = first === undefined ? Number.POSITIVE_INFINITY : Date.parse(first.day);
  const found = new Set<number>();
  for (const gap of gaps)
    for (let ms = dayOf(gap.fromMs); ms < Math.min(gap.toMs, firstMs); ms += DAY_MS) found.add(ms);
  return [...found].sort((a, b) => a - b).map((ms) => dayOfGaps(ms, gaps));
}

/** The windows of that day are not looked at, so only its gaps are known. */
function dayOfGaps(fromMs: number, gaps: readonly GapView[]): CalendarDay {
  const shown = gaps.filter(({ reason }) => !INSIDE_READ_TIME.includes(reason));
  const share = (open: boolean) =>
    lengthOfAll(
      shown.filter((gap) => gap.open === open),
      fromMs,
    ) / DAY_MS;
  return {
    day: new Date(fromMs).toISOString().slice(0, 10),
    ...{ expired: share(false), refused: share(true), unread: 0, live: 0, read: 0, sealed: 0 },
    ...{ apiCount: null, heldCount: null, late: null, askedMs: null },
  };
}

/** Gaps of several services may overlap. They come in the order of their beginnings. */
function lengthOfAll(gaps: readonly GapView[], dayMs: number): number {
  let sum = 0;
  let reachedMs = dayMs;
  for (const gap of gaps) {
    sum += lengthWithin(gap, reachedMs, dayMs + DAY_MS);
    reachedMs = Math.max(reachedMs, gap.toMs);
  }
  return sum;
}

function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS) * DAY_MS;
}

function lengthWithin(gap: GapView, fromMs: number, toMs: number): number {
  return Math.max(0, Math.min(gap.toMs, toMs) - Math.max(gap.fromMs, fromMs));
}

function hours(share: number): number {
  return Math.round(share * HOURS * 100) / 100;
}

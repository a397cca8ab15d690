import { DAY_MS } from "../../core/time.ts";
import type { WindowCounts } from "../../core/view/status.ts";
import { type CalendarDay, DAY_STATES } from "../../core/view/windows.ts";
import type { Excess } from "./overlap-groups.ts";

const CALENDAR_DAYS = 90;

export type DayState = (typeof DAY_STATES)[number];

/** A stretch of time in one state. */
export interface StateStretch {
  readonly fromMs: number;
  readonly toMs: number;
  readonly state: DayState;
}

/** The part of a window that places it in a calendar. */
export interface LedgerStretch extends StateStretch {
  readonly apiCount: number | null;
  readonly heldCount: number | null;
  /** null: some were found, and of which organization is not known. */
  readonly late: number | null;
  readonly askedMs: number | null;
}

export function noWindows(): WindowCounts {
  return { unread: 0, read: 0, sealed: 0, expired: 0, refused: 0, live: 0 };
}

/** The last days up to today, in UTC, with the stretches of windows that lie in each. */
export function createDays(nowMs: number) {
  const firstDay = Math.floor(nowMs / DAY_MS) - CALENDAR_DAYS + 1;
  const days = Array.from({ length: CALENDAR_DAYS }, (_, at) => emptyDay(firstDay + at));
  /** Days of which a part has its counts together with another day. A sum of the rest would not be the day's. */
  const shared = new Set<CalendarDay>();

  /** The days of the calendar that a stretch lies in. */
  function* daysOf(stretch: StateStretch): Iterable<{ day: number; shares: CalendarDay }> {
    const last = Math.floor((endOf(stretch) - 1) / DAY_MS);
    for (let day = Math.max(Math.floor(stretch.fromMs / DAY_MS), firstDay); day <= last; day++) {
      const shares = days[day - firstDay];
      if (shares === undefined) return;
      yield { day, shares };
    }
  }

  return {
    addState(stretch: StateStretch, weight: number): void {
      for (const { day, shares } of daysOf(stretch)) {
        const fromMs = Math.max(stretch.fromMs, day * DAY_MS);
        const toMs = Math.min(endOf(stretch), (day + 1) * DAY_MS);
        shares[stretch.state] += ((toMs - fromMs) / DAY_MS) * weight;
      }
    },
    addCounts(window: LedgerStretch): void {
      const isOneDay = Math.floor(window.fromMs / DAY_MS) === Math.floor((endOf(window) - 1) / DAY_MS);
      if (!isOneDay && !hasCounts(window)) return;
      for (const { shares } of daysOf(window))
        if (isOneDay) count(shares, window);
        else shared.add(shares);
    },
    /** Windows of one day that have read the same events. A group of several days has a window that crosses midnight. */
    lessen({ fromMs, toMs, apiCount, heldCount }: Excess): void {
      const day = Math.floor(fromMs / DAY_MS);
      const only = Math.floor((toMs - 1) / DAY_MS) === day ? days[day - firstDay] : undefined;
      if (only === undefined || only.apiCount === null) return;
      only.apiCount = Math.max(0, only.apiCount - apiCount);
      only.heldCount = Math.max(0, only.heldCount! - heldCount);
    },
    list: (): CalendarDay[] =>
      days.map((day) =>
        rounded(shared.has(day) ? { ...day, apiCount: null, heldCount: null, askedMs: null } : day),
      ),
  };
}

/** A live window has no length at first. It still shows its state. */
function endOf({ fromMs, toMs }: Pick<StateStretch, "fromMs" | "toMs">): number {
  return Math.max(toMs, fromMs + 1);
}

/**
 * The time of all windows, each moment once and with the worst state there. Windows of one organization overlap
 * where services were added later: these are read apart.
 */
export function worstStates(windows: readonly StateStretch[]): StateStretch[] {
  const edges = windows
    .flatMap((window) => [
      { ms: window.fromMs, state: window.state, change: 1 },
      { ms: endOf(window), state: window.state, change: -1 },
    ])
    .sort((a, b) => a.ms - b.ms);
  const open = noWindows();
  const stretches: StateStretch[] = [];
  for (const [at, { ms, state, change }] of edges.entries()) {
    open[state] += change;
    const toMs = edges[at + 1]?.ms ?? ms;
    const worst = DAY_STATES.find((one) => open[one] > 0);
    if (toMs > ms && worst !== undefined) stretches.push({ fromMs: ms, toMs, state: worst });
  }
  return stretches;
}

export function hasCounts({ state, apiCount, heldCount }: LedgerStretch): boolean {
  return state !== "live" && apiCount !== null && heldCount !== null;
}

function count(day: CalendarDay, window: LedgerStretch): void {
  day.late = day.late === null || window.late === null ? null : day.late + window.late;
  if (!hasCounts(window)) return;
  day.apiCount = (day.apiCount ?? 0) + window.apiCount!;
  day.heldCount = (day.heldCount ?? 0) + window.heldCount!;
  if (window.askedMs !== null) day.askedMs = Math.min(day.askedMs ?? window.askedMs, window.askedMs);
}

function emptyDay(day: number): CalendarDay {
  return {
    day: new Date(day * DAY_MS).toISOString().slice(0, 10),
    ...noWindows(),
    ...{ apiCount: null, heldCount: null, late: 0, askedMs: null },
  };
}

/** Sums of shares carry the noise of floating point. */
function rounded(day: CalendarDay): CalendarDay {
  const shares = Object.fromEntries(DAY_STATES.map((state) => [state, Math.round(day[state] * 1e6) / 1e6]));
  return { ...day, ...shares };
}

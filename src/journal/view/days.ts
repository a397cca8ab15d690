import { DAY_MS } from "../../core/time.ts";
import type { WindowCounts } from "../../core/view/status.ts";
import { type CalendarDay, DAY_STATES } from "../../core/view/windows.ts";
import type { Excess } from "./overlap-groups.ts";

const CALENDAR_DAYS = 90;

export type DayState = (typeof DAY_STATES)[number];

/** The part of a window that places it in a calendar. */
export interface LedgerStretch {
  readonly fromMs: number;
  readonly toMs: number;
  readonly state: DayState;
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

  return {
    add(window: LedgerStretch, weight: number): void {
      // A live window has no length at first. It still shows its state.
      const toMs = Math.max(window.toMs, window.fromMs + 1);
      const from = Math.floor(window.fromMs / DAY_MS);
      const to = Math.floor((toMs - 1) / DAY_MS);
      for (let day = Math.max(from, firstDay); day <= to; day++) {
        const shares = days[day - firstDay];
        if (shares === undefined) break;
        const inDayMs = Math.min(toMs, (day + 1) * DAY_MS) - Math.max(window.fromMs, day * DAY_MS);
        shares[window.state] += (inDayMs / DAY_MS) * weight;
        if (from < to && hasCounts(window)) shared.add(shares);
      }
      const only = from === to ? days[from - firstDay] : undefined;
      if (only !== undefined) count(only, window);
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

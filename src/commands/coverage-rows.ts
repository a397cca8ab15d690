import { DAY_MS } from "../core/time.ts";
import type { OrganizationView } from "../core/view/organizations.ts";
import type { WindowsView } from "../core/view/windows.ts";

/** One organization's day. */
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
}

const HOURS = 24;

export function rowsOf(
  { account, id }: OrganizationView,
  { days, windows }: WindowsView,
  sinceMs: number | undefined,
): CoverageRow[] {
  const rows: CoverageRow[] = [];
  for (const day of days) {
    const fromMs = Date.parse(day.day);
    const covered = day.expired + day.refused + day.unread + day.live + day.read + day.sealed;
    if (covered === 0 || (sinceMs !== undefined && fromMs + DAY_MS <= sinceMs)) continue;
    const within = windows.filter((window) => window.fromMs < fromMs + DAY_MS && window.toMs > fromMs);
    const asked = within.map(({ askedMs }) => askedMs).filter((ms) => ms !== null);
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
      reasons: [...new Set(within.map(({ reason }) => reason).filter((reason) => reason !== null))],
    });
  }
  return rows;
}

function hours(share: number): number {
  return Math.round(share * HOURS * 100) / 100;
}

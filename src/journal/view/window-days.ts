import { DAY_MS } from "../../core/time.ts";
import type { State } from "../database.ts";
import { createHeldDays } from "../held-counts.ts";
import { hasCounts, type LedgerStretch } from "./days.ts";
import type { Excess } from "./overlap-groups.ts";
import type { StreamRow } from "./streams.ts";

/**
 * Cuts a counted window at midnights, so that its days have counts. Held events are counted by their identities. The
 * service's counts by day are the same ones if both agree on the whole window. Otherwise the window stays whole: the day
 * of the difference is not known, or old identities are forgotten, or others were read there for other services.
 */
export function createWindowDays(db: State) {
  const heldDays = createHeldDays(db);
  return (
    window: LedgerStretch,
    { account, provider }: StreamRow,
    owners: readonly string[],
    overlaps: readonly Excess[],
  ): readonly LedgerStretch[] => {
    const { fromMs, toMs, apiCount, heldCount } = window;
    if (!hasCounts(window) || apiCount !== heldCount || !crossesMidnight(window)) return [window];
    // The sum has such an overlap too often, and its day is not known.
    if (overlaps.some((one) => crossesMidnight(one) && one.fromMs < toMs && fromMs < one.toMs))
      return [window];
    const counts = heldDays({ owners, account, provider, fromMs, toMs });
    const sum = [...counts.values()].reduce((all, count) => all + count, 0);
    return sum === heldCount ? cutAtMidnights(window, counts) : [window];
  };
}

export type WindowDays = ReturnType<typeof createWindowDays>;

function crossesMidnight({ fromMs, toMs }: Pick<LedgerStretch, "fromMs" | "toMs">): boolean {
  return Math.floor(fromMs / DAY_MS) < Math.floor((toMs - 1) / DAY_MS);
}

/** On which day its late events were, is not known. */
function cutAtMidnights(window: LedgerStretch, counts: ReadonlyMap<number, number>): LedgerStretch[] {
  const parts: LedgerStretch[] = [];
  for (let { fromMs } = window; fromMs < window.toMs; ) {
    const day = Math.floor(fromMs / DAY_MS);
    const toMs = Math.min(window.toMs, (day + 1) * DAY_MS);
    const count = counts.get(day) ?? 0;
    parts.push({ ...window, fromMs, toMs, apiCount: count, heldCount: count, late: 0 });
    fromMs = toMs;
  }
  return parts;
}

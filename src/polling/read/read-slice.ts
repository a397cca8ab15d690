import { isUnnamed, type NewGap } from "../../core/gap.ts";
import type { MissingEvent, Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { SWEEP } from "../limits/pace.ts";
import { isInside, type TimeStretch } from "../plan/sweep-times.ts";
import { append, shownBefore } from "./commit-page.ts";
import { identityBytesAt, ownerAt } from "./counts.ts";
import { noteShuffled } from "./order.ts";
import { pagesOf } from "./walk.ts";

export type SliceEvent = Pick<MissingEvent, "owner" | "timeMs">;

interface ReadSlice {
  readonly fresh: number;
  /** Events that came twice, so that others may have been left out. */
  readonly shownAgain: number;
  /** Each event that the service has. */
  readonly events: readonly SliceEvent[];
  readonly skips: readonly NewGap[];
  readonly isForgotten: boolean;
}

/** Reads a slice of a window with dedupe. The window itself is not changed. */
export async function readSlice(
  context: PollContext,
  window: Window,
  slice: TimeStretch,
  signal: AbortSignal,
): Promise<ReadSlice> {
  let fresh = 0;
  let shownAgain = 0;
  let isForgotten = false;
  const distinct = new Map<string, SliceEvent>();
  const skips: NewGap[] = [];
  const walk = { stretch: slice, fields: undefined, signal, skips };
  // Begun anew with another edge where a page shows that an event before it was judged wrongly (R10).
  let first: readonly string[] | undefined = [];
  while (first !== undefined) {
    const begin: readonly string[] = first;
    let edge = begin;
    first = undefined;
    for await (const served of pagesOf(context, window, walk)) {
      const { page, isExpected } = served;
      if (served.againMs === slice.fromMs) {
        // Everything comes again.
        edge = begin;
        shownAgain = 0;
      }
      isForgotten = served.isForgotten;
      for (let index = 0; index < page.scanned.count; index++) {
        const timeMs = page.timesMs[index]!;
        if (!isInside(slice, timeMs)) continue;
        const key = `${identityBytesAt(page, index).toString("latin1")}${page.digests[index]}`;
        distinct.set(key, { owner: ownerAt(page, index), timeMs });
      }
      const passedOver = skips.filter(isUnnamed);
      const commit = { edge, lateBeforeMs: window.toMs, passedOver, isExpected, change: () => ({}) };
      const appended = await context.gate.commit(SWEEP, signal, () =>
        append(context, window, served, commit),
      );
      fresh += appended.fresh;
      shownAgain += shownBefore(page, served.cursor, appended.repeatedAt, isExpected);
      edge = appended.edge;
      first = appended.againWith;
      if (first !== undefined) break;
    }
  }
  if (shownAgain > 0) await noteShuffled(context);
  return { fresh, shownAgain, events: [...distinct.values()], skips, isForgotten };
}

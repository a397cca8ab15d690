import { isUnnamed, type NewGap } from "../../core/gap.ts";
import type { Pass, PassBegin, Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { SWEEP } from "../limits/pace.ts";
import type { TimeStretch } from "../plan/sweep-times.ts";
import { fetchPage, type PageRequest, queryOf, type Served, servedOf } from "./fetch-page.ts";
import { horizonMs } from "./forgotten.ts";
import { isUnordered } from "./order.ts";
import { createPageTrail } from "./page-names.ts";
import {
  beginPass,
  expectedIn,
  halved,
  hasMoved,
  isBefore,
  isShownAgain,
  movedBy,
  restarted,
  skippedOne,
} from "./pass.ts";
import { canSkip, isSkippedIn, keepSkipped, retriedSingle } from "./skip-event.ts";
import { skipGap } from "./skip-gap.ts";
import { InconsistentPageError, RepeatedPageError } from "./source.ts";
import { isBadContent } from "./try-page.ts";

/** A page of a walk. `againMs`: the walk began anew there, and the events of that time come again. */
export interface WalkedPage extends Served {
  readonly asked: PassBegin;
  /** The service had forgotten a part of what was left when it sent this page, or one before. */
  readonly isForgotten: boolean;
  readonly againMs: number | undefined;
  /** Whether the event at this index comes again because the walk was begun anew. */
  isExpected(index: number): boolean;
  /** Of its request. */
  readonly cursor: string | null;
}

export interface Walk {
  readonly stretch: TimeStretch;
  /** undefined: whole events. */
  readonly fields: readonly string[] | undefined;
  readonly signal: AbortSignal;
  /** Gets a gap for each event that is not readable. */
  readonly skips: NewGap[];
}

/**
 * Walks over a stretch with a pass that no window stores: after a failure of another kind the caller begins
 * anew. Bad content is searched by halving and skipped. A refused token begins the walk anew, once: the time of an
 * event is a place to go on at only if answers rise in time. A service that refuses more tokens is walked from there
 * (pass.ts).
 */
export async function* pagesOf(
  context: PollContext,
  window: Window,
  { stretch, fields, signal, skips }: Walk,
): AsyncGenerator<WalkedPage> {
  const { settings, serviceClock, clock } = context;
  const begun = { begunMs: serviceClock.now(), localMs: clock.now() };
  const first = beginPass(stretch.fromMs, stretch.toMs, settings.pageSize, begun);
  let pass: Pass = isUnordered(context) ? { ...first, isUnordered: true } : first;
  let isBegunAnew = false;
  let isForgotten = false;
  let hasShown = false;
  const trail = createPageTrail();
  const beginAt = (next: Pass) => {
    pass = next;
    // What is behind that place comes again.
    const before = skips.filter((gap) => isBefore(next, gap.fromMs));
    skips.splice(0, skips.length, ...before);
  };
  beginAt(pass);
  for (;;) {
    const { cursor } = pass;
    const query = queryOf(window, pass, fields);
    const request: PageRequest = { window, query, cursor, priority: SWEEP, signal };
    const fetched = await fetchPage(context, request).catch((error: unknown) => {
      if (signal.aborted || context.source.fault(error).kind !== "bad_request" || cursor === null)
        throw error;
      if (!isBegunAnew || hasMoved(pass)) return null;
      throw new InconsistentPageError("The service refused the token of its page before.", { cause: error });
    });
    if (fetched === null) {
      beginAt(isBegunAnew ? restarted(pass, pass.limit) : first);
      isBegunAnew = true;
      continue;
    }
    isForgotten ||= (pass.reachedMs ?? pass.startMs) < horizonMs(context, fetched.answeredMs);
    try {
      const { searchAfter } = fetched.page.head;
      const served = await servedOf(context, request, fetched.page).catch(async (error: unknown) => {
        if (signal.aborted || !isBadContent(context, error)) throw error;
        if (canSkip(context, request, searchAfter, error))
          return retriedSingle(context, request, searchAfter!, error);
        const smaller = halved(pass);
        if (smaller === null) throw error;
        beginAt(smaller);
        return null;
      });
      if (served === null) continue;
      if ("skipped" in served) {
        trail.add(cursor, undefined);
        const passed = { ...window, toMs: stretch.toMs, pass };
        await keepSkipped(context, passed, served.skipped);
        const gap = await skipGap(context, passed, served.skipped);
        const isOwn = isSkippedIn(served.skipped, gap, stretch.fromMs, stretch.toMs);
        const isAnother = isUnnamed(gap) || !skips.some(({ detail }) => detail === gap.detail);
        if (isOwn && isAnother && !isShownAgain(pass)) skips.push(gap);
        pass = skippedOne(pass, searchAfter!, undefined);
        continue;
      }
      const againMs = cursor === null && hasShown ? pass.startMs : undefined;
      const isExpected = expectedIn(pass, served.page);
      hasShown = true;
      try {
        trail.add(cursor, served.page);
        const moved = movedBy(pass, served.page, searchAfter ?? null, 0, settings.pageSize, served.isSmall);
        pass = { ...moved, pages: pass.pages + 1 };
      } catch (error) {
        served.lease.release();
        if (!(error instanceof RepeatedPageError) || !hasMoved(pass)) throw error;
        beginAt(restarted(pass, pass.limit));
        continue;
      }
      yield* lent({ ...served, asked: fetched.asked, againMs, isExpected, isForgotten, cursor });
      if (served.last) return;
    } finally {
      fetched.release();
    }
  }
}

/** The page is valid until the next one is asked for. */
function* lent(page: WalkedPage): Generator<WalkedPage> {
  try {
    yield page;
  } finally {
    page.lease.release();
  }
}

import type { FilledStretch } from "../../core/gap.ts";
import type { Appended } from "../../core/journal.ts";
import { IDENTITY_BYTES, type PreparedPage } from "../../core/prepare-page.ts";
import { DAY_MS, wholeSecondBefore } from "../../core/time.ts";
import { CAME_TWICE, newWindow, type Pass, type Window, type WindowChange } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { piecesOf, settledAfter, type TimeStretch, withSecondLook } from "../plan/sweep-times.ts";
import { addShown, countsFrom, heldQuery, type ShownCounts } from "./counts.ts";
import type { Served } from "./fetch-page.ts";
import { isUnordered, noteShuffled } from "./order.ts";
import { begunAnew, expectedIn, hasPlace, metIn, movedBy, placesIn, skippedIn } from "./pass.ts";
import { passTakenOver } from "./take-over.ts";

/** Commits a page and what it means for its window; null when the window is done with this pass. */
export async function commitPage(
  context: PollContext,
  window: Window,
  served: Served,
  cursor: string | null,
): Promise<Window | null> {
  const { page, last } = served;
  const pass = window.pass!;
  let next: Window | null = null;
  let isShuffled = false;
  const isExpected = expectedIn(pass, page);
  await append(context, window, served, {
    edge: pass.edge,
    lateBeforeMs: lateBeforeMs(window),
    passedOver: placesIn(pass),
    isExpected,
    change(found): WindowChange {
      const progressed = progress(context, window, served, found, cursor, isExpected);
      isShuffled = (progressed.pass!.shownAgain ?? 0) > 0;
      if (found.againWith !== undefined) {
        const fresh = progressed.pass!.fresh;
        next = { ...progressed, pass: begunAnew(pass, found.againWith, fresh) };
        return { put: [next] };
      }
      if (last) return finish(context, progressed, found);
      const split = pass.pages === 0 ? cutUp(context, progressed, page, found) : null;
      if (split !== null) return split;
      next = progressed;
      return { put: [progressed] };
    },
  });
  if (isShuffled) await noteShuffled(context);
  return next;
}

/** Appends a page of a window to the journal, and reports what was new in it. */
export async function append(
  context: PollContext,
  window: Window,
  { page, lease }: Pick<Served, "page" | "lease">,
  commit: {
    readonly edge: readonly string[];
    readonly lateBeforeMs: number;
    readonly passedOver: readonly TimeStretch[];
    /** Whether the event at this index comes again because we asked for it again. */
    isExpected?(index: number): boolean;
    change(found: Appended): WindowChange;
  },
): Promise<Appended> {
  const { organizations, provider, services } = window.stream;
  const appended = await context.journal.append({
    account: context.account,
    provider,
    organization: organizations.length === 1 ? organizations[0]! : null,
    page,
    lease,
    fetchedAtMs: context.serviceClock.now(),
    reader: window.reader,
    ...(window.reader !== null && { endMs: window.toMs }),
    services,
    isOwn: organizations.length === 0 && provider === null,
    ...commit,
  });
  const expected = commit.isExpected ? appended.repeatedAt.filter(commit.isExpected).length : 0;
  report(context, window, appended, appended.repeated - expected);
  return appended;
}

/** Before this time every new event of the window is late. */
function lateBeforeMs(window: Window): number {
  const unread = window.live ? window.askedMs === null : window.state === "unread";
  return unread ? Number.NEGATIVE_INFINITY : window.toMs;
}

function progress(
  { settings }: PollContext,
  window: Window,
  { page, isSmall }: Served,
  found: Appended,
  cursor: string | null,
  isExpected: (index: number) => boolean,
): Window {
  const pass = window.pass!;
  const expected = found.repeatedAt.filter(isExpected).length;
  const again = pass.shownAgain ?? 0;
  const shownAgain = again + shownBefore(page, pass.cursor, found.repeatedAt, isExpected);
  return {
    ...window,
    late: window.late + found.late,
    repeated: window.repeated + found.repeated - expected,
    changed: window.changed + found.changed,
    pass: {
      ...movedBy(pass, page, cursor, found.repeated, settings.pageSize, isSmall),
      pages: pass.pages + 1,
      events: pass.events + page.scanned.count,
      ...(pass.shown !== undefined && {
        shown: addShown(pass.shown, page, countedIn(window, pass), found.repeatedAt),
      }),
      repeated: pass.repeated + found.repeated,
      changed: pass.changed + found.changed,
      fresh: pass.fresh + found.fresh,
      edge: found.edge,
      ...(shownAgain > 0 && { shownAgain }),
    },
  };
}

/** How many events of a page an earlier page of the same chain of cursors has shown. */
export function shownBefore(
  { identities }: PreparedPage,
  cursor: string | null,
  repeatedAt: readonly number[],
  isExpected: (index: number) => boolean = () => false,
): number {
  if (cursor === null) return 0;
  const at = (index: number) => identities.subarray(index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES);
  const isInPage = (index: number) => {
    for (let before = 0; before < index; before++) if (at(before).equals(at(index))) return true;
    return false;
  };
  return repeatedAt.filter((index) => !isExpected(index) && !isInPage(index)).length;
}

function stretchOf({ fromMs, toMs, live }: Window): TimeStretch {
  return { fromMs, toMs: live ? Number.POSITIVE_INFINITY : toMs };
}

/** A service that ignores the start of a restarted request shows events again that the pass has counted. */
function countedIn(window: Window, pass: Pass): TimeStretch {
  const { fromMs, toMs } = stretchOf(window);
  return { fromMs: hasPlace(pass) ? Math.max(fromMs, wholeSecondBefore(pass.startMs)) : fromMs, toMs };
}

/** A whole pass has reached its last page (R3). */
function finish(context: PollContext, window: Window, found: Appended): WindowChange {
  const { settings, serviceClock } = context;
  const pass = window.pass!;
  // Read again for one reader alone: nothing of it is left to compare later.
  if (window.reader !== null) return { remove: [window.id] };
  if (!window.live) {
    // Events that came twice have taken the places of others, so the window is compared before it is sealed.
    const again = pass.shownAgain ?? 0;
    const reason = again > 0 ? CAME_TWICE : window.reason === CAME_TWICE ? null : window.reason;
    const counts = countsOf(window, found, pass.shown, skippedIn(pass));
    const read = { ...window, pass: null, reason, ...counts };
    const { stream, fromMs, toMs } = window;
    const filled: FilledStretch[] = [{ stream, fromMs, toMs, reasons: ["expired", "refused", "unchecked"] }];
    const ledger = { filled, met: metIn(pass, stream, undefined, { fromMs, toMs }) };
    // It was read again in the course of a sweep, which settles it.
    if (window.state !== "unread") return { put: [read], ...ledger };
    const settled = settledAfter(read, pass, again, settings);
    const next = hasPlace(pass) ? unproven(settled, settings) : withSecondLook(settled, settings);
    return { put: [next], ...ledger };
  }
  // The service's time may have fallen back since the pass began.
  const toMs = Math.max(window.toMs, Math.min(pass.begunMs, serviceClock.now()));
  const moved: Window = { ...window, pass: null, toMs, askedMs: pass.begunMs };
  if (toMs - window.fromMs < settings.windowMs) return { put: [moved] };
  // Grown long enough: it becomes a window of its own, and the live one goes on behind it.
  return {
    put: [{ ...moved, fromMs: toMs, late: 0, repeated: 0, changed: 0, reason: null }],
    add: closedWindow(context, moved),
  };
}

/** Held events are counted from identities (R36). A pass of an older version did not count the events it was shown. */
function countsOf(window: Window, found: Appended, shown: ShownCounts | undefined, skipped: number) {
  if (shown === undefined) return { apiCount: null, heldCount: null, counts: null };
  return countsFrom(
    window.stream,
    shown,
    found.countHeld(heldQuery(window.stream, window, shown, window.counts)),
    skipped,
  );
}

/** The read part of a live window, as a window of its own. */
export function closedWindow(context: PollContext, window: Window) {
  if (window.toMs <= window.fromMs) return [];
  const { late, repeated, changed, reason } = window;
  const more = { late, repeated, changed, reason };
  return cutAtMidnight(window).map(({ fromMs, toMs }, at) => {
    const read = newWindow(window.stream, fromMs, toMs, at === 0 ? more : { reason });
    // The last live pass read only the end of the window: for a part before it, it counts as no sweep (R3).
    const begunMs = Math.min(window.askedMs ?? window.toMs, toMs);
    return settledAfter(read, { begunMs }, 0, context.settings);
  });
}

/** At the last midnight in UTC, so that each day has counts of its own. */
function cutAtMidnight({ fromMs, toMs }: TimeStretch): TimeStretch[] {
  const midnightMs = Math.floor((toMs - 1) / DAY_MS) * DAY_MS;
  if (midnightMs <= fromMs) return [{ fromMs, toMs }];
  return [
    { fromMs, toMs: midnightMs },
    { fromMs: midnightMs, toMs },
  ];
}

/**
 * The read part of a live window that ends here, and its last stretch up to `untilMs` to be read once more: events
 * that are indexed late there were left to its next pass, and its successor may begin too late to see them (R3).
 */
export function endedWindow(context: PollContext, window: Window, untilMs: number) {
  const { stream, toMs } = window;
  // No two windows share a time: an event of both would be counted twice. The window before is swept in any case.
  const fromMs = Math.max(window.fromMs, toMs - context.settings.overlapMs);
  // Never empty: the ledger must still cover the place of a live window that was not read yet, or `since` would apply
  // to it once more (R29).
  const endMs = Math.max(toMs, untilMs, fromMs + 1);
  return [...closedWindow(context, { ...window, toMs: fromMs }), newWindow(stream, fromMs, endMs)];
}

/**
 * All before the last timestamp of a full first page has been read; the rest is cut up for parallel reading (R2).
 * That is true only of a service that answers in the order of time.
 */
function cutUp(
  context: PollContext,
  window: Window,
  page: PreparedPage,
  found: Appended,
): WindowChange | null {
  const { settings } = context;
  if (window.live || window.state !== "unread") return null;
  if (window.pass!.isUnordered === true || isUnordered(context)) return null;
  // A page may hold only foreign events, which are kept apart: nothing shows how far it reached.
  if (page.scanned.count === 0) return null;
  const reachedMs = page.timesMs[page.scanned.count - 1]!;
  const pieces = piecesOf(window, reachedMs);
  if (pieces === null || window.pass!.begunMs < reachedMs) return null;
  const first = { ...window, toMs: reachedMs };
  const shown = addShown({}, page, first, found.repeatedAt);
  const { stream, reader } = window;
  const add = pieces.map(({ fromMs, toMs }, at) => {
    const pass = at === 0 ? passTakenOver(context, window, toMs) : null;
    return newWindow(stream, fromMs, toMs, { reader, pass });
  });
  if (reader !== null) return { remove: [window.id], add };
  const read = settledAfter(
    { ...first, pass: null, ...countsOf(first, found, shown, 0) },
    window.pass!,
    0,
    settings,
  );
  return { put: [unproven(read, settings)], add };
}

/**
 * The time of an event was taken for a place: everything before it counts as read. That is true only if answers
 * rise in time, and pages may rise by chance. So the window is not sealed before it was compared.
 */
function unproven(window: Window, { sweepsMs }: PollContext["settings"]): Window {
  const sweeps = Math.min(window.sweeps, sweepsMs.length - 1);
  return { ...window, state: "read", sweeps, nextMs: window.askedMs };
}

function report(context: PollContext, window: Window, appended: Appended, repeated: number): void {
  const { account, metrics, roster } = context;
  if (appended.fresh > 0) {
    roster.addEvents(account, appended.byOrganization, window.live);
    metrics.add("tidemark_journal_appended_events_total", appended.fresh, { account });
  }
  if (appended.known > 0) metrics.add("tidemark_journal_known_events_total", appended.known, { account });
  if (repeated > 0) metrics.add("tidemark_journal_repeated_events_total", repeated, { account });
  if (appended.changed > 0)
    metrics.add("tidemark_journal_changed_events_total", appended.changed, { account });
  if (appended.late > 0) metrics.add("tidemark_journal_late_events_total", appended.late, { account });
}

import { gapKey, isUnnamed, type MetEvents, type NewGap, ONE_EVENT } from "../../core/gap.ts";
import type { TimePlace } from "../../core/places.ts";
import type { PreparedPage } from "../../core/prepare-page.ts";
import { wholeSecondAfter } from "../../core/time.ts";
import type { Pass, PassBegin, Stream } from "../../core/window.ts";
import { nameOf } from "./page-names.ts";
import { RepeatedPageError } from "./source.ts";

/** The names of so many skipped events are stored with a pass. */
const SKIPS_MAX = 200;

/**
 * A pass reads a stretch of a stream's time line once, in rising order of time. It is a value; each of its
 * steps returns the next one. The journal stores it with the page that caused the step.
 *
 * - begin: no cursor yet.
 * - page: the cursor becomes the page's token and `reachedMs` the time of its last event. The same page again means
 *   a restart: a service that ignores tokens would be read without end.
 * - restart: the cursor is dropped and a new request starts at `reachedMs`. The events of that millisecond
 *   come again; `edge` recognizes them. Used for a refused cursor, and for every change of the page size,
 *   because a cursor is bound to its exact query (R1).
 * - unordered: the times of a page fall, or it begins before the page before it ended. From then on no time shows
 *   how far the pass came: a restart begins at the pass's own start, and pages do not grow again.
 * - anew: an event was taken for a changed copy, and a later page shows that it is a twin (R10). The pass begins
 *   at its own start, with a mark at their identity.
 * - halve: a page failed. The same place again with half the page size. `suspects` counts the events among
 *   which the cause must be; when all of them were read, the failure has passed.
 * - grow: outside of a search, the page size doubles after a page so small that four times its bytes would have been
 *   read too: pages of large events would grow and fail in turn. That needs a later time than that of the request:
 *   else the page that failed would be asked for without end.
 * - skip: a single event failed and its token leads past it. Pages are full again as soon as the time is
 *   certain to be past that event: two distinct times after it. After a restart, a skipped event before the pass's place
 *   may come again; one behind it certainly does, and is forgotten until then.
 */
export function beginPass(
  startMs: number,
  endMs: number | null,
  limit: number,
  { begunMs, localMs, missing }: PassBegin & Pick<Pass, "missing">,
): Pass {
  return {
    startMs,
    endMs,
    limit,
    begunMs,
    localMs,
    missing,
    cursor: null,
    pages: 0,
    events: 0,
    repeated: 0,
    changed: 0,
    fresh: 0,
    shown: {},
    edge: [],
    reachedMs: startMs,
  };
}

/** The place of a pass after a page; the caller adds what the journal counted. */
export function movedBy(
  pass: Pass,
  page: PreparedPage,
  cursor: string | null,
  repeated: number,
  limitMax: number,
  isSmall = false,
): Pass {
  const { count } = page.scanned;
  const lastPage = nameOf(page);
  if (pass.cursor !== null && lastPage !== undefined && lastPage === pass.lastPage)
    throw new RepeatedPageError();
  const isUnordered = pass.isUnordered === true || !isInOrder(pass, page);
  const reachedMs = isUnordered ? ownStartMs(pass) : reachedBy(pass, page);
  const suspects = Math.max(0, (pass.suspects ?? 0) - (count - repeated));
  const resumeMs = pass.resumeMs === null && count > 0 ? reachedMs : pass.resumeMs;
  const latestMs = isUnordered ? undefined : latestOf(page, pass.latestMs);
  const place = { cursor, reachedMs, latestMs, suspects, resumeMs, lastPage };
  const moved = { ...pass, ...place, ...(isUnordered && { isUnordered }) };
  if (isUnordered || pass.limit >= limitMax) return moved;
  if (typeof resumeMs === "number" && reachedMs > resumeMs)
    return { ...restarted(moved, limitMax), suspects: undefined, resumeMs: undefined };
  if (!isSmall || suspects > 0 || resumeMs !== undefined || !hasMoved(moved)) return moved;
  return restarted(moved, Math.min(limitMax, pass.limit * 2));
}

/** Drops the cursor; the request goes on from the last event's time. The service refuses a start in the future. */
export function restarted(pass: Pass, limit: number): Pass {
  // A pass of an older version does not know how far it came: it begins anew, with dedupe.
  if (pass.reachedMs === undefined) return beginPass(pass.startMs, pass.endMs, limit, pass);
  if (pass.isUnordered === true) {
    const anew = beginPass(ownStartMs(pass), pass.endMs, limit, pass);
    return { ...anew, fresh: pass.fresh, isUnordered: true };
  }
  const startMs = Math.max(pass.startMs, Math.min(pass.reachedMs, pass.begunMs));
  const place = { startMs, firstMs: ownStartMs(pass), reachedMs: startMs, latestMs: undefined };
  const anew = { ...pass, ...place, limit, cursor: null };
  const skips = pass.skips?.filter((skip) => isBefore(anew, beginOf(skip)));
  return { ...anew, ...(skips !== undefined && { skips }) };
}

/** The pass from its own start, with another edge: an event that it has passed is to be looked at again. */
export function begunAnew(pass: Pass, edge: readonly string[], fresh: number): Pass {
  const { endMs, limit, isUnordered } = pass;
  const anew = { ...beginPass(ownStartMs(pass), endMs, limit, pass), edge, fresh };
  return isUnordered === true ? { ...anew, isUnordered } : anew;
}

function ownStartMs({ firstMs, startMs }: Pass): number {
  return firstMs ?? startMs;
}

/** Whether a request was begun anew at the time of an event: everything before counts as read only if answers rise in time. */
export function hasPlace(pass: Pass): boolean {
  return pass.startMs > ownStartMs(pass);
}

/**
 * Which events of the next page come again because the request was begun anew: all of its first page, and those of its
 * start's time, which may fill more pages. These are no repeats of the service's own.
 */
export function expectedIn(pass: Pass, { timesMs }: PreparedPage): (index: number) => boolean {
  const isRestart = pass.cursor === null && pass.pages > 0;
  const isBegunAnew = pass.firstMs !== undefined;
  return (index) => isRestart || (isBegunAnew && timesMs[index]! <= pass.startMs);
}

/** Whether a restart would begin later than the request under way. */
export function hasMoved(pass: Pass): boolean {
  return restarted(pass, pass.limit).startMs > pass.startMs;
}

/** null: it is a single event already. */
export function halved(pass: Pass): Pass | null {
  if (pass.limit <= 1) return null;
  // All suspects were read, and still a page failed: the cause is another event.
  const suspects = pass.suspects === undefined || pass.suspects <= 0 ? pass.limit : pass.suspects;
  return { ...restarted(pass, Math.floor(pass.limit / 2)), suspects: Math.min(suspects, pass.limit) };
}

/** Whether what was skipped there stays skipped, although the pass goes on from its start. */
export function isBefore(pass: Pass, fromMs: number): boolean {
  return hasPlace(pass) && fromMs < pass.startMs;
}

/** Whether an event that is shown now was shown before: a request may show more than it asks for. */
export function isShownAgain(pass: Pass): boolean {
  return hasPlace(pass) && (pass.latestMs ?? Number.NEGATIVE_INFINITY) < pass.startMs;
}

/** Moves past an event that cannot be read. Without a gap it is not counted: another window or an earlier page has it. */
export function skippedOne(pass: Pass, cursor: string, gap: NewGap | undefined): Pass {
  const { skips = [], skipped = 0 } = pass;
  const skip = gap === undefined ? undefined : skipOf(gap);
  const isCounted = skip === undefined || (skips.includes(skip) && !isUnnamed(gap!));
  return {
    ...pass,
    cursor,
    pages: pass.pages + 1,
    events: pass.events + 1,
    skips: isCounted || skips.length >= SKIPS_MAX ? skips : [...skips, skip],
    skipped: skipped + (!isCounted && skips.length >= SKIPS_MAX ? 1 : 0),
    suspects: undefined,
    resumeMs: null,
  };
}

/** A skipped event in its pass. Earlier versions noted the bytes of one without a name too, and no time of one with it. */
function skipOf(gap: NewGap): string {
  return isUnnamed(gap) ? `@${gap.fromMs}-${gap.toMs}` : `${gapKey(gap)} ${gap.fromMs}`;
}

const UNNAMED = /@(-?\d+)-(-?\d+)$/;

function beginOf(skip: string): number {
  const [, fromMs = Number.NEGATIVE_INFINITY] = UNNAMED.exec(skip) ?? / (-?\d+)$/.exec(skip) ?? [];
  return Number(fromMs);
}

/** The places of the events without a name that the pass has skipped. */
export function placesIn({ skips = [] }: Pass): readonly TimePlace[] {
  return skips.flatMap((skip) => {
    const [, fromMs, toMs] = UNNAMED.exec(skip) ?? [];
    return fromMs === undefined ? [] : [{ fromMs: Number(fromMs), toMs: Number(toMs) }];
  });
}

/** All that the pass has skipped, and the `next` one, for the ledger. `whole`: it has reached its end. */
export function metIn(pass: Pass, stream: Stream, next?: NewGap, whole?: TimePlace): MetEvents {
  const { skips = [], skipped = 0 } = pass;
  const like = { stream, reason: "unreadable", detail: `${ONE_EVENT} is not readable`, events: 1 } as const;
  const gaps = [...placesIn(pass).map((place) => ({ ...like, ...place })), ...(next ? [next] : [])];
  return {
    stream,
    begunMs: pass.localMs,
    gaps: gaps.filter(isUnnamed),
    named: [...skips.map((skip) => skip.split(" ")[0]!), ...(next ? [gapKey(next)] : [])],
    whole: skipped === 0 ? whole : undefined,
  };
}

/** How many different events the pass has skipped. */
export function skippedIn({ skips = [], skipped = 0 }: Pass): number {
  return skips.length + skipped;
}

/**
 * The last time of the page, whose events rise in time as asked for. A service that ignores the end of a range sends
 * events behind it: the pass's place stays at its end, because a request that starts behind its end is refused.
 */
function reachedBy(pass: Pass, page: PreparedPage): number {
  const reachedMs = pass.reachedMs ?? pass.startMs;
  return Math.min(latestOf(page, reachedMs) ?? reachedMs, lastStartMs(pass.endMs));
}

/** The latest readable time of the page, or else `latestMs`, if that is later. */
function latestOf({ scanned }: PreparedPage, latestMs: number | undefined): number | undefined {
  let found = latestMs;
  for (const timeMs of scanned.timesMs.subarray(0, scanned.count))
    if (timeMs > (found ?? Number.NEGATIVE_INFINITY)) found = timeMs;
  return found;
}

/** The latest start of a request for a range with this end, which is rounded up to a whole second. */
export function lastStartMs(endMs: number | null): number {
  return endMs === null ? Number.POSITIVE_INFINITY : wholeSecondAfter(endMs) - 1;
}

/** A request's first page may begin before its start, because a service may cut off fractions of a second. */
function isInOrder({ cursor, reachedMs, startMs }: Pass, { scanned }: PreparedPage): boolean {
  const isKnown = cursor !== null && reachedMs !== undefined && reachedMs !== startMs;
  return isRising(scanned, isKnown ? reachedMs : Number.NEGATIVE_INFINITY);
}

/**
 * Whether no event is older than the one before it, or than `fromMs`. Events without a readable time do not count. An
 * event of a whole second may follow a later one of that second: a service may order by fractions that it does not show.
 */
export function isRising(
  { timesMs, count }: Pick<PreparedPage["scanned"], "timesMs" | "count">,
  fromMs = Number.NEGATIVE_INFINITY,
): boolean {
  let lastMs = fromMs;
  for (let index = 0; index < count; index++) {
    const timeMs = timesMs[index]!;
    if (timeMs < lastMs && !(timeMs % 1000 === 0 && lastMs - timeMs < 1000)) return false;
    if (timeMs > lastMs) lastMs = timeMs;
  }
  return true;
}

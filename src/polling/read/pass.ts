import type { PreparedPage } from "../../core/prepare-page.ts";
import { wholeSecondAfter } from "../../core/time.ts";
import type { Pass, PassBegin } from "../../core/window.ts";
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
 *   which the bad one must be; when all of them were read, the failure has passed and pages are full again. That
 *   needs a later time than that of the request: else the full page that failed would be asked for without end.
 * - skip: a single event failed and its token leads past it. Pages are full again as soon as the time is
 *   certain to be past that event: two distinct times after it.
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
): Pass {
  const { count } = page.scanned;
  const lastPage = nameOf(page);
  if (pass.cursor !== null && lastPage !== undefined && lastPage === pass.lastPage)
    throw new RepeatedPageError();
  const isUnordered = pass.isUnordered === true || !isInOrder(pass, page);
  const reachedMs = isUnordered ? ownStartMs(pass) : reachedBy(pass, page);
  const suspects = pass.suspects === undefined ? undefined : pass.suspects - (count - repeated);
  const resumeMs = pass.resumeMs === null && count > 0 ? reachedMs : pass.resumeMs;
  const place = { cursor, reachedMs, suspects, resumeMs, lastPage };
  const moved = { ...pass, ...place, ...(isUnordered && { isUnordered }) };
  const isPast =
    (suspects !== undefined && suspects <= 0 && hasMoved(moved)) ||
    (typeof resumeMs === "number" && reachedMs > resumeMs);
  if (!isPast || isUnordered || pass.limit >= limitMax) return moved;
  return { ...restarted(moved, limitMax), suspects: undefined, resumeMs: undefined };
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
  // Events without a name that were skipped behind that place come again, and nothing else shows that they are the same.
  const skips = pass.skips?.filter((name) => (unnamedOf(name)?.fromMs ?? Number.NEGATIVE_INFINITY) < startMs);
  const place = { startMs, firstMs: ownStartMs(pass), reachedMs: startMs, limit, cursor: null };
  return { ...pass, ...place, ...(skips !== undefined && { skips }) };
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

/** null: it is a single event already. `isSearch`: a bad event is looked for, so pages grow again behind it. */
export function halved(pass: Pass, isSearch: boolean): Pass | null {
  if (pass.limit <= 1) return null;
  const smaller = restarted(pass, Math.floor(pass.limit / 2));
  if (!isSearch) return smaller;
  // All suspects were read, and still a page failed: the bad event is another one.
  const suspects = pass.suspects === undefined || pass.suspects <= 0 ? pass.limit : pass.suspects;
  return { ...smaller, suspects: Math.min(suspects, pass.limit) };
}

/** Moves past an event that cannot be read. Without a name it is not counted: it belongs to another window. */
export function skippedOne(pass: Pass, cursor: string, name: string | undefined): Pass {
  const { skips = [], skipped = 0 } = pass;
  const isCounted = name === undefined || (skips.includes(name) && unnamedOf(name) === undefined);
  return {
    ...pass,
    cursor,
    pages: pass.pages + 1,
    events: pass.events + 1,
    skips: isCounted || skips.length >= SKIPS_MAX ? skips : [...skips, name],
    skipped: skipped + (!isCounted && skips.length >= SKIPS_MAX ? 1 : 0),
    suspects: undefined,
    resumeMs: null,
  };
}

/** Without an event that the pass has skipped before its name was told. */
export function withoutSkip(pass: Pass, key: string): Pass {
  const at = pass.skips?.findIndex((name) => unnamedOf(name)?.key === key) ?? -1;
  return at < 0 ? pass : { ...pass, skips: pass.skips!.toSpliced(at, 1) };
}

interface UnnamedSkip {
  readonly key: string;
  readonly fromMs: number;
  readonly toMs: number;
}

/** The events without a name that the pass has skipped: their bytes, and their places. */
export function unnamedIn({ skips = [] }: Pass): readonly UnnamedSkip[] {
  return skips.map(unnamedOf).filter((skip) => skip !== undefined);
}

function unnamedOf(name: string): UnnamedSkip | undefined {
  const [, key, fromMs, toMs] = /^(\w+)@(-?\d+)-(-?\d+)$/.exec(name) ?? [];
  return key === undefined ? undefined : { key, fromMs: Number(fromMs), toMs: Number(toMs) };
}

/** How many different events the pass has skipped. */
export function skippedIn({ skips = [], skipped = 0 }: Pass): number {
  return skips.length + skipped;
}

/**
 * The last time of the page, whose events rise in time as asked for. A service that ignores the end of a range sends
 * events behind it: the pass's place stays at its end, because a request that starts behind its end is refused.
 */
function reachedBy(pass: Pass, { scanned }: PreparedPage): number {
  let reachedMs = pass.reachedMs ?? pass.startMs;
  for (const timeMs of scanned.timesMs.subarray(0, scanned.count)) if (timeMs > reachedMs) reachedMs = timeMs;
  return Math.min(reachedMs, lastStartMs(pass.endMs));
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

import { byOwner } from "../../core/by-owner.ts";
import { gapKey, isUnnamed, type NewGap } from "../../core/gap.ts";
import type { LedgerNow } from "../../core/journal.ts";
import { UNDATED_MS } from "../../core/prepare-page.ts";
import { DAY_MS, wholeSecondAfter, wholeSecondBefore } from "../../core/time.ts";
import { CAME_TWICE, type MissingEvent, newWindow, type Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { isHistoryLimit } from "../limits/history-alarm.ts";
import { SWEEP } from "../limits/pace.ts";
import {
  dueAfterCut,
  isInside,
  isLastSweepOfDay,
  settledSweep,
  type TimeStretch,
} from "../plan/sweep-times.ts";
import { type Comparison, compareWindow } from "./compare-window.ts";
import {
  combined,
  countsFrom,
  heldQuery,
  largerCounts,
  type PassCounts,
  withFormer,
  withMissing,
  withoutMissing,
  withShownBefore,
  withSkips,
} from "./counts.ts";
import { countsOfParts, cutUnchecked, difference, horizonMs } from "./forgotten.ts";
import { warnOfMissing } from "./missing-alarms.ts";
import { gapOf, heldUnreturned, namedGaps, notYetMet, recheck } from "./missing-events.ts";
import { faultIn } from "./probe.ts";
import { readSlice, type SliceEvent } from "./read-slice.ts";
import { firstPass, readWindow } from "./read-window.ts";
import { IDENTITY_FIELDS, isPassedOver } from "./skip-event.ts";
import { pagesOf } from "./walk.ts";

/** With more slices than this the whole window is read again: that costs less. */
const SLICES_MAX = 50;

/**
 * Compares a window's identities with the service's, asking for the identity fields alone, and fetches what
 * is missing by re-reading the smallest slices of time around it (R9). Counts prove nothing: one event may
 * have expired while another came late (R4). A long window is compared for the last time a day at a time,
 * as each day nears the service's retention. A part that the service has forgotten is cut off (R30).
 */
export async function sweepWindow(context: PollContext, window: Window, signal: AbortSignal): Promise<void> {
  const { settings, journal } = context;
  if (window.fromMs < horizonMs(context)) return cutUnchecked(context, window);
  // A sweep that turned into reading the window again, and was interrupted, goes on with that.
  if (window.pass !== null) {
    const { missing = [], ...begun } = window.pass;
    const named = await namedGaps(context, window);
    return readAgain(context, window, { doubtful: missing, named, begun }, signal);
  }
  const stretch = stretchOf(context, window);
  const seen = await compareWindow(context, window, stretch, signal);
  if (seen.isForgotten) return cutUnchecked(context, window);
  if (seen.slices === null || seen.slices.length > SLICES_MAX)
    return readAgain(context, await cutForReading(context, window, stretch), seen, signal);
  const slices = { ...seen, slices: seen.slices };
  const fetched = await fetchMissing(context, window, stretch, slices, signal).catch((error: unknown) => {
    if (signal.aborted || faultIn(context, error).kind !== "bad_request") throw error;
    return null;
  });
  // A slice that is refused says nothing about the organization or the account: the whole window is asked for.
  if (fetched === null)
    return readAgain(context, await cutForReading(context, window, stretch), seen, signal);
  const { found, newlyMissing, awaited, shownAgain, countedIn, isForgotten, passedOver, ...ledger } = fetched;
  const late = window.late + found;
  if (isForgotten) return cutUnchecked(context, { ...window, late });
  const settled = (compared: Window) =>
    settledSweep(
      window,
      { ...compared, late, reason: reasonAfter(window, found + awaited, shownAgain, passedOver) },
      seen.begun,
      found + awaited + shownAgain,
      settings,
    );
  // Counted where it is stored: other reads may have found events of this time since the comparison (R36).
  await journal.changeWindows((now) => {
    const counts = countedIn(now);
    const stored = now.window(window.id) ?? window;
    if (stretch.toMs === window.toMs) {
      const larger = isGrownBy(found, window, stored)
        ? largerCounts(window, counts, found)
        : largerCounts(stored, counts, 0);
      return { put: [settled({ ...window, ...larger })], ...ledger };
    }
    const day = { counts: withShownBefore(counts, stored), stored, newlyMissing };
    const { first, rest } = cutOff(context, window, stretch.toMs, day);
    return { put: [settled(first)], add: [rest], ...ledger };
  });
  if (passedOver + seen.named.length > 0) await warnOfMissing(context);
}

/**
 * The doubt about events that came twice ends with a comparison in which nothing does, and that finds nothing. A comparison
 * without gaps ends the reason of an event that was passed over, and any ends that of a plan that kept less.
 */
function reasonAfter({ reason }: Window, found: number, shownAgain: number, gaps: number): string | null {
  if (shownAgain > 0) return CAME_TWICE;
  if ((isPassedOver(reason) && gaps === 0) || isHistoryLimit(reason)) return null;
  return reason === CAME_TWICE && found === 0 ? null : reason;
}

/** Whether nothing but the events that this sweep has found was added to the window's counts. */
function isGrownBy(found: number, before: Window, stored: Window): boolean {
  return (stored.heldCount ?? 0) <= (before.heldCount ?? 0) + found;
}

/** The names of so many events are stored with the pass. */
const MISSING_MAX = 200;

/**
 * Reads the whole window. An event that the comparison showed and that is not held after that opens it again. The
 * pass keeps these events, so that an interruption does not forget them; its end alone settles nothing.
 */
async function readAgain(
  context: PollContext,
  window: Window,
  seen: Pick<Comparison, "doubtful" | "named" | "begun">,
  signal: AbortSignal,
): Promise<void> {
  const { journal, settings } = context;
  const kept = seen.doubtful.slice(0, MISSING_MAX);
  const pass = window.pass ?? { ...firstPass(context, window), missing: kept };
  if (!(await readWindow(context, { ...window, pass }, SWEEP, signal))) return;
  const isNamed = new Set(seen.doubtful.map(({ detail }) => detail));
  const skips = (await namedGaps(context, window)).filter(({ detail }) => !isNamed.has(detail));
  const { missing, gaps, filled } = await recheck(context, window, seen.doubtful, seen.named, skips);
  // A whole pass ends the gap that says since when an event is missing, so there is one more try here.
  const fresh = missing.filter(({ detail }) => !seen.named.some((gap) => gap.detail === detail));
  await journal.changeWindows((now) => {
    const read = now.window(window.id);
    if (read === undefined) return {};
    const late = pass.fresh + read.late - window.late + (read.reason === CAME_TWICE ? 1 : 0);
    const found = late + fresh.length;
    const settled = settledSweep(window, withMissing(read, missing), seen.begun, found, settings);
    return { put: [settled], gaps, filled };
  });
  await warnOfMissing(context);
}

/** Only the compared day is read again. The whole of a long window would stay due, and be read again without end. */
async function cutForReading(context: PollContext, window: Window, { toMs }: TimeStretch): Promise<Window> {
  if (toMs === window.toMs) return { ...window, pass: null };
  let first = window;
  await context.journal.changeWindows((now) => {
    const parts = countsOfParts(now, window, toMs);
    const { state, askedMs, sweeps } = window;
    first = { ...window, toMs, ...parts.first };
    const rest = newWindow(window.stream, toMs, window.toMs, { state, askedMs, sweeps, ...parts.rest });
    return { put: [first], add: [{ ...rest, nextMs: dueAfterCut(rest, context.settings) }] };
  });
  return first;
}

/** Reads the slices in which something is missing, then counts both sides of the whole stretch. */
async function fetchMissing(
  context: PollContext,
  window: Window,
  stretch: TimeStretch,
  seen: Comparison & { readonly slices: readonly TimeStretch[] },
  signal: AbortSignal,
) {
  const isSliced = (timeMs: number) => seen.slices.some((slice) => isInside(slice, timeMs));
  const skips = seen.skips.filter((gap) => isUnnamed(gap) || !isSliced(gap.fromMs));
  const shown = seen.events.countBy((timeMs) => !isSliced(timeMs));
  const show = (owner: string) => {
    shown[owner] = (shown[owner] ?? 0) + 1;
  };
  const returnedEvents: SliceEvent[] = [];
  let found = 0;
  let shownAgain = 0;
  let isForgotten = false;
  for (const slice of seen.slices) {
    const read = await readSlice(context, window, slice, signal);
    found += read.fresh;
    shownAgain += read.shownAgain;
    isForgotten ||= read.isForgotten;
    for (const event of read.events) {
      returnedEvents.push(event);
      show(event.owner);
    }
    const isCounted = ({ detail }: NewGap) => skips.some((gap) => gap.detail === detail);
    const unnamed = read.skips.filter(isUnnamed);
    skips.push(...read.skips.filter((gap) => !isUnnamed(gap) && !isCounted(gap)));
    skips.push(...(await notYetMet(context, window, unnamed, seen.skips, seen.doubtful)));
  }
  const { missing, awaited, gaps, filled } = await recheck(context, window, seen.doubtful, seen.named, skips);
  const named = [...skips.filter((gap) => !isUnnamed(gap)), ...gaps];
  const met = {
    stream: window.stream,
    begunMs: seen.begun.localMs,
    gaps: skips.filter(isUnnamed),
    named: named.map(gapKey),
    whole: stretch,
    readable: await readableBeyond(context, window, stretch, signal),
  };
  // What is missing is shown, and not held.
  const returned = byOwner(shown);
  for (const { timeMs, owner } of missing) if (timeMs !== UNDATED_MS) show(owner);
  for (const { owner } of heldUnreturned(seen.withoutIds, returnedEvents, missing, skips)) show(owner);
  const query = heldQuery(window.stream, stretch, shown, window.counts);
  return {
    found,
    shownAgain,
    isForgotten,
    // The former count has the events that a gap has named.
    newlyMissing: missing.filter(
      (event) => event.timeMs !== UNDATED_MS && gapOf(seen.named, event) === undefined,
    ),
    awaited,
    passedOver: skips.length + gaps.length,
    // It is compared now, after all.
    filled: [...filled, { stream: window.stream, ...stretch, reasons: ["unchecked"] as const }],
    gaps: named,
    met,
    countedIn: (now: LedgerNow) => {
      const stored = now.window(window.id) ?? window;
      const held = now.countHeld({ ...query, atMost: withFormer(stored, stretch, returned) });
      const [counted, ownerless] = withSkips(window, shown, skips);
      return countsFrom(window.stream, counted, held, ownerless);
    },
  };
}

/** The gaps without a name that reach beyond the stretch, and whose whole time is readable now: nothing of it is missing. */
async function readableBeyond(
  context: PollContext,
  window: Window,
  { fromMs, toMs }: TimeStretch,
  signal: AbortSignal,
): Promise<number[]> {
  const readable: number[] = [];
  const { organizations, provider } = window.stream;
  for (const gap of await namedGaps(context, { fromMs, toMs })) {
    if (!isUnnamed(gap) || gap.cameMs === null || gap.provider !== provider) continue;
    if (gap.organization !== null && !organizations.includes(gap.organization)) continue;
    if (gap.fromMs >= wholeSecondBefore(fromMs) && gap.toMs <= wholeSecondAfter(toMs)) continue;
    const skips: NewGap[] = [];
    const walk = { stretch: gap, fields: IDENTITY_FIELDS, signal, skips };
    let isKept = true;
    for await (const { isForgotten } of pagesOf(context, window, walk)) isKept = !isForgotten;
    if (isKept && !skips.some(isUnnamed)) readable.push(gap.id!);
  }
  return readable;
}

function stretchOf({ settings }: PollContext, window: Window): TimeStretch {
  const { fromMs, toMs } = window;
  return { fromMs, toMs: isLastSweepOfDay(window, settings) ? fromMs + DAY_MS : toMs };
}

/**
 * The compared day becomes a window of its own; the rest keeps what is left of the counts. Events that the sweep has
 * found are in the stored counts already, those that it misses are not.
 */
function cutOff(
  context: PollContext,
  window: Window,
  edgeMs: number,
  {
    counts,
    stored,
    newlyMissing,
  }: {
    readonly counts: PassCounts;
    readonly stored: Window;
    readonly newlyMissing: readonly MissingEvent[];
  },
) {
  const left = (whole: number | null, part: number) => (whole === null ? null : difference(whole, part));
  const known = withoutMissing(counts, newlyMissing);
  const rest = newWindow(window.stream, edgeMs, window.toMs, {
    state: window.state,
    askedMs: window.askedMs,
    sweeps: window.sweeps,
    apiCount: left(stored.apiCount, known.apiCount),
    heldCount: left(stored.heldCount, known.heldCount),
    counts: combined(stored.counts, known.counts, difference),
  });
  return {
    first: { ...window, toMs: edgeMs, ...counts },
    rest: { ...rest, nextMs: dueAfterCut(rest, context.settings) },
  };
}

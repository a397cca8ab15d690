import type { NewGap } from "../../core/gap.ts";
import { UNDATED_MS } from "../../core/prepare-page.ts";
import { FIELD, fieldText } from "../../core/scanner.ts";
import { DAY_MS } from "../../core/time.ts";
import { newWindow, type Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { SWEEP } from "../limits/pace.ts";
import { SLICE_MS_MAX, settledAfter, sweepDueMs, type TimeStretch } from "../plan/sweep-times.ts";
import { append } from "./commit-page.ts";
import {
  combined,
  countsFrom,
  heldQuery,
  identityBytesAt,
  ownerAt,
  type PassCounts,
  withFormer,
} from "./counts.ts";
import { countsOfParts, cutUnchecked, difference, horizonMs } from "./forgotten.ts";
import { faultIn } from "./probe.ts";
import { readWindow } from "./read-window.ts";
import { createRepeats } from "./repeats.ts";
import { IDENTITY_FIELDS } from "./skip-event.ts";
import { createUndated } from "./undated.ts";
import { pagesOf } from "./walk.ts";

/** Slices closer together than this are read as one. */
const SLICE_GAP_MS = 1000;
/** With more slices than this the whole window is read again: that costs less. */
const SLICES_MAX = 50;

/**
 * Compares a window's identities with the service's, asking for the identity fields alone, and fetches what
 * is missing by re-reading the smallest slices of time around it (R9). Counts prove nothing: one event may
 * have expired while another came late (R4). A long window is compared for the last time a day at a time,
 * as each day nears the service's retention. A part that the service has forgotten is cut off (R30).
 */
export async function sweepWindow(
  context: PollContext,
  window: Window,
  active: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<void> {
  const { settings, journal } = context;
  if (window.fromMs < horizonMs(context)) return cutUnchecked(context, window, active);
  // A sweep that turned into reading the window again, and was interrupted, goes on with that.
  if (window.pass !== null) return readWindow(context, window, SWEEP, signal);
  const stretch = stretchOf(context, window);
  const seen = await compare(context, window, stretch, signal);
  if (seen.isForgotten) return cutUnchecked(context, window, active);
  if (seen.slices === null || seen.slices.length > SLICES_MAX)
    return readWindow(context, await cutForReading(context, window, stretch), SWEEP, signal);
  const slices = { ...seen, slices: seen.slices };
  const fetched = await fetchMissing(context, window, stretch, slices, signal).catch((error: unknown) => {
    if (signal.aborted || faultIn(context, error).kind !== "bad_request") throw error;
    return null;
  });
  // A slice that is refused says nothing about the organization or the account: the whole window is asked for.
  if (fetched === null)
    return readWindow(context, await cutForReading(context, window, stretch), SWEEP, signal);
  const { found, counts, gaps, isForgotten } = fetched;
  const late = window.late + found;
  if (isForgotten) return cutUnchecked(context, { ...window, late }, active);
  if (stretch.toMs === window.toMs) {
    const compared = { ...window, ...largerCounts(window, counts), late };
    await journal.changeWindows({ put: [settledAfter(compared, seen.begunMs, found, settings)], gaps });
    return;
  }
  const { first, rest } = cutOff(context, window, stretch.toMs, counts, found);
  await journal.changeWindows({
    put: [settledAfter({ ...first, late }, seen.begunMs, found, settings)],
    add: [rest],
    gaps,
  });
}

/** Only the compared day is read again. The whole of a long window would stay due, and be read again without end. */
async function cutForReading(context: PollContext, window: Window, { toMs }: TimeStretch): Promise<Window> {
  if (toMs === window.toMs) return { ...window, pass: null };
  const parts = await countsOfParts(context, window, toMs);
  const { state, askedMs, sweeps } = window;
  const first = { ...window, toMs, ...parts.first };
  const rest = newWindow(window.stream, toMs, window.toMs, { state, askedMs, sweeps, ...parts.rest });
  const nextMs = sweepDueMs(rest, sweeps, context.settings);
  await context.journal.changeWindows({ put: [first], add: [{ ...rest, nextMs }] });
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
  const skips = seen.skips.filter((gap) => !isSliced(gap.fromMs));
  const shown: Record<string, number> = {};
  const show = (owner: string) => {
    shown[owner] = (shown[owner] ?? 0) + 1;
  };
  for (const { timeMs, owner } of seen.events) if (!isSliced(timeMs)) show(owner);
  let found = 0;
  let isForgotten = false;
  for (const slice of seen.slices) {
    const read = await readSlice(context, window, slice, signal);
    found += read.fresh;
    isForgotten ||= read.isForgotten;
    for (const owner of read.owners) show(owner);
    skips.push(...read.skips);
  }
  const query = heldQuery(window.stream, stretch, shown);
  const held = await context.journal.countHeld({ ...query, atMost: withFormer(window, stretch, shown) });
  return {
    found,
    isForgotten,
    gaps: window.reader === null ? skips : [],
    counts: countsFrom(window.stream, shown, held, skips.length),
  };
}

function stretchOf({ settings }: PollContext, { fromMs, toMs, sweeps }: Window): TimeStretch {
  const last = sweeps >= settings.sweepsMs.length;
  return { fromMs, toMs: last && toMs - fromMs > SLICE_MS_MAX ? fromMs + DAY_MS : toMs };
}

function isInside({ fromMs, toMs }: TimeStretch, timeMs: number): boolean {
  return timeMs >= fromMs && timeMs < toMs;
}

/** When the service shows fewer events than before, it has forgotten some: the former count stays. */
function largerCounts(window: Window, counts: PassCounts): PassCounts {
  return {
    ...counts,
    apiCount: Math.max(counts.apiCount, window.apiCount ?? 0),
    counts: combined(counts.counts, window.counts ?? {}, (now, before, side) =>
      side === "api" ? Math.max(now, before) : now,
    ),
  };
}

/** The compared day becomes a window of its own; the rest keeps what is left of the counts. */
function cutOff(context: PollContext, window: Window, edgeMs: number, counts: PassCounts, found: number) {
  const left = (whole: number | null, part: number) => (whole === null ? null : Math.max(0, whole - part));
  const rest = newWindow(window.stream, edgeMs, window.toMs, {
    state: window.state,
    askedMs: window.askedMs,
    sweeps: window.sweeps,
    apiCount: left(window.apiCount, counts.apiCount - found),
    heldCount: left(window.heldCount, counts.heldCount - found),
    counts: combined(window.counts, counts.counts, difference),
  });
  return {
    first: { ...window, toMs: edgeMs, ...counts },
    rest: { ...rest, nextMs: sweepDueMs(rest, rest.sweeps, context.settings) },
  };
}

interface Comparison {
  /** When the first page was asked for. */
  readonly begunMs: number;
  /** The service forgot a part before it could be compared. */
  readonly isForgotten: boolean;
  /** Every event with a distinct identity. */
  readonly events: readonly { readonly timeMs: number; readonly owner: string }[];
  /** Events that are not readable. */
  readonly skips: readonly NewGap[];
  /** Where something is missing, or identities alone do not decide; null: nearly everywhere. */
  readonly slices: readonly TimeStretch[] | null;
}

async function compare(
  context: PollContext,
  window: Window,
  stretch: TimeStretch,
  signal: AbortSignal,
): Promise<Comparison> {
  let withoutId = 0;
  const events: { timeMs: number; owner: string }[] = [];
  const skips: NewGap[] = [];
  const doubtful: TimeStretch[] = [];
  const undated = createUndated(context, stretch);
  let repeats = createRepeats();
  const walk = { stretch, fields: IDENTITY_FIELDS, signal, skips };
  let begunMs: number | undefined;
  let isForgotten = false;
  for await (const walked of pagesOf(context, window, walk)) {
    const { page, askedMs, againMs } = walked;
    begunMs ??= askedMs;
    isForgotten = walked.isForgotten;
    if (againMs === stretch.fromMs) {
      // Everything comes again.
      events.length = 0;
      doubtful.length = 0;
      withoutId = 0;
      repeats = createRepeats();
    } else if (againMs !== undefined) repeats.beginAgain(againMs);
    const held = await context.journal.held(page.organizations, ...spanOf(page.timesMs));
    await undated.look(page, doubtful);
    for (let index = 0; index < page.scanned.count; index++) {
      const timeMs = page.timesMs[index]!;
      if (timeMs < stretch.fromMs || timeMs >= stretch.toMs) continue;
      // Without an id the identity is made of all the bytes, which are not here; twice the same may be two events (R10).
      const isUnsure = fieldText(page.scanned, index, FIELD.id) === undefined;
      const identity = identityBytesAt(page, index);
      const look = isUnsure ? "first" : repeats.look(timeMs, identity.toString("latin1"));
      const isHeld = isUnsure || held.has(identity);
      if (look === "again") continue;
      if (isUnsure) withoutId++;
      if (look === "first") events.push({ timeMs, owner: ownerAt(page, index) });
      if (isUnsure || look === "twin" || !isHeld) doubtful.push({ fromMs: timeMs, toMs: timeMs + 1 });
    }
  }
  undated.end(doubtful);
  const everywhere = withoutId * 4 > events.length && withoutId > 100;
  return {
    events,
    skips,
    isForgotten,
    begunMs: begunMs ?? context.serviceClock.now(),
    slices: everywhere ? null : slicesOf(doubtful),
  };
}

function spanOf(timesMs: Float64Array): [number, number] {
  let [fromMs, toMs] = [Number.POSITIVE_INFINITY, 0];
  for (const timeMs of timesMs) {
    if (timeMs === UNDATED_MS) continue;
    fromMs = Math.min(fromMs, timeMs);
    toMs = Math.max(toMs, timeMs + 1);
  }
  return [fromMs === Number.POSITIVE_INFINITY ? 0 : fromMs, toMs];
}

function slicesOf(stretches: readonly TimeStretch[]): TimeStretch[] {
  const slices: { fromMs: number; toMs: number }[] = [];
  for (const { fromMs, toMs } of [...stretches].sort((a, b) => a.fromMs - b.fromMs)) {
    const last = slices.at(-1);
    if (last !== undefined && fromMs - last.toMs <= SLICE_GAP_MS) last.toMs = Math.max(last.toMs, toMs);
    else slices.push({ fromMs, toMs });
  }
  return slices;
}

interface ReadSlice {
  readonly fresh: number;
  /** The owner of each event that the service has. */
  readonly owners: readonly string[];
  readonly skips: readonly NewGap[];
  readonly isForgotten: boolean;
}

/** Reads a slice of a window with dedupe. The window itself is not changed. */
async function readSlice(
  context: PollContext,
  window: Window,
  slice: TimeStretch,
  signal: AbortSignal,
): Promise<ReadSlice> {
  let fresh = 0;
  let isForgotten = false;
  let edge: readonly string[] = [];
  const distinct = new Map<string, string>();
  const skips: NewGap[] = [];
  for await (const served of pagesOf(context, window, { stretch: slice, fields: undefined, signal, skips })) {
    const { page } = served;
    isForgotten = served.isForgotten;
    for (let index = 0; index < page.scanned.count; index++)
      if (isInside(slice, page.timesMs[index]!))
        distinct.set(
          `${identityBytesAt(page, index).toString("latin1")}${page.digests[index]}`,
          ownerAt(page, index),
        );
    const commit = { edge, lateBeforeMs: window.toMs, change: () => ({}) };
    const appended = await append(context, window, served, commit);
    fresh += appended.fresh;
    edge = appended.edge;
  }
  return { fresh, owners: [...distinct.values()], skips, isForgotten };
}

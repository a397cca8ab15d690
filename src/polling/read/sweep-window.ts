import { IDENTITY_BYTES, type PreparedPage, UNDATED_MS } from "../../core/prepare-page.ts";
import { FIELD, fieldText } from "../../core/scanner.ts";
import { DAY_MS } from "../../core/time.ts";
import { newWindow, type Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { SWEEP } from "../limits/pace.ts";
import { SLICE_MS_MAX, settledAfter, sweepDueMs, type TimeStretch } from "../plan/sweep-times.ts";
import { append } from "./commit-page.ts";
import { fetchPage, type PageRequest, queryOf, type Served, servedOf } from "./fetch-page.ts";
import { cutUnchecked, horizonMs } from "./forgotten.ts";
import { beginPass, halved, hasMoved, movedBy, restarted, skippedOne } from "./pass.ts";
import { readWindow } from "./read-window.ts";
import { canSkip, isBadContent, recordSkip, retriedSingle } from "./skip-event.ts";
import { InconsistentPageError, UnreadablePageError } from "./source.ts";

const IDENTITY_FIELDS = ["id", "timestamp", "service", "event_type", "organization"];
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
  if (seen.slices === null || seen.slices.length > SLICES_MAX)
    return readWindow(context, { ...window, pass: null }, SWEEP, signal);
  const slices = seen.slices;
  let found = 0;
  let apiCount = seen.timesMs.filter((timeMs) => !slices.some((slice) => isInside(slice, timeMs))).length;
  for (const slice of slices) {
    const read = await readSlice(context, window, slice, signal);
    found += read.fresh;
    apiCount += read.count;
  }
  const counts = { apiCount, heldCount: await heldCount(context, window, stretch, seen.heldCount + found) };
  const late = window.late + found;
  if (stretch.toMs === window.toMs) {
    const compared = { ...window, ...largerCounts(window, counts), late };
    await journal.changeWindows({ put: [settledAfter(compared, seen.begunMs, found, settings)] });
    return;
  }
  const { first, rest } = cutOff(context, window, stretch.toMs, counts, found);
  await journal.changeWindows({
    put: [settledAfter({ ...first, late }, seen.begunMs, found, settings)],
    add: [rest],
  });
}

function stretchOf({ settings }: PollContext, { fromMs, toMs, sweeps }: Window): TimeStretch {
  const last = sweeps >= settings.sweepsMs.length;
  return { fromMs, toMs: last && toMs - fromMs > SLICE_MS_MAX ? fromMs + DAY_MS : toMs };
}

interface Counts {
  readonly apiCount: number;
  readonly heldCount: number;
}

function isInside({ fromMs, toMs }: TimeStretch, timeMs: number): boolean {
  return timeMs >= fromMs && timeMs < toMs;
}

/** Counted from what is held (R36). A query without organizations does not say whose its events are: `otherwise` then. */
async function heldCount(
  { journal }: PollContext,
  { stream }: Window,
  { fromMs, toMs }: TimeStretch,
  otherwise: number,
): Promise<number> {
  if (stream.organizations.length === 0) return otherwise;
  return (await journal.held(stream.organizations, fromMs, toMs)).count;
}

/** When the service shows fewer events than before, it has forgotten some: the former count stays. */
function largerCounts(window: Window, counts: Counts): Counts {
  return { ...counts, apiCount: Math.max(counts.apiCount, window.apiCount ?? 0) };
}

/** The compared day becomes a window of its own; the rest keeps what is left of the counts. */
function cutOff(context: PollContext, window: Window, edgeMs: number, counts: Counts, found: number) {
  const left = (whole: number | null, part: number) => (whole === null ? null : Math.max(0, whole - part));
  const rest = newWindow(window.stream, edgeMs, window.toMs, {
    state: window.state,
    askedMs: window.askedMs,
    sweeps: window.sweeps,
    apiCount: left(window.apiCount, counts.apiCount - found),
    heldCount: left(window.heldCount, counts.heldCount - found),
  });
  return {
    first: { ...window, toMs: edgeMs, ...counts },
    rest: { ...rest, nextMs: sweepDueMs(rest, rest.sweeps, context.settings) },
  };
}

interface Comparison {
  /** When the first page was asked for. */
  readonly begunMs: number;
  /** The time of every event with a distinct identity. */
  readonly timesMs: readonly number[];
  readonly heldCount: number;
  /** Where something is missing, or identities alone do not decide; null: nearly everywhere. */
  readonly slices: readonly TimeStretch[] | null;
}

async function compare(
  context: PollContext,
  window: Window,
  stretch: TimeStretch,
  signal: AbortSignal,
): Promise<Comparison> {
  const sums = { heldCount: 0, withoutId: 0 };
  const timesMs: number[] = [];
  const doubtful: number[] = [];
  const repeats = createRepeats();
  let begunMs: number | undefined;
  for await (const { page, askedMs, againMs } of pagesOf(context, window, stretch, IDENTITY_FIELDS, signal)) {
    begunMs ??= askedMs;
    const held = await context.journal.held(page.organizations, ...spanOf(page.timesMs));
    for (let index = 0; index < page.scanned.count; index++) {
      const timeMs = page.timesMs[index]!;
      if (timeMs < stretch.fromMs || timeMs >= stretch.toMs) continue;
      // Without an id the identity is made of all the bytes, which are not here; twice the same may be two events (R10).
      const isUnsure = fieldText(page.scanned, index, FIELD.id) === undefined;
      const identity = identityAt(page, index);
      const isRepeat = !isUnsure && repeats.has(timeMs, identity.toString("latin1"));
      const isHeld = isUnsure || held.has(identity);
      if (isRepeat && timeMs === againMs) continue;
      if (isUnsure) sums.withoutId++;
      if (!isRepeat) timesMs.push(timeMs);
      if (!isRepeat && isHeld) sums.heldCount++;
      if (isUnsure || isRepeat || !isHeld) doubtful.push(timeMs);
    }
  }
  const everywhere = sums.withoutId * 4 > timesMs.length && sums.withoutId > 100;
  return {
    timesMs,
    heldCount: sums.heldCount,
    begunMs: begunMs ?? context.serviceClock.now(),
    slices: everywhere ? null : slicesOf(doubtful),
  };
}

function identityAt(page: PreparedPage, index: number): Buffer {
  return page.identities.subarray(index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES);
}

/** Answers are in the order of time, so only identities of the same moment need to be remembered. */
function createRepeats() {
  const seen = new Set<string>();
  let atMs: number | undefined;
  return {
    has(timeMs: number, identity: string): boolean {
      if (timeMs !== atMs) seen.clear();
      atMs = timeMs;
      if (seen.has(identity)) return true;
      seen.add(identity);
      return false;
    },
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

/** A page of a walk. `againMs`: the walk began anew there, and the events of that time come again. */
interface WalkedPage extends Served {
  readonly askedMs: number;
  readonly againMs: number | undefined;
}

/**
 * Walks over a stretch with a pass that no window stores: after a failure of another kind the caller begins
 * anew. Bad content is searched by halving and skipped, a refused token restarts the request (pass.ts).
 */
async function* pagesOf(
  context: PollContext,
  window: Window,
  stretch: TimeStretch,
  fields: readonly string[] | undefined,
  signal: AbortSignal,
): AsyncGenerator<WalkedPage> {
  const { settings, serviceClock } = context;
  let pass = beginPass(stretch.fromMs, stretch.toMs, settings.pageSize, serviceClock.now());
  for (;;) {
    const { cursor } = pass;
    const query = queryOf(window, pass, fields);
    const request: PageRequest = { window, query, cursor, priority: SWEEP, signal };
    const fetched = await fetchPage(context, request).catch((error: unknown) => {
      if (signal.aborted || context.source.fault(error).kind !== "bad_request" || cursor === null)
        throw error;
      if (hasMoved(pass)) return null;
      throw new InconsistentPageError("The service refused the token of its page before.", { cause: error });
    });
    if (fetched === null) {
      pass = restarted(pass, pass.limit);
      continue;
    }
    try {
      const { searchAfter } = fetched.page.head;
      const served = await servedOf(context, request, fetched.page).catch(async (error: unknown) => {
        if (signal.aborted || !isBadContent(context, error)) throw error;
        if (canSkip(context, request, searchAfter, error))
          return retriedSingle(context, request, searchAfter!, error);
        const smaller = halved(pass, error instanceof UnreadablePageError);
        if (smaller === null) throw error;
        pass = smaller;
        return null;
      });
      if (served === null) continue;
      if ("skipped" in served) {
        await recordSkip(context, { ...window, pass }, served.skipped);
        pass = skippedOne(pass, searchAfter!);
        continue;
      }
      const againMs = cursor === null && pass.pages > 0 ? pass.startMs : undefined;
      pass = {
        ...movedBy(pass, served.page, searchAfter ?? null, 0, settings.pageSize),
        pages: pass.pages + 1,
      };
      yield* lent(served, fetched.askedMs, againMs);
      if (served.last) return;
    } finally {
      fetched.release();
    }
  }
}

/** The page is valid until the next one is asked for. */
function* lent(served: Served, askedMs: number, againMs: number | undefined): Generator<WalkedPage> {
  try {
    yield { ...served, askedMs, againMs };
  } finally {
    served.lease.release();
  }
}

function slicesOf(timesMs: number[]): TimeStretch[] {
  const slices: { fromMs: number; toMs: number }[] = [];
  for (const timeMs of timesMs.sort((a, b) => a - b)) {
    const last = slices.at(-1);
    if (last !== undefined && timeMs - last.toMs <= SLICE_GAP_MS) last.toMs = timeMs + 1;
    else slices.push({ fromMs: timeMs, toMs: timeMs + 1 });
  }
  return slices;
}

/** Reads a slice of a window with dedupe: how many events were new, and how many the service has. The window itself is not changed. */
async function readSlice(
  context: PollContext,
  window: Window,
  slice: TimeStretch,
  signal: AbortSignal,
): Promise<{ readonly fresh: number; readonly count: number }> {
  let fresh = 0;
  let edge: readonly string[] = [];
  const distinct = new Set<string>();
  for await (const served of pagesOf(context, window, slice, undefined, signal)) {
    const { page } = served;
    for (let index = 0; index < page.scanned.count; index++)
      if (isInside(slice, page.timesMs[index]!))
        distinct.add(`${identityAt(page, index).toString("latin1")}${page.digests[index]}`);
    const commit = { edge, lateBeforeMs: window.toMs, change: () => ({}) };
    const appended = await append(context, window, served, commit);
    fresh += appended.fresh;
    edge = appended.edge;
  }
  return { fresh, count: distinct.size };
}

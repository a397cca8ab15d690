import { IDENTITY_BYTES, type PreparedPage } from "../../core/prepare-page.ts";
import { FIELD, fieldText } from "../../core/scanner.ts";
import { newWindow, type Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { SWEEP } from "../limits/pace.ts";
import { DAY_MS, SLICE_MS_MAX, type Stretch, settle, sweepDueMs } from "../plan/sweep-times.ts";
import { append } from "./commit-page.ts";
import { fetchPage, type PageRequest, queryOf, type Served, servedOf } from "./fetch-page.ts";
import { isTooLargeAlone, raiseOversized, readWindow } from "./read-window.ts";
import { InconsistentPageError } from "./source.ts";

const IDENTITY_FIELDS = ["id", "timestamp", "service", "event_type", "organization"];
/** Slices closer together than this are read as one. */
const SLICE_GAP_MS = 1000;
/** With more slices than this the whole window is read again: that costs less. */
const SLICES_MAX = 50;

/**
 * Compares a window's identities with the API's, asking for the identity fields alone, and fetches what is
 * missing by re-reading the smallest slices of time around it (R9). Counts prove nothing: one event may
 * have expired while another came late (R4). A long window is compared for the last time a day at a time,
 * as each day nears the service's retention.
 */
export async function sweepWindow(context: PollContext, window: Window, signal: AbortSignal): Promise<void> {
  const { settings, journal, serviceClock } = context;
  // A sweep that turned into reading the window again, and was interrupted, goes on with that.
  if (window.pass !== null) return readWindow(context, window, SWEEP, signal);
  if (window.fromMs < serviceClock.now() - settings.retentionMs) return leaveForgotten(context, window);
  const stretch = stretchOf(context, window);
  const seen = await compare(context, window, stretch, signal);
  if (seen.slices === null || seen.slices.length > SLICES_MAX)
    return readWindow(context, { ...window, pass: null }, SWEEP, signal);
  let found = 0;
  for (const slice of seen.slices) found += await readSlice(context, window, slice, signal);
  const late = window.late + found;
  if (stretch.toMs === window.toMs) {
    const compared = { ...window, ...countsOf(window, seen, found), late };
    await journal.changeWindows({ put: [settle(compared, seen.begunMs, found, settings)] });
    return;
  }
  const { first, rest } = cutOff(context, window, stretch.toMs, seen, found);
  await journal.changeWindows({
    put: [settle({ ...first, late }, seen.begunMs, found, settings)],
    add: [rest],
  });
}

function stretchOf({ settings }: PollContext, { fromMs, toMs, sweeps }: Window): Stretch {
  const last = sweeps >= settings.sweepsMs.length;
  return { fromMs, toMs: last && toMs - fromMs > SLICE_MS_MAX ? fromMs + DAY_MS : toMs };
}

/** What the service has forgotten in part can no longer be compared: an answer about it proves nothing (R5). */
async function leaveForgotten({ journal }: PollContext, window: Window): Promise<void> {
  const reason = "the service forgot it before it was compared for the last time";
  await journal.changeWindows({
    put: [{ ...window, nextMs: null, reason: window.state === "sealed" ? window.reason : reason }],
  });
}

/** Fewer than the service showed before were forgotten by it, not by us: the former count stays. */
function countsOf(window: Window, seen: Comparison, found: number) {
  const before = window.apiCount ?? 0;
  if (seen.apiCount < before) return { apiCount: before, heldCount: window.heldCount };
  return { apiCount: seen.apiCount, heldCount: seen.heldCount + found };
}

/** The day that was compared stands apart from the rest, which keeps what is left of the counts. */
function cutOff(context: PollContext, window: Window, edgeMs: number, seen: Comparison, found: number) {
  const counts = { apiCount: seen.apiCount, heldCount: seen.heldCount + found };
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
  readonly apiCount: number;
  readonly heldCount: number;
  /** Where something is missing or cannot be told apart; null: nearly everywhere. */
  readonly slices: readonly Stretch[] | null;
}

async function compare(
  context: PollContext,
  window: Window,
  stretch: Stretch,
  signal: AbortSignal,
): Promise<Comparison> {
  const limit = context.settings.pageSize;
  const query = queryOf(window, { startMs: stretch.fromMs, endMs: stretch.toMs, limit }, IDENTITY_FIELDS);
  const sums = { apiCount: 0, heldCount: 0, withoutId: 0 };
  const doubtful: number[] = [];
  const repeats = createRepeats();
  let begunMs: number | undefined;
  for await (const { page, askedMs } of pagesOf(context, window, query, signal)) {
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
      if (isUnsure) sums.withoutId++;
      if (!isRepeat) sums.apiCount++;
      if (!isRepeat && isHeld) sums.heldCount++;
      if (isUnsure || isRepeat || !isHeld) doubtful.push(timeMs);
    }
  }
  const everywhere = sums.withoutId * 4 > sums.apiCount && sums.withoutId > 100;
  return {
    ...sums,
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
    fromMs = Math.min(fromMs, timeMs);
    toMs = Math.max(toMs, timeMs + 1);
  }
  return [fromMs === Number.POSITIVE_INFINITY ? 0 : fromMs, toMs];
}

/**
 * The pages of a query that is no window's own: after a failure it begins anew, so a token that the service
 * refuses blames nobody. An event that alone is larger than the limit of a body is passed over.
 */
async function* pagesOf(
  context: PollContext,
  window: Window,
  query: PageRequest["query"],
  signal: AbortSignal,
): AsyncGenerator<Served & { readonly askedMs: number }> {
  let cursor: string | null = null;
  for (;;) {
    const request: PageRequest = { window, query, cursor, priority: SWEEP, signal };
    const fetched = await fetchPage(context, request).catch((error: unknown) => {
      if (request.cursor === null || signal.aborted || context.source.fault(error).kind !== "bad_request")
        throw error;
      throw new InconsistentPageError("The service refused the token of its page before.", { cause: error });
    });
    try {
      const served = await servedOf(context, request, fetched.page).catch((error: unknown) => {
        if (isTooLargeAlone(context, request, fetched.page.head.searchAfter, error)) return null;
        throw error;
      });
      if (served === null) raiseOversized(context, window);
      else yield* lent(served, fetched.askedMs);
      if (served?.last) return;
      cursor = fetched.page.head.searchAfter!;
    } finally {
      fetched.release();
    }
  }
}

/** The page is valid until the next one is asked for. */
function* lent(served: Served, askedMs: number): Generator<Served & { readonly askedMs: number }> {
  try {
    yield { ...served, askedMs };
  } finally {
    served.lease.release();
  }
}

function slicesOf(timesMs: number[]): Stretch[] {
  const slices: { fromMs: number; toMs: number }[] = [];
  for (const timeMs of timesMs.sort((a, b) => a - b)) {
    const last = slices.at(-1);
    if (last !== undefined && timeMs - last.toMs <= SLICE_GAP_MS) last.toMs = timeMs + 1;
    else slices.push({ fromMs: timeMs, toMs: timeMs + 1 });
  }
  return slices;
}

/**
 * Reads a slice of a window with dedupe, with smaller pages where a body is too large (R8); gives the number
 * of events that were new. Leaves the window as it is.
 */
async function readSlice(
  context: PollContext,
  window: Window,
  slice: Stretch,
  signal: AbortSignal,
): Promise<number> {
  let found = 0;
  for (let limit = context.settings.pageSize; ; limit = Math.max(1, Math.floor(limit / 2))) {
    const query = queryOf(window, { startMs: slice.fromMs, endMs: slice.toMs, limit });
    let edge: readonly string[] = [];
    try {
      for await (const served of pagesOf(context, window, query, signal)) {
        const commit = { edge, lateBeforeMs: window.toMs, change: () => ({}) };
        const appended = await append(context, window, served, commit);
        found += appended.fresh;
        edge = appended.edge;
      }
      return found;
    } catch (error) {
      if (signal.aborted || limit === 1 || context.source.fault(error).kind !== "body_too_large") throw error;
    }
  }
}

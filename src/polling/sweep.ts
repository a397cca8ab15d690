import { IDENTITY_BYTES } from "../core/page.ts";
import { FIELD, fieldText } from "../core/scanner.ts";
import { newWindow, type Window } from "../core/window.ts";
import { ask, type PollContext, scopeOf } from "./context.ts";
import { SWEEP } from "./pace.ts";
import { attribute, queryOf, readWindow } from "./pass.ts";
import { DAY_MS, SLICE_MS_MAX, type Stretch, settle, sweepDueMs } from "./plan.ts";
import { InconsistentPageError } from "./source.ts";

const IDENTITY_FIELDS = ["id", "timestamp", "service", "event_type", "organization"];
/** Slices closer together than this are read as one. */
const SLICE_GAP_MS = 1000;
/** With more slices than this the whole window is read again: that costs less. */
const SLICES_MAX = 50;

/**
 * Compares a window's identities with the API's, asking for the identity fields alone, and fetches what is
 * missing by re-reading the smallest slices of time around it (R9). Before that a count may show that
 * something is missing; equal counts prove nothing, so only a sweep that is neither the sealing one nor the
 * last may rest on one (R4).
 */
export async function sweepWindow(context: PollContext, window: Window, signal: AbortSignal): Promise<void> {
  const { settings, journal, serviceClock } = context;
  if (window.sweeps >= settings.sweepsMs.length && window.toMs - window.fromMs > SLICE_MS_MAX) {
    await journal.changeWindows(sliceOff(context, window));
    return;
  }
  const begunMs = serviceClock.now();
  if (await countSaysEqual(context, window, signal)) {
    await journal.changeWindows({ put: [settle(window, begunMs, 0, settings)] });
    return;
  }
  const seen = await compare(context, window, signal);
  if (seen.slices === null || seen.slices.length > SLICES_MAX) {
    await readWindow(context, { ...window, pass: null }, SWEEP, signal);
    return;
  }
  let found = 0;
  for (const slice of seen.slices) found += await readSlice(context, window, slice, signal);
  const put = settle(
    { ...window, apiCount: seen.apiCount, heldCount: seen.heldCount + found, late: window.late + found },
    begunMs,
    found,
    settings,
  );
  await journal.changeWindows({ put: [put] });
}

/** A long window is swept for the last time a day at a time, as each day nears the service's retention. */
function sliceOff(context: PollContext, window: Window) {
  const { settings } = context;
  const edgeMs = window.fromMs + DAY_MS;
  const first = { ...window, toMs: edgeMs, apiCount: null, heldCount: null };
  const rest = {
    ...newWindow(window.stream, edgeMs, window.toMs),
    state: window.state,
    askedMs: window.askedMs,
    sweeps: window.sweeps,
    late: 0,
  };
  return {
    put: [{ ...first, nextMs: sweepDueMs(first, window.sweeps, settings) }],
    add: [{ ...rest, apiCount: null, heldCount: null, nextMs: sweepDueMs(rest, window.sweeps, settings) }],
  };
}

async function countSaysEqual(context: PollContext, window: Window, signal: AbortSignal): Promise<boolean> {
  const sealing = window.sweeps >= context.settings.sweepsMs.length - 1;
  if (sealing || window.apiCount === null || window.apiCount !== window.heldCount) return false;
  const query = queryOf(window, { startMs: window.fromMs, endMs: window.toMs, limit: 1 });
  const count = await context.source.count(query, scopeOf(window.stream), signal);
  return count === window.apiCount + window.repeated;
}

interface Comparison {
  readonly apiCount: number;
  readonly heldCount: number;
  /** Where something is missing or cannot be told apart; null: nearly everywhere. */
  readonly slices: readonly Stretch[] | null;
}

async function compare(context: PollContext, window: Window, signal: AbortSignal): Promise<Comparison> {
  const seen = new Set<string>();
  const doubtful: number[] = [];
  let apiCount = 0;
  let heldCount = 0;
  let withoutId = 0;
  for await (const page of identityPages(context, window, signal)) {
    const held = await context.journal.held(page.organizations, ...spanOf(page.timesMs));
    for (let index = 0; index < page.scanned.count; index++) {
      const timeMs = page.timesMs[index]!;
      if (timeMs < window.fromMs || timeMs >= window.toMs) continue;
      const identity = page.identities.subarray(index * IDENTITY_BYTES, (index + 1) * IDENTITY_BYTES);
      const key = identity.toString("latin1");
      // Without an id the identity is made of all the bytes; twice the same may be two events (R10).
      const unsure = fieldText(page.scanned, index, FIELD.id) === undefined;
      if (unsure) withoutId++;
      if (unsure || seen.has(key)) {
        doubtful.push(timeMs);
        if (unsure) apiCount++;
        if (unsure) heldCount++;
        continue;
      }
      seen.add(key);
      apiCount++;
      if (held.has(identity)) heldCount++;
      else doubtful.push(timeMs);
    }
  }
  return {
    apiCount,
    heldCount,
    slices: withoutId * 4 > apiCount && withoutId > 100 ? null : slicesOf(doubtful),
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

async function* identityPages(context: PollContext, window: Window, signal: AbortSignal) {
  const limit = context.settings.pageSize;
  const query = queryOf(window, { startMs: window.fromMs, endMs: window.toMs, limit }, IDENTITY_FIELDS);
  let cursor: string | undefined;
  for (;;) {
    const release = await context.slots.take(signal);
    try {
      const page = await ask(context, query, scopeOf(window.stream), cursor, SWEEP, signal);
      const served = await attribute(context, window, await page.body());
      if (page.head.resultCount !== undefined && page.head.resultCount !== served.count) {
        throw new InconsistentPageError(
          `The service announced ${page.head.resultCount} events and sent ${served.count}.`,
        );
      }
      yield served.page;
      if (served.count < (page.head.limit ?? limit)) return;
      if (page.head.searchAfter === undefined || page.head.searchAfter === cursor) {
        throw new InconsistentPageError("The service sent a full page without a new token for the next one.");
      }
      cursor = page.head.searchAfter;
    } finally {
      release();
    }
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

/** Reads a slice of a window with dedupe; gives the number of events that were new. Leaves the window as it is. */
async function readSlice(
  context: PollContext,
  window: Window,
  slice: Stretch,
  signal: AbortSignal,
): Promise<number> {
  const { journal, settings, account } = context;
  const limit = settings.pageSize;
  const query = queryOf(window, { startMs: slice.fromMs, endMs: slice.toMs, limit });
  let cursor: string | undefined;
  let edge: readonly string[] = [];
  let found = 0;
  for (;;) {
    const release = await context.slots.take(signal);
    try {
      const answer = await ask(context, query, scopeOf(window.stream), cursor, SWEEP, signal);
      const { page, count } = await attribute(context, window, await answer.body());
      const { organizations, provider } = window.stream;
      const appended = await journal.append({
        account,
        provider,
        organization: organizations.length === 1 ? organizations[0]! : null,
        page,
        fetchedAtMs: context.serviceClock.now(),
        edge,
        lateBeforeMs: window.toMs,
        reader: null,
        change: () => ({}),
      });
      if (appended.late > 0)
        context.metrics.add("tidemark_journal_late_events_total", appended.late, { account });
      if (appended.fresh > 0) {
        context.roster.addEvents(account, appended.byOrganization);
        context.metrics.add("tidemark_journal_appended_events_total", appended.fresh, { account });
      }
      found += appended.fresh;
      edge = appended.edge;
      if (count < (answer.head.limit ?? limit)) return found;
      if (answer.head.searchAfter === undefined || answer.head.searchAfter === cursor) {
        throw new InconsistentPageError("The service sent a full page without a new token for the next one.");
      }
      cursor = answer.head.searchAfter;
    } finally {
      release();
    }
  }
}

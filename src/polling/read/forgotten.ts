import type { NewGap } from "../../core/gap.ts";
import type { LedgerNow, LedgerUpdate } from "../../core/journal.ts";
import { isLeftOut, type RosterEntry } from "../../core/roster.ts";
import { DAY_MS, formatDuration } from "../../core/time.ts";
import { type NewWindow, newWindow, type Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { streamOf } from "../plan/scope.ts";
import { dueAfterCut, settledAfter, type TimeStretch } from "../plan/sweep-times.ts";
import { countsFrom, heldQuery, withCountsNow } from "./counts.ts";
import { skippedIn } from "./pass.ts";

const EXPIRED = "the service had forgotten it before it was read";
const UNCHECKED = "the service forgot it before it was compared for the last time";
/** A comparison that waits until both clocks call its time forgotten is tried again after this. */
const CLOCKS_MS = 600_000;
/** The alarm about gaps stays for so long after the newest of them was found. */
const ALARM_MS = 7 * DAY_MS;

/**
 * A window that is cut begins so long after the horizon. The horizon moves on while the rest waits for its turn:
 * without this time the rest would be cut again at once, a few milliseconds each time, and never be read.
 */
export const HORIZON_MARGIN_MS = 120_000;

/** Everything before this time is forgotten by the service. */
export function horizonMs({ serviceClock, settings }: PollContext, nowMs = serviceClock.now()): number {
  return nowMs - settings.retentionMs;
}

/**
 * Cuts a window that was not read to its end where the service had forgotten it at this time (R5, R30).
 * All before the place of its pass has been read, the stretch from there to the horizon is a gap, and the
 * rest is read anew. null: nothing is forgotten.
 */
export function cutForgotten(context: PollContext, window: Window, atMs: number): LedgerUpdate | null {
  const { pass, fromMs, toMs } = window;
  const readMs = Math.min(toMs, pass?.reachedMs ?? fromMs);
  const forgottenMs = Math.min(toMs, horizonMs(context, atMs));
  if (forgottenMs <= readMs) return null;
  const lostMs = Math.min(toMs, forgottenMs + HORIZON_MARGIN_MS);
  const { stream, reader } = window;
  const gap = {
    stream,
    fromMs: readMs,
    toMs: lostMs,
    reason: "expired",
    detail: EXPIRED,
    events: null,
  } as const;
  const left = lostMs < toMs ? [newWindow(stream, lostMs, toMs, { reader })] : [];
  if (reader !== null) return { remove: [window.id], add: left };
  const lost = { ...window, fromMs: readMs, toMs: lostMs, pass: null, state: "expired" as const };
  return (now) => {
    const add = readMs > fromMs ? [...left, readPart(context, now, window, readMs)] : left;
    return { put: [{ ...lost, reason: EXPIRED, nextMs: null }], add, gaps: [gap] };
  };
}

/** The part of a window before the place of its pass. The events at that very time are not in it. */
function readPart(context: PollContext, now: LedgerNow, window: Window, toMs: number): NewWindow {
  const { id: _, ...rest } = window;
  const counts = countsBefore(now, window, toMs);
  return settledAfter({ ...rest, toMs, pass: null, ...counts }, window.pass!, 0, context.settings);
}

/** Everything that the pass was shown at the time of its place is held: that much less was shown before it. */
function countsBefore(now: LedgerNow, { stream, fromMs, pass }: Window, toMs: number) {
  const shown = pass?.shown;
  if (shown === undefined) return { apiCount: null, heldCount: null, counts: null };
  const held = now.countHeld(heldQuery(stream, { fromMs, toMs }, shown));
  const atEdge = now.countHeld(heldQuery(stream, { fromMs: toMs, toMs: toMs + 1 }, shown));
  const before = Object.entries(shown).map(([owner, count]) => [
    owner,
    difference(count, atEdge.get(owner) ?? 0),
  ]);
  return countsFrom(stream, Object.fromEntries(before), held, skippedIn(pass!));
}

/**
 * Cuts a window that was read but not compared for the last time (R30). An answer about a forgotten time
 * proves nothing, so that part stays as it was, with a gap for the events that may have come late. The rest
 * stays due. So does everything as long as only the service's time calls it forgotten: that time may be wrong. It
 * waits before it is tried again, because it would be cut again at once, a few milliseconds each time.
 */
export async function cutUnchecked(context: PollContext, window: Window): Promise<void> {
  const { journal, serviceClock } = context;
  const nowMs = serviceClock.earlierNow();
  const edgeMs = Math.min(window.toMs, horizonMs(context, nowMs) + HORIZON_MARGIN_MS);
  if (edgeMs <= window.fromMs)
    return journal.changeWindows((now) => ({
      put: [{ ...withCountsNow(now, window), pass: null, nextMs: nowMs + CLOCKS_MS }],
    }));
  const reason = window.state === "sealed" ? window.reason : UNCHECKED;
  const isDoubted = edgeMs < horizonMs(context);
  const restMs = isDoubted ? nowMs + CLOCKS_MS : undefined;
  const left = { ...window, reason, nextMs: null };
  return leaveUnchecked(context, left, edgeMs, {
    detail: UNCHECKED,
    restMs: window.nextMs === 0 ? 0 : restMs,
  });
}

/**
 * Cuts a window that was read. What is before this time cannot be compared: it stays as the caller gives it, with a gap
 * for the events that may have come late. The rest stays due.
 */
export async function leaveUnchecked(
  context: PollContext,
  window: Window,
  edgeMs: number,
  { detail, restMs }: { readonly detail: string; readonly restMs: number | undefined },
): Promise<void> {
  const { journal, settings } = context;
  const gaps = await uncheckedGaps(context, window, edgeMs, detail);
  const left = { ...window, pass: null };
  if (edgeMs === window.toMs)
    return journal.changeWindows((now) => ({ put: [withCountsNow(now, left)], gaps }));
  const { state, askedMs, sweeps } = window;
  await journal.changeWindows((now) => {
    const { first, rest } = countsOfParts(now, window, edgeMs);
    const due = newWindow(window.stream, edgeMs, window.toMs, { state, askedMs, sweeps, ...rest });
    return {
      put: [{ ...left, toMs: edgeMs, ...first }],
      add: [{ ...due, nextMs: restMs ?? dueAfterCut(due, settings) }],
      gaps,
    };
  });
}

/** Organizations that were taken out of the config on purpose leave no gap. Refused and deleted ones do. */
async function uncheckedGaps(
  context: PollContext,
  window: Window,
  toMs: number,
  detail: string,
): Promise<NewGap[]> {
  const { organizations } = window.stream;
  const wanted = new Set(
    context.roster
      .list(context.account)
      .filter(isWanted)
      .map(({ id }) => id),
  );
  const here = organizations.filter((id) => wanted.has(id));
  if (organizations.length > 0 && here.length === 0) return [];
  const stream =
    here.length === organizations.length ? window.stream : await streamOf(context, window.stream, here);
  return [{ stream, fromMs: window.fromMs, toMs, reason: "unchecked", detail, events: null }];
}

function isWanted({ state, reason }: RosterEntry): boolean {
  return state !== "vanished" || !isLeftOut(reason);
}

/**
 * Where every event that the service showed is held, its parts are as complete as the whole. Identities do not say
 * which service an event is of: where other services are held of that time, the parts cannot be counted.
 */
export function countsOfParts(now: LedgerNow, asked: Window, edgeMs: number) {
  const window = now.window(asked.id) ?? asked;
  const { stream, fromMs, toMs, counts } = window;
  const owners = Object.fromEntries(Object.keys(counts ?? {}).map((owner) => [owner, 0]));
  const heldIn = (stretch: TimeStretch) => {
    const { atMost: _, ...query } = heldQuery(stream, stretch, owners);
    return now.countHeld(query);
  };
  const before = heldIn({ fromMs, toMs: edgeMs });
  const after = heldIn({ fromMs: edgeMs, toMs });
  if (!isWhole(window, before, after))
    return { first: { apiCount: null, heldCount: null, counts: null }, rest: {} };
  const partOf = (held: ReadonlyMap<string, number>) => countsFrom(stream, Object.fromEntries(held), held, 0);
  return { first: partOf(before), rest: partOf(after) };
}

/** Whether everything is held that the service showed, and both parts together are exactly that. */
function isWhole(
  { apiCount, heldCount, counts }: Window,
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
): boolean {
  const inParts = (owner: string) => (before.get(owner) ?? 0) + (after.get(owner) ?? 0);
  const sum = [...before.values(), ...after.values()].reduce((total, count) => total + count, 0);
  const owned = Object.entries(counts ?? {});
  return (
    apiCount === heldCount &&
    heldCount === sum &&
    owned.every(([owner, [api, held]]) => api === held && held === inParts(owner))
  );
}

export function difference(whole: number, part: number): number {
  return Math.max(0, whole - part);
}

/**
 * Refused windows that the service has forgotten meanwhile are lost. Grown pieces of one stream stay one row.
 */
export async function loseForgottenRefused(context: PollContext): Promise<void> {
  const { account, journal } = context;
  const edgeMs = horizonMs(context);
  const refused = await journal.windows({ account, states: ["refused"], live: false, toMs: edgeMs });
  for (const window of refused) {
    const { stream, fromMs, reason } = window;
    const toMs = Math.min(window.toMs, edgeMs);
    if (window.reader !== null) {
      await journal.changeWindows({ remove: [window.id] });
      continue;
    }
    const lost = { state: "expired" as const, reason, nextMs: null };
    const expired = await journal.windows({
      stream: stream.id,
      states: ["expired"],
      fromMs: fromMs - 1,
      toMs: fromMs,
    });
    const before = expired.find((other) => other.toMs === fromMs && other.reason === reason);
    const detail = reason ?? "refused";
    const gaps: NewGap[] = [{ stream, fromMs, toMs, reason: "refused", detail, events: null }];
    const rest = toMs < window.toMs ? [{ ...window, fromMs: toMs }] : [];
    const remove = rest.length === 0 ? [window.id] : [];
    if (before !== undefined)
      await journal.changeWindows({ remove, put: [...rest, { ...before, toMs }], gaps });
    else
      await journal.changeWindows({ remove, put: rest, add: [newWindow(stream, fromMs, toMs, lost)], gaps });
  }
  if (refused.length > 0) await warnOfGaps(context);
}

/** Raised from the ledger, so that a restart does not forget it. */
export async function warnOfGaps(context: PollContext): Promise<void> {
  const { account, alarms, clock, journal } = context;
  const query = { account, reasons: ["expired", "refused"], foundSinceMs: clock.now() - ALARM_MS } as const;
  const { gaps, organizations, durationMs } = await journal.gapTotals(query);
  if (gaps === 0) {
    alarms.clear("expired", account);
    return;
  }
  const whom = organizations === 1 ? "one organization" : `${organizations} organizations`;
  alarms.raise({
    kind: "expired",
    subject: account,
    message: `The service forgot events before they were read: ${gaps} ${gaps === 1 ? "gap" : "gaps"} of ${whom}, ${formatDuration(durationMs)} in sum, found in the last 7 days.`,
    remedy:
      "These events are lost. `tidemark coverage` lists the gaps with their hours and reasons. See the log for what kept them from being read in time.",
    severity: "critical",
  });
}

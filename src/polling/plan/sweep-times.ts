import type { StreamCoverage } from "../../core/journal.ts";
import { DAY_MS, wholeSecondBefore } from "../../core/time.ts";
import { type NewWindow, newWindow, type PassBegin, type Stream, type Window } from "../../core/window.ts";

/** The times at which windows are due, by the config. */
export interface Times {
  readonly sweepsMs: readonly number[];
  readonly lastSweepMs: number;
  readonly retentionMs: number;
}

/** Windows up to this long are swept for the last time as a whole; longer ones a day at a time. */
const SLICE_MS_MAX = DAY_MS + 2 * 3_600_000;

export interface TimeStretch {
  readonly fromMs: number;
  readonly toMs: number;
}

export function isInside({ fromMs, toMs }: TimeStretch, timeMs: number): boolean {
  return timeMs >= fromMs && timeMs < toMs;
}

/** When the sweep with this number is due; the one after the listed ones comes before the service forgets. */
export function sweepDueMs(window: TimeStretch, sweep: number, times: Times): number | null {
  if (sweep < times.sweepsMs.length) return window.toMs + times.sweepsMs[sweep]!;
  if (sweep > times.sweepsMs.length) return null;
  return Math.max(
    window.fromMs + times.retentionMs - times.lastSweepMs,
    window.toMs + times.sweepsMs.at(-1)!,
  );
}

/**
 * An answer that leaves events out, with a count that fits, looks like the last page. So history that one pass has
 * sealed is compared once more, as long after the pass as the last listed sweep comes after a window's end. It stays
 * sealed, with that sweep undone. The days of a long window whose last sweep comes before are compared then.
 */
export function withSecondLook(window: Window, times: Times): Window {
  if (window.state !== "sealed" || window.nextMs === null) return window;
  const lookMs = lookDueMs(window, times);
  // Its last sweep compares all of it before that.
  if (window.nextMs <= lookMs && !isLong(window)) return window;
  return { ...window, sweeps: times.sweepsMs.length - 1, nextMs: Math.min(window.nextMs, lookMs) };
}

/** When a window is due that was cut off from another, with its sweeps. */
export function dueAfterCut(window: NewWindow, times: Times): number | null {
  if (!awaitsLook(window, times)) return sweepDueMs(window, window.sweeps, times);
  return Math.min(lookDueMs(window, times), sweepDueMs(window, times.sweepsMs.length, times)!);
}

/** Of a long window the last sweep compares the first day alone. */
export function isLastSweepOfDay(window: Window, times: Times): boolean {
  const listed = times.sweepsMs.length;
  if (!isLong(window)) return false;
  if (window.sweeps >= listed) return true;
  return awaitsLook(window, times) && window.nextMs === sweepDueMs(window, listed, times);
}

function awaitsLook({ state, sweeps }: NewWindow, { sweepsMs }: Times): boolean {
  return state === "sealed" && sweeps === sweepsMs.length - 1;
}

function lookDueMs({ askedMs }: NewWindow, { sweepsMs }: Times): number {
  return askedMs! + sweepsMs.at(-1)!;
}

function isLong({ fromMs, toMs }: TimeStretch): boolean {
  return toMs - fromMs > SLICE_MS_MAX;
}

/** A window that the clocks do not let be sealed is compared again after this. */
const CLOCKS_MS = DAY_MS;

/**
 * The state of a window after a whole pass or sweep (R3): it counts as every sweep that was due when it began, by the
 * earlier of both clocks. The window is sealed when the last listed one is done and nothing late was found; a find
 * schedules another. An answer about a time that the service had forgotten, by the later clock, proves nothing.
 */
export function settledAfter<W extends Window | NewWindow>(
  window: W,
  begun: PassBegin,
  foundLate: number,
  times: Times,
): W {
  const begunMs = Math.min(begun.begunMs, begun.localMs ?? begun.begunMs);
  const laterMs = Math.max(begun.begunMs, begun.localMs ?? begun.begunMs);
  if (window.fromMs < laterMs - times.retentionMs) {
    const state = window.state === "sealed" && foundLate === 0 ? "sealed" : "read";
    return { ...window, state, nextMs: begunMs + CLOCKS_MS, askedMs: begunMs };
  }
  const listed = times.sweepsMs.length;
  let sweeps = window.sweeps;
  while (sweeps < listed && sweepDueMs(window, sweeps, times)! <= begunMs) sweeps++;
  const lastDueMs = sweepDueMs(window, listed, times)!;
  if (sweeps === listed && lastDueMs <= begunMs && !isLong(window)) sweeps++;
  if (foundLate > 0 && sweeps >= listed) {
    // Not sealed yet: the last sweep is done again after the shortest wait.
    return {
      ...window,
      state: "read",
      sweeps: listed - 1,
      nextMs: begunMs + times.sweepsMs[0]!,
      askedMs: begunMs,
    };
  }
  return {
    ...window,
    state: sweeps >= listed ? "sealed" : "read",
    sweeps,
    nextMs: sweepDueMs(window, sweeps, times),
    askedMs: begunMs,
  };
}

/**
 * What a comparison, or a read in its place, makes of a window. `before`: as it was when that was due. History that was
 * not sealed by its read has its second look too: a replica that was behind may have answered both.
 */
export function settledSweep(
  before: Window,
  window: Window,
  begun: PassBegin,
  found: number,
  times: Times,
): Window {
  const settled = settledAfter(window, begun, found, times);
  const isHistory = (before.askedMs ?? 0) >= sweepDueMs(before, times.sweepsMs.length - 1, times)!;
  return before.state === "read" && isHistory ? withSecondLook(settled, times) : settled;
}

/** The parts of `wanted` that no stretch of `covered` covers. */
export function uncovered(wanted: TimeStretch, covered: readonly TimeStretch[]): TimeStretch[] {
  const missing: TimeStretch[] = [];
  let atMs = wanted.fromMs;
  for (const stretch of [...covered].sort((a, b) => a.fromMs - b.fromMs)) {
    if (stretch.toMs <= atMs) continue;
    if (stretch.fromMs >= wanted.toMs) break;
    if (stretch.fromMs > atMs) missing.push({ fromMs: atMs, toMs: stretch.fromMs });
    atMs = stretch.toMs;
    if (atMs >= wanted.toMs) return missing;
  }
  if (atMs < wanted.toMs) missing.push({ fromMs: atMs, toMs: wanted.toMs });
  return missing;
}

/** Organizations that miss the same stretches of the same services. */
export interface Missing {
  readonly organizations: readonly string[];
  readonly services: readonly string[];
  readonly stretches: readonly TimeStretch[];
}

/** The stretch that is wanted of an organization and a service, given what the ledger covers of them. */
export type Wanted = (covered: readonly TimeStretch[], organization: string) => TimeStretch | null;

/** The one rule that makes windows (R2): organizations × services × what is wanted, less what the ledger covers. */
export function missingStretches(
  organizations: readonly string[],
  services: readonly string[],
  wanted: Wanted,
  ledger: readonly StreamCoverage[],
): readonly Missing[] {
  const byOwner = new Map<string, StreamCoverage[]>();
  for (const coverage of ledger) {
    for (const owner of ownersOf(coverage.stream)) {
      const list = byOwner.get(owner);
      if (list === undefined) byOwner.set(owner, [coverage]);
      else list.push(coverage);
    }
  }
  const groups = new Map<string, Missing & { organizations: string[] }>();
  for (const organization of organizations) {
    const streams = byOwner.get(organization) ?? [];
    const missingOf = (service: string) => {
      const covered = streams
        .filter(({ stream }) => stream.services.includes(service))
        .flatMap((coverage) => coverage.covered);
      const stretch = wanted(covered, organization);
      return stretch === null ? [] : uncovered(stretch, covered);
    };
    for (const [key, missing] of byService(services, missingOf)) {
      if (missing.stretches.length === 0) continue;
      const group = groups.get(key);
      if (group === undefined) groups.set(key, { organizations: [organization], ...missing });
      else group.organizations.push(organization);
    }
  }
  return [...groups.values()];
}

/** The services that miss the same stretches are asked for together. */
function byService(services: readonly string[], missingOf: (service: string) => TimeStretch[]) {
  const groups = new Map<string, { services: string[]; stretches: TimeStretch[] }>();
  for (const service of services) {
    const stretches = missingOf(service);
    const key = JSON.stringify(stretches);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { services: [service], stretches });
    else group.services.push(service);
  }
  return [...groups.values()].map((group) => [JSON.stringify(group), group] as const);
}

/** The owners of a stream's events: its organizations, or "" for a provider's portal and a key's own one. */
export function ownersOf(stream: Pick<Stream, "organizations">): readonly string[] {
  return stream.organizations.length > 0 ? stream.organizations : [""];
}

/** Windows for a missing stretch: the part that is old enough to be sealed at once is a window of its own. */
export function windowsFor(stream: Stream, stretch: TimeStretch, nowMs: number, times: Times): NewWindow[] {
  const settledMs = wholeSecondBefore(nowMs - times.sweepsMs.at(-1)!);
  if (stretch.fromMs < settledMs && settledMs < stretch.toMs) {
    return [newWindow(stream, stretch.fromMs, settledMs), newWindow(stream, settledMs, stretch.toMs)];
  }
  return [newWindow(stream, stretch.fromMs, stretch.toMs)];
}

const PIECES_MAX = 48;

/**
 * Cuts what is left of a dense window into pieces that can be read in parallel. The first page, which was
 * full, reached `reachedMs`; all before that has been read. null: going on with the cursor is as good.
 */
export function piecesOf(window: TimeStretch, reachedMs: number): TimeStretch[] | null {
  const read = reachedMs - window.fromMs;
  const left = window.toMs - reachedMs;
  if (read <= 0) return null;
  const pagesLeft = left / read;
  if (pagesLeft < 3) return null;
  // Requests end at whole seconds, so pieces that met inside a second would both read the rest of it.
  const pieces = Math.min(PIECES_MAX, Math.ceil(pagesLeft / 3), Math.floor(left / 1000));
  if (pieces < 2) return null;
  const edges = Array.from({ length: pieces + 1 }, (_, at) => {
    if (at === 0) return reachedMs;
    return at === pieces ? window.toMs : wholeSecondBefore(reachedMs + (left * at) / pieces);
  });
  return edges.slice(0, -1).map((fromMs, at) => ({ fromMs, toMs: edges[at + 1]! }));
}

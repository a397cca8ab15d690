import { setImmediate } from "node:timers/promises";
import {
  type FilledStretch,
  type Gap,
  gapNameOf,
  isUnnamed,
  LISTED,
  type NewGap,
  ONE_EVENT,
  WITHOUT_ID,
} from "../../core/gap.ts";
import { matchPlaces, type TimePlace } from "../../core/places.ts";
import type { PreparedPage } from "../../core/prepare-page.ts";
import { FIELD, fieldText } from "../../core/scanner.ts";
import type { MissingEvent, Window } from "../../core/window.ts";
import type { PollContext } from "../context.ts";
import { streamOf } from "../plan/scope.ts";
import type { TimeStretch } from "../plan/sweep-times.ts";
import { identityBytesAt, ownerAt } from "./counts.ts";

/*
 * Events that the service showed by their identity and that were not held (R9). Replicas of the service may differ:
 * the read that follows need not return such an event.
 *
 * 1. The comparison notes the event.
 * 2. After the read the journal is asked again. An event that is still not held becomes a gap at once, so that it
 *    has a name even if the service never shows it again.
 * 3. The window is swept again until TRIES_MS after the gap was found. After that it may be sealed, with an alarm.
 * 4. A sweep that sees the event and finds it held ends the gap. The same is true of an event that was passed over.
 */
const TRIES_MS = 3_600_000;
/** Events closer together than this are looked up together, up to so many in a stretch of this length. */
const NEAR_MS = 3_600_000;
const TOGETHER_MAX = 1000;
const TOGETHER_MS_MAX = 6 * 3_600_000;
/** Others have their turn after so many lookups. */
const TURN_GROUPS = 20;
const TURN_EVENTS = 100;

export function doubtfulAt(page: PreparedPage, index: number, placeMs: number): MissingEvent {
  const id = fieldText(page.scanned, index, FIELD.id);
  const identity = id === undefined ? "" : identityBytesAt(page, index).toString("hex");
  const name = id === undefined ? undefined : gapNameOf(id, identity);
  return {
    identity,
    owner: ownerAt(page, index),
    timeMs: page.timesMs[index]!,
    placeMs,
    name,
    detail: `${LISTED}${name ?? WITHOUT_ID}, and reading that time did not return it`,
  };
}

/** The gaps of a stretch that name single events. */
export function namedGaps(context: PollContext, { fromMs, toMs }: TimeStretch): Promise<readonly Gap[]> {
  return context.journal.gaps({ account: context.account, reasons: ["unreadable"], fromMs, toMs });
}

/** Also the gap of an event that was passed over, which says why. */
function isAbout({ detail, fromMs }: Gap, event: MissingEvent): boolean {
  if (fromMs !== event.placeMs) return false;
  return detail === event.detail || (event.name !== undefined && detail.startsWith(`${event.name} is `));
}

export function gapOf(named: readonly Gap[], { detail, placeMs }: MissingEvent): Gap | undefined {
  return named.find((gap) => gap.detail === detail && gap.fromMs === placeMs);
}

/** Until then a sweep may still bring an event whose gap was found at that time; null: now. */
export function givenUpMs({ clock, settings }: PollContext, foundMs: number | null): number {
  return (foundMs ?? clock.now()) + Math.max(TRIES_MS, settings.sweepsMs.at(-1)!);
}

/** The gap of an event that was passed over. */
type Skip = TimeStretch & Pick<Gap, "detail">;

/** Whether an event was passed over. Another event of the same time may have been, so names are compared. */
function isSkipped(skips: readonly Skip[], { name }: MissingEvent, at: TimeStretch): boolean {
  const isIt = (skip: Skip) => name === undefined || (!isUnnamed(skip) && skip.detail.startsWith(`${name} `));
  return skips.some((skip) => overlap(skip, at) && isIt(skip));
}

/** The state of the doubtful events after the read. */
export interface Rechecked {
  /** Not held, and not named by a skip of this sweep. */
  readonly missing: readonly MissingEvent[];
  /** How many of them another sweep may still bring. */
  readonly awaited: number;
  readonly gaps: readonly NewGap[];
  readonly filled: FilledStretch[];
}

export async function recheck(
  context: PollContext,
  window: Window,
  doubtful: readonly MissingEvent[],
  named: readonly Gap[],
  skips: readonly Skip[],
): Promise<Rechecked> {
  const missing: MissingEvent[] = [];
  const filled: FilledStretch[] = [];
  const gaps: NewGap[] = [];
  let awaited = 0;
  const isHeld = await heldAmong(context, window, doubtful);
  for (const event of doubtful) {
    const { placeMs, detail, owner } = event;
    const gap = gapOf(named, event);
    const at = { fromMs: placeMs, toMs: placeMs + 1 };
    const end = (ended: Gap) =>
      filled.push({ stream: window.stream, ...at, reasons: ["unreadable"], detail: ended.detail });
    if (isHeld.has(event)) {
      for (const ended of named) if (isAbout(ended, event)) end(ended);
      continue;
    }
    // Named by a gap of its own that says more.
    if (isSkipped(skips, event, at)) {
      if (gap !== undefined) end(gap);
      continue;
    }
    missing.push(event);
    if (context.clock.now() < givenUpMs(context, gap?.foundMs ?? null)) awaited++;
    const { organizations } = window.stream;
    const isMember = organizations.length > 1 && organizations.includes(owner);
    const stream = isMember ? await streamOf(context, window.stream, [owner]) : window.stream;
    gaps.push({ stream, ...at, reason: "unreadable", detail, events: 1 });
  }
  return { missing, awaited, gaps, filled };
}

/**
 * Of the events without a name that a slice has met, those that the comparison has not. It may have listed the name of
 * such an event. Where all that it has listed there is held, the event is one of another window.
 */
export async function notYetMet(
  context: PollContext,
  window: Window,
  unnamed: readonly NewGap[],
  met: readonly NewGap[],
  doubtful: readonly MissingEvent[],
): Promise<NewGap[]> {
  if (unnamed.length === 0) return [];
  const isHeld = await heldAmong(context, window, doubtful);
  const listed = doubtful.map((event) => ({ ...placeOf(event), event }));
  const missing = listed.filter(({ event }) => event.name !== undefined && !isHeld.has(event));
  const matched = matchPlaces<TimePlace, TimePlace & { readonly event?: MissingEvent }>(unnamed, [
    met,
    missing,
    listed.filter(({ event }) => isHeld.has(event)),
  ]);
  return unnamed.flatMap((gap) => {
    const known = matched.get(gap);
    if (known === undefined) return [gap];
    if (known.event === undefined || isHeld.has(known.event)) return [];
    const detail = `${known.event.name}${gap.detail.slice(ONE_EVENT.length)}`;
    return [{ ...gap, ...placeOf(known.event), detail }];
  });
}

function placeOf({ placeMs }: MissingEvent): TimePlace {
  return { fromMs: placeMs, toMs: placeMs + 1 };
}

/**
 * The listed events without an id that are held and that the read did not return: the service has shown them. What is
 * missing, or was passed over, is counted elsewhere.
 */
export function heldUnreturned(
  withoutIds: readonly MissingEvent[],
  read: readonly Pick<MissingEvent, "owner" | "timeMs">[],
  missing: readonly MissingEvent[],
  skips: readonly Skip[],
): readonly MissingEvent[] {
  const keyOf = ({ owner, timeMs }: Pick<MissingEvent, "owner" | "timeMs">) => `${timeMs} ${owner}`;
  const returned = new Set(read.map(keyOf));
  const isMissing = new Set(missing);
  return withoutIds.filter(
    (event) =>
      !returned.has(keyOf(event)) &&
      !isMissing.has(event) &&
      !skips.some((skip) => overlap(skip, placeOf(event))),
  );
}

/** An event without an id counts as held where any event of its owner and time is. */
export async function heldAmong(
  { journal }: PollContext,
  { stream: { account, provider } }: Window,
  doubtful: readonly MissingEvent[],
): Promise<ReadonlySet<MissingEvent>> {
  const found = new Set<MissingEvent>();
  for (const [at, event] of doubtful.filter(({ identity }) => identity === "").entries()) {
    if (at > 0 && at % TURN_EVENTS === 0) await setImmediate();
    const { owner, timeMs } = event;
    const held = await journal.countHeld({
      ...{ owners: [owner], account, provider, fromMs: timeMs, toMs: timeMs + 1 },
    });
    if (held.has(owner)) found.add(event);
  }
  const identified = doubtful.filter(({ identity }) => identity !== "");
  for (const [at, group] of groupsOf(identified).entries()) {
    if (at > 0 && at % TURN_GROUPS === 0) await setImmediate();
    const owners = [...new Set(group.map(({ owner }) => owner))];
    const times = new Set(group.map(({ timeMs }) => timeMs));
    const held = await journal.held(owners, group[0]!.timeMs, group.at(-1)!.timeMs + 1, undefined, times);
    for (const event of group) if (held.has(Buffer.from(event.identity, "hex"))) found.add(event);
  }
  return found;
}

function groupsOf(doubtful: readonly MissingEvent[]): MissingEvent[][] {
  const groups: MissingEvent[][] = [];
  for (const event of [...doubtful].sort((a, b) => a.timeMs - b.timeMs)) {
    const group = groups.at(-1);
    const isNear = group !== undefined && event.timeMs - group.at(-1)!.timeMs <= NEAR_MS;
    const isShort = isNear && event.timeMs - group[0]!.timeMs <= TOGETHER_MS_MAX;
    if (isShort && group.length < TOGETHER_MAX) group.push(event);
    else groups.push([event]);
  }
  return groups;
}

function overlap(left: TimeStretch, right: TimeStretch): boolean {
  return left.fromMs < right.toMs && right.fromMs < left.toMs;
}

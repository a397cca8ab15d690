import type { App } from "../src/app.ts";
import type { Gap } from "../src/core/gap.ts";
import type { Window } from "../src/core/window.ts";
import { returnedMs } from "./calm.ts";
import type { ModelEvent } from "./events.ts";
import { nameOf, timeText, type Violation } from "./findings.ts";
import { type Plan, START_MS, sourceId, sourcesOf } from "./plan.ts";
import { isAskedFor } from "./service.ts";

/** The program's statements about an event's time: its windows and its gaps. */
export interface LedgerFacts {
  /** Whether the program names this time as missing, or as not wholly there. */
  isGap(event: ModelEvent): boolean;
  describe(event: ModelEvent): string;
  readonly windows: readonly Window[];
}

export async function readLedger(app: App): Promise<LedgerFacts> {
  const windows = await app.journal.windows();
  const gapsOf = grouped(await app.journal.gaps(), ({ organization, provider }) => [
    organization ?? provider ?? "",
  ]);
  const windowsOf = grouped(windows, ({ stream }) =>
    stream.provider === null ? stream.organizations : [stream.provider],
  );
  const covering = (event: ModelEvent) =>
    (windowsOf.get(sourceId(event.organization)) ?? []).filter((window) => covers(window, event));
  const gaps = (event: ModelEvent) =>
    (gapsOf.get(sourceId(event.organization)) ?? []).filter(
      ({ fromMs, toMs, services }) =>
        fromMs <= event.timeMs && event.timeMs < toMs && isAskedFor(event, services),
    );
  return {
    windows,
    isGap: (event) =>
      gaps(event).length > 0 ||
      covering(event).some(
        ({ live, state }) => state === "expired" || state === "refused" || (state === "unread" && !live),
      ),
    describe: (event) =>
      [...covering(event).map(windowText), ...gaps(event).map(gapText)].join("; ") || "no window covers it",
  };
}

export function covers({ fromMs, toMs, live, stream }: Window, event: ModelEvent): boolean {
  return fromMs <= event.timeMs && (event.timeMs < toMs || live) && isAskedFor(event, stream.services);
}

function grouped<Item>(
  items: readonly Item[],
  keysOf: (item: Item) => readonly string[],
): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items)
    for (const key of keysOf(item)) {
      const group = groups.get(key);
      if (group === undefined) groups.set(key, [item]);
      else group.push(item);
    }
  return groups;
}

function windowText({ state, live, fromMs, toMs, reason, heldCount, apiCount, askedMs }: Window): string {
  const asked = askedMs === null ? "" : ` asked ${timeText(askedMs)}`;
  return `${live ? "live" : state} ${timeText(fromMs)}–${timeText(toMs)} ${heldCount}/${apiCount}${asked} ${reason ?? ""}`.trim();
}

function gapText({ fromMs, toMs, reason, detail }: Gap): string {
  return `gap ${reason} ${timeText(fromMs)}–${timeText(toMs)} ${detail}`;
}

/** A sweep's moment is known to the second, as the service's Date is. */
const MOMENT_MS = 60_000;

/** Events of the last seconds before a poll may be shown after it, and count as late. Polls are ten minutes apart. */
const LATE_SHARE = 0.03;
/** A burst may lie there as a whole. */
const BURST_MS = 30_000;
const LATE_MAX = 2;

/** Where an event is. */
export interface Whereabouts {
  /** It is in a folder. */
  isHeld(event: ModelEvent): boolean;
  /** It is in a folder, and the state was not replaced by a backup that does not know it. */
  isKnown(event: ModelEvent): boolean;
  /** It is in the state and in no folder, and that is right. */
  isWaiting(event: ModelEvent): boolean;
}

/** Whether the source of a window showed the event when it was last compared. */
export function isShownTo({ settings }: Plan, { askedMs }: Window, { shownMs, timeMs }: ModelEvent): boolean {
  if (askedMs === null) return false;
  return shownMs <= askedMs - MOMENT_MS && timeMs >= askedMs - settings.retentionMs + MOMENT_MS;
}

/** The most events that lie so close together. */
function densest(events: readonly ModelEvent[]): number {
  const times = events.map(({ timeMs }) => timeMs).sort((a, b) => a - b);
  let most = 0;
  for (let from = 0, to = 0; to < times.length; to++) {
    while (times[to]! - times[from]! > BURST_MS) from++;
    most = Math.max(most, to - from + 1);
  }
  return most;
}

/** The last look at a window came while answers were cut short: nothing but the look after it can tell. */
function wasCutShort({ faults }: Plan, { askedMs }: Window): boolean {
  return faults.some(
    (fault) =>
      fault.kind === "service" &&
      fault.effect.type === "short_page" &&
      fault.fromMs <= askedMs! - START_MS + MOMENT_MS &&
      askedMs! - START_MS - MOMENT_MS <= fault.toMs,
  );
}

/**
 * A sealed window has everything that the service showed when it was last compared, and its counts are those
 * of the events that are there.
 */
export function judgeLedger(
  plan: Plan,
  { windows, isGap }: LedgerFacts,
  events: readonly ModelEvent[],
  { isHeld, isKnown, isWaiting }: Whereabouts,
): Violation[] {
  const found: Violation[] = [];
  const isNamed = (event: ModelEvent) => returnedMs(plan, event) > event.shownMs && isGap(event);
  const shownBy = new Map<number, number>();
  for (const { number } of events) shownBy.set(number, (shownBy.get(number) ?? 0) + 1);
  const indexes = new Map(sourcesOf(plan).map(({ index }) => [sourceId(index), index]));
  for (const window of windows) {
    if (window.state !== "sealed" || window.live || window.askedMs === null || window.reader !== null)
      continue;
    if (wasCutShort(plan, window)) continue;
    const { organizations, provider } = window.stream;
    const asked = new Set((provider === null ? organizations : [provider]).map((id) => indexes.get(id)));
    const inside = events.filter((event) => asked.has(event.organization) && covers(window, event));
    const shown = inside.filter((event) => isShownTo(plan, window, event));
    // An event that identities show and reads do not return is named by a gap.
    for (const event of shown)
      if (!isHeld(event) && event.odd === null && !isWaiting(event) && !isNamed(event))
        found.push({
          rule: "ledger",
          message: `${nameOf(event)} is missing in a sealed window: ${windowText(window)}`,
        });
    // An event without a time is held under a fixed one, outside the window in which the service shows it.
    // One of a foreign organization is kept apart and belongs to no count.
    const uncounted = inside.filter(({ odd }) => odd === "untimed" || odd === "foreign").length;
    const held = inside.filter(isHeld).length;
    // The other source of an event may have brought it before this one shows it.
    const known = inside.filter((event) => isKnown(event) && !isBroughtByOther(window, event)).length;
    const waiting = inside.filter(isWaiting).length;
    const { heldCount, apiCount, late } = window;
    // Without faults, polls and their overlap find nearly every event in time. A sweep may hide that reads skip some.
    const slow = inside.filter(({ shownMs, timeMs }) => shownMs - timeMs > plan.settings.overlapMs - 10_000);
    const lateMax = slow.length + LATE_MAX + densest(inside) + inside.length * LATE_SHARE;
    if (plan.faults.length === 0 && late > lateMax)
      report(`says that ${late} events came late, and ${slow.length} did`, window);
    if (heldCount !== null && (heldCount > held + waiting || heldCount < known - uncounted))
      report(`says that it holds ${heldCount} and holds ${held}`, window);
    if (apiCount !== null && (apiCount > inside.length || apiCount < shown.length - uncounted))
      report(`says that the service has ${apiCount} of between ${shown.length} and ${inside.length}`, window);
  }
  return found;

  function isBroughtByOther(window: Window, event: ModelEvent): boolean {
    return shownBy.get(event.number)! > 1 && !isShownTo(plan, window, event);
  }

  function report(what: string, window: Window): void {
    found.push({ rule: "ledger", message: `a sealed window ${what}: ${windowText(window)}` });
  }
}

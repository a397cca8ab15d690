import { createHash } from "node:crypto";
import type { App } from "../src/app.ts";
import { type Calm, createCalm, readableIn, returnedMs, statedMs } from "./calm.ts";
import type { ModelEvent } from "./events.ts";
import { nameOf, type Violation } from "./findings.ts";
import { heldInState } from "./held.ts";
import type { History, Interval, SinkLife } from "./history.ts";
import { countsIn, knownEvents } from "./known.ts";
import { judgeLedger, readLedger } from "./ledger.ts";
import { isConfigured, type Plan, START_MS, sourcesOf } from "./plan.ts";
import { isAskedFor } from "./service.ts";
import { judgeTotals } from "./totals.ts";

export interface Judgement {
  readonly violations: readonly Violation[];
  /** Equal for equal lives. */
  readonly digest: string;
  readonly delivered: number;
}

/** Compares the end of a life with everything that the service ever showed. */
export async function judge(plan: Plan, history: History, app: App, nowMs: number): Promise<Judgement> {
  const violations: Violation[] = [];
  const ledger = await readLedger(app);
  const calm = createCalm(plan, history, nowMs);
  const kept = keptApart(app);
  const digest = createHash("sha256");
  const held = new Set<ModelEvent>();
  let delivered = 0;
  const folders = history.sinks.map((sink) => ({ sink, counts: countsIn(history, sink, violations) }));
  const shownFirstMs = firstShown(folders.flatMap(({ counts }) => [...counts.keys()]));
  for (const { sink, counts } of folders) {
    delivered += new Set([...counts.keys()].map(({ number }) => number)).size;
    for (const event of history.service.events) {
      const count = counts.get(event) ?? 0;
      digest.update(`${sink.plan.folder} ${event.number} ${count}\n`);
      if (count > 0) held.add(event);
      if (count > 1) report("exactly once", `${nameOf(event)} is ${count} times in ${sink.plan.name}`);
      if (count > 0 || kept.has(event.text)) continue;
      if (sink.untilMs <= nowMs && history.namedBefore.has(event)) continue;
      // Another source has shown it before this sink was there, and another sink has it.
      if ((shownFirstMs.get(event.number) ?? Number.POSITIVE_INFINITY) <= sink.sinceMs) continue;
      const promise = promiseFor(plan, history, calm, event, sink, nowMs);
      if (promise === "nothing") continue;
      const isGap = ledger.isGap(event);
      // An event that cannot be read cannot be delivered, but it has to be named.
      if (
        promise === "delivered" &&
        (event.odd === null || event.odd === "untimed" || event.odd === "nameless")
      )
        report("delivered", `${nameOf(event)} is not in ${sink.plan.name}; ${ledger.describe(event)}`);
      else if (!isGap)
        report(
          "silent loss",
          `${nameOf(event)} is not in ${sink.plan.name} and in no gap; ${ledger.describe(event)}`,
        );
    }
  }
  const isHeld = (event: ModelEvent) => held.has(event);
  const isWaiting = await waitingInState(plan, history, app, isHeld, nowMs);
  const known = knownEvents(history, nowMs);
  const isKnown = (event: ModelEvent) => known.has(event);
  const where = { isHeld, isKnown, isWaiting };
  violations.push(...judgeLedger(plan, ledger, history.service.events, where));
  violations.push(...(await judgeTotals(plan, history, app, ledger, where)));
  digest.update(JSON.stringify(ledger.windows));
  return { violations, digest: digest.digest("hex").slice(0, 16), delivered };

  function report(rule: Violation["rule"], message: string): void {
    violations.push({ rule, message });
  }
}

/** When each event was first shown by any source. */
function firstShown(events: readonly ModelEvent[]): ReadonlyMap<number, number> {
  const firstMs = new Map<number, number>();
  for (const { number, shownMs } of events)
    firstMs.set(number, Math.min(shownMs, firstMs.get(number) ?? shownMs));
  return firstMs;
}

/**
 * Sinks that are replaced after a restored backup begin at the journal's end. An event that waited for one of the
 * old ones is then in the state and in no folder. Only an event that the state really has is excused; of events
 * that the service has forgotten the state may have forgotten the identity too.
 */
async function waitingInState(
  plan: Plan,
  history: History,
  app: App,
  isHeld: (event: ModelEvent) => boolean,
  nowMs: number,
): Promise<(event: ModelEvent) => boolean> {
  const excusable = history.service.events.filter(
    (event) => !isHeld(event) && event.shownMs < history.replacedMs,
  );
  const isDecidable = ({ odd, timeMs }: ModelEvent) =>
    odd === null && timeMs > nowMs - plan.settings.retentionMs;
  const known = await heldInState(app, excusable.filter(isDecidable));
  const excused = new Set(excusable.filter((event) => !isDecidable(event) || known.has(event)));
  return (event) => excused.has(event);
}

/** The program's duty for an event: to deliver it, to name its absence, or none. */
export function promiseFor(
  plan: Plan,
  history: History,
  calm: Calm,
  event: ModelEvent,
  sink: SinkLife,
  nowMs: number,
): "delivered" | "named" | "nothing" {
  if (!isAlwaysWanted(history, event, sink)) return "nothing";
  // A sink that is added later gets what comes after it.
  if (event.shownMs <= sink.sinceMs) return "nothing";
  const stated = statedMs(plan);
  const askedMs = Math.max(START_MS, firstAskedMs(history, event));
  const first = calm
    .intervals(event.organization, null)
    .find(({ fromMs, toMs }) => toMs - Math.max(fromMs, askedMs) > stated);
  if (first === undefined) return "nothing";
  // `since` counts from the first time that the organization was read with this service.
  const seenMs = Math.max(first.fromMs, askedMs) + plan.settings.discoveryMs + 2 * plan.tickMs + 3_600_000;
  if (event.timeMs < seenMs - sinceFor(history, seenMs)) return "nothing";
  if (!isEverServed(plan, event, stated)) return "nothing";
  const readable = readableIn(plan, event);
  if (readable === null || readable.fromMs > nowMs) return "nothing";
  if (!isEverConfigured(history, event.organization, readable)) return "nothing";
  for (const { fromMs, toMs } of calm.intervals(event.organization, sink))
    if (Math.min(toMs, readable.toMs) - Math.max(fromMs, readable.fromMs) >= stated) return "delivered";
  const isLate = returnedMs(plan, event) - event.timeMs > plan.settings.overlapMs - 10_000;
  return isLate || sink.untilMs <= nowMs || readable.fromMs > nowMs - stated ? "nothing" : "named";
}

/** Whether every config since the event asks for its service, and the sink takes it. */
function isAlwaysWanted({ settingsSince }: History, event: ModelEvent, sink: SinkLife): boolean {
  return settingsSince.every(({ settings }, at) => {
    const untilMs = settingsSince[at + 1]?.sinceMs ?? Number.POSITIVE_INFINITY;
    if (untilMs <= event.timeMs) return true;
    const { services } = settings.sinks.find(({ folder }) => folder === sink.plan.folder) ?? sink.plan;
    return (
      isAskedFor(event, settings.services) && (services === undefined || services.includes(event.service))
    );
  });
}

/** When a config first had both the organization and the service. */
function firstAskedMs({ settingsSince }: History, event: ModelEvent): number {
  const first = settingsSince.find(
    ({ settings }) => isConfigured(settings, event.organization) && isAskedFor(event, settings.services),
  );
  return first?.sinceMs ?? Number.POSITIVE_INFINITY;
}

/** `since` when the organization was first read; the smaller value where the config changed about then. */
function sinceFor(history: History, atMs: number): number {
  const before = history.settingsSince.filter(({ sinceMs }) => sinceMs <= atMs);
  return Math.min(...before.map(({ settings }) => settings.sinceMs));
}

/** Whether the config had the organization while the event could be read. */
function isEverConfigured({ settingsSince }: History, organization: number, readable: Interval): boolean {
  return settingsSince.some(({ sinceMs, settings }, at) => {
    const untilMs = settingsSince[at + 1]?.sinceMs ?? Number.POSITIVE_INFINITY;
    return isConfigured(settings, organization) && sinceMs < readable.toMs && readable.fromMs < untilMs;
  });
}

/** The service answers nothing about an organization that has left. Events from just before that cannot be read in time. */
function isEverServed(plan: Plan, event: ModelEvent, stated: number): boolean {
  const { joinsMs, leavesMs } = sourcesOf(plan).find(({ index }) => index === event.organization)!;
  const fromMs = Math.max(event.shownMs, event.timeMs, START_MS + joinsMs);
  return leavesMs === null || fromMs + stated < START_MS + leavesMs;
}

/** Events that the state keeps apart or names as missing. A backup that replaces it does not know of them. */
export async function namedIn(app: App, events: readonly ModelEvent[]): Promise<ModelEvent[]> {
  const [kept, { isGap }] = [keptApart(app), await readLedger(app)];
  return events.filter((event) => kept.has(event.text) || isGap(event));
}

/** Events that were set aside with their bytes: dead letters, and those of foreign organizations. */
export function keptApart({ db }: App): ReadonlySet<string> {
  const rows = db
    .prepare("SELECT bytes FROM dead_letters UNION ALL SELECT bytes FROM unattributed")
    .pluck()
    .all();
  return new Set((rows as Buffer[]).map((bytes) => Buffer.from(bytes).toString("utf8")));
}

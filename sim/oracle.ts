import { createHash } from "node:crypto";
import type { App } from "../src/app.ts";
import type { Window } from "../src/core/window.ts";
import { createCalm, readableIn, statedMs } from "./calm.ts";
import type { ModelEvent } from "./events.ts";
import type { History, SinkLife } from "./history.ts";
import { organizationId, type Plan, START_MS } from "./plan.ts";
import { isAskedFor } from "./service.ts";

export interface Violation {
  /** Which promise is broken. */
  readonly rule: "exactly once" | "delivered" | "silent loss" | "ledger" | "health" | "liveness" | "bounds" | "program";
  readonly message: string;
}

export interface Judgement {
  readonly violations: readonly Violation[];
  readonly digest: string;
  readonly delivered: number;
}

const VIOLATIONS_MAX = 20;

/** Compares the end of a life with everything that the service ever showed. */
export async function judge(plan: Plan, history: History, app: App, nowMs: number): Promise<Judgement> {
  const violations: Violation[] = [];
  const windows = await app.journal.windows();
  const ledger = createLedger(windows);
  const calm = createCalm(plan, history, nowMs);
  const kept = keptApart(app);
  let delivered = 0;
  const digest = createHash("sha256");
  for (const sink of history.sinks) {
    const counts = countsIn(history, sink, violations);
    delivered += counts.size;
    for (const event of history.service.events) {
      const count = counts.get(event.number) ?? 0;
      digest.update(`${sink.plan.folder} ${event.number} ${count}\n`);
      if (count > 1) report("exactly once", `${nameOf(event)} is ${count} times in ${sink.plan.name}`);
      if (count > 0 || kept.has(event.text)) continue;
      const promise = promiseFor(event, sink);
      if (promise === "delivered") report("delivered", `${nameOf(event)} is not in ${sink.plan.name}; ${ledger.describe(event)}`);
      if (promise === "named" && !ledger.isGap(event))
        report("silent loss", `${nameOf(event)} is not in ${sink.plan.name} and in no gap; ${ledger.describe(event)}`);
    }
  }
  return { violations: violations.slice(0, VIOLATIONS_MAX), digest: digest.digest("hex"), delivered };

  function report(rule: Violation["rule"], message: string): void {
    violations.push({ rule, message });
  }

  /** What the program owes for an event: to deliver it, to name its absence, or nothing. */
  function promiseFor(event: ModelEvent, sink: SinkLife): "delivered" | "named" | "nothing" {
    if (!isAskedFor(event, plan.settings.services)) return "nothing";
    if (sink.plan.services !== undefined && !sink.plan.services.includes(event.service)) return "nothing";
    const calmOfSource = calm.intervals(event.organization, null);
    const first = calmOfSource.find(({ fromMs, toMs }) => toMs - Math.max(fromMs, START_MS) > statedMs(plan));
    if (first === undefined) return "nothing";
    // `since` counts from the first time that the organization was read.
    if (event.timeMs < Math.max(first.fromMs, START_MS) + 3_600_000 - plan.settings.sinceMs) return "nothing";
    const readable = readableIn(plan, event);
    if (readable === null || readable.fromMs > nowMs) return "nothing";
    for (const { fromMs, toMs } of calm.intervals(event.organization, sink)) {
      const sharedMs = Math.min(toMs, readable.toMs) - Math.max(fromMs, readable.fromMs);
      if (sharedMs >= statedMs(plan)) return "delivered";
    }
    const isLate = event.shownMs - event.timeMs > plan.settings.overlapMs - 10_000;
    const isNewToSink = event.shownMs <= sink.sinceMs;
    return isLate || isNewToSink || readable.fromMs > nowMs - statedMs(plan) ? "nothing" : "named";
  }
}

/** How often each event is in a sink; whatever is there and is no event is a violation. */
export function countsIn(history: History, sink: SinkLife, violations: Violation[]): Map<number, number> {
  const counts = new Map<number, number>();
  for (const [path, bytes] of history.disk.files(sink.plan.folder)) {
    if (path.includes("/.tidemark/")) continue;
    const lines = bytes.toString("utf8").split("\n");
    if (lines.pop() !== "") violations.push({ rule: "exactly once", message: `${path} ends within a line` });
    for (const line of lines) {
      const event = history.byText.get(line);
      if (event === undefined) violations.push({ rule: "exactly once", message: `${path} holds a line that the service never sent: ${line.slice(0, 100)}` });
      else counts.set(event.number, (counts.get(event.number) ?? 0) + 1);
    }
  }
  return counts;
}

/** Events that were set aside with their bytes: dead letters, and those of foreign organizations. */
function keptApart({ db }: App): ReadonlySet<string> {
  const rows = db.prepare("SELECT bytes FROM dead_letters UNION ALL SELECT bytes FROM unattributed").pluck().all();
  return new Set((rows as Buffer[]).map((bytes) => Buffer.from(bytes).toString("utf8")));
}

function createLedger(windows: readonly Window[]) {
  const byOrganization = new Map<string, Window[]>();
  for (const window of windows)
    for (const id of window.stream.organizations) {
      const list = byOrganization.get(id);
      if (list === undefined) byOrganization.set(id, [window]);
      else list.push(window);
    }
  const covering = (event: ModelEvent) =>
    (byOrganization.get(organizationId(event.organization)) ?? []).filter(
      ({ fromMs, toMs, live, stream }) =>
        fromMs <= event.timeMs && (event.timeMs < toMs || live) && isAskedFor(event, stream.services),
    );
  return {
    /** Whether the ledger says that this time is not, or not wholly, there. */
    isGap: (event: ModelEvent) =>
      covering(event).some(
        ({ live, state, reason }) => state === "expired" || state === "refused" || (state === "unread" && !live) || (state === "read" && reason !== null),
      ),
    describe: (event: ModelEvent) => {
      const found = covering(event).map(
        ({ state, live, fromMs, toMs, reason, heldCount, apiCount }) =>
          `${live ? "live" : state} ${timeText(fromMs)}–${timeText(toMs)} ${heldCount}/${apiCount} ${reason ?? ""}`,
      );
      return found.length === 0 ? "no window covers it" : found.join("; ");
    },
  };
}

export function timeText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19);
}

export function nameOf(event: ModelEvent): string {
  return `event ${event.number} of organization ${event.organization} at ${timeText(event.timeMs)} (shown ${timeText(event.shownMs)})`;
}

import type { ModelEvent } from "./events.ts";
import { type Fault, recoveryMs } from "./faults.ts";
import { endMs } from "./generate.ts";
import type { History, Interval, SinkLife } from "./history.ts";
import { isConfigured, type Plan, START_MS, sourcesOf } from "./plan.ts";

/** When nothing was wrong: the times for which the program makes its promises. */
export interface Calm {
  /** Stretches during which the program ran and could reach this organization and this sink. */
  intervals(organization: number, sink: SinkLife | null): readonly Interval[];
}

export function createCalm(plan: Plan, history: History, nowMs: number): Calm {
  const cache = new Map<string, readonly Interval[]>();
  return {
    intervals(organization, sink) {
      const key = `${organization} ${sink?.plan.folder}`;
      const known = cache.get(key);
      if (known !== undefined) return known;
      const made = calmOf(plan, history, nowMs, organization, sink);
      cache.set(key, made);
      return made;
    },
  };
}

function calmOf(
  plan: Plan,
  history: History,
  nowMs: number,
  organization: number,
  sink: SinkLife | null,
): Interval[] {
  const troubles: Interval[] = plan.faults
    .filter((fault) => concerns(fault, organization, sink))
    .map((fault) => ({ fromMs: START_MS + fault.fromMs, toMs: START_MS + endMs(fault) + recoveryMs(fault) }));
  // A process that has just started reads what it missed first.
  let downSinceMs = Number.NEGATIVE_INFINITY;
  for (const { fromMs, toMs } of history.up) {
    troubles.push({ fromMs: downSinceMs, toMs: fromMs });
    downSinceMs = toMs;
  }
  troubles.push({ fromMs: nowMs, toMs: Number.POSITIVE_INFINITY });
  const { joinsMs, leavesMs } = sourcesOf(plan).find(({ index }) => index === organization)!;
  troubles.push({ fromMs: Number.NEGATIVE_INFINITY, toMs: START_MS + joinsMs });
  if (leavesMs !== null) troubles.push({ fromMs: START_MS + leavesMs, toMs: Number.POSITIVE_INFINITY });
  for (const [at, { sinceMs, settings }] of history.settingsSince.entries()) {
    if (isConfigured(settings, organization)) continue;
    troubles.push({
      fromMs: sinceMs,
      toMs: history.settingsSince[at + 1]?.sinceMs ?? Number.POSITIVE_INFINITY,
    });
  }
  if (sink !== null)
    troubles.push(
      { fromMs: Number.NEGATIVE_INFINITY, toMs: sink.sinceMs },
      { fromMs: sink.untilMs, toMs: Number.POSITIVE_INFINITY },
    );
  return without(troubles);
}

/** Whether a fault can delay this organization's events on their way to this sink. */
function concerns(fault: Fault, organization: number, sink: SinkLife | null): boolean {
  switch (fault.kind) {
    case "service": {
      const { effect } = fault;
      if (effect.type === "tenant" || effect.type === "history") return effect.organization === organization;
      return effect.type !== "date";
    }
    case "disk":
      return fault.target === "state" || (sink !== null && fault.target === sink.index);
    default:
      return true;
  }
}

/** All time less these stretches. */
function without(troubles: readonly Interval[]): Interval[] {
  const calm: Interval[] = [];
  let atMs = Number.NEGATIVE_INFINITY;
  for (const { fromMs, toMs } of [...troubles].sort((a, b) => a.fromMs - b.fromMs)) {
    if (fromMs > atMs) calm.push({ fromMs: atMs, toMs: fromMs });
    atMs = Math.max(atMs, toMs);
  }
  return calm;
}

/** The stated time of the promise: everything readable arrives when nothing is wrong for so long. */
export function statedMs(plan: Plan): number {
  return 2 * 3_600_000 + 15 * plan.tickMs;
}

/** When reads begin to return the event: the replica that answers them may be behind the one of identities. */
export function returnedMs({ faults }: Plan, { shownMs }: ModelEvent): number {
  let returned = shownMs;
  for (const fault of faults) {
    if (fault.kind !== "service" || fault.effect.type !== "replica") continue;
    const [fromMs, toMs] = [START_MS + fault.fromMs, START_MS + fault.toMs];
    const seenMs = shownMs + fault.effect.lagMs;
    if (seenMs > fromMs && shownMs < toMs) returned = Math.max(returned, Math.min(toMs, seenMs));
  }
  return returned;
}

/** The stretch of time in which the program has to come across the event; null: the program may never see it. */
export function readableIn(plan: Plan, event: ModelEvent): Interval | null {
  const { overlapMs, sweepsMs, windowMs, retentionMs, lastSweepMs } = plan.settings;
  const returned = returnedMs(plan, event);
  const lateMs = returned - event.timeMs;
  const forgottenMs = event.timeMs + retentionMs - 600_000 - 3 * plan.tickMs;
  const shownMs = Math.max(returned, event.timeMs);
  if (lateMs <= overlapMs - 10_000) return { fromMs: shownMs, toMs: forgottenMs };
  // Later than that, it waits for a sweep of its window: the last listed one, or the one before it is forgotten.
  const listedMs = event.timeMs + sweepsMs.at(-1)!;
  if (returned <= event.timeMs + leastSweepMs(plan) - 60_000)
    return { fromMs: listedMs + windowMs + 86_400_000 / 12, toMs: forgottenMs };
  const lastMs = event.timeMs + retentionMs - lastSweepMs;
  if (returned <= lastMs - 27 * 3_600_000 && lastMs - 27 * 3_600_000 > listedMs)
    return { fromMs: lastMs, toMs: forgottenMs };
  return null;
}

/** With the shortest list of sweeps that the config ever has. */
function leastSweepMs({ settings, faults }: Plan): number {
  const lists = faults.flatMap((fault) =>
    fault.kind === "reconfigure" && fault.change.type === "sweeps" ? [fault.change.sweepsMs] : [],
  );
  return Math.min(settings.sweepsMs.at(-1)!, ...lists.map((list) => list.at(-1)!));
}

import { DAY_MS } from "../../core/time.ts";
import type { Window, WindowChange } from "../../core/window.ts";
import { combined } from "../read/counts.ts";
import { sweepDueMs, type Times } from "./sweep-times.ts";

/** A merged window has no more events than one comparison with the service handles well. */
const EVENTS_MAX = 100_000;
/** A time that the service has forgotten is never asked for again, so a month of it may be one row. */
const FORGOTTEN_MS_MAX = 31 * DAY_MS;

/** Sealed neighbours of one stream become one row, up to a day in UTC. `windows` in the order of their time. */
export function mergedRuns(windows: readonly Window[], times: Times, nowMs: number) {
  const put: Window[] = [];
  const remove: number[] = [];
  const forgottenMs = nowMs - times.retentionMs - 7 * DAY_MS;
  const runs = new Map<string, Window[]>();
  for (const window of windows) {
    // A pass under way ends where its window ended when it began: it would not read the rest of a larger one.
    if (window.state !== "sealed" || window.live || window.pass !== null) continue;
    // A comparison that was asked for is not put off.
    if (window.nextMs === 0) continue;
    const key = `${window.stream.id} ${window.sweeps} ${window.nextMs === null} ${window.reader}`;
    const run = runs.get(key) ?? [];
    const fits = run.length > 0 && run.at(-1)!.toMs === window.fromMs && isSmall(run[0]!, run, window);
    if (!fits) flush(run);
    runs.set(key, fits ? [...run, window] : [window]);
  }
  for (const run of runs.values()) flush(run);
  return { put, remove } satisfies WindowChange;

  function isSmall(first: Window, run: readonly Window[], next: Window): boolean {
    const lengthMs = next.toMs - first.fromMs;
    if (next.toMs <= forgottenMs) return lengthMs <= FORGOTTEN_MS_MAX;
    const events = [...run, next].reduce((total, { apiCount }) => total + (apiCount ?? 0), 0);
    // Rows do not cross midnight in UTC, so that every day has its counts.
    return Math.floor(first.fromMs / DAY_MS) === Math.floor((next.toMs - 1) / DAY_MS) && events <= EVENTS_MAX;
  }

  /** History that waits for its second look goes on waiting. */
  function nextOf({ sweeps, nextMs, ...merged }: Window, run: readonly Window[]): number | null {
    if (nextMs === null) return null;
    const listed = times.sweepsMs.length;
    const lastMs = sweepDueMs(merged, Math.max(sweeps, listed), times);
    if (sweeps >= listed || lastMs === null) return lastMs;
    return Math.min(lastMs, Math.max(...run.map((window) => window.nextMs ?? 0)));
  }

  function flush(run: readonly Window[]): void {
    if (run.length < 2) return;
    const merged = run.reduce(joined);
    put.push({ ...merged, nextMs: nextOf(merged, run) });
    remove.push(...run.slice(1).map(({ id }) => id));
  }
}

function joined(left: Window, right: Window): Window {
  return {
    ...left,
    toMs: right.toMs,
    askedMs: Math.min(left.askedMs ?? 0, right.askedMs ?? 0),
    apiCount: sum(left.apiCount, right.apiCount),
    heldCount: sum(left.heldCount, right.heldCount),
    counts: combined(left.counts, right.counts, (a, b) => a + b),
    late: left.late + right.late,
    repeated: left.repeated + right.repeated,
    changed: left.changed + right.changed,
    reason: left.reason ?? right.reason,
  };
}

function sum(a: number | null, b: number | null): number | null {
  return a === null || b === null ? null : a + b;
}

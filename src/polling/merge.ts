import type { Window, WindowChange } from "../core/window.ts";
import { DAY_MS, sweepDueMs, type Times } from "./plan.ts";

/** Sealed neighbours of one stream become one row, up to a day long. `windows` in the order of their time. */
export function mergedRuns(windows: readonly Window[], times: Times): WindowChange {
  const put: Window[] = [];
  const remove: number[] = [];
  const runs = new Map<string, Window[]>();
  for (const window of windows) {
    if (window.state !== "sealed" || window.live) continue;
    const key = `${window.stream.id} ${window.sweeps} ${window.reader}`;
    const run = runs.get(key) ?? [];
    const fits =
      run.length > 0 && run.at(-1)!.toMs === window.fromMs && window.toMs - run[0]!.fromMs <= DAY_MS;
    if (!fits) flush(run);
    runs.set(key, fits ? [...run, window] : [window]);
  }
  for (const run of runs.values()) flush(run);
  return { put, remove };

  function flush(run: readonly Window[]): void {
    if (run.length < 2) return;
    const merged = run.reduce(joined);
    put.push({ ...merged, nextMs: sweepDueMs(merged, merged.sweeps, times) });
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
    late: left.late + right.late,
    repeated: left.repeated + right.repeated,
    changed: left.changed + right.changed,
    reason: left.reason ?? right.reason,
  };
}

function sum(a: number | null, b: number | null): number | null {
  return a === null || b === null ? null : a + b;
}

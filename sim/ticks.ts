import { recoveryMs } from "./faults.ts";
import { endMs, lifeEndMs } from "./generate.ts";
import type { Interval } from "./history.ts";
import { HOUR_MS, MINUTE_MS, type Plan, START_MS } from "./plan.ts";

/** Ticks in stretches where nothing happens to the program: a quiet day then costs few steps. */
const COARSE_TICK_MS = { short: 45 * MINUTE_MS, long: 3 * HOUR_MS };
const LONG_LIFE_MS = 30 * 24 * HOUR_MS;
/** So long after a fault has passed, and after a start, the ticks stay fine. */
const SETTLED_MS = 3 * HOUR_MS;
const LAST_MS = 2 * HOUR_MS;

/**
 * Chooses how long the ticks are: those of the plan around faults, around organizations that come or go, and at
 * both ends of the life; coarse ones between. To the program a coarse tick is a machine that was suspended.
 */
export function createTicks(plan: Plan): { atMs(nowMs: number): number } {
  const coarseMs = Math.max(
    plan.tickMs,
    plan.lengthMs > LONG_LIFE_MS ? COARSE_TICK_MS.long : COARSE_TICK_MS.short,
  );
  const fine = fineStretches(plan, coarseMs);
  return {
    atMs: (nowMs) =>
      fine.some(({ fromMs, toMs }) => fromMs <= nowMs && nowMs < toMs) ? plan.tickMs : coarseMs,
  };
}

/** They begin a coarse tick early, so that nothing sleeps across a beginning. */
function fineStretches(plan: Plan, coarseMs: number): Interval[] {
  const around = (fromMs: number, toMs: number): Interval => ({
    fromMs: START_MS + fromMs - coarseMs,
    toMs: START_MS + toMs + SETTLED_MS,
  });
  const comings = plan.organizations.flatMap(({ joinsMs, leavesMs }) =>
    [joinsMs, ...(leavesMs === null ? [] : [leavesMs])].map((ms) => around(ms, ms)),
  );
  return [
    around(0, 0),
    ...plan.faults.map((fault) => around(fault.fromMs, endMs(fault) + recoveryMs(fault))),
    ...comings,
    around(lifeEndMs(plan) - 12 * plan.tickMs - LAST_MS, lifeEndMs(plan)),
  ];
}

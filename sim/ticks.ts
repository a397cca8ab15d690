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
/** The same for plans with idle ticks: around the beginning of a fault, and around its end. */
const AROUND_MS = 2 * HOUR_MS;

export interface Ticks {
  /** How long the ticks are at a time. */
  atMs(nowMs: number): number;
  /** The next time after `nowMs` at which the ticks become fine. */
  nextFineMs(nowMs: number): number;
}

/**
 * Chooses how long the ticks are: those of the plan around faults, around organizations that come or go, and at
 * both ends of the life; coarse ones between. To the program a coarse tick is a machine that was suspended.
 */
export function createTicks(plan: Plan): Ticks {
  const usualMs = plan.lengthMs > LONG_LIFE_MS ? COARSE_TICK_MS.long : COARSE_TICK_MS.short;
  const coarseMs = Math.max(plan.tickMs, plan.idleTickMs ?? usualMs);
  const fine = plan.idleTickMs === undefined ? fineStretches(plan, coarseMs) : shortStretches(plan);
  return {
    atMs: (nowMs) =>
      fine.some(({ fromMs, toMs }) => fromMs <= nowMs && nowMs < toMs) ? plan.tickMs : coarseMs,
    nextFineMs: (nowMs) =>
      Math.min(Number.POSITIVE_INFINITY, ...fine.map(({ fromMs }) => fromMs).filter((ms) => ms > nowMs)),
  };
}

/** Most of a long fault and of a long recovery is idle time too: they are fine where they begin and end. */
function shortStretches(plan: Plan): Interval[] {
  const at = (ms: number): Interval => ({ fromMs: START_MS + ms, toMs: START_MS + ms + AROUND_MS });
  const faults = plan.faults.flatMap((fault) => [
    at(fault.fromMs),
    at(endMs(fault)),
    at(endMs(fault) + recoveryMs(fault)),
  ]);
  const lastMs = lifeEndMs(plan) - 4 * plan.tickMs - LAST_MS;
  return [
    at(0),
    ...faults,
    ...comingsOf(plan).map(at),
    { fromMs: START_MS + lastMs, toMs: Number.POSITIVE_INFINITY },
  ];
}

/** They begin a coarse tick early, so that nothing sleeps across a beginning. */
function fineStretches(plan: Plan, coarseMs: number): Interval[] {
  const around = (fromMs: number, toMs: number): Interval => ({
    fromMs: START_MS + fromMs - coarseMs,
    toMs: START_MS + toMs + SETTLED_MS,
  });
  return [
    around(0, 0),
    ...plan.faults.map((fault) => around(fault.fromMs, endMs(fault) + recoveryMs(fault))),
    ...comingsOf(plan).map((ms) => around(ms, ms)),
    around(lifeEndMs(plan) - 12 * plan.tickMs - LAST_MS, lifeEndMs(plan)),
  ];
}

/** When organizations come and go. */
function comingsOf({ organizations }: Plan): number[] {
  return organizations.flatMap(({ joinsMs, leavesMs }) => [
    joinsMs,
    ...(leavesMs === null ? [] : [leavesMs]),
  ]);
}

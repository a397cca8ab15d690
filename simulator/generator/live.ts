import type { Random } from "../random.ts";
import { activity, activityMean } from "./rhythm.ts";
import type { Traffic } from "./traffic.ts";

/** The traffic that goes on as the clock runs. Its events depend on the seed, not on when somebody looks. */
export interface LiveTraffic {
  /** Writes every event due until then; returns their numbers. */
  advance(nowMs: number): number[];
  /** Writes so many events now, spread over the last second. */
  burst(count: number, nowMs: number): number[];
  setRate(eventsPerSecond: number, nowMs: number): void;
}

/** A jump of the clock over months at a high rate writes at most this many; the rest of the jump stays quiet. */
const advanceMax = 1_000_000;

export function createLiveTraffic(
  traffic: Traffic,
  random: Random,
  start: { startMs: number; eventsPerSecond: number; futureMsMax: number },
): LiveTraffic {
  let { eventsPerSecond } = start;
  let nextMs = start.startMs + gap(start.startMs);
  let lastMs = start.startMs;

  function gap(ms: number): number {
    if (eventsPerSecond <= 0) return Number.POSITIVE_INFINITY;
    return random.exponential((1000 / eventsPerSecond) * (activityMean / activity(ms)));
  }

  function emit(atMs: number): number {
    lastMs = Math.max(lastMs, atMs);
    const ms = Math.floor(lastMs);
    const ns = Math.floor((lastMs - ms) * 1_000_000);
    return traffic.emit({ ms, ns, same: random.chance(0.02), latestMs: ms + start.futureMsMax });
  }

  return {
    advance(nowMs) {
      const written: number[] = [];
      while (nextMs <= nowMs && written.length < advanceMax) {
        written.push(emit(nextMs));
        nextMs += gap(nextMs);
      }
      if (nextMs <= nowMs) nextMs = nowMs + gap(nowMs);
      return written;
    },
    burst(count, nowMs) {
      const from = Math.max(lastMs, nowMs - 1000);
      return Array.from({ length: count }, (_, index) => emit(from + ((nowMs - from) * index) / count));
    },
    setRate(value, nowMs) {
      eventsPerSecond = value;
      nextMs = nowMs + gap(nowMs);
    },
  };
}

import type { Clock } from "../../core/clock.ts";

/** An answer longer ago than this, by the local clock, no longer vouches for that clock: it may have been set. */
const FRESH_MS_MAX = 120_000;

/**
 * The service's time, learned from the Date header of its answers, so that a wrong local clock neither
 * asks for the future nor leaves a gap. Date has whole seconds: the estimate errs to the past.
 */
export function createServiceClock(clock: Clock) {
  let offsetMs = 0;
  let learnedMs: number | undefined;
  return {
    /** False until the first answer, and when the last one is long ago. */
    get isFresh(): boolean {
      return learnedMs !== undefined && Math.abs(clock.now() - learnedMs) <= FRESH_MS_MAX;
    },
    get offsetMs(): number {
      return offsetMs;
    },
    now: (): number => Math.floor(clock.now() + offsetMs),
    learn(dateMs: number | undefined): void {
      if (dateMs === undefined) return;
      const seenMs = dateMs - clock.now();
      // Within a second the header says nothing new; the smaller estimate is the safer one.
      if (learnedMs === undefined || Math.abs(seenMs - offsetMs) > 1500) offsetMs = seenMs;
      learnedMs = clock.now();
    },
  };
}

export type ServiceClock = ReturnType<typeof createServiceClock>;

import type { Clock } from "../core/clock.ts";

/**
 * The service's time, learned from the Date header of its answers, so that a wrong local clock neither
 * asks for the future nor leaves a gap. Date has whole seconds: the estimate errs to the past.
 */
export function createServiceClock(clock: Clock) {
  let offsetMs = 0;
  let known = false;
  return {
    /** False until the first answer. */
    get known(): boolean {
      return known;
    },
    get offsetMs(): number {
      return offsetMs;
    },
    now: (): number => Math.floor(clock.now() + offsetMs),
    learn(dateMs: number | undefined): void {
      if (dateMs === undefined) return;
      const seenMs = dateMs - clock.now();
      // Within a second the header says nothing new; the smaller estimate is the safer one.
      if (!known || Math.abs(seenMs - offsetMs) > 1500) offsetMs = seenMs;
      known = true;
    },
  };
}

export type ServiceClock = ReturnType<typeof createServiceClock>;

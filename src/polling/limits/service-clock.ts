import type { Clock } from "../../core/clock.ts";

/** An answer longer ago than this, by the local clock, no longer vouches for that clock: it may have been set. */
const FRESH_MS_MAX = 120_000;
/** A difference from the local clock that has an alarm. */
export const OFFSET_MS_MAX = 300_000;
/** The estimate moves by less than this from one answer to the next. A window that reaches further beyond now is wrong. */
export const BEYOND_MS = 60_000;

/**
 * The service's time, learned from the Date header of its answers, so that a wrong local clock neither
 * asks for the future nor leaves a gap. Date has whole seconds: the estimate errs to the past.
 *
 * Either clock may be wrong, the service's or this machine's, and nothing shows which one.
 *
 * - Reading follows the service's time, whatever it is.
 * - Statements need both clocks. A comparison is due, and counts, by the earlier one. A window is sealed only if
 *   both say that its time has passed, and that the service still held it (sweep-times.ts).
 * - When the service's time falls back behind both clocks' view of now, windows that were placed by it are read again
 *   at once (bring-back.ts).
 */
export function createServiceClock(clock: Clock) {
  let offsetMs = 0;
  let learnedMs: number | undefined;
  let highestMs = Number.NEGATIVE_INFINITY;

  const now = () => Math.floor(clock.now() + offsetMs);

  return {
    /** False until the first answer, and when the last one is long ago. */
    get isFresh(): boolean {
      return learnedMs !== undefined && Math.abs(clock.now() - learnedMs) <= FRESH_MS_MAX;
    },
    get offsetMs(): number {
      return offsetMs;
    },
    now,
    /** The earlier of both clocks: comparisons are due by it. */
    earlierNow: (): number => Math.min(now(), clock.now()),
    learn(dateMs: number | undefined): void {
      if (dateMs !== undefined) {
        const seenMs = dateMs - clock.now();
        // Within a second the header says nothing new; the smaller estimate is the safer one.
        if (learnedMs === undefined || Math.abs(seenMs - offsetMs) > 1500) offsetMs = seenMs;
        learnedMs = clock.now();
      }
      highestMs = Math.max(highestMs, now());
    },
    /** Whether an answer has shown a time that both clocks call the future now; true once for each fall back. */
    hasFallenBack(): boolean {
      const nowMs = now();
      if (highestMs <= Math.max(nowMs, clock.now()) + BEYOND_MS) return false;
      highestMs = nowMs;
      return true;
    },
  };
}

export type ServiceClock = ReturnType<typeof createServiceClock>;

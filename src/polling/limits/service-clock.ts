import type { Clock } from "../../core/clock.ts";

/** An answer longer ago than this, by the local clock, no longer vouches for that clock: it may have been set. */
const FRESH_MS_MAX = 120_000;
/** A Date that differs by more than this from the time so far is not believed at once. */
const JUMP_MS_MAX = 6 * 3_600_000;
/** A difference from the local clock that has an alarm. */
export const OFFSET_MS_MAX = 300_000;
/** It is believed when so many answers agree, over so long. */
const AGREEING_MIN = 3;
const AGREEING_MS_MIN = 60_000;
/** Dates have whole seconds and answers take time, so agreeing ones differ by up to this. */
const AGREEMENT_MS = 30_000;

/** Another time than the one so far, as some answers say. */
interface Claim {
  readonly offsetMs: number;
  readonly sinceMs: number;
  readonly answers: number;
}

/**
 * The service's time, learned from the Date header of its answers, so that a wrong local clock neither
 * asks for the future nor leaves a gap. Date has whole seconds: the estimate errs to the past.
 *
 * - known: answers agree with the estimate within a few hours, which follows them.
 * - doubtful: an answer's Date is far from the estimate. Either one may be wrong: a front end of the service, or the
 *   local clock that was set. The earlier of both times counts, and nothing but live windows is read meanwhile.
 * - A Date near the estimate ends the doubt. So do several answers that agree on the other time: it becomes the
 *   estimate. The first answer is believed: the local clock may be wrong as well.
 */
export function createServiceClock(clock: Clock) {
  let offsetMs = 0;
  let learnedMs: number | undefined;
  let claim: Claim | undefined;

  function follow(seenMs: number): void {
    // Within a second the header says nothing new; the smaller estimate is the safer one.
    if (learnedMs === undefined || Math.abs(seenMs - offsetMs) > 1500) offsetMs = seenMs;
    claim = undefined;
  }

  function claimed(seenMs: number): Claim {
    const nowMs = clock.now();
    if (claim === undefined || Math.abs(seenMs - claim.offsetMs) > AGREEMENT_MS)
      return { offsetMs: seenMs, sinceMs: nowMs, answers: 1 };
    return { ...claim, offsetMs: Math.min(claim.offsetMs, seenMs), answers: claim.answers + 1 };
  }

  return {
    /** False until the first answer, and when the last one is long ago. */
    get isFresh(): boolean {
      return learnedMs !== undefined && Math.abs(clock.now() - learnedMs) <= FRESH_MS_MAX;
    },
    /** An answer's Date was far from the estimate, and it is not decided yet which of them is right. */
    get isDoubtful(): boolean {
      return claim !== undefined;
    },
    get offsetMs(): number {
      return offsetMs;
    },
    now: (): number => Math.floor(clock.now() + Math.min(offsetMs, claim?.offsetMs ?? offsetMs)),
    learn(dateMs: number | undefined): void {
      if (dateMs === undefined) return;
      const seenMs = dateMs - clock.now();
      if (learnedMs === undefined || Math.abs(seenMs - offsetMs) <= JUMP_MS_MAX) follow(seenMs);
      else {
        claim = claimed(seenMs);
        const agreedMs = clock.now() - claim.sinceMs;
        if (claim.answers >= AGREEING_MIN && agreedMs >= AGREEING_MS_MIN) follow(seenMs);
      }
      learnedMs = clock.now();
    },
  };
}

export type ServiceClock = ReturnType<typeof createServiceClock>;

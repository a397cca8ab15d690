import { RetryableError } from "../core/errors.ts";

/** The time on two clocks. A stopped process shows on both; a clock that is set back shows on one. */
export interface FenceInstant {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

export function instantNow(): FenceInstant {
  return { wallMs: Date.now(), monotonicMs: performance.now() };
}

/**
 * C9: nothing outside the lane is changed unless Kafka has confirmed lately that the lane is ours. Confirmations count
 * from the moment in which they were asked for. A process that is stopped between this check and what follows it can
 * still repeat one write; exactly-once destinations refuse it.
 */
export function createSelfFence(limitMs: number, now: () => FenceInstant = instantNow) {
  let last: FenceInstant = { wallMs: Number.NEGATIVE_INFINITY, monotonicMs: Number.NEGATIVE_INFINITY };
  /** By the larger of both clocks; a wall clock that was set back counts as no time. */
  const silentMs = () => {
    const { wallMs, monotonicMs } = now();
    return Math.max(wallMs - last.wallMs, monotonicMs - last.monotonicMs);
  };
  return {
    confirm(askedAt: FenceInstant): void {
      if (askedAt.monotonicMs > last.monotonicMs) last = askedAt;
    },
    silentMs,
    isOpen: () => silentMs() <= limitMs,
    /** Throws when the lane may belong to another machine by now. */
    check(): void {
      if (silentMs() <= limitMs) return;
      throw new RetryableError(
        "Kafka has not confirmed for a while that this machine still runs the lane: nothing is sent until it does.",
      );
    },
  };
}

export type SelfFence = ReturnType<typeof createSelfFence>;

/** All time goes through a clock, so that tests can control it. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Resolves after `ms`; rejects with the signal's reason as soon as it aborts. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

/**
 * Milliseconds that never go back, for waits: a clock that was set back by days must not make anything wait for as
 * long. A clock that is set ahead ends waits early, which does no harm.
 */
export function createSteadyTime(clock: Clock): () => number {
  let lastMs = clock.now();
  let offsetMs = 0;
  return () => {
    const nowMs = clock.now();
    if (nowMs < lastMs) offsetMs += lastMs - nowMs;
    lastMs = nowMs;
    return nowMs + offsetMs;
  };
}

const SLEEP_MS_MAX = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const stop = () => {
        clearTimeout(timer);
        reject(signal.reason);
      };
      const timer = setTimeout(
        () => {
          signal.removeEventListener("abort", stop);
          resolve();
        },
        Math.min(Math.max(ms, 0), SLEEP_MS_MAX),
      );
      signal.addEventListener("abort", stop, { once: true });
    }),
};

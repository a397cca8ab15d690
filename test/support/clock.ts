import type { Clock } from "../../src/core/clock.ts";

/** Time that passes only when the test says so; it can go backwards too. */
export interface FakeClock extends Clock {
  advance(ms: number): void;
  /** Sets the time without waking anybody. */
  set(ms: number): void;
  /** How many are asleep now. */
  readonly sleepers: number;
  /** The times that were slept for, in the order they were asked for. */
  readonly slept: readonly number[];
  /** Lets everything run that can run without time passing. */
  settle(): Promise<void>;
}

interface Sleeper {
  readonly untilMs: number;
  wake(): void;
}

export function createFakeClock(startMs = Date.parse("2026-03-14T15:00:00Z")): FakeClock {
  let nowMs = startMs;
  const sleepers = new Set<Sleeper>();
  const slept: number[] = [];
  return {
    now: () => nowMs,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason);
        slept.push(ms);
        const stop = () => {
          sleepers.delete(sleeper);
          reject(signal.reason);
        };
        const sleeper: Sleeper = {
          untilMs: nowMs + ms,
          wake() {
            sleepers.delete(sleeper);
            signal.removeEventListener("abort", stop);
            resolve();
          },
        };
        sleepers.add(sleeper);
        signal.addEventListener("abort", stop, { once: true });
      }),
    advance(ms) {
      nowMs += ms;
      for (const sleeper of [...sleepers]) if (sleeper.untilMs <= nowMs) sleeper.wake();
    },
    set(ms) {
      nowMs = ms;
    },
    get sleepers() {
      return sleepers.size;
    },
    slept,
    async settle() {
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

import type { Clock } from "./clock.ts";

/** Lets loops sleep until something has happened, a time has passed, or they are to stop. */
export interface Wake {
  /** Resolves at the next `wake`, after `ms`, or when the signal aborts; never rejects. Ask for it before looking for work. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
  wake(): void;
  /** A mark of now: `wait` returns at once when `wake` was called since. */
  mark(): number;
  waitSince(mark: number, ms: number, signal: AbortSignal): Promise<void>;
}

export function createWake(clock: Clock): Wake {
  let count = 0;
  const waiting = new Set<AbortController>();

  async function waitSince(mark: number, ms: number, signal: AbortSignal): Promise<void> {
    if (mark !== count || signal.aborted) return;
    const woken = new AbortController();
    waiting.add(woken);
    await clock.sleep(ms, AbortSignal.any([signal, woken.signal])).catch(() => {});
    waiting.delete(woken);
  }

  return {
    mark: () => count,
    waitSince,
    wait: (ms, signal) => waitSince(count, ms, signal),
    wake() {
      count++;
      for (const woken of waiting) woken.abort();
    },
  };
}

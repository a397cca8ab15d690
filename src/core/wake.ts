import type { Clock } from "./clock.ts";

/** Lets loops sleep until they are woken, a time has passed, or the signal aborts. */
export interface Wake {
  /** Resolves at the next `wake`, after `ms`, or when the signal aborts. Never rejects. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
  wake(): void;
  /** Take a mark before looking for work: `waitSince` returns at once if `wake` was called after it. */
  mark(): number;
  waitSince(mark: number, ms: number, signal: AbortSignal): Promise<void>;
}

const WOKEN = "woken";

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
      // A reason of its own saves an exception with its stack for every loop and append.
      for (const woken of waiting) woken.abort(WOKEN);
    },
  };
}

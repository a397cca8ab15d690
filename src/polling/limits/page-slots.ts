import type { Priority } from "./pace.ts";

/**
 * Room for pages in flight, over the whole process: what bounds memory. A page takes as many shares as it
 * may hold events, so that ten small pages take the room of one large one.
 */
export interface Slots {
  /** Waits for its turn: live before sweep before backfill, and in one priority whoever came first. */
  take(events: number, priority: Priority, signal: AbortSignal): Promise<() => void>;
  /** undefined when there is no room now, or somebody waits for it. */
  tryTake(events: number): (() => void) | undefined;
}

/** The most that the service puts into one page. */
export const PAGE_EVENTS_MAX = 10_000;

interface Waiter {
  readonly shares: number;
  enter(): void;
}

export function createSlots(pages: number): Slots {
  const total = pages * PAGE_EVENTS_MAX;
  let free = total;
  const waiting: [Waiter[], Waiter[], Waiter[]] = [[], [], []];

  function slot(shares: number): () => void {
    let given = false;
    free -= shares;
    return () => {
      if (given) return;
      given = true;
      free += shares;
      admit();
    };
  }

  function admit(): void {
    for (;;) {
      const queue = waiting.find((candidates) => candidates.length > 0);
      if (queue === undefined || queue[0]!.shares > free) return;
      queue.shift()!.enter();
    }
  }

  const sharesOf = (events: number) => Math.min(total, Math.max(1, events));

  return {
    tryTake(events) {
      const shares = sharesOf(events);
      return free < shares || waiting.some((queue) => queue.length > 0) ? undefined : slot(shares);
    },
    take(events, priority, signal) {
      return new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason);
        const waiter: Waiter = {
          shares: sharesOf(events),
          enter() {
            signal.removeEventListener("abort", leave);
            resolve(slot(waiter.shares));
          },
        };
        const leave = () => {
          waiting[priority].splice(waiting[priority].indexOf(waiter), 1);
          reject(signal.reason);
          admit();
        };
        signal.addEventListener("abort", leave, { once: true });
        waiting[priority].push(waiter);
        admit();
      });
    },
  };
}

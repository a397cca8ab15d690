import { type Clock, createSteadyTime } from "../core/clock.ts";
import { FULL_PAGE_EVENTS, type PageGate, type PagePriority } from "../core/page-gate.ts";
import { createWake } from "../core/wake.ts";

/*
 * The only place that decides whether another page may be read. A page enters when all of this is true:
 *
 *   1. No page of a higher priority waits, and none of its own that came earlier.
 *   2. The pages in flight leave room for it. A page counts by the events it may have, so ten small pages count
 *      as much as one large page.
 *   3. The journal is below its disk budget. Otherwise the page waits until space was freed; the service still
 *      has the events.
 *   4. The memory of pages is below its budget. Otherwise the page waits for the readers that keep up, since a
 *      reader that falls behind has to decompress and scan every page again. They get as long as a reader of
 *      EVENTS_PER_MS would need for one page; then the oldest decoded page is dropped. When none is left to
 *      drop, the page enters: the rest belongs to sinks in the middle of a write, which must not delay reading.
 */
/** Slower than any conversion: with 40, an export to OCSF files needs 40% more processor time and 60% more time. */
const EVENTS_PER_MS = 10;
/** A page in flight needs about this much; the memory of pages may grow to that times the pages in flight. */
const PAGE_BYTES = 16_000_000;

export interface DiskInput {
  hasRoom(): boolean;
  /** Resolves when there is room. */
  room(signal: AbortSignal): Promise<void>;
}

export interface MemoryInput {
  heldBytes(): number;
  onFree(listener: () => void): void;
  /** Drops the oldest decoded page; false when there is none. */
  dropOldest(): boolean;
}

export interface PageGateOptions {
  readonly pagesInFlight: number;
  readonly disk: DiskInput;
  readonly memory: MemoryInput;
  readonly clock: Clock;
}

export function createPageGate(options: PageGateOptions): PageGate {
  const { disk, memory, clock, pagesInFlight } = options;
  const turns = createTurns(pagesInFlight);
  const freed = createWake(clock);
  const steadyMs = createSteadyTime(clock);
  const isFull = () => memory.heldBytes() >= pagesInFlight * PAGE_BYTES;
  let fullSinceMs: number | undefined;
  memory.onFree(() => {
    if (isFull()) return;
    fullSinceMs = undefined;
    freed.wake();
  });

  async function untilMemory(signal: AbortSignal): Promise<void> {
    while (isFull()) {
      signal.throwIfAborted();
      fullSinceMs ??= steadyMs();
      const leftMs = fullSinceMs + FULL_PAGE_EVENTS / EVENTS_PER_MS - steadyMs();
      if (leftMs > 0) {
        await freed.wait(leftMs, signal);
        continue;
      }
      fullSinceMs = steadyMs();
      if (!memory.dropOldest()) return;
    }
  }

  return {
    async enter(events, priority, signal) {
      const leave = await turns.take(events, priority, signal);
      try {
        if (!disk.hasRoom()) await disk.room(signal);
        await untilMemory(signal);
        return leave;
      } catch (error) {
        leave();
        throw error;
      }
    },
    tryEnter: (events) => (disk.hasRoom() && !isFull() ? turns.tryTake(events) : undefined),
  };
}

interface Waiter {
  readonly shares: number;
  enter(): void;
}

/** Rules 1 and 2: the queue, and the shares of the pages in flight. */
function createTurns(pages: number) {
  const total = pages * FULL_PAGE_EVENTS;
  let free = total;
  const waiting: [Waiter[], Waiter[], Waiter[]] = [[], [], []];
  const sharesOf = (events: number) => Math.min(total, Math.max(1, events));

  function enter(shares: number): () => void {
    let hasLeft = false;
    free -= shares;
    return () => {
      if (hasLeft) return;
      hasLeft = true;
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

  return {
    tryTake(events: number): (() => void) | undefined {
      const shares = sharesOf(events);
      return free < shares || waiting.some((queue) => queue.length > 0) ? undefined : enter(shares);
    },
    take(events: number, priority: PagePriority, signal: AbortSignal): Promise<() => void> {
      return new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason);
        const waiter: Waiter = {
          shares: sharesOf(events),
          enter() {
            signal.removeEventListener("abort", leave);
            resolve(enter(waiter.shares));
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

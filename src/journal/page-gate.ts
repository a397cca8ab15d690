import { type Clock, createSteadyTime } from "../core/clock.ts";
import { FULL_PAGE_EVENTS, type PageGate, type PagePriority } from "../core/page-gate.ts";
import { createWake } from "../core/wake.ts";
import { createTroubledPlace } from "./troubled-place.ts";

/*
 * The only place that decides whether another page may be read, and when it may be committed. A page enters when
 * all of this is true:
 *
 *   1. No page of a higher priority waits, and none of its own that came earlier. Every fourth place is left to the next
 *      lower priority: pages hold their places while they wait for a service that limits requests.
 *   2. The pages in flight leave room for it. A page counts by the events it may have, so ten small pages count
 *      as much as one large page.
 *   3. The journal is below its disk budget. Otherwise the page waits until space was freed; the service still
 *      has the events.
 *   4. The memory of pages is below its budget. Otherwise the page waits for the readers that keep up, since a
 *      reader that falls behind has to decompress and scan every page again. They get as long as a reader of
 *      EVENTS_PER_MS would need for one page; then the oldest decoded page is dropped. When none is left to
 *      drop, the page enters: the rest belongs to sinks in the middle of a write, which must not delay reading.
 *      A page that is asked for ahead enters only where the budget has room for all of it: where readers are slower
 *      than the service, it would only take memory. That is 10 to 15 MB less, at the same speed.
 *
 * Pages of streams that are known to stall take one place together (troubled-place.ts): they may hold it until their
 * time-out, and must leave the others to live pages.
 *
 * Readers deliver pages in the order of their commits, so a live page waits for all that were committed before it.
 * Live pages are committed at once. Any other page is committed when all of this is true:
 *
 *   5. The one before it is committed, live pages aside.
 *   6. No live page is on its way. That is worth LIVE_MS at most: its service may hang.
 *   7. No reader that keeps up has more than a few events left to take (readers-lag.ts). A live page then waits for
 *      what readers have in work, and for little else. A reader gets as long as by rule 4, and is then not waited for
 *      until it goes on. One that falls far behind has to catch up first.
 *   8. The readers have taken the last live page. That is worth LIVE_TAKEN_MS: the commit of a full page and its
 *      checkpoint block the process for up to 40 ms, and its sync slows the write of the live page.
 *
 * Without rules 5 to 8 a live page waits several times as long during a backfill, which is no faster.
 */
/** Slower than any conversion: with 40, an export to OCSF files needs 40% more processor time and 60% more time. */
const EVENTS_PER_MS = 10;
const LIVE_MS = 200;
const LIVE_TAKEN_MS = 60;
/** A reader gets so long for a page. */
const READER_MS = FULL_PAGE_EVENTS / EVENTS_PER_MS;
const LIVE: PagePriority = 0;
/** A page in flight needs about this much; the memory of pages may grow to that times the pages in flight. */
const PAGE_BYTES = 14_000_000;

const PASSED_OVER_MAX = 3;

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

export interface ReadersInput {
  /** Whether a reader that keeps up has more than a few events before it. */
  isBehind(): boolean;
  /** Whether a reader that keeps up has any event before it. */
  hasMore(): boolean;
  /** Those that are behind now are not waited for until they go on. */
  giveUp(): void;
  onMove(listener: () => void): void;
}

export interface PageGateOptions {
  readonly pagesInFlight: number;
  readonly disk: DiskInput;
  readonly memory: MemoryInput;
  readonly readers: ReadersInput;
  readonly clock: Clock;
}

export function createPageGate(options: PageGateOptions): PageGate {
  const { disk, memory, readers, clock, pagesInFlight } = options;
  const turns = createTurns(pagesInFlight);
  const freed = createWake(clock);
  const moved = createWake(clock);
  const steadyMs = createSteadyTime(clock);
  const troubledPlace = createTroubledPlace(steadyMs);
  const bytesMax = pagesInFlight * PAGE_BYTES;
  const isFull = () => memory.heldBytes() >= bytesMax;
  const hasRoomFor = (events: number) =>
    memory.heldBytes() + (events / FULL_PAGE_EVENTS) * PAGE_BYTES <= bytesMax;
  let fullSinceMs: number | undefined;
  let livePages = 0;
  let liveCommitMs = Number.NEGATIVE_INFINITY;
  let lastCommit: Promise<unknown> = Promise.resolve();
  memory.onFree(() => {
    if (isFull()) return;
    fullSinceMs = undefined;
    freed.wake();
  });
  readers.onMove(() => moved.wake());

  async function untilMemory(signal: AbortSignal): Promise<void> {
    while (isFull()) {
      signal.throwIfAborted();
      fullSinceMs ??= steadyMs();
      const leftMs = fullSinceMs + READER_MS - steadyMs();
      if (leftMs > 0) {
        await freed.wait(leftMs, signal);
        continue;
      }
      fullSinceMs = steadyMs();
      if (!memory.dropOldest()) return;
    }
  }

  function isLiveLeft(): boolean {
    return steadyMs() - liveCommitMs < LIVE_TAKEN_MS && readers.hasMore();
  }

  /** Rules 6 to 8. */
  async function untilOthers(signal: AbortSignal): Promise<void> {
    const sinceMs = steadyMs();
    for (;;) {
      signal.throwIfAborted();
      const mostMs = readers.isBehind()
        ? READER_MS
        : livePages > 0
          ? LIVE_MS
          : isLiveLeft()
            ? LIVE_TAKEN_MS
            : 0;
      const leftMs = sinceMs + mostMs - steadyMs();
      if (leftMs <= 0) return readers.giveUp();
      await moved.wait(leftMs, signal);
    }
  }

  /** The result, called once, says that the live page is committed or given up. */
  function countLive(): () => void {
    livePages++;
    return () => {
      livePages--;
      moved.wake();
    };
  }

  return {
    async enter(events, priority, signal, troubled) {
      const giveBack = troubled === undefined ? () => {} : troubledPlace.take(troubled);
      const turn = await turns.take(events, priority, signal).catch((error: unknown) => {
        giveBack();
        throw error;
      });
      const leave = once(turn, giveBack);
      try {
        if (!disk.hasRoom()) await disk.room(signal);
        await untilMemory(signal);
      } catch (error) {
        leave();
        throw error;
      }
      return priority === LIVE ? once(leave, countLive()) : leave;
    },
    tryEnter: (events) => (disk.hasRoom() && hasRoomFor(events) ? turns.tryTake(events) : undefined),
    async commit(priority, signal, work) {
      if (priority === LIVE) {
        const result = await work();
        liveCommitMs = steadyMs();
        return result;
      }
      const committing = lastCommit.then(() => untilOthers(signal)).then(work);
      lastCommit = committing.catch(() => {});
      return committing;
    },
  };
}

function once(...steps: (() => void)[]): () => void {
  return () => {
    for (const step of steps.splice(0)) step();
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
  /** How often in a row lower priorities have been passed over. */
  let passedOver = 0;
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
      const [first, below] = waiting.filter((candidates) => candidates.length > 0);
      const isBelow = below !== undefined && passedOver >= PASSED_OVER_MAX;
      const queue = isBelow ? below : first;
      if (queue === undefined || queue[0]!.shares > free) return;
      passedOver = below === undefined || isBelow ? 0 : passedOver + 1;
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

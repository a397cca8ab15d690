import { type Clock, createSteadyTime, systemClock } from "./clock.ts";
import { collectAfterHuge, collectDropped, HUGE_BYTES } from "./collect-garbage.ts";
import { type LeasedBytes, leaseOf, type PageLease } from "./page-lease.ts";

/**
 * Memory for pages. A full page has ten megabytes and lives for a moment: the garbage collector would run all
 * the time if each had memory of its own, so large buffers are reused. This saves 13% of processor time and 12%
 * of peak memory in a raw export. A buffer comes back when its last lease
 * ends, and in no other way.
 */
export interface PageMemory {
  /** Uninitialized memory of at least this size. */
  take(bytes: number): LeasedBytes;
  /** A lease on bytes that were allocated elsewhere: they count as held, and are never reused. */
  adopt(bytes: Buffer): PageLease;
  /** The bytes of all memory that has a lease. Huge pages count twice: scanning and storing them takes as much again. */
  heldBytes(): number;
  /**
   * Whether so many bytes more are within the memory budget. A body that would exceed it is given up and read
   * again with smaller pages; a single event that would exceed it waits for `alone`.
   */
  hasRoom(bytes: number): boolean;
  /**
   * Resolves when the caller alone may exceed the budget; the result ends that. Where much memory is held, it waits a
   * moment for the holders.
   */
  alone(signal: AbortSignal): Promise<() => void>;
}

export interface BufferPool extends PageMemory {
  /** Calls back whenever memory was freed. */
  onFree(listener: () => void): void;
  /** Gives reusable buffers to the garbage collector once they have been idle for a while. */
  dropIdle(nowMs: number): void;
}

export interface BufferPoolOptions {
  /** The budget of `hasRoom`, over all pages and bodies in flight. */
  readonly bytesMax?: number;
  readonly clock?: Clock;
  /** Fills memory with a pattern when its last lease ends, so that a late look sees it. For tests. */
  readonly poison?: boolean;
}

/** The pattern of poisoned memory: no UTF-8 text, and no offset that could be inside a page. */
export const POISON = 0xdb;

const LARGE_BYTES = 2_000_000;
/**
 * Columns, identities, records and the compressed page are stored behind a page, and elsewhere if there is no room. A
 * page of small events needs a third of its size; a full one needs at most 1.5 MB and what it is compressed to.
 */
const BEHIND_SHARE_MAX = 0.35;
const BEHIND_BYTES = 1_500_000;
const COMPRESSED_SHARE = 0.12;
const BEHIND_BYTES_MAX = 6_000_000;
/** Sizes are rounded up, so that a buffer fits other pages of about the same size. */
const STEP_BYTES = 524_288;
/**
 * Twice what pages need in normal operation, and enough for one body of the default `bodyMax`, which needs it three times.
 * Hostile answers stay far below the memory of a small container.
 */
const BYTES_MAX = 104_000_000;
const KEPT_MAX = 4;
/** Bodies of unknown length grow by blocks. An endless body uses them up faster than garbage is collected. */
export const BLOCK_BYTES = 1_048_576;
/**
 * Blocks are kept while they and all held memory are at most so many budgets: one for the bodies in flight, and a
 * half for the one that may exceed it. Blocks beyond that would be garbage as fast as a hostile service sends.
 */
const BLOCK_BUDGETS = 1.5;
/** Larger buffers are rare and go to the garbage collector: idle memory is not part of the budget. */
const KEPT_BYTES_MAX = 32_000_000;
/** All of them: four full pages of usual events. */
const KEPT_SUM_MAX = 80_000_000;
/** A sink that is stopped may hold pages for ever. */
const ALONE_WAIT_MS = 2000;
const ALONE_LOOK_MS = 10;
const KEPT_MS = 10_000;

export function createBufferPool({
  clock = systemClock,
  poison = false,
  bytesMax = BYTES_MAX,
}: BufferPoolOptions = {}): BufferPool {
  const queue = createQueue();
  const steadyMs = createSteadyTime(clock);
  const kept: ArrayBuffer[] = [];
  const blocks = createIdleBlocks();
  const listeners: (() => void)[] = [];
  let heldBytes = 0;
  let usedSince = true;
  let idleSinceMs = 0;

  function lease(bytes: Buffer, countedBytes: number, isReusable: boolean): PageLease {
    heldBytes += countedBytes;
    return leaseOf(bytes, (last) => {
      heldBytes -= countedBytes;
      if (poison) last.fill(POISON);
      if (isReusable) keep(last);
      for (const listener of listeners) listener();
    });
  }

  function keep({ buffer }: Buffer): void {
    // Memory that is still in another thread is detached here and has no bytes.
    if (!(buffer instanceof ArrayBuffer)) return;
    if (buffer.byteLength === BLOCK_BYTES) {
      if (heldBytes + blocks.bytes() + BLOCK_BYTES <= BLOCK_BUDGETS * bytesMax) blocks.keep(buffer);
      return;
    }
    if (buffer.byteLength > KEPT_BYTES_MAX) {
      collectAfterHuge(buffer.byteLength);
      return;
    }
    if (buffer.byteLength < LARGE_BYTES) return;
    if (poison) new Uint8Array(buffer).fill(POISON);
    kept.push(buffer);
    const isTooMuch = () => kept.reduce((sum, { byteLength }) => sum + byteLength, 0) > KEPT_SUM_MAX;
    while (kept.length > KEPT_MAX || isTooMuch()) collectDropped(kept.shift()!.byteLength);
    usedSince = true;
  }

  function dropUnfitting(bytes: number): void {
    const fitting = kept.filter(({ byteLength }) => byteLength >= bytes && byteLength <= 3 * bytes);
    const dropped = kept.splice(0, kept.length, ...fitting.slice(0, 1));
    collectDropped(
      dropped.reduce((sum, { byteLength }) => sum + byteLength, 0) - (fitting[0]?.byteLength ?? 0),
    );
  }

  function reusable(bytes: number): Buffer | undefined {
    const fitting = kept.findIndex(({ byteLength }) => byteLength >= bytes && byteLength <= 3 * bytes);
    return fitting < 0 ? undefined : Buffer.from(kept.splice(fitting, 1)[0]!);
  }

  return {
    take(bytes) {
      usedSince = true;
      const isLarge = bytes >= LARGE_BYTES;
      // Idle buffers are not part of the budget, so they go first when it is nearly used up.
      if (heldBytes + bytes > bytesMax / 2) dropUnfitting(bytes);
      if (isLarge) blocks.drop(heldBytes + blocks.bytes() + bytes - bytesMax);
      const memory =
        (isLarge ? reusable(bytes) : bytes === BLOCK_BYTES ? blocks.take() : undefined) ??
        Buffer.allocUnsafeSlow(isLarge ? roundedUp(bytes + behind(bytes)) : bytes);
      const countedBytes = memory.length + (bytes > HUGE_BYTES ? bytes : 0);
      return { bytes: memory, lease: lease(memory, countedBytes, isLarge || bytes === BLOCK_BYTES) };
    },
    adopt: (bytes) => lease(bytes, bytes.length, false),
    heldBytes: () => heldBytes,
    hasRoom: (bytes) => heldBytes + (bytes > HUGE_BYTES ? 2 * bytes : bytes) <= bytesMax,
    async alone(signal) {
      const leave = await queue.enter(signal);
      try {
        const untilMs = steadyMs() + ALONE_WAIT_MS;
        while (heldBytes > bytesMax / 2 && steadyMs() < untilMs) await clock.sleep(ALONE_LOOK_MS, signal);
        return leave;
      } catch (error) {
        leave();
        throw error;
      }
    },
    onFree: (listener) => void listeners.push(listener),
    dropIdle(nowMs) {
      blocks.dropSpare(nowMs);
      if (usedSince) idleSinceMs = nowMs;
      usedSince = false;
      if (nowMs - idleSinceMs < KEPT_MS) return;
      kept.splice(0);
      blocks.drop(Number.POSITIVE_INFINITY);
    },
  };
}

function behind(bytes: number): number {
  return Math.min(BEHIND_BYTES + bytes * COMPRESSED_SHARE, bytes * BEHIND_SHARE_MAX, BEHIND_BYTES_MAX);
}

function roundedUp(bytes: number): number {
  return Math.ceil(bytes / STEP_BYTES) * STEP_BYTES;
}

/** Blocks that wait to be used again. */
function createIdleBlocks() {
  const idle: ArrayBuffer[] = [];
  /** The fewest that were idle since `lookedMs`: nothing needed them. */
  let spare = 0;
  let lookedMs = 0;
  return {
    bytes: () => idle.length * BLOCK_BYTES,
    keep: (block: ArrayBuffer) => void idle.push(block),
    take(): Buffer | undefined {
      const block = idle.pop();
      spare = Math.min(spare, idle.length);
      return block && Buffer.from(block);
    },
    /** Gives at least so many bytes to the garbage collector, as far as there are any. */
    drop(bytes: number): void {
      if (bytes > 0) idle.splice(0, Math.ceil(bytes / BLOCK_BYTES));
      spare = Math.min(spare, idle.length);
    },
    /** Drops those that nothing has needed for a while. */
    dropSpare(nowMs: number): void {
      if (nowMs - lookedMs < KEPT_MS) return;
      idle.splice(0, spare);
      spare = idle.length;
      lookedMs = nowMs;
    },
  };
}

/** Memory that is not shared with anything: the garbage collector takes it back. */
export const ordinaryMemory: PageMemory = {
  take: (bytes) => {
    const memory = Buffer.allocUnsafeSlow(bytes);
    return { bytes: memory, lease: leaseOf(memory, () => {}) };
  },
  adopt: (bytes) => leaseOf(bytes, () => {}),
  heldBytes: () => 0,
  hasRoom: () => true,
  alone: async () => () => {},
};

/** One at a time, in the order of their asking. */
function createQueue() {
  let last: Promise<unknown> = Promise.resolve();
  return {
    async enter(signal: AbortSignal): Promise<() => void> {
      const before = last;
      let leave = () => {};
      last = new Promise<void>((resolve) => {
        leave = resolve;
      });
      await before;
      if (!signal.aborted) return leave;
      leave();
      throw signal.reason;
    },
  };
}

/** Makes a typed array. */
export type Allocate = <View>(
  type: {
    new (buffer: ArrayBuffer, byteOffset: number, length: number): View;
    readonly BYTES_PER_ELEMENT: number;
  },
  length: number,
) => View;

export const allocateAnew: Allocate = (type, length) =>
  new type(new ArrayBuffer(length * type.BYTES_PER_ELEMENT), 0, length);

/** Makes typed arrays in the free memory behind a page, and elsewhere once that is used up. */
export function allocateBehind({ buffer, byteOffset, byteLength }: Uint8Array<ArrayBuffer>): Allocate {
  let at = byteOffset + byteLength;
  return (type, length) => {
    const start = Math.ceil(at / 8) * 8;
    const end = start + length * type.BYTES_PER_ELEMENT;
    if (end > buffer.byteLength) return allocateAnew(type, length);
    at = end;
    return new type(buffer, start, length);
  };
}

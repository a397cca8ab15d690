import type { Clock } from "../src/core/clock.ts";

/**
 * The time of a simulated life. It jumps to the next moment at
 * which a sleeper wakes.
 *
 * Sleeps of a second and more end on the next multiple of the tick: the idle loops of the program then wake
 * together, and a quiet day costs few steps. To the program that is a machine on which timers are late.
 */
export interface WorldClock {
  /** Milliseconds since the epoch, the true time. */
  readonly nowMs: number;
  tickMs: number;
  /** No coarse sleep lasts beyond this time, except to the tick that follows it. */
  wakeMs: number;
  /** Whether looks at the clock move it. */
  workTakesTime: boolean;
  /** Calls back after `ms`; returns the way to cancel it. */
  after(ms: number, work: () => void, isCoarse?: boolean): () => void;
  /** When the next sleeper wakes; infinity without one. */
  nextMs(): number;
  /** Moves the time and wakes every sleeper whose time has come. */
  moveTo(ms: number): void;
  /** A look at the clock. Throws when the work of a moment never ends. */
  creep(): void;
}

interface Sleeper {
  readonly dueMs: number;
  readonly order: number;
  readonly work: () => void;
}

const COARSE_MS_MIN = 1000;
/** So many looks at the clock take a millisecond. */
const LOOKS_EACH_MS = 3;
const LOOKS_MAX = 100_000;

export function createWorldClock(startMs: number): WorldClock {
  const sleepers = new Set<Sleeper>();
  let nowMs = startMs;
  let order = 0;
  let looks = 0;
  const world: WorldClock = {
    tickMs: COARSE_MS_MIN,
    wakeMs: Number.POSITIVE_INFINITY,
    workTakesTime: false,
    get nowMs() {
      return nowMs;
    },
    after(ms, work, isCoarse = false) {
      const exactMs = nowMs + Math.max(0, ms);
      const tickMs = Math.ceil(exactMs / world.tickMs) * world.tickMs;
      const dueMs =
        isCoarse && ms >= COARSE_MS_MIN ? Math.min(tickMs, Math.max(exactMs, world.wakeMs)) : exactMs;
      const sleeper = { dueMs, order: order++, work };
      sleepers.add(sleeper);
      return () => sleepers.delete(sleeper);
    },
    nextMs() {
      let next = Number.POSITIVE_INFINITY;
      for (const { dueMs } of sleepers) if (dueMs < next) next = dueMs;
      return next;
    },
    moveTo(ms) {
      nowMs = Math.max(nowMs, ms);
      looks = 0;
      const due = [...sleepers].filter(({ dueMs }) => dueMs <= nowMs);
      due.sort((a, b) => a.dueMs - b.dueMs || a.order - b.order);
      for (const sleeper of due) if (sleepers.delete(sleeper)) sleeper.work();
    },
    creep() {
      if (++looks > LOOKS_MAX) throw new Error("The program works without end and never waits.");
      if (world.workTakesTime && looks % LOOKS_EACH_MS === 0) nowMs++;
    },
  };
  return world;
}

/** The clock of one process, which may be wrong; it stops with the process. */
export function createProcessClock(world: WorldClock, skewMs: () => number, isDead: () => boolean): Clock {
  return {
    now() {
      world.creep();
      return world.nowMs + skewMs();
    },
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal.aborted || isDead()) return reject(signal.reason ?? new Error("The process is dead."));
        const stop = () => {
          cancel();
          reject(signal.reason);
        };
        const wake = () => {
          signal.removeEventListener("abort", stop);
          resolve();
        };
        const cancel = world.after(ms, wake, true);
        signal.addEventListener("abort", stop, { once: true });
      }),
  };
}

/** Puts timers and chance of the whole process under the world's control; returns the way back. */
export function takeOverGlobals(world: WorldClock, random: () => number): () => void {
  const { setTimeout, clearTimeout } = globalThis;
  const { random: chance } = Math;
  const cancels = new Map<object, () => void>();
  const virtual = (work: (...given: unknown[]) => void, ms = 0, ...given: unknown[]) => {
    const timer = { ref: () => timer, unref: () => timer, hasRef: () => false };
    cancels.set(
      timer,
      world.after(Math.max(1, ms), () => {
        cancels.delete(timer);
        work(...given);
      }),
    );
    return timer;
  };
  globalThis.setTimeout = virtual as unknown as typeof setTimeout;
  globalThis.clearTimeout = ((timer?: object) => {
    if (timer === undefined) return;
    cancels.get(timer)?.();
    cancels.delete(timer);
  }) as typeof clearTimeout;
  Math.random = random;
  return () => {
    Object.assign(globalThis, { setTimeout, clearTimeout });
    Math.random = chance;
  };
}

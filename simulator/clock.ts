/**
 * The simulator's own time. Date headers, indexing, retention and jobs follow it; it can be set, skewed and sped up
 * while it runs. `indexedUntil` never goes back: what was visible once stays visible when the clock is set back.
 */
export interface SimulatorClock {
  now(): number;
  indexedUntil(): number;
  set(ms: number): void;
  setSpeed(speed: number): void;
  setSkew(ms: number): void;
  state(): ClockState;
  /** Runs the task once the clock reaches that time; returns what cancels it. */
  at(ms: number, task: () => void): () => void;
  close(): void;
}

export interface ClockState {
  readonly nowMs: number;
  readonly now: string;
  readonly speed: number;
  readonly skewMs: number;
}

interface Pending {
  readonly ms: number;
  readonly task: () => void;
}

const waitMsMax = 60_000;

export function createClock(start: { startMs: number; speed: number; skewMs: number }): SimulatorClock {
  let { speed, skewMs } = start;
  let baseMs = start.startMs;
  let realBase = performance.now();
  let highest = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;
  const pending = new Set<Pending>();

  const plain = () => baseMs + (performance.now() - realBase) * speed;
  const now = () => Math.floor(plain() + skewMs);

  function rebase(ms: number): void {
    baseMs = ms;
    realBase = performance.now();
  }

  function arm(): void {
    clearTimeout(timer);
    if (closed || pending.size === 0) return;
    let next = Number.POSITIVE_INFINITY;
    for (const entry of pending) next = Math.min(next, entry.ms);
    const waitMs = next <= now() ? 0 : speed === 0 ? waitMsMax : (next - now()) / speed;
    timer = setTimeout(run, Math.min(Math.max(waitMs, 0), waitMsMax));
  }

  function run(): void {
    const due = [...pending].filter((entry) => entry.ms <= now()).sort((a, b) => a.ms - b.ms);
    for (const entry of due) if (pending.delete(entry)) entry.task();
    arm();
  }

  return {
    now,
    indexedUntil() {
      highest = Math.max(highest, now());
      return highest;
    },
    set(ms) {
      rebase(ms - skewMs);
      arm();
    },
    setSpeed(value) {
      rebase(plain());
      speed = value;
      arm();
    },
    setSkew(ms) {
      skewMs = ms;
      arm();
    },
    state: () => ({ nowMs: now(), now: new Date(now()).toISOString(), speed, skewMs }),
    at(ms, task) {
      const entry = { ms, task };
      pending.add(entry);
      arm();
      return () => pending.delete(entry);
    },
    close() {
      closed = true;
      clearTimeout(timer);
      pending.clear();
    },
  };
}

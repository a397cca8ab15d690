import type { Clock } from "../core/clock.ts";

/** live before sweep before backfill. */
export type Priority = 0 | 1 | 2;
export const LIVE: Priority = 0;
export const SWEEP: Priority = 1;
export const BACKFILL: Priority = 2;

export interface PaceOptions {
  readonly concurrencyMax: number;
  /** 0: no ceiling is set. */
  readonly requestsPerSecondMax: number;
}

const CONCURRENCY_START = 4;
const BACK_OFF_MS_MIN = 500;
const BACK_OFF_MS_MAX = 60_000;
const RATE_SPAN_MS = 3000;

/**
 * One limiter per key. Concurrency grows by one a round while answers are about as quick as ever, and
 * halves when the service says it is too much. The rate at which it said so is remembered: requests stay
 * a little below it, approach it slowly, and so settle there with few refusals.
 */
export function createPace(clock: Clock, options: PaceOptions) {
  const waiting: [Waiter[], Waiter[], Waiter[]] = [[], [], []];
  const accepted: number[] = [];
  let concurrency = Math.min(CONCURRENCY_START, options.concurrencyMax);
  let running = 0;
  let pausedUntilMs = 0;
  let backOffMs = BACK_OFF_MS_MIN;
  let rate = options.requestsPerSecondMax || Number.POSITIVE_INFINITY;
  let ceiling = Number.POSITIVE_INFINITY;
  let raisedMs = clock.now();
  let nextStartMs = 0;
  let quickMs = Number.POSITIVE_INFINITY;
  let timer: AbortController | undefined;
  let requests = 0;
  let refused = 0;

  function startWaiting(): void {
    raiseRate();
    for (;;) {
      const queue = waiting.find((candidates) => candidates.length > 0);
      if (queue === undefined || running >= Math.floor(concurrency)) return;
      const nowMs = clock.now();
      const readyMs = Math.max(pausedUntilMs, nextStartMs);
      if (readyMs > nowMs) {
        wakeAt(readyMs - nowMs);
        return;
      }
      // A burst after a quiet time stays within a tenth of a second's worth.
      if (rate !== Number.POSITIVE_INFINITY) nextStartMs = Math.max(nextStartMs, nowMs - 100) + 1000 / rate;
      running++;
      requests++;
      queue.shift()!.start();
    }
  }

  function wakeAt(inMs: number): void {
    if (timer !== undefined) return;
    timer = new AbortController();
    clock.sleep(inMs, timer.signal).then(
      () => {
        timer = undefined;
        startWaiting();
      },
      () => {},
    );
  }

  function raiseRate(): void {
    const nowMs = clock.now();
    const seconds = (nowMs - raisedMs) / 1000;
    if (seconds < 0.2 || ceiling === Number.POSITIVE_INFINITY) return;
    raisedMs = nowMs;
    const growth = rate < 0.95 * ceiling ? 0.05 : 0.002;
    rate = Math.min(
      rate * (1 + growth * Math.min(seconds, 10)),
      options.requestsPerSecondMax || Number.POSITIVE_INFINITY,
    );
  }

  function succeeded(tookMs: number): void {
    const nowMs = clock.now();
    accepted.push(nowMs);
    while (accepted.length > 0 && accepted[0]! < nowMs - RATE_SPAN_MS) accepted.shift();
    backOffMs = BACK_OFF_MS_MIN;
    quickMs = Math.min(quickMs * 1.01, tookMs);
    if (tookMs < quickMs * 3 + 200)
      concurrency = Math.min(options.concurrencyMax, concurrency + 1 / Math.max(1, concurrency));
  }

  function overloaded(retryAfterMs: number | undefined): void {
    const nowMs = clock.now();
    refused++;
    if (nowMs < pausedUntilMs) return;
    if (rate === Number.POSITIVE_INFINITY) concurrency = Math.max(1, concurrency / 2);
    const spanMs = Math.min(RATE_SPAN_MS, Math.max(250, nowMs - (accepted[0] ?? nowMs)));
    const acceptedRate = (accepted.length * 1000) / spanMs;
    if (acceptedRate > 0) {
      ceiling = Math.min(rate, acceptedRate);
      rate = Math.max(0.2, ceiling * 0.96);
      raisedMs = nowMs;
    }
    pausedUntilMs = nowMs + (retryAfterMs ?? backOffMs * (0.5 + Math.random()));
    backOffMs = Math.min(backOffMs * 2, BACK_OFF_MS_MAX);
  }

  return {
    /** Runs a request when its turn has come; `tooMuch` tells from its error whether the service is overloaded. */
    async run<T>(
      priority: Priority,
      signal: AbortSignal,
      request: () => Promise<T>,
      tooMuch: (error: unknown) => { retryAfterMs: number | undefined } | undefined,
    ): Promise<T> {
      await turn(priority, signal);
      const startedMs = clock.now();
      try {
        const result = await request();
        succeeded(clock.now() - startedMs);
        return result;
      } catch (error) {
        const overload = tooMuch(error);
        if (overload !== undefined) overloaded(overload.retryAfterMs);
        throw error;
      } finally {
        running--;
        startWaiting();
      }
    },
    statistics: () => ({
      concurrency: Math.floor(concurrency),
      running,
      rate,
      requests,
      refused,
      pausedUntilMs,
    }),
    stop(): void {
      timer?.abort(new Error("The pace was stopped."));
      timer = undefined;
    },
  };

  function turn(priority: Priority, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const waiter: Waiter = {
        start() {
          signal.removeEventListener("abort", leave);
          resolve();
        },
      };
      const leave = () => {
        const queue = waiting[priority];
        queue.splice(queue.indexOf(waiter), 1);
        reject(signal.reason);
      };
      signal.addEventListener("abort", leave, { once: true });
      waiting[priority].push(waiter);
      startWaiting();
    });
  }
}

export type Pace = ReturnType<typeof createPace>;

interface Waiter {
  start(): void;
}

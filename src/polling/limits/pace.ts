import type { Clock } from "../../core/clock.ts";

/** live before sweep before backfill. */
export type Priority = 0 | 1 | 2;
export const LIVE: Priority = 0;
export const SWEEP: Priority = 1;
export const BACKFILL: Priority = 2;

export interface PaceOptions {
  readonly concurrencyMax: number;
  /** 0: no ceiling is set. */
  readonly requestsPerSecondMax: number;
  /** The service asked for a long wait until that time; null when a request has succeeded since. */
  onLongWait?(untilMs: number | null): void;
}

/** A refusal because of the pace: too_many is a rate limit (429), overloaded is trouble on the service's side (503). */
export interface Refusal {
  readonly kind: "too_many" | "overloaded";
  readonly retryAfterMs: number | undefined;
}

const CONCURRENCY_START = 4;
/** A higher priority leaves every fourth request to the next lower one, so that a slow service never starves it. */
const PASSED_OVER_MAX = 3;
const BACK_OFF_MS_MIN = 500;
const BACK_OFF_MS_MAX = 60_000;
/** A longer wait is reported. */
const LONG_WAIT_MS = 300_000;
/** However long a wait the service asks for, one request is tried at least this often (R33). */
const PROBE_MS = 600_000;

/**
 * One limiter per key. Its states:
 *
 * - open: requests start as concurrency and rate allow. Concurrency grows while answers are about as quick as
 *   ever: it doubles each round until the service has refused once, and then grows by one a round.
 * - paused: after a refusal nothing starts until `pausedUntilMs`, which is as long as the service asked for or
 *   longer with each refusal in a row, at most `PROBE_MS`. Concurrency halves.
 * - probing: the pause is over, but the service asked for a longer one. One request at a time is tried. When
 *   it succeeds the limiter is open again; when it is refused it is paused again.
 *
 * The number of requests a second that a limit lets through is learned apart from that.
 */
export function createPace(clock: Clock, options: PaceOptions) {
  const waiting: [Waiter[], Waiter[], Waiter[]] = [[], [], []];
  const rate = createRate(clock, options.requestsPerSecondMax || Number.POSITIVE_INFINITY);
  let concurrency = Math.min(CONCURRENCY_START, options.concurrencyMax);
  /** How often in a row lower priorities have been passed over. */
  let passedOver = 0;
  let running = 0;
  let pausedUntilMs = 0;
  /** Later than `pausedUntilMs` where the service asked for more than is waited. */
  let askedUntilMs = 0;
  let countedMs = Number.NEGATIVE_INFINITY;
  let backOffMs = BACK_OFF_MS_MIN;
  let quickMs = Number.POSITIVE_INFINITY;
  let timer: AbortController | undefined;
  let requests = 0;
  let refused = 0;

  function startWaiting(): void {
    for (;;) {
      const [first, below] = waiting.filter((candidates) => candidates.length > 0);
      const nowMs = clock.now();
      const runningMax = nowMs < askedUntilMs ? 1 : Math.floor(concurrency);
      if (first === undefined || running >= runningMax) return;
      // A longer pause is never set: the local clock was set back meanwhile.
      if (pausedUntilMs - nowMs > PROBE_MS) pausedUntilMs = nowMs;
      const readyMs = Math.max(pausedUntilMs, rate.nextStartMs());
      if (readyMs > nowMs) {
        wakeAfter(readyMs - nowMs);
        return;
      }
      rate.started();
      running++;
      requests++;
      const isBelow = below !== undefined && passedOver >= PASSED_OVER_MAX;
      passedOver = below === undefined || isBelow ? 0 : passedOver + 1;
      (isBelow ? below : first).shift()!.start();
    }
  }

  function wakeAfter(ms: number): void {
    if (timer !== undefined) return;
    timer = new AbortController();
    clock.sleep(ms, timer.signal).then(
      () => {
        timer = undefined;
        startWaiting();
      },
      () => {},
    );
  }

  /** After the last refusal that counted, or the local clock was set back since. */
  function isAfterCounted(startedMs: number): boolean {
    return startedMs >= countedMs || countedMs > clock.now();
  }

  function succeeded(startedMs: number): void {
    const tookMs = clock.now() - startedMs;
    rate.accepted();
    // A request that was under way when the service refused another says nothing about how long to wait.
    if (isAfterCounted(startedMs)) {
      backOffMs = BACK_OFF_MS_MIN;
      if (askedUntilMs > 0) options.onLongWait?.(null);
      askedUntilMs = 0;
    }
    quickMs = Math.min(quickMs * 1.01, tookMs);
    if (tookMs < quickMs * 3 + 200)
      concurrency = Math.min(options.concurrencyMax, concurrency + (refused === 0 ? 1 : 1 / concurrency));
  }

  function tooMuch({ kind, retryAfterMs }: Refusal, startedMs: number): void {
    const nowMs = clock.now();
    refused++;
    // Those under way at the same time are refused together: that is one refusal, not many.
    const counts = isAfterCounted(startedMs);
    const waitMs = retryAfterMs ?? (counts ? backOffMs * (0.5 + Math.random() / 2) : 0);
    pausedUntilMs = Math.max(pausedUntilMs, nowMs + Math.min(waitMs, PROBE_MS));
    if (waitMs > LONG_WAIT_MS) {
      askedUntilMs = Math.max(askedUntilMs, nowMs + waitMs);
      options.onLongWait?.(askedUntilMs);
    }
    if (!counts) return;
    countedMs = nowMs;
    concurrency = Math.max(1, concurrency / 2);
    backOffMs = Math.min(backOffMs * 2, BACK_OFF_MS_MAX);
    if (kind === "too_many") rate.refused();
  }

  return {
    /**
     * Runs a request when its turn has come; `refusalIn` decides from its error whether it was too much. A look at whether
     * others are served too does not wait for the end of a pause, and ends it when it succeeds.
     */
    async run<T>(
      priority: Priority | "look",
      signal: AbortSignal,
      request: () => Promise<T>,
      refusalIn: (error: unknown) => Refusal | undefined,
    ): Promise<T> {
      if (priority === "look") {
        running++;
        requests++;
      } else await turn(priority, signal);
      const startedMs = clock.now();
      try {
        const result = await request();
        succeeded(startedMs);
        if (priority === "look") pausedUntilMs = Math.min(pausedUntilMs, clock.now());
        return result;
      } catch (error) {
        const refusal = refusalIn(error);
        if (refusal !== undefined) tooMuch(refusal, startedMs);
        throw error;
      } finally {
        running--;
        startWaiting();
      }
    },
    statistics: () => ({
      concurrency: Math.floor(concurrency),
      running,
      rate: rate.perSecond(),
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

const SPAN_MS = 3000;
const SPAN_MS_MIN = 500;
/** After a refusal requests stay this far below the rate that was too much … */
const BACK = 0.05;
/** … and come back to it after so long; beyond that the rate grows ever faster, as the limit may be gone. */
const RETURN_S = 20;
const RATE_MIN = 0.2;
/** Pauses make what was let through look like less than it was: one refusal lowers the rate by no more than this. */
const STEP_DOWN = 0.9;
/** Few requests before the first refusal say little about the limit: it is looked for from here downwards. */
const FIRST_CEILING_MIN = 10;
/** After a quiet time so much of a second's worth may start at once. */
const BURST_MS = 100;

/**
 * Learns a rate limit that is not published. The rate at which the service refused is the ceiling:
 * requests go on a little below it, approach it slowly, stay near it and then try beyond, along a cubic.
 * So they settle there with few refusals, and a ceiling that was a mistake is left behind in a minute or two.
 */
function createRate(clock: Clock, perSecondMax: number) {
  const lately: number[] = [];
  let ceiling = Number.POSITIVE_INFINITY;
  let refusedMs = 0;
  let nextStartMs = 0;

  function perSecond(): number {
    if (ceiling === Number.POSITIVE_INFINITY) return perSecondMax;
    // A refusal in the future comes from a clock that was set back.
    refusedMs = Math.min(refusedMs, clock.now());
    const seconds = (clock.now() - refusedMs) / 1000;
    const grown = ceiling * (1 + BACK * ((seconds - RETURN_S) / RETURN_S) ** 3);
    return Math.min(perSecondMax, Math.max(RATE_MIN, grown));
  }

  function forgetOld(): void {
    const nowMs = clock.now();
    while (lately.length > 0 && (lately[0]! < nowMs - SPAN_MS || lately[0]! > nowMs)) lately.shift();
  }

  return {
    perSecond,
    nextStartMs(): number {
      // Further away than one request: the local clock was set back.
      if (nextStartMs - clock.now() > 1000 / Math.min(RATE_MIN, perSecondMax)) nextStartMs = clock.now();
      return nextStartMs;
    },
    started(): void {
      const rate = perSecond();
      if (rate !== Number.POSITIVE_INFINITY)
        nextStartMs = Math.max(nextStartMs, clock.now() - BURST_MS) + 1000 / rate;
    },
    accepted(): void {
      lately.push(clock.now());
      forgetOld();
    },
    refused(): void {
      forgetOld();
      if (lately.length === 0) return;
      const spanMs = Math.max(SPAN_MS_MIN, clock.now() - lately[0]!);
      const measured = (lately.length * 1000) / spanMs;
      const tried = perSecond();
      ceiling = Number.isFinite(tried)
        ? Math.min(tried, Math.max(measured, tried * STEP_DOWN))
        : Math.max(measured, FIRST_CEILING_MIN);
      refusedMs = clock.now();
    },
  };
}

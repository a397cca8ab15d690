import type { AlarmKind, Alarms } from "../core/alarms.ts";
import { type Clock, createSteadyTime } from "../core/clock.ts";
import { explain, type RetryableError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { SinkProblem } from "../core/sink.ts";

/*
 * The state of a sink:
 *
 *   opening   not opened yet, or to be opened again at once
 *   running   open; the last thing it was asked to do worked
 *   retrying  the destination is unavailable; tried again with back-off
 *   paused    the destination refuses us; probed every 30 seconds
 *   stopped   the operator has to decide; nothing is tried until then
 */
export type DeliveryState = "opening" | "running" | "retrying" | "paused" | "stopped";

const BACK_OFF_MS_MIN = 200;
const BACK_OFF_MS_MAX = 60_000;
/** Also for a destination that asks to be tried again at once. */
const RETRY_MS_MIN = 100;
const RETRY_AFTER_MS_MAX = 3_600_000;
const PROBE_MS = 30_000;
/** Each alarm, and the state that it is about. */
const ALARMS = [
  ["sink_failing", "retrying"],
  ["sink_paused", "paused"],
  ["sink_stopped", "stopped"],
] as const;
/** One attempt can take minutes, so an alarm is raised after so many failures or so much time. */
const FAILURES_TO_ALARM = 5;
const FAILING_MS_TO_ALARM = 120_000;
/** A sink that has failed for so long is given up when everything else is done (R39). */
const STUCK_MS = 60_000;

const RETRY_REMEDY =
  "Retrying automatically. If this persists, check that the destination is up and reachable.";
const SLOW_REMEDY = "Nothing is lost. If this persists, check that the destination is up and answers.";
const UNEXPECTED_REMEDY =
  "Retrying automatically. Tidemark does not know this error: if it persists, please report it with the log.";

/** A time and not a duration: the message stays as it is while the wait passes. */
function withNextTry(reason: string, atMs: number): string {
  const sentence = /[.!?]$/.test(reason) ? reason : `${reason}.`;
  return `${sentence} It is tried again at ${new Date(atMs).toISOString().slice(0, 19)}Z.`;
}

/** The state of one sink: since when, why, what to do about it, and how long to wait. */
export function createHealth(name: string, clock: Clock, log: Log, alarms: Alarms) {
  const steadyMs = createSteadyTime(clock);
  let state: DeliveryState = "opening";
  let sinceMs = clock.now();
  let reason: string | null = null;
  let remedy: string | null = null;
  let waitUntilMs = 0;
  let failures = 0;
  let failingSinceMs = 0;

  function become(next: DeliveryState, why: string | null, whatToDo: string | null): void {
    if (next !== state) {
      sinceMs = clock.now();
      // While it is opened again, nothing new is known.
      if (next !== "opening")
        for (const [kind, about] of ALARMS) if (about !== next) alarms.clear(kind, name);
    }
    state = next;
    reason = why;
    remedy = whatToDo;
  }

  function raise(kind: AlarmKind, severity: "warning" | "critical"): void {
    alarms.raise({ kind, subject: name, message: reason ?? "", remedy: remedy ?? "", severity });
  }

  /** Back-off with jitter, or the wait that the destination asked for. */
  function retryMs({ retryAfterMs }: RetryableError): number {
    const backOffMs = Math.min(BACK_OFF_MS_MAX, BACK_OFF_MS_MIN * 2 ** Math.min(failures - 1, 12));
    const wantedMs = retryAfterMs ?? backOffMs * (0.5 + Math.random() / 2);
    return Math.min(RETRY_AFTER_MS_MAX, Math.max(RETRY_MS_MIN, wantedMs));
  }

  return {
    get state() {
      return state;
    },
    /** How long it is still left alone; 0 and less: not at all. */
    waitMs: () => waitUntilMs - steadyMs(),
    view: () => ({ state, sinceMs, reason, remedy }),
    /** Whether it will probably not continue without the operator. */
    isStuck: () =>
      state === "stopped" ||
      state === "paused" ||
      (state === "retrying" && steadyMs() - failingSinceMs >= STUCK_MS),

    /** It is open and has nothing to do. */
    running: () => become("running", null, null),
    /** It has taken something: earlier failures no longer count. */
    wrote(): void {
      failures = 0;
      become("running", null, null);
    },
    retrying(error: RetryableError, isUnexpected = false): void {
      if (failures++ === 0) failingSinceMs = steadyMs();
      const wasRefused = state === "paused" || state === "stopped";
      const waitMs = retryMs(error);
      waitUntilMs = steadyMs() + waitMs;
      const why =
        waitMs > BACK_OFF_MS_MAX ? withNextTry(explain(error), clock.now() + waitMs) : explain(error);
      become("retrying", why, isUnexpected ? UNEXPECTED_REMEDY : (error.remedy ?? RETRY_REMEDY));
      if (isUnexpected) log.error({ err: error, waitMs }, "A sink failed unexpectedly; trying again.");
      else log.warn({ err: error, waitMs }, "Delivery failed; trying again.");
      // Nothing is tried while it waits, so a long wait is a failure of that length.
      const isLong = waitUntilMs - failingSinceMs >= FAILING_MS_TO_ALARM;
      if (isUnexpected) raise("sink_failing", "critical");
      else if (wasRefused || failures >= FAILURES_TO_ALARM || isLong) raise("sink_failing", "warning");
    },
    paused(why: string, whatToDo: string): void {
      waitUntilMs = steadyMs() + PROBE_MS;
      become("paused", why, whatToDo);
      raise("sink_paused", "critical");
    },
    stopped(why: string, whatToDo: string): void {
      become("stopped", why, whatToDo);
      raise("sink_stopped", "critical");
    },
    /** An opening or a write takes long; undefined: no longer. The reason of an earlier failure says more. */
    waits(why: string | undefined): void {
      if (state !== "opening" && state !== "running") return;
      reason = why ?? null;
      remedy = why === undefined ? null : SLOW_REMEDY;
    },
    /** It works, but not as configured; undefined: it does again. */
    limited(problem: SinkProblem | undefined): void {
      if (problem === undefined) alarms.clear("sink_limited", name);
      else alarms.raise({ kind: "sink_limited", subject: name, ...problem, severity: "warning" });
    },
    /** To be opened again and tried at once. */
    afresh(): void {
      become("opening", null, null);
      waitUntilMs = 0;
    },
    hurry(): void {
      if (state !== "running") become("opening", null, null);
      waitUntilMs = 0;
    },
  };
}

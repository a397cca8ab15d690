import type { AlarmKind, Alarms } from "../core/alarms.ts";
import type { Clock } from "../core/clock.ts";
import { explain, type RetryableError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";

/** running: nothing stands in the way. retrying: the destination is unavailable. paused: it refuses us. stopped: a person must decide, or a bug. */
export type DeliveryState = "opening" | "running" | "retrying" | "paused" | "stopped";

const BACK_OFF_MS_MIN = 200;
const BACK_OFF_MS_MAX = 60_000;
/** A destination that says "at once" is not asked without end. */
const RETRY_MS_MIN = 100;
/** A destination may ask for patience, but not for ever. */
const RETRY_AFTER_MS_MAX = 3_600_000;
const PROBE_MS = 30_000;
const FAILURES_TO_ALARM = 5;

/** How a sink is: since when, why, what to do about it, and how long to leave it alone. */
export function createHealth(name: string, clock: Clock, log: Log, alarms: Alarms) {
  let state: DeliveryState = "opening";
  let sinceMs = clock.now();
  let reason: string | null = null;
  let remedy: string | null = null;
  let waitUntilMs = 0;
  let failures = 0;

  function become(next: DeliveryState, why: string | null, whatToDo: string | null): void {
    if (next !== state) sinceMs = clock.now();
    if (next === "running" && state !== "running") {
      for (const kind of ["sink_failing", "sink_paused", "sink_stopped"] as const) alarms.clear(kind, name);
    }
    state = next;
    reason = why;
    remedy = whatToDo;
  }

  function raise(kind: AlarmKind, severity: "warning" | "critical"): void {
    alarms.raise({ kind, subject: name, message: reason ?? "", remedy: remedy ?? "", severity });
  }

  function stopped(why: string, whatToDo: string): void {
    become("stopped", why, whatToDo);
    raise("sink_stopped", "critical");
  }

  return {
    get state() {
      return state;
    },
    /** How long it is to be left alone yet; 0 and less: not at all. */
    waitMs: () => waitUntilMs - clock.now(),
    view: () => ({ state, sinceMs, reason, remedy }),

    /** It is open, and what stood in the way of that does so no more. */
    running: () => become("running", null, null),
    /** It has taken something: earlier failures no longer count. */
    wrote(): void {
      failures = 0;
      become("running", null, null);
    },
    /** Back-off with jitter, or what the destination asked for. */
    retrying(error: RetryableError): void {
      failures++;
      const backOffMs = Math.min(BACK_OFF_MS_MAX, BACK_OFF_MS_MIN * 2 ** Math.min(failures - 1, 12));
      const wantedMs = error.retryAfterMs ?? backOffMs * (0.5 + Math.random() / 2);
      const waitMs = Math.min(RETRY_AFTER_MS_MAX, Math.max(RETRY_MS_MIN, wantedMs));
      waitUntilMs = clock.now() + waitMs;
      become(
        "retrying",
        explain(error),
        "Nothing to do while it lasts a little: it is tried again by itself. If it stays, see whether the destination is up and reachable.",
      );
      log.warn({ err: error, waitMs }, "Delivery failed; trying again.");
      if (failures === FAILURES_TO_ALARM) raise("sink_failing", "warning");
    },
    paused(why: string, whatToDo: string): void {
      waitUntilMs = clock.now() + PROBE_MS;
      become("paused", why, whatToDo);
      raise("sink_paused", "critical");
    },
    stopped,
    bug(error: unknown): void {
      log.error({ err: error }, "A sink failed in a way that nobody foresaw; it has stopped.");
      stopped(
        explain(error),
        "This is a defect of the program: please report it with the log. A restart tries again.",
      );
    },
    /** To be opened anew and tried at once. */
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

import type { PollContext } from "./context.ts";
import type { Work } from "./plan/agenda.ts";
import type { SourceFault } from "./read/source.ts";

const ACCOUNT_PAUSE_MS_MIN = 15_000;
const ACCOUNT_PAUSE_MS_MAX = 600_000;
const DISK_PAUSE_MS = 5000;
/** On a full disk small writes may succeed. A failed one that is not made again counts for this long. */
const DISK_QUIET_MS = 60_000;

/** Whether the plan or the reading of a window was refused. */
type PauseCause = "plan" | "read";

/**
 * The pause of a whole account. Each refusal in a row doubles the wait, from 15 seconds to ten minutes. Refusals of
 * requests that were under way already count once. A Retry-After replaces the wait, but the service is tried again after
 * ten minutes at the latest (R33).
 */
export function createPause({ account, clock, alarms }: PollContext) {
  let pause: { readonly untilMs: number; readonly waitMs: number; readonly cause: PauseCause } | undefined;

  let diskFailedMs = Number.NEGATIVE_INFINITY;
  /** Work on windows whose result could not be written; `undefined` for plans and upkeep. */
  const unwritten = new Set<string | undefined>();

  /** A longer wait is never set: the local clock was set back meanwhile. */
  function untilMs(): number | null {
    if (pause === undefined) return null;
    const nowMs = clock.now();
    return pause.untilMs - nowMs > ACCOUNT_PAUSE_MS_MAX ? nowMs : pause.untilMs;
  }

  return {
    /** null: not paused, or not any more. Stays set after the wait until something succeeds. */
    get untilMs(): number | null {
      return untilMs();
    },
    get isOver(): boolean {
      return clock.now() >= (untilMs() ?? 0);
    },
    forAccount(fault: SourceFault, cause: PauseCause): void {
      const isPaused = pause !== undefined && clock.now() < (untilMs() ?? 0);
      const beforeMs = pause?.waitMs ?? ACCOUNT_PAUSE_MS_MIN / 2;
      const longerMs = isPaused ? beforeMs : Math.min(ACCOUNT_PAUSE_MS_MAX, beforeMs * 2);
      const waitMs = Math.min(ACCOUNT_PAUSE_MS_MAX, fault.retryAfterMs ?? longerMs);
      pause = { untilMs: clock.now() + waitMs, waitMs: longerMs, cause };
      alarms.raise({
        kind: "account_refused",
        subject: account,
        message: fault.message,
        remedy:
          "Run `tidemark check --online`: it distinguishes a wrong key, role, region, organization and entitlement. Nothing is lost while the service still holds the events.",
        severity: "critical",
      });
    },
    forDisk(error: unknown, work?: Work): void {
      diskFailedMs = clock.now();
      unwritten.add(work && nameOf(work));
      pause = { untilMs: clock.now() + DISK_PAUSE_MS, waitMs: ACCOUNT_PAUSE_MS_MIN, cause: "plan" };
      alarms.raise({
        kind: "state_unwritable",
        subject: account,
        message: `The state file cannot be written: ${(error as Error).message}.`,
        remedy:
          "Free disk space or repair the file system. Polling resumes without a restart, and nothing is lost while the service holds the events.",
        severity: "critical",
      });
    },
    /** The result of this work was written, or a plan or upkeep, which may write less than the one that failed. */
    wrote(work?: Work): void {
      if (unwritten.size === 0) return;
      if (work !== undefined) unwritten.delete(nameOf(work));
      // The distance in either direction: the local clock may have been set back.
      if (Math.abs(clock.now() - diskFailedMs) >= DISK_QUIET_MS) unwritten.clear();
      if (unwritten.size === 0) alarms.clear("state_unwritable", account);
    },
    /** A plan that succeeds does not end the pause of a refused read: each further refusal would wait the shortest time. */
    end(cause: PauseCause): void {
      if (pause === undefined || (cause === "plan" && pause.cause === "read")) return;
      pause = undefined;
      alarms.clear("account_refused", account);
    },
  };
}

/** The same window is polled, read and compared: each has something else to write. */
function nameOf({ kind, window }: Work): string {
  return `${kind} ${window.id}`;
}

import type { MachineSummary } from "../../cluster/machines.ts";
import type { LaneStatus } from "./lane.ts";

/*
 * A machine that can do nothing for its lanes leaves the group, so that others take them (C13). It leaves when, for some
 * minutes, none of its lanes can be opened or committed to, or none of them can read from the service, while another
 * machine shows that it can. When all machines are in the same trouble, moving lanes would not help.
 */

export interface FitnessLimits {
  /** For how long it can do nothing before it leaves. */
  readonly unfitMs: number;
  /** It joins again after this time, to see whether the trouble is over. */
  readonly stayAwayMs: number;
}

export const FITNESS_LIMITS: FitnessLimits = { unfitMs: 180_000, stayAwayMs: 300_000 };

const CANNOT_READ = ["account_refused", "discovery_failed", "window_failing"];

export interface Fitness {
  /** Why this machine should leave the group; undefined: it should stay. */
  look(
    own: readonly LaneStatus[],
    others: readonly Pick<MachineSummary, "lanes" | "alarms">[],
    nowMs: number,
  ): string | undefined;
}

export function createFitness(unfitMs = FITNESS_LIMITS.unfitMs): Fitness {
  let since: { readonly ms: number; readonly trouble: string } | undefined;
  return {
    look(own, others, nowMs) {
      const trouble = troubleOf(own, others);
      if (trouble === undefined) {
        since = undefined;
        return undefined;
      }
      if (since?.trouble !== trouble) since = { ms: nowMs, trouble };
      if (nowMs - since.ms < unfitMs) return undefined;
      since = undefined;
      return trouble;
    },
  };
}

function troubleOf(
  own: readonly LaneStatus[],
  others: readonly Pick<MachineSummary, "lanes" | "alarms">[],
): string | undefined {
  if (own.length === 0) return undefined;
  const working = others.filter(({ lanes }) => lanes.some(({ state }) => state === "running"));
  if (working.length === 0) return undefined;
  // A stopped lane waits for a person, on whatever machine.
  if (own.every(({ state }) => state === "waiting" || state === "opening"))
    return "none of its lanes can be opened or committed to";
  const running = own.filter(({ app }) => app !== undefined);
  const cannotRead = ({ app }: LaneStatus) =>
    app!.alarms.list().some(({ kind }) => CANNOT_READ.includes(kind));
  const othersCan = working.some(({ alarms }) => !alarms.some(({ kind }) => CANNOT_READ.includes(kind)));
  if (running.length > 0 && running.every(cannotRead) && othersCan)
    return "none of its lanes can read from the service, and another machine can";
  return undefined;
}

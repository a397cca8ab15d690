import { wholeSecondBefore } from "../../core/time.ts";

/**
 * Tells an event that a restarted walk shows again from a twin, which has the same identity and other bytes: a
 * twin is one occurrence more than before the restart. Answers are in the order of time, and a service may cut a
 * fraction of a second off the start of a request. So only identities of the same second are remembered.
 */
export function createRepeats() {
  const most = new Map<string, number>();
  const sinceRestart = new Map<string, number>();
  let secondMs: number | undefined;
  return {
    /** The walk shows the events of this time from the first one on, and maybe those before it in its second. */
    beginAgain(timeMs: number): void {
      if (wholeSecondBefore(timeMs) === secondMs) sinceRestart.clear();
    },
    look(timeMs: number, identity: string): "first" | "twin" | "again" {
      const second = wholeSecondBefore(timeMs);
      if (second !== secondMs) {
        most.clear();
        sinceRestart.clear();
      }
      secondMs = second;
      const times = (sinceRestart.get(identity) ?? 0) + 1;
      sinceRestart.set(identity, times);
      if (times <= (most.get(identity) ?? 0)) return "again";
      most.set(identity, times);
      return times === 1 ? "first" : "twin";
    },
  };
}

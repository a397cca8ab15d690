/**
 * Tells an event that a restarted walk shows again from a twin, which has the same identity and other bytes: a
 * twin is one occurrence more than before the restart. Answers are in the order of time, so only identities of
 * the same moment are remembered.
 */
export function createRepeats() {
  const most = new Map<string, number>();
  const sinceRestart = new Map<string, number>();
  let atMs: number | undefined;
  return {
    /** The walk shows the events of this time from the first one on. */
    beginAgain(timeMs: number): void {
      if (timeMs === atMs) sinceRestart.clear();
    },
    look(timeMs: number, identity: string): "first" | "twin" | "again" {
      if (timeMs !== atMs) {
        most.clear();
        sinceRestart.clear();
      }
      atMs = timeMs;
      const times = (sinceRestart.get(identity) ?? 0) + 1;
      sinceRestart.set(identity, times);
      if (times <= (most.get(identity) ?? 0)) return "again";
      most.set(identity, times);
      return times === 1 ? "first" : "twin";
    },
  };
}

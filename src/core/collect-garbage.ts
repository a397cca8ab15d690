import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** More than a full page of usual events. */
export const HUGE_BYTES = 14_000_000;

/**
 * Collects the garbage of this thread once what is done now has ended, if that was about so many bytes. A thread
 * hardly makes garbage that counts for the collector: after huge events it would keep a hundred megabytes, and
 * release them after it has worked on several others. A collection takes 10 ms beside the main thread, and 50 there.
 */
export function collectAfterHuge(bytes: number): void {
  if (bytes <= HUGE_BYTES) return;
  cache.collect ??= collector();
  setImmediate(cache.collect);
}

/** A cache: a context of its own takes longer to make than a collection. */
const cache: { collect?: () => void } = {};

function collector(): () => void {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  setFlagsFromString("--no-expose-gc");
  return () => collect();
}

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
  setImmediate(() => cache.collect?.());
}

/** A collection of young objects for each so many bytes: it takes a millisecond, less than a hundredth of inflating them. */
const SHORT_LIVED_BYTES = 16_000_000;

/**
 * Counts buffers that are garbage soon after they were made, and collects them. Their bytes are outside of the heap, so
 * the collector would let a hundred megabytes of them gather before it looks.
 */
export function collectShortLived(bytes: number): void {
  cache.shortLivedBytes += bytes;
  if (cache.shortLivedBytes < SHORT_LIVED_BYTES) return;
  cache.shortLivedBytes = 0;
  cache.collect ??= collector();
  cache.collect({ type: "minor" });
}

/** A collection of all garbage for each so many bytes. Pages of an honest service are used again, so it hardly occurs there. */
const DROPPED_BYTES = 24_000_000;

/** Counts large buffers that were dropped instead of reused, and collects them. */
export function collectDropped(bytes: number): void {
  cache.droppedBytes += bytes;
  if (cache.droppedBytes < DROPPED_BYTES) return;
  cache.droppedBytes = 0;
  cache.collect ??= collector();
  setImmediate(() => cache.collect?.());
}

type Collect = (options?: { readonly type: "minor" }) => void;

/** A cache: a context of its own takes longer to make than a collection. */
const cache: { collect?: Collect; shortLivedBytes: number; droppedBytes: number } = {
  shortLivedBytes: 0,
  droppedBytes: 0,
};

function collector(): Collect {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as Collect;
  setFlagsFromString("--no-expose-gc");
  return collect;
}

import type { Clock } from "../core/clock.ts";

const ADDRESSES_MAX = 10_000;
const BURST_SECONDS = 4;

/** A bucket of tokens for each address; the longest silent ones are forgotten first. */
export function createRateLimit(clock: Clock, perSecond: number) {
  const buckets = new Map<string, { left: number; ms: number }>();
  const most = perSecond * BURST_SECONDS;

  /** Seconds to wait, or 0 when the request may go on. */
  return (address: string): number => {
    const nowMs = clock.now();
    const bucket = buckets.get(address) ?? { left: most, ms: nowMs };
    buckets.delete(address);
    bucket.left = Math.min(most, bucket.left + (Math.max(0, nowMs - bucket.ms) / 1000) * perSecond);
    bucket.ms = nowMs;
    buckets.set(address, bucket);
    if (buckets.size > ADDRESSES_MAX) buckets.delete(buckets.keys().next().value!);
    if (bucket.left < 1) return Math.max(1, Math.ceil((1 - bucket.left) / perSecond));
    bucket.left--;
    return 0;
  };
}

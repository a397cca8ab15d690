import { Problem } from "./problem.ts";

/** A bucket of one second's worth of requests, in real time; an empty one is a 429. */
export function createThrottle(
  limit: { requestsPerSecond: number; retryAfterSeconds?: number } | null,
): () => void {
  if (limit === null) return () => {};
  let tokens = limit.requestsPerSecond;
  let filledAt = performance.now();
  return () => {
    const now = performance.now();
    tokens = Math.min(limit.requestsPerSecond, tokens + ((now - filledAt) / 1000) * limit.requestsPerSecond);
    filledAt = now;
    if (tokens < 1) {
      const after = limit.retryAfterSeconds;
      throw new Problem(429, "Too many requests", {
        headers: after === undefined ? {} : { "Retry-After": String(after) },
      });
    }
    tokens--;
  };
}

/** An HTTP date in milliseconds. */
export function dateMsOf(text: string | undefined): number | undefined {
  if (text === undefined || !/[A-Za-z]{3}.*\d\d:\d\d:\d\d/.test(text)) return undefined;
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}

/**
 * Retry-After as a wait: seconds (some servers send fractions) or an HTTP date, which is compared with
 * `nowMs`, the sender's own clock where its Date header is known. Never negative and never above `maxMs`.
 */
export function retryAfterMsOf(text: string | undefined, nowMs: number, maxMs: number): number | undefined {
  if (text === undefined) return undefined;
  if (/^\s*\d{1,9}(\.\d+)?\s*$/.test(text)) return Math.min(Math.ceil(Number(text) * 1000), maxMs);
  const dateMs = dateMsOf(text);
  return dateMs === undefined ? undefined : Math.min(Math.max(dateMs - nowMs, 0), maxMs);
}

import { RejectedEventsError, type Rejection, RetryableError, TooLargeError } from "../../core/errors.ts";

/**
 * How hard the cluster is pushed: requests at once, and bytes in each.
 *
 * - A write in which every request was answered quickly adds one request, up to the maximum, and a quarter of
 *   the bytes.
 * - A slow answer halves the bytes of later requests.
 * - A 429, a 5xx or a time-out halves both.
 * - A 413 halves the bytes.
 *
 * The state outlives an opening, because the sink is opened again after every error.
 */
export interface Pressure {
  readonly width: number;
  readonly bytesMax: number;
  answered(tookMs: number): void;
  refused(error: unknown): void;
}

const BYTES_MIN = 100_000;
const QUICK_MS = 2_000;
const SLOW_MS = 15_000;
const KEY = "pressure";

export function pressureOf(
  memory: Map<string, unknown>,
  most: { readonly requests: number; readonly bytes: number },
): Pressure {
  const bytesMin = Math.min(BYTES_MIN, most.bytes);
  const held = (memory.get(KEY) as { width: number; bytes: number } | undefined) ?? {
    width: Math.min(2, most.requests),
    bytes: most.bytes,
  };
  memory.set(KEY, held);
  return {
    get width() {
      return Math.min(held.width, most.requests);
    },
    get bytesMax() {
      return Math.min(held.bytes, most.bytes);
    },
    answered(tookMs) {
      if (tookMs > SLOW_MS) held.bytes = Math.max(bytesMin, held.bytes / 2);
      else if (tookMs < QUICK_MS) {
        held.width = Math.min(most.requests, held.width + 1);
        held.bytes = Math.min(most.bytes, held.bytes * 1.25);
      }
    },
    refused(error) {
      if (!(error instanceof RetryableError || error instanceof TooLargeError)) return;
      held.bytes = Math.max(bytesMin, held.bytes / 2);
      if (error instanceof RetryableError) held.width = Math.max(1, Math.floor(held.width / 2));
    },
  };
}

/** Runs as many pieces of work at once as `width` says at that moment; the others wait for their turn. */
export function createTurns(width: () => number) {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async <Result>(work: () => Promise<Result>): Promise<Result> => {
    while (running >= width()) await new Promise<void>((resolve) => waiting.push(resolve));
    running++;
    try {
      return await work();
    } finally {
      running--;
      for (const next of waiting.splice(0)) next();
    }
  };
}

/** Neighbours whose sizes add up to at most `bytesMax`, and no more than `recordsMax` of them. */
export function requestParts(sizes: readonly number[], bytesMax: number, recordsMax: number): number[][] {
  const parts: number[][] = [];
  let bytes = 0;
  for (const [index, size] of sizes.entries()) {
    const part = parts.at(-1);
    if (part && bytes + size <= bytesMax && part.length < recordsMax) {
      part.push(index);
      bytes += size;
    } else {
      parts.push([index]);
      bytes = size;
    }
  }
  return parts;
}

/**
 * Sends the parts, so many at once, and throws what their errors mean together: rejected records are named,
 * and everything that is not written yet remains. `send` throws errors with indexes into its part.
 */
export async function sendParts(
  parts: readonly (readonly number[])[],
  width: number,
  send: (part: readonly number[]) => Promise<void>,
): Promise<void> {
  const rejected: Rejection[] = [];
  const remaining: number[] = [];
  const retried: RetryableError[] = [];
  let other: unknown;
  let next = 0;
  async function work(): Promise<void> {
    while (next < parts.length) {
      const part = parts[next++]!;
      // After an error the rest waits for the next attempt.
      if (other !== undefined || retried.length > 0) {
        remaining.push(...part);
        continue;
      }
      try {
        await send(part);
      } catch (error) {
        if (error instanceof RejectedEventsError) {
          rejected.push(...error.rejected.map((each) => ({ ...each, index: part[each.index]! })));
          remaining.push(...(error.remaining ?? []).map((index) => part[index]!));
          continue;
        }
        remaining.push(...((error as RetryableError).remaining?.map((index) => part[index]!) ?? part));
        if (error instanceof RetryableError) retried.push(error);
        else other ??= error;
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(width, parts.length) }, work));
  remaining.sort((a, b) => a - b);
  if (rejected.length > 0)
    throw new RejectedEventsError("The destination refused events.", rejected, { remaining });
  if (other !== undefined) throw other;
  if (retried.length > 0) {
    const waits = retried.flatMap(({ retryAfterMs }) => retryAfterMs ?? []);
    throw new RetryableError(retried[0]!.message, {
      cause: retried[0],
      remaining,
      retryAfterMs: waits.length > 0 ? Math.max(...waits) : undefined,
    });
  }
}

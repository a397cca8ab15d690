import { RetryableError } from "../../core/errors.ts";
import { inParallel } from "../shared/in-parallel.ts";

/** Objects of one batch that are written at once: bounds the memory for encoded bodies. */
const PUTS_AT_ONCE = 8;
/** So many failures in a row mean that the destination is down. */
const FAILURES_IN_A_ROW_MAX = 8;
/** The wait after an attempt that stored something: the back-off of delivery would grow to a minute. */
const CONTINUE_MS = 1000;

/**
 * Writes the parts of a batch. A failure that passes ends neither the attempt nor the batch:
 *
 * 1. A round tries each part that is left, once. Failed parts are left for the next round.
 * 2. The next round follows at once if this one stored something. Nothing waits here: delivery waits between attempts.
 * 3. The attempt ends with the error when a round stores nothing, when the destination asks to wait (Retry-After),
 *    or after some failures in a row. A destination that is down gets no more than these.
 *
 * Any other error ends the attempt at once. `write` resolves to false for a part that was stored before this attempt.
 */
export async function writeParts<Part>(
  parts: readonly Part[],
  write: (part: Part) => Promise<boolean>,
): Promise<void> {
  let failed: Part[] = [];
  let stored = 0;
  let failuresInARow = 0;
  let last: RetryableError | undefined;
  let retryAfterMs: number | undefined;

  async function tryPart(part: Part): Promise<void> {
    if (failuresInARow >= FAILURES_IN_A_ROW_MAX) return void failed.push(part);
    try {
      if (!(await write(part))) return;
      stored++;
      failuresInARow = 0;
    } catch (error) {
      if (!(error instanceof RetryableError)) throw error;
      failed.push(part);
      failuresInARow++;
      last = error;
      if (error.retryAfterMs !== undefined) retryAfterMs = Math.max(retryAfterMs ?? 0, error.retryAfterMs);
    }
  }

  for (let left = parts; left.length > 0; left = failed) {
    failed = [];
    const storedBefore = stored;
    await inParallel(left, PUTS_AT_ONCE, tryPart);
    const isDown = failuresInARow >= FAILURES_IN_A_ROW_MAX || stored === storedBefore;
    if (last === undefined || failed.length === 0 || (!isDown && retryAfterMs === undefined)) continue;
    throw new RetryableError(last.message, {
      cause: last.cause,
      retryAfterMs: retryAfterMs ?? (stored > 0 ? CONTINUE_MS : undefined),
    });
  }
}

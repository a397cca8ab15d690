import { RejectedEventsError, type Rejection, RetryableError } from "../../core/errors.ts";
import type { SinkRecord } from "../../core/sink.ts";

/** The destination refused something of what was sent and did not say which (R27). */
export interface UnnamedRefusal {
  readonly reason: string;
  /** The destination's own answer, without secrets. */
  readonly answer?: string | undefined;
  /** How many it refused, where it says so. */
  readonly count?: number | undefined;
}

/** After so many refusals delivery decides again, which may pause a sink that refuses nearly everything. */
const REFUSALS_MAX = 16;

/**
 * Sends records, in halves where they are refused, until every refused one is known (R27), and then
 * throws RejectedEventsError. Records beside a refused one may be sent more than once. `send` resolves to a
 * refusal, or to undefined when all of these were taken; what it throws keeps its meaning for the records
 * that are still to be sent.
 */
export async function halveUntilNamed(
  records: readonly SinkRecord[],
  send: (records: readonly SinkRecord[], indexes: readonly number[]) => Promise<UnnamedRefusal | undefined>,
): Promise<void> {
  const rejected: Rejection[] = [];
  const parts: (readonly number[])[] = [Array.from(records, (_, index) => index)];
  let sent = 0;
  while (parts.length > 0 && rejected.length < REFUSALS_MAX) {
    const part = parts[0]!;
    let refusal: UnnamedRefusal | undefined;
    try {
      refusal = await send(
        part.map((index) => records[index]!),
        part,
      );
    } catch (error) {
      if (rejected.length === 0 && sent === 0) throw error;
      return interrupted(error, rejected, parts.flat());
    }
    parts.shift();
    if (refusal === undefined) {
      sent += part.length;
    } else if (part.length === 1 || refusal.count === part.length) {
      for (const index of part) rejected.push({ index, reason: refusal.reason, answer: refusal.answer });
    } else {
      const half = Math.ceil(part.length / 2);
      parts.unshift(part.slice(0, half), part.slice(half));
    }
  }
  if (rejected.length > 0) throw refusedError(rejected, parts.flat());
}

/** Only what is not sent yet is left for the next attempt, which meets the same error if it lasts. */
function interrupted(error: unknown, rejected: readonly Rejection[], remaining: readonly number[]): never {
  if (!(error instanceof Error)) throw error;
  const isOurs = ["RetryableError", "TooLargeError", "PausedError"].includes(error.name);
  if (!isOurs) throw error;
  if (rejected.length > 0) throw refusedError(rejected, remaining);
  const retryAfterMs = error instanceof RetryableError ? error.retryAfterMs : undefined;
  throw new RetryableError("Part of the batch was sent before an error.", {
    cause: error,
    remaining,
    retryAfterMs,
  });
}

function refusedError(rejected: readonly Rejection[], remaining: readonly number[]): RejectedEventsError {
  return new RejectedEventsError("The destination refused events.", rejected, { remaining });
}

import {
  PausedError,
  RejectedEventsError,
  type Rejection,
  RetryableError,
  TooLargeError,
} from "../../core/errors.ts";
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
 * refusal, or to undefined when all of these were taken. What it throws keeps its meaning for the records that are
 * still to be sent; indexes in it are those of `records`.
 */
export function halveUntilNamed(
  records: readonly SinkRecord[],
  send: (records: readonly SinkRecord[], indexes: readonly number[]) => Promise<UnnamedRefusal | undefined>,
): Promise<void> {
  return halveIndexes(records.length, (part) =>
    send(
      part.map((index) => records[index]!),
      part,
    ),
  );
}

/** The same for so many records of which only the indexes are needed. */
export async function halveIndexes(
  count: number,
  send: (indexes: readonly number[]) => Promise<UnnamedRefusal | undefined>,
): Promise<void> {
  const rejected: Rejection[] = [];
  const parts: (readonly number[])[] = [Array.from({ length: count }, (_, index) => index)];
  let sent = 0;
  while (parts.length > 0 && rejected.length < REFUSALS_MAX) {
    const part = parts[0]!;
    let refusal: UnnamedRefusal | undefined;
    try {
      refusal = await send(part);
    } catch (error) {
      const rest = parts.slice(1).flat();
      if (rejected.length === 0 && sent === 0 && rest.length === 0) throw error;
      return interrupted(error, rejected, { part, rest, isFirst: sent === 0 });
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

interface Unsent {
  /** What was being sent. */
  readonly part: readonly number[];
  /** What was not sent at all. */
  readonly rest: readonly number[];
  /** Nothing was taken before. */
  readonly isFirst: boolean;
}

/** Only what is not sent yet is left for the next attempt, which meets the same error if it lasts. */
function interrupted(error: unknown, rejected: readonly Rejection[], { part, rest, isFirst }: Unsent): never {
  if (error instanceof RejectedEventsError)
    throw refusedError([...rejected, ...error.rejected], both(error.remaining ?? [], rest));
  const isOurs =
    error instanceof RetryableError || error instanceof TooLargeError || error instanceof PausedError;
  if (!isOurs) throw error;
  const left = error instanceof RetryableError ? error.remaining : undefined;
  const remaining = both(left ?? part, rest);
  if (rejected.length > 0) throw refusedError(rejected, remaining);
  if (isFirst && left === undefined) throw error;
  throw new RetryableError("Part of the batch was sent before an error.", {
    cause: error,
    remaining,
    retryAfterMs: error instanceof RetryableError ? error.retryAfterMs : undefined,
  });
}

/**
 * For a sink whose requests have keys: delivery sends the halves. Their bounds are durable, so a part whose answer was
 * lost is sent again with its own key, whatever happens in between.
 */
export function unnamedRefusalOf(count: number, { reason, answer }: UnnamedRefusal): RejectedEventsError {
  const rejected = Array.from({ length: count }, (_, index) => ({ index, reason, answer }));
  return new RejectedEventsError(reason, rejected, { isUnnamed: true });
}

function both(some: readonly number[], others: readonly number[]): number[] {
  return [...new Set([...some, ...others])].sort((a, b) => a - b);
}

function refusedError(rejected: readonly Rejection[], remaining: readonly number[]): RejectedEventsError {
  return new RejectedEventsError("The destination refused events.", rejected, { remaining });
}

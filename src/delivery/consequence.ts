import {
  DecisionNeededError,
  explain,
  isDiskTrouble,
  PausedError,
  RejectedEventsError,
  type Rejection,
  RetryableError,
  TooLargeError,
  UsageError,
} from "../core/errors.ts";

/*
 * The consequence of an error of a sink or of the journal. Each error has exactly one:
 *
 *   RetryableError, a full disk    retry: the batch, or what is left of it, is written again after a wait
 *   TooLargeError                  halve: smaller batches; a single record is buried
 *   RejectedEventsError            bury: these records become dead letters, the others go on
 *     … that does not name them    halve: smaller batches, until a single record is refused
 *     … of most events             pause: the destination is misconfigured, not the events; old ones do not count
 *   PausedError                    pause: probed every 30 seconds
 *   UsageError, DecisionNeeded     stop: until the operator decides
 *   anything else                  retry with an alarm: unexpected, but never final (R38)
 */
export type Consequence =
  | { readonly kind: "retry"; readonly error: RetryableError; readonly isUnexpected: boolean }
  | { readonly kind: "halve"; readonly recordsMax: number }
  | {
      readonly kind: "bury";
      readonly rejected: readonly Rejection[];
      /** Records that are not written yet and are sent again. */
      readonly again: readonly number[];
    }
  | { readonly kind: "pause"; readonly reason: string; readonly remedy: string }
  | { readonly kind: "stop"; readonly reason: string; readonly remedy: string };

/** `records` is the size of the batch that was being written; undefined when there was none. */
export function consequenceOf(
  error: unknown,
  records: number | undefined,
  refusals: Pick<Refusals, "areMost">,
): Consequence {
  const isOfSome = error instanceof RejectedEventsError && error.isUnnamed;
  if ((error instanceof TooLargeError || isOfSome) && records !== undefined && records > 1)
    return { kind: "halve", recordsMax: Math.ceil(records / 2) };
  if (error instanceof TooLargeError && records !== undefined)
    return { kind: "bury", rejected: [{ index: 0, reason: error.message }], again: [] };
  if (error instanceof RejectedEventsError && records !== undefined)
    return rejection(error, records, refusals);
  if (error instanceof RetryableError) return { kind: "retry", error, isUnexpected: false };
  if (error instanceof PausedError) return { kind: "pause", reason: error.message, remedy: error.remedy };
  if (error instanceof UsageError)
    return { kind: "stop", reason: error.message, remedy: "Fix the config and restart." };
  if (error instanceof DecisionNeededError)
    return { kind: "stop", reason: error.message, remedy: `Choose: ${error.choices.join("; or ")}.` };
  const retryable = new RetryableError(explain(error), { cause: error });
  return { kind: "retry", error: retryable, isUnexpected: !isDiskTrouble(error) };
}

function rejection(
  { rejected, remaining = [], message }: RejectedEventsError,
  records: number,
  refusals: Pick<Refusals, "areMost">,
): Consequence {
  // Old events never become younger, so waiting for the operator would only make more of them.
  const wrong = rejected.filter(({ isOld }) => isOld !== true);
  if (wrong.length > 0 && refusals.areMost(wrong.length, records))
    return {
      kind: "pause",
      reason: `The destination refuses most events: ${wrong[0]?.reason ?? message}`,
      remedy:
        "Fix the destination or this sink's config. Delivery then continues automatically; nothing is lost.",
    };
  const refused = new Set(rejected.map(({ index }) => index));
  return { kind: "bury", rejected, again: remaining.filter((index) => !refused.has(index)) };
}

/** A destination that refuses more than half of so many events is paused instead of filling the dead letters. */
const REFUSED_MIN = 200;
/** Older events count half as much after every so many. */
const REMEMBERED = 20_000;

/** How many of the recent events the destination took and refused. */
export function createRefusals() {
  let taken = 0;
  let refused = 0;
  return {
    took(events: number): void {
      taken += events;
    },
    refused(events: number): void {
      refused += events;
    },
    /** Whether most recent events are refused, counting a batch with so many refusals. */
    areMost(refusedNow: number, records: number): boolean {
      const share = (refused + refusedNow) / (taken + refused + records);
      const isMost = refused + refusedNow >= REFUSED_MIN && share > 0.5;
      if (taken + refused > REMEMBERED) {
        taken /= 2;
        refused /= 2;
      }
      return isMost;
    },
  };
}

export type Refusals = ReturnType<typeof createRefusals>;

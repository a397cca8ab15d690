import type { JournalEvent } from "../core/event.ts";
import type { BatchLimits } from "../core/sink.ts";

/** An event that fits into no batch: too large by itself, or its format failed on it. */
export interface Misfit {
  readonly event: JournalEvent;
  readonly reason: string;
}

const NOT_ENCODED = "it could not be encoded: ";

export function notEncoded(event: JournalEvent, { message }: Error): Misfit {
  return { event, reason: `${NOT_ENCODED}${message}` };
}

export function tooLargeAlone(
  event: JournalEvent,
  size: number,
  bytesMax: number,
  limitedBy: BatchLimits["limitedBy"],
): Misfit {
  return { event, reason: `its ${size} bytes are more than the ${bytesMax} that ${whose(limitedBy)}` };
}

/** Whose limit it is, and what to do about it. */
function whose(limitedBy: BatchLimits["limitedBy"]): string {
  switch (limitedBy) {
    case undefined:
      return "the destination takes";
    case "Tidemark":
      return "Tidemark writes at once with a sink of this type. An http or s3 sink with larger limits can deliver them";
    default:
      return `${limitedBy} allows. If the destination takes more, raise it and replay the event`;
  }
}

/** Whether a dead letter with this reason was in no batch. Others were in one, and the destination refused them. */
export function isMisfit(reason: string): boolean {
  return reason.startsWith(NOT_ENCODED) || TOO_LARGE.test(reason);
}

const TOO_LARGE = /^its \d+ bytes are more than the -?\d+ that /;

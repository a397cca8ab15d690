import type { JournalEvent } from "../core/event.ts";

/** An event that fits into no batch: too large by itself, or its format failed on it. */
export interface Misfit {
  readonly event: JournalEvent;
  readonly reason: string;
}

const NOT_ENCODED = "it could not be encoded: ";

export function notEncoded(event: JournalEvent, { message }: Error): Misfit {
  return { event, reason: `${NOT_ENCODED}${message}` };
}

export function tooLargeAlone(event: JournalEvent, size: number, bytesMax: number): Misfit {
  return { event, reason: `its ${size} bytes are more than the ${bytesMax} that the destination takes` };
}

/** Whether a dead letter with this reason was in no batch. Others were in one, and the destination refused them. */
export function isMisfit(reason: string): boolean {
  return reason.startsWith(NOT_ENCODED) || TOO_LARGE.test(reason);
}

const TOO_LARGE = /^its \d+ bytes are more than the -?\d+ that the destination takes$/;

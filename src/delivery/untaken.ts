import { PausedError, RejectedEventsError, TooLargeError } from "../core/errors.ts";
import type { JournalReader } from "../core/journal.ts";
import type { SinkDefinition } from "../core/sink.ts";
import { begunBy, withoutBegun } from "./begun.ts";

/**
 * Whether batches that were begun may be stored. Where a destination takes a request whole or not at all and has
 * refused each of their requests, nothing of them is: then the config that a person corrects counts for them too.
 * An attempt of an earlier process, and one without an answer, may have been taken.
 */
export function createUntaken(reader: JournalReader, { type, refusesWhole = false }: SinkDefinition) {
  let mayBeStored = begunBy(reader, type) !== undefined;
  return {
    /** How the write of a batch ended. */
    ended(error: unknown): void {
      mayBeStored ||= !REFUSALS.some((refusal) => error instanceof refusal);
    },
    committed(): void {
      if (reader.bounds.length === 0) mayBeStored = false;
    },
    /** The destination refuses what is sent. */
    async refused(): Promise<void> {
      if (mayBeStored || !refusesWhole || begunBy(reader, type) === undefined) return;
      const { bounds, state } = withoutBegun(reader, type);
      await reader.setBounds(bounds, state);
    },
  };
}

const REFUSALS = [PausedError, RejectedEventsError, TooLargeError];

export type Untaken = ReturnType<typeof createUntaken>;

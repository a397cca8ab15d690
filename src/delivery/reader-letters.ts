import type { DeadLetter, JournalPlace, JournalReader } from "../core/journal.ts";
import type { Position } from "../core/position.ts";
import type { Batch, SinkState } from "../core/sink.ts";

/*
 * The dead letters of one reader. Some may be of a batch that was not committed when the process ended: the destination
 * had refused their events. A durable bound means the same events again, so they are sent again with their batch. One that
 * is taken now is no dead letter any more, and goes with the commit.
 */
export function createReaderLetters(reader: JournalReader) {
  const open = new Map<string, JournalPlace>();
  const taken = new Map<string, JournalPlace>();

  return {
    /** Letters of events that are sent again. */
    reopen(letters: readonly JournalPlace[]): void {
      open.clear();
      for (const letter of letters) open.set(keyOf(letter), letter);
    },
    async add(letters: readonly DeadLetter[]): Promise<void> {
      await reader.addDeadLetters(letters);
      for (const { event } of letters) open.delete(keyOf(event));
    },
    took(batch: Batch): void {
      // Records may have to be made first.
      if (open.size === 0) return;
      for (const { event } of batch.records) {
        const letter = open.get(keyOf(event));
        if (letter?.identity !== event.identity) continue;
        taken.set(keyOf(letter), letter);
        open.delete(keyOf(letter));
      }
    },
    async commit(to: Position, state: SinkState | undefined): Promise<void> {
      const delivered = [...taken.values()].filter((letter) => isBefore(letter, to));
      await reader.commit(to, state, delivered);
      for (const letter of delivered) taken.delete(keyOf(letter));
    },
  };
}

function keyOf({ page, index }: Pick<JournalPlace, "page" | "index">): string {
  return `${page}:${index}`;
}

function isBefore({ page, index }: JournalPlace, to: Position): boolean {
  return page < to.page || (page === to.page && index < to.event);
}

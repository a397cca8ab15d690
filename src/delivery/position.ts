import { DecisionNeededError } from "../core/errors.ts";
import type { JournalReader } from "../core/journal.ts";
import { comparePositions, formatPosition, type Position, parsePosition, startOf } from "../core/position.ts";
import type { Sink, SinkState } from "../core/sink.ts";

/** What delivery keeps with a reader's position: the sink's own state, and the end of its last write. */
export interface Held {
  readonly sink?: SinkState | undefined;
  /** Events that a filter leaves out move the position without a write; this one only moves with writes. */
  readonly written?: string | undefined;
}

export function resolved(written: Position, sink: SinkState | undefined): SinkState {
  const held: Held = { sink, written: formatPosition(written) };
  return held as SinkState;
}

/**
 * Where to go on (R20), given what the destination itself holds. One batch ahead is the normal crash
 * between the destination's commit and ours. A destination that is behind, that holds another journal's
 * position or none at all was changed behind our back, or our own state was: a person decides.
 */
export async function judgePosition(
  name: string,
  sink: Sink,
  reader: JournalReader,
  held: Held,
): Promise<Position> {
  if (!("position" in sink)) return reader.position;
  const there = sink.position;
  const written = held.written === undefined ? undefined : parsePosition(held.written);
  if (there === undefined) {
    if (written === undefined) return reader.position;
    throw new DecisionNeededError(
      `The destination of "${name}" holds no position, but the state says that it was written up to page ${written.page}: its positions were deleted, or it is another destination.`,
      [restoreDestination, ...choices(name, ["state", "beginning"])],
    );
  }
  if (written !== undefined && formatPosition(there) === formatPosition(written)) return reader.position;
  if (!(await reader.holds(there))) {
    const lost = there.journal !== reader.position.journal;
    throw new DecisionNeededError(
      lost
        ? `The destination of "${name}" was last written from another journal (${there.journal}): the state file was lost or made anew.`
        : `The destination of "${name}" holds a position that this journal does not know (page ${there.page}): the state file was restored from an older copy.`,
      ["restore the newest state file", ...choices(name, ["beginning", "now"])],
    );
  }
  if (written !== undefined && comparePositions(there, written) < 0) {
    throw new DecisionNeededError(
      `The destination of "${name}" is behind the state: it holds page ${there.page}, the state says ${written.page}. The destination was restored from an older copy.`,
      [restoreDestination, ...choices(name, ["destination", "state"])],
    );
  }
  return comparePositions(there, reader.position) > 0 ? there : reader.position;
}

const restoreDestination = "restore the destination";

const WORDS = {
  destination: "send again what it lacks",
  state: "go on where the state says, without what it lacks",
  beginning: "send all that the journal holds (the destination may get some twice)",
  now: "go on with new events only",
} as const;

function choices(name: string, of: readonly (keyof typeof WORDS)[]): string[] {
  return of.map((choice) => `\`tidemark sinks resume ${name} --from ${choice}\`: ${WORDS[choice]}`);
}

/** Turns a person's choice into the position to go on from. */
export type Resolution = (facts: { sink: Sink; reader: JournalReader; end(): Position }) => Promise<Position>;

export function resolutionOf(choice: keyof typeof WORDS): Resolution {
  return async ({ sink, reader, end }) => {
    switch (choice) {
      case "state":
        return reader.position;
      case "beginning":
        return startOf(reader.position.journal);
      case "now":
        return end();
      case "destination":
        if (sink.position !== undefined && (await reader.holds(sink.position))) return sink.position;
        throw new DecisionNeededError("The destination holds no position of this journal.", [
          "choose another --from",
        ]);
    }
  };
}

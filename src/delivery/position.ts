import { DamagedPageError, DecisionNeededError, UsageError } from "../core/errors.ts";
import type { JournalReader } from "../core/journal.ts";
import { comparePositions, formatPosition, type Position, parsePosition, startOf } from "../core/position.ts";
import type { Sink, SinkState } from "../core/sink.ts";
import type { BegunState } from "./begun.ts";

/** Stored with a reader's position: the sink's own state, and the end of its last write. */
export interface ReaderState extends BegunState {
  readonly sink?: SinkState | undefined;
  /** Events that a filter leaves out move the position without a write; this one only moves with writes. */
  readonly written?: string | undefined;
  /** The type of the sink that wrote last, where its destination keeps no position. */
  readonly without?: string | undefined;
}

/** `written` is undefined for a sink that keeps no position in its destination; then `type` is kept. */
export function resolved(
  written: Position | undefined,
  sink: SinkState | undefined,
  { layout, begun }: BegunState = {},
  type?: string,
): SinkState {
  const without = written === undefined ? type : undefined;
  const held: ReaderState = { sink, written: written && formatPosition(written), without, layout, begun };
  return held as SinkState;
}

export interface PositionFacts {
  /** The state was put in place of another one, and the reader has committed nothing since. */
  readonly isAsRestored?: boolean;
  /** Journals that this one continues. */
  readonly earlierJournals?: ReadonlySet<string> | undefined;
  /** The type of the sink. */
  readonly type?: string;
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
  held: ReaderState,
  { isAsRestored = false, earlierJournals, type }: PositionFacts = {},
): Promise<Position> {
  if (!("position" in sink)) return reader.position;
  const there = sink.position;
  const written = held.written === undefined ? undefined : parsePosition(held.written);
  if (there === undefined) {
    if (written === undefined) return reader.position;
    throw new DecisionNeededError(
      `The destination of "${name}" holds no position, but the state says that it was written up to page ${written.page}: its positions were deleted, it is another destination, or the sink had another name or id there.`,
      [
        RESTORE_DESTINATION,
        ...choices(name, {
          state: "go on where the state says, without what it lacks; the last batch may be repeated",
          beginning: SEND_ALL,
        }),
      ],
    );
  }
  if (written !== undefined && formatPosition(there) === formatPosition(written)) return reader.position;
  // The last writes carried no position. Those of a sink of the same type are taken to be here: its delivery was changed.
  const isElsewhere =
    written === undefined && reader.state !== undefined && (!held.without || held.without !== type);
  // All of an earlier journal was delivered, and of this one nothing was written yet.
  if (written === undefined && !isElsewhere && earlierJournals?.has(there.journal)) return reader.position;
  if (!(await reader.holds(there))) throw unknownPosition(name, there, reader.position);
  if (isElsewhere && comparePositions(there, reader.position) < 0) {
    throw writtenElsewhere(name, there, reader.position, await reader.reaches(there));
  }
  if (written !== undefined && comparePositions(there, earlier(written, reader.position)) < 0) {
    throw behindState(name, there, written, await reader.reaches(there));
  }
  if (comparePositions(there, reader.position) <= 0) return reader.position;
  if (isAsRestored) throw aheadOfCopy(name, there, reader.position);
  return there;
}

function behindState(
  name: string,
  there: Position,
  written: Position,
  isReachable: boolean,
): DecisionNeededError {
  const message = `The destination of "${name}" is behind the state: it holds page ${there.page}, the state says ${written.page}. It was probably restored from an older copy.`;
  if (isReachable) {
    const state = "go on where the state says, without what it lacks";
    return new DecisionNeededError(message, [
      RESTORE_DESTINATION,
      ...choices(name, { destination: SEND_AFTER, state }),
    ]);
  }
  return new DecisionNeededError(`${message} ${NOT_REACHABLE}`, [
    RESTORE_DESTINATION,
    ...choices(name, { state: `go on where the state says, then ${fetchWith(name)}` }),
  ]);
}

/** The sink was of another type for a while. */
function writtenElsewhere(
  name: string,
  there: Position,
  position: Position,
  isReachable: boolean,
): DecisionNeededError {
  const message = `The destination of "${name}" is behind the state: it holds page ${there.page}, the state says ${position.page}. Since then a sink of this name has written without a position, probably of another type and to another destination.`;
  const state = "go on where the state says: right if this destination got those events without a position";
  if (isReachable) return new DecisionNeededError(message, choices(name, { destination: SEND_AFTER, state }));
  return new DecisionNeededError(
    `${message} ${NOT_REACHABLE}`,
    choices(name, {
      state: `go on where the state says; if this destination lacks the events in between, ${fetchWith(name)}`,
    }),
  );
}

const SEND_AFTER = "send again what came after that page";
const NOT_REACHABLE = "The journal no longer has all events after that page.";

const fetchWith = (name: string) =>
  `fetch what it lacks from the service with \`tidemark backfill --sink ${name} --since TIME\``;

function unknownPosition(name: string, there: Position, position: Position): DecisionNeededError {
  const now = `go on with new events only, then fetch the stretch before them with \`tidemark backfill --sink ${name} --since TIME\``;
  if (there.journal !== position.journal) {
    return new DecisionNeededError(
      `The destination of "${name}" was last written from another journal (${there.journal}): the state file was lost or made anew.`,
      [RESTORE_STATE, ...choices(name, { beginning: SEND_ALL, now })],
    );
  }
  return new DecisionNeededError(
    `The destination of "${name}" holds a position that this journal does not know (page ${there.page}; the state says ${position.page}): the state file was restored from an older copy, or its newest writes were lost.`,
    [RESTORE_STATE, ...choices(name, { state: SEND_SINCE_COPY, now })],
  );
}

function withoutPosition(name: string): DecisionNeededError {
  return new DecisionNeededError(
    `The destination of "${name}" holds no position. Nothing was changed.`,
    choices(name, { state: "go on where the state says", beginning: SEND_ALL }),
  );
}

/** Its position is known here, but what it refused on the way there became dead letters of the newer state. */
function aheadOfCopy(name: string, there: Position, position: Position): DecisionNeededError {
  return new DecisionNeededError(
    `The state file was restored from an older copy, and the destination of "${name}" is ahead of it: it holds page ${there.page}, the state says ${position.page}.`,
    [
      RESTORE_STATE,
      ...choices(name, {
        destination: "go on after what it holds (dead letters from in between went with the newer state)",
        state: SEND_SINCE_COPY,
      }),
    ],
  );
}

/** After a person's decision the position may lie before what was last written: from there on all is normal. */
function earlier(written: Position, position: Position): Position {
  if (written.journal !== position.journal) return position;
  return comparePositions(written, position) < 0 ? written : position;
}

const RESTORE_DESTINATION = "restore the destination";
const RESTORE_STATE = "restore the newest state file";
const SEND_ALL = "send all that the journal holds (the destination may get some twice)";
const SEND_SINCE_COPY =
  "send again what came after the copy (the destination gets some twice, nothing is lost)";

type Choice = "destination" | "state" | "beginning" | "now" | "behind-damage";

function choices(name: string, of: Partial<Record<Choice, string>>): string[] {
  return Object.entries(of).map(
    ([choice, words]) => `\`tidemark sinks resume ${name} --from ${choice}\`: ${words}`,
  );
}

/** Turns a person's choice into the position to go on from. */
export type Resolution = (facts: { sink: Sink; reader: JournalReader; end(): Position }) => Promise<Position>;

export function resolutionOf(choice: Choice): Resolution {
  return async ({ sink, reader, end }) => {
    switch (choice) {
      case "state":
        return reader.position;
      case "beginning":
        return startOf(reader.position.journal);
      case "now":
        return end();
      case "behind-damage":
        return behindDamage(reader);
      case "destination":
        if (sink.position === undefined) throw withoutPosition(reader.name);
        if (!(await reader.holds(sink.position)))
          throw unknownPosition(reader.name, sink.position, reader.position);
        if (!(await reader.reaches(sink.position)))
          throw new DecisionNeededError(
            "The journal no longer has all events after the destination's position. Nothing was changed.",
            [
              `\`tidemark sinks resume ${reader.name} --from state\`, then \`tidemark backfill --sink ${reader.name} --since TIME\`, which reads them from the service again`,
            ],
          );
        return sink.position;
    }
  };
}

/** Behind the damaged page that comes next, or that is in the batch that was begun. */
async function behindDamage(reader: JournalReader): Promise<Position> {
  const begunTo = reader.bounds.at(-1);
  for (let at = reader.position; ; ) {
    try {
      const page = await reader.read(at);
      if (page === null) break;
      at = page.after(page.first + page.count - 1);
      page.lease.release();
    } catch (error) {
      if (error instanceof DamagedPageError) return error.behind;
      throw error;
    }
    if (begunTo === undefined || comparePositions(at, begunTo) >= 0) break;
  }
  throw new UsageError(
    `The sink "${reader.name}" does not stand at a damaged page, so there is nothing to go behind. Nothing was changed.`,
  );
}

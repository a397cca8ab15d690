import type { JournalEvent } from "../core/event.ts";
import { comparePositions, type Position } from "../core/position.ts";
import type { Batch } from "../core/sink.ts";

/*
 * How far a delivery has come, and what is left of a batch that did not go through whole.
 *
 *   at          the next batch begins here
 *   recordsMax  halved after a batch that was too large, doubled after each success
 *   cutTo       the end of such a batch: up to there, durable bounds are not taken exactly
 *   againTo     the end of a batch that is written again; it is formed again up to there
 *   rest        the records of such a batch that are not written yet; the others are passed over
 *   ahead       records behind a failed batch that are written already; they are passed over
 *   leftOut     misfits after the position that are dead letters already; they are passed over
 *
 * A success or a pass up to the end of a batch clears the last four. Opening the sink again clears againTo: the
 * destination may be past it.
 */
export function createProgress(start: Position) {
  let at = start;
  let recordsMax = Number.POSITIVE_INFINITY;
  let cutTo: Position | undefined;
  let againTo: Position | undefined;
  let ahead: readonly Stretch[] = [];
  let rest: { readonly to: Position; readonly keys: ReadonlySet<string> } | undefined;

  const leftOut = new Map<string, LeftOut>();

  function moveTo(to: Position): void {
    for (const [key, letter] of leftOut) if (isBefore(letter, to)) leftOut.delete(key);
    if (rest !== undefined && comparePositions(to, rest.to) >= 0) rest = undefined;
    ahead = ahead.filter((stretch) => comparePositions(to, stretch.to) < 0);
    againTo = undefined;
    if (cutTo !== undefined && comparePositions(to, cutTo) >= 0) cutTo = undefined;
    at = to;
  }

  return {
    get at() {
      return at;
    },
    get againTo() {
      return againTo;
    },
    /** Whether a batch is being sent in smaller ones. */
    get isCutting() {
      return cutTo !== undefined;
    },
    /** Whether a batch up to this bound was refused as too large, so that it is cut within the bound. */
    isCut: (bound: Position | undefined) =>
      bound !== undefined && cutTo !== undefined && comparePositions(bound, cutTo) <= 0,
    recordsMax: (limit: number) => Math.min(limit, recordsMax),
    /** Whether an event is still to be written. */
    isLeft(event: JournalEvent): boolean {
      if (leftOut.get(keyOf(event))?.identity === event.identity) return false;
      if (ahead.some((stretch) => isIn(stretch, event))) return false;
      return rest === undefined || !isBefore(event, rest.to) || rest.keys.has(keyOf(event));
    },
    isWhole: () => rest === undefined && ahead.length === 0 && leftOut.size === 0,
    /** These did not fit into any batch and are dead letters. They stay dead letters even if they would fit now. */
    leaveOut(letters: readonly LeftOut[]): void {
      // Not the events themselves: these are looks at a page's memory.
      for (const { page, index, identity } of letters)
        leftOut.set(keyOf({ page, index }), { page, index, identity });
    },
    passed: moveTo,
    wrote(to: Position, limit: number): void {
      moveTo(to);
      recordsMax = recordsMax * 2 > limit ? Number.POSITIVE_INFINITY : recordsMax * 2;
    },
    /** The records of a batch behind a failed one are written already; with `isWhole` all events of its stretch are. */
    wroteAhead({ records, from, to }: Batch, isWhole: boolean): void {
      const keys = isWhole ? undefined : new Set(records.map(({ event }) => keyOf(event)));
      ahead = [...ahead, { from, to, keys }];
    },
    /** The batch is written again, whole. */
    again(batch: Batch): void {
      againTo = batch.to;
    },
    /** Only these records of the batch are written again. */
    leave(batch: Batch, indexes: readonly number[]): void {
      rest = { to: batch.to, keys: new Set(indexes.map((index) => keyOf(batch.records[index]!.event))) };
      if (indexes.length === 0) againTo = undefined;
    },
    halved(max: number, batch: Batch | undefined): void {
      againTo = undefined;
      cutTo = batch?.to;
      recordsMax = max;
    },
    reopened(position: Position): void {
      againTo = undefined;
      at = position;
    },
    /** The operator chose a position: what was left of an earlier batch means nothing from there on. */
    placed(position: Position): void {
      leftOut.clear();
      rest = undefined;
      ahead = [];
      againTo = undefined;
      cutTo = undefined;
      at = position;
    },
  };
}

export type Progress = ReturnType<typeof createProgress>;

type Place = Pick<JournalEvent, "page" | "index">;

interface LeftOut extends Place {
  readonly identity: string;
}

interface Stretch {
  readonly from: Position;
  readonly to: Position;
  /** Undefined: all events of the stretch. */
  readonly keys: ReadonlySet<string> | undefined;
}

function isIn({ from, to, keys }: Stretch, event: JournalEvent): boolean {
  return !isBefore(event, from) && isBefore(event, to) && (keys === undefined || keys.has(keyOf(event)));
}

function isBefore(event: Place, position: Position): boolean {
  return event.page < position.page || (event.page === position.page && event.index < position.event);
}

function keyOf(event: Place): string {
  return `${event.page}:${event.index}`;
}

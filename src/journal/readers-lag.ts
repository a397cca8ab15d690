import { FULL_PAGE_EVENTS } from "../core/page-gate.ts";
import type { Position } from "../core/position.ts";

/**
 * With fewer events before it a reader is not behind: a destination that takes a second for each request would get every
 * small page alone, and all other readers would wait for it.
 */
const BEHIND_EVENTS = FULL_PAGE_EVENTS / 10;
/** A reader with more than that before it is too slow to be waited for. */
const FAR_EVENTS = 4 * FULL_PAGE_EVENTS;

/** How many events the readers have before them, counted from the pages that were appended since the start. */
export function createReadersLag(positions: ReadonlyMap<string, Position>) {
  /** By page: its events, and all that were appended up to its end. Pages further back than a reader may be are gone. */
  const ends = new Map<number, { readonly events: number; readonly total: number }>();
  let total = 0;
  /** Readers that were waited for in vain, and where they were. A sink that is down must not delay the others again. */
  const stuck = new Map<string, Position>();
  let listener = () => {};

  /** Undefined: far behind, or it has not read a page since the start. */
  function eventsBefore({ page, event }: Position): number | undefined {
    const end = ends.get(page);
    return end && total - end.total + end.events - event;
  }

  function hasAtLeast(least: number, name: string, position: Position): boolean {
    const events = eventsBefore(position) ?? 0;
    const at = stuck.get(name);
    const isStuck = at?.page === position.page && at.event === position.event;
    return !isStuck && events >= least && events <= FAR_EVENTS;
  }

  function anyHas(least: number): boolean {
    for (const [name, position] of positions) if (hasAtLeast(least, name, position)) return true;
    return false;
  }

  return {
    appended(number: number, events: number): void {
      total += events;
      ends.set(number, { events, total });
      for (const [oldest, end] of ends) {
        if (total - end.total <= FAR_EVENTS) break;
        ends.delete(oldest);
      }
    },
    /** Whether a reader that keeps up has more than a few events before it. */
    isBehind: () => anyHas(BEHIND_EVENTS),
    /** Whether it has any event before it. */
    hasMore: () => anyHas(1),
    /** The readers that are behind now are not waited for until they go on. */
    giveUp(): void {
      for (const [name, position] of positions)
        if (hasAtLeast(BEHIND_EVENTS, name, position)) stuck.set(name, position);
    },
    moved: () => listener(),
    /** Called whenever a reader goes on. */
    onMove(called: () => void): void {
      listener = called;
    },
  };
}

import type { Position } from "../core/position.ts";

/** A reader that takes events faster than this keeps up; a slower one is waited for this long, and left behind. */
const EVENTS_PER_MS = 40;
/** Nobody waits for a reader that is further behind. */
const NEAR_PAGES = 8;

interface Newest {
  readonly page: number;
  readonly reader: string | null;
  readonly timer: NodeJS.Timeout;
}

/**
 * Whose turn it is: a page is appended when the readers that keep up have taken the one before. A reader that
 * has fallen behind fetches each page from disk, decompresses it and scans it once more, which costs more
 * than the wait; and what waits here fills no memory.
 */
export function createTurns() {
  const given = new Map<string, number>();
  const passed = new Map<string, Position>();
  let newest: Newest | undefined;
  let free: (() => void) | undefined;
  let last: Promise<unknown> = Promise.resolve();

  function isAwaited({ page, reader }: Newest): boolean {
    for (const [name, last] of given) {
      if (reader !== null && reader !== name) continue;
      if (last < page && last >= page - NEAR_PAGES) return true;
    }
    return false;
  }

  function taken(): void {
    clearTimeout(newest?.timer);
    newest = undefined;
    free?.();
  }

  async function isFree(): Promise<void> {
    if (newest === undefined) return;
    await new Promise<void>((resolve) => {
      free = resolve;
    });
  }

  return {
    /** Runs the work when a page may be appended; one after the other, in the order they came. */
    take<Result>(work: () => Result): Promise<Result> {
      const turn = last.then(isFree).then(work);
      last = turn.catch(() => {});
      return turn;
    },
    appended(page: number, events: number, reader: string | null): void {
      clearTimeout(newest?.timer);
      // A real timer whatever clock the program is given: this bounds memory and says nothing about events.
      newest = { page, reader, timer: setTimeout(taken, events / EVENTS_PER_MS) };
      if (!isAwaited(newest)) taken();
    },
    /** A reader asked for what follows a position and was given this page, or the position's own where nothing follows. */
    gave(name: string, page: number, after: Position): void {
      given.set(name, page);
      passed.set(name, after);
      if (newest !== undefined && !isAwaited(newest)) taken();
    },
    /** Whether a reader that keeps up has not read past the page yet. */
    isWanted(page: number, events: number): boolean {
      for (const [name, last] of given) {
        const { page: at = 0, event = 0 } = passed.get(name) ?? {};
        const isPast = at > page || (at === page && event >= events);
        if (!isPast && last >= page - NEAR_PAGES) return true;
      }
      return false;
    },
    forget(name: string): void {
      given.delete(name);
      passed.delete(name);
    },
  };
}

export type Turns = ReturnType<typeof createTurns>;

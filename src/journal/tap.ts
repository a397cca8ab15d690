import type { JournalPage } from "../core/journal.ts";
import { type Position, startOf } from "../core/position.ts";
import type { State } from "./database.ts";
import { createPages } from "./pages.ts";

interface Next {
  readonly page: JournalPage | null;
  /** The position asked for, or the one behind what was trimmed. */
  readonly at: Position;
  /** Events before it that were trimmed before they could be shown. */
  readonly trimmed: number;
}

/** The journal's pages for a process that only looks on, beside the one that writes them. */
export function openTap(db: State) {
  const journal = db.prepare("SELECT value FROM meta WHERE key = 'journal'").pluck().get() as string;
  const pages = createPages(db, journal);
  const oldest = db.prepare("SELECT MIN(page) FROM bodies").pluck();
  const gone = db
    .prepare(
      `SELECT COALESCE(SUM(events), 0) FROM pages WHERE reader IS NULL AND number < @first
         AND (number > @page OR (number = @page AND events > @event))`,
    )
    .pluck();
  const nextIn = db.transaction((after: Position): Next => {
    const first = (oldest.get() as number | null) ?? Number.MAX_SAFE_INTEGER;
    const { page, event } = after;
    const isAhead = page === 0 || page >= first;
    const trimmed = isAhead ? 0 : (gone.get({ first, page, event }) as number);
    if (trimmed === 0) return { page: pages.next("", after), at: after, trimmed };
    const at = first === Number.MAX_SAFE_INTEGER ? pages.end() : { ...after, page: first, event: 0 };
    return { page: pages.next("", at), at, trimmed };
  });
  return {
    beginning: startOf(journal),
    end: () => pages.end(),
    /** The page after a position. */
    next: (after: Position) => nextIn(after),
  };
}

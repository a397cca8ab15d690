import { CAME_TWICE } from "../core/window.ts";
import type { State } from "./database.ts";

export interface ReadProgress {
  /** Time of the past that is still to be read, summed over streams. */
  readonly unreadMs: number;
  /** Events in the journal, including those whose bytes are trimmed. */
  readonly events: number;
  readonly windowsUnread: number;
  /** Windows in which events came twice, so that others may be left out. */
  readonly windowsDoubted: number;
  /** Events that belong to no organization that was asked for. They are kept apart. */
  readonly unattributed: number;
}

/** How far reading has come; for progress bars and for the report at the end. */
export function createReadProgress(db: State): () => ReadProgress {
  const unread = db
    .prepare(
      "SELECT COALESCE(SUM(to_ms - from_ms), 0), COUNT(*) FROM windows WHERE live = 0 AND state = 'unread'",
    )
    .raw();
  const doubted = db.prepare("SELECT COUNT(*) FROM windows WHERE live = 0 AND reason = ?").pluck();
  const events = db.prepare("SELECT COALESCE(SUM(events), 0) FROM pages").pluck();
  // Those with a reason are events that cannot be read, which have gaps.
  const unattributed = db.prepare("SELECT COUNT(*) FROM unattributed WHERE reason IS NULL").pluck();
  return () => {
    const [unreadMs, windowsUnread] = unread.get() as [number, number];
    return {
      unreadMs,
      windowsUnread,
      windowsDoubted: doubted.get(CAME_TWICE) as number,
      events: events.get() as number,
      unattributed: unattributed.get() as number,
    };
  };
}

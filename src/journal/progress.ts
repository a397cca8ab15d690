import type { Connection } from "./database.ts";

/** What a progress bar shows of a journal that is being filled. */
export function createProgress(db: Connection) {
  const span = db
    .prepare("SELECT COALESCE(SUM(to_ms - from_ms), 0) FROM windows WHERE live = 0 AND state = 'unread'")
    .pluck();
  const events = db.prepare("SELECT COALESCE(SUM(events), 0) FROM pages").pluck();
  return {
    /** The length of all windows that are still to be read. */
    unreadMs: () => span.get() as number,
    events: () => events.get() as number,
  };
}

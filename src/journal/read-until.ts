import { NOT_IN_CONFIG, type ReadUntil } from "../core/roster.ts";
import type { State } from "./database.ts";

/** Clocks may differ by this much, and an event is read after it happened. */
const EARLY_MS = 120_000;

/** By the name of a reader of the journal: events that it has not passed yet do not count as read. */
export function createReadUntil(db: State): (reader: string) => ReadUntil {
  // An id in quotes is found in the stored list; an empty list is the key's own organization.
  const streams = `SELECT id FROM streams WHERE account = @account AND provider IS NULL
    AND (@id IS NULL OR organizations = '[]' OR instr(organizations, json_quote(@id)) > 0)`;
  const live = db.prepare(`SELECT MIN(to_ms) FROM windows WHERE live = 1 AND stream IN (${streams})`).pluck();
  const behind = db
    .prepare(
      `SELECT MIN(from_ms) FROM windows WHERE live = 0 AND state IN ('unread', 'refused') AND reader IS NULL
       AND to_ms > @sinceMs AND stream IN (${streams})`,
    )
    .pluck();
  // Rows are in the order of their pages, so the last one that the reader has passed is near the end. A reader without
  // a position begins at the first page that has its bytes.
  const unseen = db
    .prepare(
      `WITH passed AS (SELECT MAX(
         COALESCE((SELECT page - (event < COALESCE((SELECT events FROM pages WHERE number = page), 0))
           FROM readers WHERE name = @reader), 0),
         COALESCE((SELECT MIN(page) FROM bodies), (SELECT MAX(number) + 1 FROM pages), 1) - 1) AS page)
       SELECT MIN(first_ms) FROM identities WHERE id > COALESCE((SELECT id FROM identities
           WHERE page <= (SELECT page FROM passed) ORDER BY id DESC LIMIT 1), 0)
         AND last_ms > @sinceMs AND (@id IS NULL OR owner IN (@id, ''))`,
    )
    .pluck();
  const known = db.prepare("SELECT state, reason FROM organizations WHERE account = ? AND id = ?");
  const knowsOthers = db.prepare("SELECT 1 FROM organizations WHERE account = ? LIMIT 1").pluck();

  function isLeftOut(account: string, id: string): boolean {
    const entry = known.get(account, id) as { state: string; reason: string | null } | undefined;
    if (entry === undefined) return knowsOthers.get(account) !== undefined;
    return entry.state === "vanished" && entry.reason?.startsWith(NOT_IN_CONFIG) === true;
  }

  function journaledMs(account: string, id: string | null, sinceMs: number): number | undefined {
    const liveMs = live.get({ account, id }) as number | null;
    if (liveMs === null) return id !== null && isLeftOut(account, id) ? Number.POSITIVE_INFINITY : undefined;
    const unreadMs = behind.get({ account, id, sinceMs }) as number | null;
    return unreadMs === null ? liveMs : Math.min(liveMs, unreadMs);
  }

  return (reader) => (account, organization, sinceMs) => {
    const id = organization?.toLowerCase() ?? null;
    const readMs = journaledMs(account, id, sinceMs);
    if (readMs === undefined) return undefined;
    const unseenMs = unseen.get({ reader, id, sinceMs: sinceMs - EARLY_MS }) as number | null;
    return unseenMs === null ? readMs : Math.min(readMs, unseenMs);
  };
}

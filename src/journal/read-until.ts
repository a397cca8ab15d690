import { NOT_IN_CONFIG, type ReadUntil } from "../core/roster.ts";
import type { State } from "./database.ts";

export function createReadUntil(db: State): ReadUntil {
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
  const known = db.prepare("SELECT state, reason FROM organizations WHERE account = ? AND id = ?");
  const knowsOthers = db.prepare("SELECT 1 FROM organizations WHERE account = ? LIMIT 1").pluck();

  function isLeftOut(account: string, id: string): boolean {
    const entry = known.get(account, id) as { state: string; reason: string | null } | undefined;
    if (entry === undefined) return knowsOthers.get(account) !== undefined;
    return entry.state === "vanished" && entry.reason?.startsWith(NOT_IN_CONFIG) === true;
  }

  return (account, organization, sinceMs) => {
    const id = organization?.toLowerCase() ?? null;
    const liveMs = live.get({ account, id }) as number | null;
    if (liveMs === null) return id !== null && isLeftOut(account, id) ? Number.POSITIVE_INFINITY : undefined;
    const unreadMs = behind.get({ account, id, sinceMs }) as number | null;
    return unreadMs === null ? liveMs : Math.min(liveMs, unreadMs);
  };
}

import { CAME_TWICE } from "../core/window.ts";
import type { State } from "./database.ts";

interface Stretch {
  readonly fromMs: number;
  readonly toMs: number;
}

export interface ReadProgress {
  /** Time of the past that is still to be read, summed over streams. */
  readonly unreadMs: number;
  /** Events in the journal, including those whose bytes are trimmed. */
  readonly events: number;
  readonly windowsUnread: number;
  /** Unread windows of accounts that are not in the config, where no account of the config covers their time. */
  readonly windowsLeft: number;
  /** Windows in which events came twice, so that others may be left out. */
  readonly windowsDoubted: number;
  /** Events that belong to no organization that was asked for. They are kept apart. */
  readonly unattributed: number;
}

/** How far the accounts of the config have come; for progress bars and for the report at the end. */
export function createReadProgress(db: State, accounts: readonly string[]): () => ReadProgress {
  const names = JSON.stringify(accounts);
  const own = "stream IN (SELECT id FROM streams WHERE account IN (SELECT value FROM json_each(@names)))";
  const unread = db
    .prepare(
      `SELECT COALESCE(SUM(to_ms - from_ms), 0), COUNT(*) FROM windows WHERE live = 0 AND state = 'unread' AND ${own}`,
    )
    .raw();
  const doubted = db
    .prepare(`SELECT COUNT(*) FROM windows WHERE live = 0 AND reason = @reason AND ${own}`)
    .pluck();
  const left = db.prepare(
    `SELECT from_ms AS fromMs, to_ms AS toMs, organizations FROM windows JOIN streams ON streams.id = stream
     WHERE state = 'unread' AND reader IS NULL AND NOT ${own}`,
  );
  const covering = db.prepare(
    `SELECT from_ms AS fromMs, CASE live WHEN 1 THEN 9e15 ELSE to_ms END AS toMs FROM windows
     WHERE from_ms < @toMs AND (live = 1 OR to_ms > @fromMs) AND reader IS NULL AND ${own}
       AND (@owner = '' OR stream IN (SELECT streams.id FROM streams, json_each(streams.organizations) WHERE json_each.value = @owner))
     ORDER BY from_ms`,
  );
  function isCovered(owner: string, { fromMs, toMs }: Stretch): boolean {
    let atMs = fromMs;
    for (const found of covering.all({ names, owner, fromMs, toMs }) as Stretch[])
      if (found.fromMs <= atMs) atMs = Math.max(atMs, found.toMs);
    return atMs >= toMs;
  }
  const isLeft = ({ organizations, ...stretch }: Stretch & { readonly organizations: string }) => {
    const owners = JSON.parse(organizations) as string[];
    return !(owners.length === 0 ? [""] : owners).every((owner) => isCovered(owner, stretch));
  };
  const events = db.prepare("SELECT COALESCE(SUM(events), 0) FROM pages").pluck();
  // Those with a reason are events that cannot be read, which have gaps.
  const unattributed = db.prepare("SELECT COUNT(*) FROM unattributed WHERE reason IS NULL").pluck();
  return () => {
    const [unreadMs, windowsUnread] = unread.get({ names }) as [number, number];
    return {
      unreadMs,
      windowsUnread,
      windowsLeft: (left.all({ names }) as Parameters<typeof isLeft>[0][]).filter(isLeft).length,
      windowsDoubted: doubted.get({ names, reason: CAME_TWICE }) as number,
      events: events.get() as number,
      unattributed: unattributed.get() as number,
    };
  };
}

import { statSync } from "node:fs";
import { DAY_MS } from "../core/time.ts";
import { BUSY_MS, type State } from "./database.ts";

export interface Usage {
  /** Used pages and the write-ahead log, not the file's size: trimming frees pages inside the file (R13). */
  readonly usedBytes: number;
  readonly budgetBytes: number;
  /** The reader that is furthest behind, where there is one with anything left to read. */
  readonly heldUpBy: string | null;
  /** The size of the pages that the journal keeps for that reader. */
  readonly backlogBytes: number;
  readonly backlogEvents: number;
}

const TRIM_PAGES_MAX = 200;

interface Needed {
  readonly name: string;
  readonly needed: number;
}

/** Room on disk: what is used, what can go. */
export function createSpace(db: State, file: string, budgetBytes: number) {
  // The page that each reader needs next. A page for one reader alone does not count for the others.
  const needed = db.prepare(
    `SELECT name, needed FROM (SELECT r.name, (SELECT p.number FROM pages p
         WHERE p.number >= MAX(r.page, (SELECT MIN(page) FROM bodies))
         AND (p.number > r.page OR p.events > r.event) AND (p.reader IS NULL OR p.reader = r.name)
         ORDER BY p.number LIMIT 1) AS needed FROM readers r)
     WHERE needed IS NOT NULL ORDER BY needed, name LIMIT 1`,
  );
  const backlog = db.prepare(
    `SELECT COALESCE(SUM(bytes), 0) AS bytes, COALESCE(SUM(events), 0) AS events FROM pages
     WHERE number >= ? AND (reader IS NULL OR reader = ?)`,
  );
  const pageBytes = db.pragma("page_size", { simple: true }) as number;
  const usedPages = db
    .prepare("SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count")
    .pluck();
  const oldestBody = db.prepare("SELECT MIN(page) FROM bodies").pluck();
  const readers = db.prepare("SELECT COUNT(*) FROM readers").pluck();
  const trimBodies = db.prepare(
    // An archive holds pages, not a position (A5).
    `DELETE FROM bodies WHERE page IN (SELECT page FROM bodies b WHERE page <= ?
       AND NOT EXISTS (SELECT 1 FROM archive_open o WHERE o.page = b.page) ORDER BY page LIMIT ?)`,
  );
  const oldIdentities = db.prepare(
    `DELETE FROM identities WHERE id IN (SELECT i.id FROM identities i JOIN pages p ON p.number = i.page
       WHERE p.newest_ms < ? LIMIT ?)`,
  );
  // Their events are still counted once in totals, so a row for each owner, source and day remains.
  const oldSeen = "entries IS NOT NULL AND last_ms < @beforeMs";
  const hasOldSeen = db.prepare(`SELECT 1 FROM also_seen WHERE ${oldSeen} LIMIT 1`);
  const seenOfOldDays = `last_ms < @beforeMs
    AND last_ms / ${DAY_MS} IN (SELECT last_ms / ${DAY_MS} FROM also_seen WHERE ${oldSeen})`;
  const lastSeen = db.prepare("SELECT MAX(id) FROM also_seen").pluck();
  const sumSeen = db.prepare(
    `INSERT INTO also_seen (owner, account, provider, first_ms, last_ms, events)
     SELECT owner, account, provider, MIN(first_ms), MAX(last_ms), SUM(events) FROM also_seen WHERE ${seenOfOldDays}
     GROUP BY owner, account, provider, last_ms / ${DAY_MS}`,
  );
  const dropSeen = db.prepare(`DELETE FROM also_seen WHERE id <= @lastId AND ${seenOfOldDays}`);
  const oldPages = db.prepare(
    `DELETE FROM pages WHERE number IN (SELECT number FROM pages p WHERE newest_ms < ?
       AND number < (SELECT MAX(number) FROM pages)
       AND NOT EXISTS (SELECT 1 FROM bodies b WHERE b.page = p.number)
       AND NOT EXISTS (SELECT 1 FROM archive_open o WHERE o.page = p.number)
       AND NOT EXISTS (SELECT 1 FROM identities i WHERE i.page = p.number) LIMIT ?)`,
  );

  return {
    usage(): Usage {
      const slowest = needed.get() as Needed | undefined;
      const left = backlog.get(slowest?.needed ?? Number.MAX_SAFE_INTEGER, slowest?.name ?? "") as {
        bytes: number;
        events: number;
      };
      return {
        usedBytes: usedBytes(),
        budgetBytes,
        heldUpBy: slowest?.name ?? null,
        backlogBytes: left.bytes,
        backlogEvents: left.events,
      };
    },

    usedBytes,

    /** Drops the bytes of pages that every reader has passed, a bounded number a turn; true when there may be more. */
    async trim(): Promise<boolean> {
      if (readers.get() === 0 || oldestBody.get() === null) return false;
      return db.change(() => {
        const slowest = needed.get() as Needed | undefined;
        const upTo = slowest === undefined ? Number.MAX_SAFE_INTEGER : slowest.needed - 1;
        return trimBodies.run(upTo, TRIM_PAGES_MAX).changes === TRIM_PAGES_MAX;
      });
    },

    /**
     * Writes the log back into the file and truncates it, if no other process is reading: by itself
     * it keeps its greatest size, and would count against a small budget for ever.
     */
    truncateLog(): void {
      db.pragma("busy_timeout = 0");
      try {
        db.pragma("wal_checkpoint(TRUNCATE)");
      } finally {
        db.pragma(`busy_timeout = ${BUSY_MS}`);
      }
    },

    /** Forgets identities that no sweep can need: older than the service's retention and a week (R12). */
    expire: (nowMs: number, retentionMs: number): Promise<boolean> =>
      db.change(() => {
        const beforeMs = nowMs - retentionMs - 7 * DAY_MS;
        if (hasOldSeen.get({ beforeMs }) !== undefined) {
          const lastId = lastSeen.get() as number;
          sumSeen.run({ beforeMs });
          dropSeen.run({ beforeMs, lastId });
        }
        const identities = oldIdentities.run(beforeMs, TRIM_PAGES_MAX).changes;
        const pages = oldPages.run(beforeMs, TRIM_PAGES_MAX).changes;
        return identities === TRIM_PAGES_MAX || pages === TRIM_PAGES_MAX;
      }),
  };

  function usedBytes(): number {
    return (usedPages.get() as number) * pageBytes + walBytes();
  }

  function walBytes(): number {
    return statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  }
}

import { type ArchiveBacklog, type ArchivePage, archiveOwner, dayOf } from "../../core/archive.ts";
import { DAY_MS } from "../../core/time.ts";
import type { State } from "../database.ts";
import type { ArchivePages, PageOptions } from "./pages.ts";

interface Arrived {
  readonly number: number;
  readonly account: string;
  readonly fetchedMs: number;
  readonly events: number;
  readonly rolling: string;
}

type Counts = ReadonlyMap<string, { readonly owner: string; readonly day: string; readonly events: number }>;

/**
 * Notes what new pages hold for an archive: for each organization and day a row, so that closing knows its
 * pages. The position of the archive's reader moves in the same transaction.
 */
export function createArrivals(db: State, { name, retentionMs }: PageOptions, pages: ArchivePages) {
  const next = db.prepare(
    `SELECT number, account, fetched_ms AS fetchedMs, events, rolling FROM pages
     WHERE number > (SELECT noted_page FROM archives WHERE name = @name) AND (reader IS NULL OR reader = @name)
     ORDER BY number LIMIT @limit`,
  );
  const insert = db.prepare(
    `INSERT INTO archive_open (archive, page, owner, day, kind, bucket, account, events) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT DO NOTHING`,
  );
  const isClosed = db
    .prepare("SELECT 1 FROM archive_closed WHERE archive = ? AND day = ? AND owner = ?")
    .pluck();
  const forget = db.prepare("DELETE FROM archive_closed WHERE archive = ? AND day < ?");
  const forgetVersions = db.prepare("DELETE FROM archive_versions WHERE archive = ? AND time_ms < ?");
  const move = db.prepare(
    `UPDATE readers SET page = ?, event = ?, hash = ?, committed_ms = ? WHERE name = ?`,
  );

  /** The events of a page by organization and day. */
  async function countsOf(number: number, account: string): Promise<Counts> {
    const page = await pages.fetch(number);
    try {
      return countEvents(page, account);
    } finally {
      page.release();
    }
  }

  function insertCounts({ number, account, fetchedMs }: Arrived, counts: Counts): void {
    for (const { owner, day, events } of counts.values()) {
      const kind = day === "" ? "undated" : isClosed.get(name, day, owner) === undefined ? "day" : "late";
      const bucket = kind === "day" ? day : dayOf(fetchedMs);
      insert.run(name, number, owner, day, kind, bucket, account, events);
    }
  }

  function commit(arrived: readonly Arrived[], counts: readonly Counts[]): void {
    for (const [at, page] of arrived.entries()) insertCounts(page, counts[at]!);
    const last = arrived.at(-1)!;
    db.prepare("UPDATE archives SET noted_page = ? WHERE name = ?").run(last.number, name);
    move.run(last.number, last.events, last.rolling, last.fetchedMs, name);
    // Events for days before this are undated, so nothing asks for these rows any more.
    const goneMs = last.fetchedMs - retentionMs - 9 * DAY_MS;
    forget.run(name, dayOf(goneMs));
    forgetVersions.run(name, goneMs);
  }

  /** Whether a page is not noted yet. Its windows may be sealed already, so no day can be closed before. */
  function hasMore(): boolean {
    return next.get({ name, limit: 1 }) !== undefined;
  }

  return {
    async note(pagesMax: number): Promise<boolean> {
      const arrived = next.all({ name, limit: pagesMax }) as Arrived[];
      if (arrived.length === 0) return false;
      const counts: Counts[] = [];
      for (const { number, account } of arrived) {
        counts.push(await countsOf(number, account));
        // Decoding a page takes milliseconds; polling and delivery have their turn in between.
        await new Promise((resolve) => setImmediate(resolve));
      }
      await db.change(() => commit(arrived, counts));
      return hasMore();
    },
    hasMore,

    backlog(): ArchiveBacklog {
      const open = db
        .prepare(
          `SELECT COALESCE(SUM(events), 0) AS events, COUNT(DISTINCT page) AS pages, MIN(CASE kind WHEN 'day' THEN bucket END) AS oldestDay
           FROM archive_open WHERE archive = ?`,
        )
        .get(name) as { events: number; pages: number; oldestDay: string | null };
      const stagedPages = db
        .prepare("SELECT COUNT(*) FROM archive_staged WHERE archive = ?")
        .pluck()
        .get(name) as number;
      return { ...open, stagedPages };
    },
  };
}

function countEvents(page: ArchivePage, account: string): Counts {
  const counts = new Map<string, { owner: string; day: string; events: number }>();
  for (let index = 0; index < page.count; index++) {
    const event = page.event(index);
    const owner = archiveOwner(event.organization, event.provider, account);
    const day = page.day(event);
    const key = `${owner} ${day}`;
    const count = counts.get(key) ?? { owner, day, events: 0 };
    counts.set(key, count);
    // A further version of an event is no further event.
    if (!page.isChanged) count.events++;
  }
  return counts;
}

import { Compressor, Decompressor } from "zstd-napi";
import { giveRoom } from "../core/buffer-pool.ts";
import { DecisionNeededError } from "../core/errors.ts";
import type { JournalPage } from "../core/journal.ts";
import type { Position } from "../core/position.ts";
import { COMPRESSION } from "../core/prepare-page.ts";
import { type ScannedPage, scanPage } from "../core/scanner.ts";
import type { State } from "./database.ts";
import { type PageRow, storedPage } from "./stored-page.ts";
import { checksumOf, rollingOf } from "./verify.ts";

const CACHE_BYTES_MAX = 24_000_000;

/** Whether no reader holds anything of a page any more. */
type IsDone = (page: number, events: number) => boolean;

/** Writes and reads pages: a JSON array of the events' exact bytes, compressed, with a checksum (R16). */
export function createPages(db: State, journalId: string, isDone: IsDone = () => false) {
  const compressor = new Compressor();
  compressor.setParameters(COMPRESSION);
  const decompressor = new Decompressor();
  const cache = createCache(isDone);
  const insertPage = db.prepare(
    `INSERT INTO pages (number, account, organization, provider, reader, fetched_ms, newest_ms, events, bytes, twins, checksum, rolling)
     VALUES (@number, @account, @organization, @provider, @reader, @fetchedMs, @newestMs, @events, @bytes, @twins, @checksum, @rolling)`,
  );
  const insertBody = db.prepare("INSERT INTO bodies (page, body) VALUES (?, ?)");
  const lastRow = db.prepare("SELECT number, rolling FROM pages ORDER BY number DESC LIMIT 1");
  const nextRow = db.prepare(
    `SELECT number, account, organization, provider, reader, fetched_ms AS fetchedMs, newest_ms AS newestMs, events, bytes, twins, checksum, rolling
     FROM pages WHERE number >= ? AND (reader IS NULL OR reader = ?) ORDER BY number LIMIT 1`,
  );
  const bodyOf = db.prepare("SELECT body FROM bodies WHERE page = ?").pluck();
  const oldestBody = db.prepare("SELECT MIN(page) FROM bodies").pluck();
  const storedRolling = db.prepare("SELECT rolling FROM pages WHERE number = ?").pluck();

  return {
    /** Inside the caller's transaction. The scanned page must hold exactly the events to store. */
    insert(
      page: Omit<PageRow, "number" | "checksum" | "rolling" | "bytes" | "events">,
      scanned: ScannedPage,
      compressed?: Buffer,
    ): number {
      const last = lastRow.get() as { number: number; rolling: string } | undefined;
      const number = (last?.number ?? 0) + 1;
      const body = compressed ?? compressor.compress(scanned.bytes);
      const checksum = checksumOf(body);
      const rolling = rollingOf(last?.rolling ?? "", checksum);
      const row: PageRow = {
        ...page,
        number,
        events: scanned.count,
        bytes: scanned.bytes.length,
        checksum,
        rolling,
      };
      insertPage.run(row);
      insertBody.run(number, body);
      cache.put(number, scanned);
      return number;
    },

    /** Forgets what a rolled-back transaction had put into the cache. */
    forget(number: number): void {
      cache.remove(number);
    },

    /** A reader has finished with something: what nobody needs any more makes room. */
    release(): void {
      cache.release();
    },

    /** The next page for the reader with events after the position. */
    next(reader: string, after: Position): JournalPage | null {
      // The beginning is the oldest page whose bytes are still there: what every reader had passed is trimmed.
      let from = after.page > 0 ? after.page : (oldestBody.get() as number | null);
      if (from === null) return null;
      let first = after.event;
      for (;;) {
        const row = nextRow.get(from, reader) as PageRow | undefined;
        if (row === undefined) return null;
        if (row.number !== after.page) first = 0;
        if (first < row.events) return storedPage(journalId, row, read(row), first);
        from = row.number + 1;
        first = 0;
      }
    },

    holds(position: Position): boolean {
      if (position.journal !== journalId) return false;
      if (position.page === 0) return position.event === 0;
      return storedRolling.get(position.page) === position.hash;
    },

    /** The position after everything that is there now. */
    end(): Position {
      const last = db
        .prepare("SELECT number, events, rolling FROM pages ORDER BY number DESC LIMIT 1")
        .get() as { number: number; events: number; rolling: string } | undefined;
      return {
        journal: journalId,
        page: last?.number ?? 0,
        event: last?.events ?? 0,
        hash: last?.rolling ?? "",
      };
    },
  };

  function read(row: PageRow): ScannedPage {
    const cached = cache.get(row.number);
    if (cached !== undefined) return cached;
    const body = bodyOf.get(row.number) as Buffer | undefined;
    if (body === undefined) {
      throw unreadable(row, "is needed by a reader and not there");
    }
    if (!checksumOf(body).equals(row.checksum)) throw unreadable(row, "does not give its checksum");
    const scanned = scanPage(decompressor.decompress(body));
    cache.put(row.number, scanned);
    return scanned;
  }
}

export type Pages = ReturnType<typeof createPages>;

/** Nothing of such a page is delivered, and nothing is skipped: a person decides (R16). */
function unreadable(row: PageRow, what: string): DecisionNeededError {
  const fetched = new Date(row.fetchedMs).toISOString();
  return new DecisionNeededError(
    `Page ${row.number} of the journal (${row.events} events, fetched at ${fetched}) ${what}: the state file is damaged on disk.`,
    [
      "restore the state file from a backup",
      "go on behind it with `tidemark sinks resume NAME --from now` and have that time read again with `tidemark backfill --sink NAME --since TIME`",
    ],
  );
}

/** The newest pages stay decoded, so that readers which keep up neither decompress nor scan. */
function createCache(isDone: IsDone) {
  const pages = new Map<number, ScannedPage>();
  let bytes = 0;

  function remove(number: number): void {
    bytes -= pages.get(number)?.bytes.length ?? 0;
    pages.delete(number);
  }

  return {
    get: (number: number) => pages.get(number),
    put(number: number, scanned: ScannedPage): void {
      remove(number);
      if (scanned.bytes.length > CACHE_BYTES_MAX) return;
      pages.set(number, scanned);
      bytes += scanned.bytes.length;
      for (const oldest of pages.keys()) {
        if (bytes <= CACHE_BYTES_MAX) break;
        remove(oldest);
      }
    },
    /** Uses the memory of pages again that every reader is done with. */
    release(): void {
      for (const [number, scanned] of pages) {
        if (!isDone(number, scanned.count)) continue;
        remove(number);
        giveRoom(scanned.bytes);
      }
    },
    remove,
  };
}

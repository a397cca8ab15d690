import { ordinaryMemory, type PageMemory } from "../core/buffer-pool.ts";
import { DamagedPageError } from "../core/errors.ts";
import type { JournalPage } from "../core/journal.ts";
import { checksumOf, contentSizeOf, decodeBody, encodeBody, type PageBody } from "../core/page-body.ts";
import type { PageDecoder } from "../core/page-decoder.ts";
import type { Position } from "../core/position.ts";
import { COMPRESSION } from "../core/prepare-page.ts";
import type { ScannedPage } from "../core/scanner.ts";
import { createCompressor } from "../core/zstd.ts";
import type { State } from "./database.ts";
import { createDecodedPages } from "./decoded-pages.ts";
import { refetchCommand } from "./left-out.ts";
import { type Decoded, type PageRow, storedPage } from "./stored-page.ts";
import { rollingOf, timesOf } from "./verify.ts";

/** Writes and reads pages: the events' exact bytes, compressed (core/page-body.ts), with a checksum (R16). */
export function createPages(
  db: State,
  journalId: string,
  memory: PageMemory = ordinaryMemory,
  decoder?: PageDecoder,
  onDamaged?: (what: string) => void,
) {
  const compress = createCompressor(COMPRESSION);
  const decoded = createDecodedPages();
  /** Pages that are being decoded beside this thread: two readers of one page share the work. */
  const underway = new Map<number, Promise<Decoded>>();
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
  const isArchive = db.prepare("SELECT 1 FROM archives WHERE name = ?");
  const storedRolling = db.prepare("SELECT rolling FROM pages WHERE number = ?").pluck();

  return {
    /** Inside the caller's transaction. The scanned page must hold exactly the events to store. */
    insert(
      page: Omit<PageRow, "number" | "checksum" | "rolling" | "bytes" | "events">,
      scanned: ScannedPage,
      encoded?: PageBody,
    ): { readonly number: number; readonly body: Buffer } {
      const last = lastRow.get() as { number: number; rolling: string } | undefined;
      const number = (last?.number ?? 0) + 1;
      const { bytes: body, checksum } =
        encoded ?? encodeBody(scanned, (parts) => Buffer.concat(parts.map(compress)));
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
      return { number, body };
    },

    /** Keeps a committed page decoded for its readers. Takes over the lease. */
    keepDecoded: decoded.putNew,

    /** A reader asks for what follows a position: decoded pages that no reader wants any more are dropped. */
    passed: decoded.passed,
    forgetReader: decoded.forgetReader,
    /** Whether the bytes of the first page, and perhaps of more, are gone. */
    isTrimmed: (): boolean => lastRow.get() !== undefined && oldestBody.get() !== 1,

    isBehind: decoded.isBehind,
    hasMore: decoded.hasMore,
    giveUp: decoded.giveUp,
    onMove: decoded.onMove,

    /** Drops the oldest decoded page; false when there is none. */
    dropOldest: decoded.dropOldest,

    /** The next page for the reader with events after the position. */
    next(reader: string, after: Position): JournalPage | null {
      const row = rowAfter(reader, after);
      if (row === undefined) return null;
      return storedPage(journalId, row, read(reader, row), row.number === after.page ? after.event : 0);
    },

    /** The same, but a page that is no longer decoded is decoded by the decoder, which may be another thread. */
    async read(reader: string, after: Position): Promise<JournalPage | null> {
      const row = rowAfter(reader, after);
      if (row === undefined) return null;
      return storedPage(
        journalId,
        row,
        await readBeside(reader, row),
        row.number === after.page ? after.event : 0,
      );
    },

    /** Whether `next` would give a page. Reads none. */
    hasNext: (reader: string, after: Position): boolean => rowAfter(reader, after) !== undefined,

    holds(position: Position): boolean {
      if (position.journal !== journalId) return false;
      if (position.page === 0) return position.event === 0;
      return storedRolling.get(position.page) === position.hash;
    },

    /** Whether the next page after the position still has its bytes. The oldest ones are trimmed first. */
    reaches(reader: string, position: Position): boolean {
      const row = rowAfter(reader, position);
      return (
        row === undefined || row.number >= ((oldestBody.get() as number | null) ?? Number.POSITIVE_INFINITY)
      );
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

  function rowAfter(reader: string, after: Position): PageRow | undefined {
    // Without a position a reader begins at the oldest page whose bytes are not trimmed.
    const from = after.page > 0 ? after.page : (oldestBody.get() as number | null);
    if (from === null) return undefined;
    const row = nextRow.get(from, reader) as PageRow | undefined;
    if (row === undefined || row.number !== after.page || after.event < row.events) return row;
    return nextRow.get(row.number + 1, reader) as PageRow | undefined;
  }

  function cached(row: PageRow): Decoded | undefined {
    const page = decoded.get(row.number);
    return page && { ...page, lease: page.lease.retain() };
  }

  /** Nothing of such a page is delivered, and nothing is skipped: a person decides (R16). */
  function refuse(reader: string, row: PageRow, what: string): DamagedPageError {
    onDamaged?.(`page ${row.number} ${what}`);
    const { number: page, events, rolling: hash } = row;
    const fetched = new Date(row.fetchedMs).toISOString();
    return new DamagedPageError(
      `Page ${page} of the journal (${events} events, fetched at ${fetched}) ${what}: the state file is damaged on disk.`,
      [
        "restore the state file from a backup",
        ...(isArchive.get(reader) === undefined ? [goOnBehind(reader, row)] : []),
      ],
      { journal: journalId, page, event: events, hash },
    );
  }

  function goOnBehind(reader: string, row: PageRow): string {
    const command = refetchCommand(timesOf(db, row), reader);
    return `go on behind this page alone with \`tidemark sinks resume ${reader} --from behind-damage\`, and have its events read again with \`${command}\` (other events of that time come to the sink once more)`;
  }

  function storedBody(reader: string, row: PageRow): Buffer {
    const body = bodyOf.get(row.number) as Buffer | undefined;
    if (body === undefined) throw refuse(reader, row, "is needed by a reader and not there");
    return body;
  }

  /** The lease in the result is the caller's. */
  function read(reader: string, row: PageRow, body = cached(row) ?? storedBody(reader, row)): Decoded {
    if (!Buffer.isBuffer(body)) return body;
    if (!checksumOf(body).equals(row.checksum)) throw refuse(reader, row, DAMAGED);
    const scanned = decodeBody(body);
    return keepOld(row, { scanned, body, lease: memory.adopt(scanned.bytes) });
  }

  async function readBeside(reader: string, row: PageRow): Promise<Decoded> {
    for (;;) {
      const page = cached(row);
      if (page !== undefined) return page;
      const other = underway.get(row.number);
      if (other === undefined) break;
      // Its reader gets the error; this one looks for itself.
      await other.catch(() => {});
    }
    const body = storedBody(reader, row);
    const bytes = decoder === undefined ? undefined : contentSizeOf(body);
    // A damaged frame may declare any size, so no memory is taken for more than the page had.
    if (decoder === undefined || bytes === undefined || bytes > row.bytes + 1) return read(reader, row, body);
    const turn = decodeBeside(decoder, reader, row, body, bytes);
    underway.set(row.number, turn);
    return turn.finally(() => underway.delete(row.number));
  }

  async function decodeBeside(
    by: PageDecoder,
    reader: string,
    row: PageRow,
    body: Buffer,
    bytes: number,
  ): Promise<Decoded> {
    const room = memory.take(bytes);
    try {
      const page = await by.decode({ bytes: body, checksum: row.checksum }, room);
      if (page === undefined) throw refuse(reader, row, DAMAGED);
      return keepOld(row, { ...page, lease: room.lease });
    } catch (error) {
      room.lease.release();
      throw error;
    }
  }

  function keepOld(row: PageRow, page: Decoded): Decoded {
    decoded.putOld(row.number, { ...page, lease: page.lease.retain() });
    return page;
  }
}

export type Pages = ReturnType<typeof createPages>;

const DAMAGED = "does not give its checksum";

import { Compressor, Decompressor } from "zstd-napi";
import { DecisionNeededError } from "../core/errors.ts";
import type { JournalEvent } from "../core/event.ts";
import type { JournalPage, Lines } from "../core/journal.ts";
import { COMPRESSION, identityAt } from "../core/page.ts";
import type { Position } from "../core/position.ts";
import { giveRoom } from "../core/room.ts";
import {
  eventSize,
  eventTimeMs,
  FIELD,
  fieldText,
  hasField,
  type ScannedPage,
  STRIDE,
  scanPage,
} from "../core/scanner.ts";
import type { State } from "./database.ts";
import { checksumOf, rollingOf } from "./verify.ts";

/** What the journal knows of a page beside its events. */
export interface PageRow {
  readonly number: number;
  readonly account: string;
  readonly organization: string | null;
  readonly provider: string | null;
  readonly reader: string | null;
  readonly fetchedMs: number;
  readonly newestMs: number;
  readonly events: number;
  readonly bytes: number;
  readonly twins: string | null;
  readonly checksum: Buffer;
  readonly rolling: string;
}

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
        if (first < row.events) return pageOf(row, read(row), first);
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

  function pageOf(row: PageRow, scanned: ScannedPage, first: number): JournalPage {
    const stored: StoredPage = {
      row,
      scanned,
      twins: row.twins === null ? {} : (JSON.parse(row.twins) as Record<string, string>),
      organizations: organizationsOf(scanned, row.organization),
    };
    return {
      number: row.number,
      first,
      count: row.events - first,
      event: (index) => new StoredEvent(stored, index),
      get lines() {
        return areLines(scanned) ? new StoredLines(stored) : undefined;
      },
      hasCorrelation: (index) => hasField(scanned, index, FIELD.correlationId),
      after: (index) => ({ journal: journalId, page: row.number, event: index + 1, hash: row.rolling }),
    };
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

interface StoredPage {
  readonly row: PageRow;
  readonly scanned: ScannedPage;
  /** By index, the identities of events that share another's. */
  readonly twins: Readonly<Record<string, string>>;
  organizations(index: number): string | null;
}

/** Neighbours are mostly of one organization: its text is decoded once for all of them. */
function organizationsOf(scanned: ScannedPage, otherwise: string | null): StoredPage["organizations"] {
  let known = -2;
  let organization: string | null = null;
  return (index) => {
    const isSame = index === known || (index === known + 1 && scanned.runs[index] === 1);
    if (!isSame) organization = fieldText(scanned, index, FIELD.organization)?.toLowerCase() || otherwise;
    known = index;
    return organization;
  };
}

class StoredLines implements Lines {
  readonly #stored: StoredPage;
  readonly #shared: StoredEvent;

  constructor(stored: StoredPage) {
    this.#stored = stored;
    this.#shared = new StoredEvent(stored, 0);
  }

  event(index: number): JournalEvent {
    return new StoredEvent(this.#stored, index);
  }
  look(index: number): JournalEvent {
    this.#shared.index = index;
    return this.#shared;
  }
  bytes(from: number, to: number): Uint8Array {
    const { bytes, columns } = this.#stored.scanned;
    const start = columns[from * STRIDE]!;
    return bytes.subarray(start, start + this.size(from, to));
  }
  size(from: number, to: number): number {
    const { columns } = this.#stored.scanned;
    return columns[(to - 1) * STRIDE + 1]! + 1 - columns[from * STRIDE]!;
  }
  alikeFrom(from: number, to: number): number {
    const { runs, timesMs } = this.#stored.scanned;
    const dayMs = Math.floor(timesMs[from]! / DAY_MS) * DAY_MS;
    let index = from + 1;
    // A time that cannot be read is NaN, and so on no day.
    while (index < to && runs[index] === 1 && timesMs[index]! >= dayMs && timesMs[index]! < dayMs + DAY_MS)
      index++;
    return index;
  }
}

const DAY_MS = 86_400_000;

const known = new WeakMap<ScannedPage, boolean>();

/**
 * Makes lines of a page whose events stand side by side: what separates them, a single byte that belongs to
 * none of them, becomes a line break. The page is no JSON array any more, and nobody needs it as one.
 */
function areLines(scanned: ScannedPage): boolean {
  const before = known.get(scanned);
  if (before !== undefined) return before;
  const are = !scanned.hasLineBreaks && standSideBySide(scanned);
  if (are) {
    const { bytes, columns, count } = scanned;
    for (let index = 0; index < count; index++) bytes[columns[index * STRIDE + 1]!] = LINE_BREAK;
  }
  known.set(scanned, are);
  return are;
}

const LINE_BREAK = 0x0a;

function standSideBySide({ columns, count }: ScannedPage): boolean {
  for (let index = 1; index < count; index++)
    if (columns[index * STRIDE]! !== columns[(index - 1) * STRIDE + 1]! + 1) return false;
  return true;
}

/** Decodes a field when it is asked for: most sinks need few of them. */
class StoredEvent implements JournalEvent {
  index: number;
  readonly #stored: StoredPage;

  constructor(stored: StoredPage, index: number) {
    this.#stored = stored;
    this.index = index;
  }

  get bytes(): Uint8Array {
    const { bytes, columns } = this.#stored.scanned;
    const start = columns[this.index * STRIDE]!;
    // Cheaper than a slice, which would be a Buffer.
    return new Uint8Array(bytes.buffer, bytes.byteOffset + start, this.size);
  }
  get size(): number {
    return eventSize(this.#stored.scanned, this.index);
  }
  get isOneLine(): boolean {
    return !this.#stored.scanned.hasLineBreaks;
  }
  get account(): string {
    return this.#stored.row.account;
  }
  get organization(): string | null {
    return this.#stored.organizations(this.index);
  }
  get provider(): string | null {
    return this.#stored.row.provider;
  }
  get service(): string {
    return fieldText(this.#stored.scanned, this.index, FIELD.service) ?? "";
  }
  get eventType(): string {
    return fieldText(this.#stored.scanned, this.index, FIELD.eventType) ?? "";
  }
  get timestamp(): string {
    return fieldText(this.#stored.scanned, this.index, FIELD.timestamp) ?? "";
  }
  get timestampMs(): number {
    return eventTimeMs(this.#stored.scanned, this.index) ?? this.#stored.row.fetchedMs;
  }
  get id(): string | undefined {
    return fieldText(this.#stored.scanned, this.index, FIELD.id);
  }
  get correlationId(): string | undefined {
    return fieldText(this.#stored.scanned, this.index, FIELD.correlationId);
  }
  get identity(): string {
    const twin = this.#stored.twins[this.index];
    if (twin !== undefined) return twin;
    return identityAt(this.#stored.scanned, this.index, this.organization, this.#stored.row.provider);
  }
  get fetchedAtMs(): number {
    return this.#stored.row.fetchedMs;
  }
  get page(): number {
    return this.#stored.row.number;
  }
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

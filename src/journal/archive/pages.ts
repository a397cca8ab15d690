import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { type ArchivePage, dayOf, isUndated } from "../../core/archive.ts";
import { ordinaryMemory, type PageMemory } from "../../core/buffer-pool.ts";
import { checksumOf, contentSizeOf, decodeBody, decodeBodyInto } from "../../core/page-body.ts";
import { eventTimeMs, type ScannedPage } from "../../core/scanner.ts";
import { DAY_MS } from "../../core/time.ts";
import type { State } from "../database.ts";
import { type Decoded, type PageRow, storedPage } from "../stored-page.ts";
import { openErasuresOf } from "./erasures.ts";

export interface PageOptions {
  readonly name: string;
  readonly journal: string;
  readonly retentionMs: number;
  readonly stagingFolder: string;
  /** Takes the place of the folder in a cluster, where another machine may continue. */
  readonly staging?: PageStaging | undefined;
  /** Where decoded pages go. */
  readonly memory?: PageMemory | undefined;
}

/** A place outside the journal for the bytes of pages that only the archive holds. */
export interface PageStaging {
  /** Durable when it resolves. */
  write(number: number, body: Uint8Array): Promise<void>;
  read(number: number): Promise<Buffer>;
  remove(number: number): Promise<void>;
}

const COLUMNS =
  "number, account, organization, provider, reader, fetched_ms AS fetchedMs, newest_ms AS newestMs, events, bytes, twins, checksum, rolling";

/** Pages as the archive reads them: from the journal, or from the file that they were moved to (A4). */
export function createArchivePages(db: State, options: PageOptions) {
  const { name, journal, retentionMs, stagingFolder, memory = ordinaryMemory } = options;
  const staging = options.staging ?? stageInFolder(stagingFolder);
  const rowOf = db.prepare(`SELECT ${COLUMNS} FROM pages WHERE number = ?`);
  const bodyOf = db.prepare("SELECT body FROM bodies WHERE page = ?").pluck();
  const assigned = db.prepare(
    "SELECT owner, day, plan FROM archive_open WHERE archive = ? AND page = ? AND plan IS NOT NULL",
  );
  const unstaged = db
    .prepare(
      `SELECT page FROM bodies b WHERE EXISTS (SELECT 1 FROM archive_open o WHERE o.page = b.page AND o.archive = @name)
       AND NOT EXISTS (SELECT 1 FROM archive_staged s WHERE s.page = b.page AND s.archive = @name)
       AND page < COALESCE((SELECT MIN(CASE WHEN r.name = @name THEN 9e15 ELSE r.page END) FROM readers r), 0)
       ORDER BY page LIMIT @limit`,
    )
    .pluck();
  const noteStaged = db.prepare(
    "INSERT OR IGNORE INTO archive_staged (archive, page, bytes) SELECT ?, page, length(body) FROM bodies WHERE page = ?",
  );
  const dropBody = db.prepare(
    `DELETE FROM bodies WHERE page = @number AND NOT EXISTS (SELECT 1 FROM archive_open o WHERE o.page = @number
       AND NOT EXISTS (SELECT 1 FROM archive_staged s WHERE s.page = @number AND s.archive = o.archive))`,
  );
  const closedStaged = db
    .prepare(
      `SELECT page FROM archive_staged s WHERE archive = @name
       AND NOT EXISTS (SELECT 1 FROM archive_open o WHERE o.page = s.page AND o.archive = @name)`,
    )
    .pluck();
  const forgetStaged = db.prepare("DELETE FROM archive_staged WHERE archive = ? AND page = ?");
  const fileOf = (number: number) => stagedFile(stagingFolder, number);

  /** The lease in the result is the caller's. */
  function load(row: PageRow, staged?: Buffer): Decoded {
    const body = (bodyOf.get(row.number) as Buffer | undefined) ?? staged ?? readFileSync(fileOf(row.number));
    const bytes = contentSizeOf(body);
    // A damaged frame may declare any size, so no memory is taken for more than the page had.
    if (bytes === undefined || bytes > row.bytes + 1) {
      if (!checksumOf(body).equals(row.checksum)) throw damaged(row);
      const scanned = decodeBody(body);
      return { scanned, lease: memory.adopt(scanned.bytes) };
    }
    const room = memory.take(bytes);
    try {
      const stored = { bytes: body, checksum: row.checksum };
      const scanned = decodeBodyInto(stored, room.bytes as Buffer<ArrayBuffer>);
      if (scanned === undefined) throw damaged(row);
      return { scanned, lease: room.lease };
    } catch (error) {
      room.lease.release();
      throw error;
    }
  }

  /** Read once for each page: most archives have none. */
  function erasureLookup(dayAt: (index: number) => string, { fetchedMs }: PageRow): ArchivePage["erasedBy"] {
    const erasedBy = openErasuresOf(db, name);
    return (owner, event) => {
      const day = dayAt(event.index);
      const days = day === "" ? [dayOf(event.timestampMs), dayOf(fetchedMs)] : [day];
      return erasedBy(owner, days, event);
    };
  }

  /** The UTC day of each event; empty where its time cannot be read or is impossible (A6). */
  function daysOf(scanned: ScannedPage, { fetchedMs }: PageRow): (index: number) => string {
    // Neighbours mostly share a day: its text is made once for them.
    let [startMs, text] = [Number.NaN, ""];
    return (index) => {
      const timeMs = eventTimeMs(scanned, index);
      if (timeMs === undefined || isUndated(timeMs, fetchedMs, retentionMs)) return "";
      if (!(timeMs >= startMs && timeMs < startMs + DAY_MS)) {
        text = dayOf(timeMs);
        startMs = Date.parse(text);
      }
      return text;
    };
  }

  function read(number: number, staged?: Buffer): ArchivePage {
    const row = rowOf.get(number) as PageRow;
    const decoded = load(row, staged);
    const page = storedPage(journal, row, decoded, 0);
    const dayAt = daysOf(decoded.scanned, row);
    const plans = new Map<string, number>();
    for (const { owner, day, plan } of assigned.all(name, number) as {
      owner: string;
      day: string;
      plan: number;
    }[])
      plans.set(`${owner} ${day}`, plan);
    return {
      count: row.events,
      event: (index) => page.event(index),
      isChanged: row.reader === name,
      erasedBy: erasureLookup(dayAt, row),
      day: (event) => dayAt(event.index),
      planOf: planLookup(plans, dayAt),
      release: () => decoded.lease.release(),
    };
  }

  return {
    /** From the journal, or from the folder of staged pages. */
    read: (number: number) => read(number),
    /** From wherever it is. */
    async fetch(number: number): Promise<ArchivePage> {
      return read(number, bodyOf.get(number) === undefined ? await staging.read(number) : undefined);
    },
    /**
     * Moves pages that every other reader has passed to the staging place: durable there, then noted in one transaction.
     * The journal drops the bytes when each archive that still needs them has staged them in its own place. A page
     * that a crash left there is written again.
     */
    async stage(limitPages: number): Promise<boolean> {
      const numbers = unstaged.all({ name, limit: limitPages }) as number[];
      for (const number of numbers) await staging.write(number, bodyOf.get(number) as Buffer);
      await db.change(() => {
        for (const number of numbers) {
          noteStaged.run(name, number);
          dropBody.run({ number });
        }
      });
      return numbers.length === limitPages;
    },
    /** Removes files of pages that nothing is left of, rows last, so that a crash repeats it. */
    async removeStaged(): Promise<void> {
      const free = closedStaged.all({ name }) as number[];
      for (const number of free) await staging.remove(number);
      await db.change(() => {
        for (const number of free) forgetStaged.run(name, number);
      });
    },
  };
}

function damaged({ number }: PageRow): Error {
  return new Error(
    `Page ${number} of the journal does not match its checksum: restore the state file from a backup.`,
  );
}

/** Neighbours mostly share organization and day. */
function planLookup(plans: ReadonlyMap<string, number>, dayAt: (index: number) => string) {
  let last: { owner: string; day: string; plan: number | undefined } | undefined;
  return (owner: string, { index }: { readonly index: number }): number | undefined => {
    const day = dayAt(index);
    if (last === undefined || last.owner !== owner || last.day !== day)
      last = { owner, day, plan: plans.get(`${owner} ${day}`) };
    return last.plan;
  };
}

export type ArchivePages = ReturnType<typeof createArchivePages>;

function stagedFile(folder: string, number: number): string {
  return join(folder, `${number}.page`);
}

/** A file for each page. */
function stageInFolder(folder: string): PageStaging {
  return {
    async write(number, body) {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      writeDurably(folder, `${number}.page`, body);
    },
    read: async (number) => readFileSync(stagedFile(folder, number)),
    remove: async (number) => rmSync(stagedFile(folder, number), { force: true }),
  };
}

function writeDurably(folder: string, file: string, bytes: Uint8Array): void {
  const temporary = join(folder, `${file}.tmp`);
  const fd = openSync(temporary, "w", 0o600);
  try {
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  renameSync(temporary, join(folder, file));
  const handle = openSync(folder, "r");
  fsyncSync(handle);
  closeSync(handle);
}

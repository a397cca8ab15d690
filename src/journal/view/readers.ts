import { setImmediate } from "node:timers/promises";
import type { State } from "../database.ts";

const SLICE_PAGES = 50_000;

export interface ReaderRow {
  readonly name: string;
  readonly page: number;
  readonly event: number;
  readonly hash: string;
  readonly committedMs: number;
}

export interface Backlog {
  readonly events: number;
  readonly bytes: number;
  /** When the oldest page was fetched that the reader has not passed; null when there is none. */
  readonly oldestMs: number | null;
}

/**
 * How much of the journal each reader still has to read. Sums are carried on from the last look, so that a reader
 * that is a month behind costs no more than one that keeps up.
 */
export function createBacklogs(db: State) {
  const lastPage = db.prepare("SELECT COALESCE(MAX(number), 0) FROM pages").pluck();
  const sum = db
    .prepare(
      `SELECT COALESCE(SUM(events), 0), COALESCE(SUM(bytes), 0) FROM pages
       WHERE number > ? AND number <= ? AND (reader IS NULL OR reader = ?)`,
    )
    .raw();
  const oneOf = db
    .prepare("SELECT events, bytes FROM pages WHERE number = ? AND (reader IS NULL OR reader = ?)")
    .raw();
  const oldestAfter = db
    .prepare(
      `SELECT fetched_ms FROM pages WHERE (number > @page OR (number = @page AND events > @event))
         AND number >= @page AND (reader IS NULL OR reader = @name) ORDER BY number LIMIT 1`,
    )
    .pluck();
  const oldestBody = db.prepare("SELECT MIN(page) FROM bodies").pluck();
  const known = new Map<string, { page: number; end: number; events: number; bytes: number }>();

  async function sumOf(fromPage: number, toPage: number, reader: string): Promise<[number, number]> {
    let [events, bytes] = [0, 0];
    for (let from = fromPage; from < toPage; from += SLICE_PAGES) {
      if (from > fromPage) await setImmediate();
      const part = sum.get(from, Math.min(from + SLICE_PAGES, toPage), reader) as [number, number];
      events += part[0];
      bytes += part[1];
    }
    return [events, bytes];
  }

  /** Everything in the pages after `page`. */
  async function after(page: number, reader: string): Promise<{ events: number; bytes: number }> {
    const end = lastPage.get() as number;
    const before = known.get(reader);
    let total: { events: number; bytes: number };
    if (before !== undefined && before.page <= page && before.end <= end) {
      const added = await sumOf(before.end, end, reader);
      const passed = await sumOf(before.page, Math.min(page, end), reader);
      total = {
        events: before.events + added[0] - passed[0],
        bytes: before.bytes + added[1] - passed[1],
      };
    } else {
      const [events, bytes] = await sumOf(page, end, reader);
      total = { events, bytes };
    }
    known.set(reader, { page, end, ...total });
    return total;
  }

  /** Without a position a reader begins at the oldest page whose bytes are not trimmed: the others never come. */
  function beforeOldest(): { page: number; event: number } {
    const oldest = oldestBody.get() as number | null;
    const page = oldest === null ? (lastPage.get() as number) : oldest - 1;
    return { page, event: Number.MAX_SAFE_INTEGER };
  }

  return {
    endPage: () => lastPage.get() as number,
    /** Every event that was written for all readers. */
    total: async () => (await after(0, "")).events,
    async of(reader: Pick<ReaderRow, "name" | "page" | "event">): Promise<Backlog> {
      const { name } = reader;
      const { page, event } = reader.page > 0 ? reader : beforeOldest();
      const rest = await after(page, name);
      const [events, bytes] = (oneOf.get(page, name) as [number, number] | undefined) ?? [0, 0];
      const left = Math.max(0, events - event);
      const oldestMs = oldestAfter.get({ name, page, event }) as number | undefined;
      return {
        events: rest.events + left,
        bytes: rest.bytes + (left > 0 ? bytes : 0),
        oldestMs: oldestMs ?? null,
      };
    },
  };
}

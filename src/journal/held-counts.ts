import type { HeldQuery } from "../core/journal.ts";
import { IDENTITY_BYTES } from "../core/prepare-page.ts";
import { DAY_MS } from "../core/time.ts";
import type { State } from "./database.ts";
import { createSharedOwners, OF_SOURCE, sourceOf } from "./sources.ts";

export const ENTRY_BYTES = IDENTITY_BYTES + 8;

export type HeldStretch = Pick<HeldQuery, "owners" | "account" | "provider" | "fromMs" | "toMs">;

/** Counts held events from their identities (R36): those that the source of the query has shown. */
export function createHeldCounts(db: State) {
  const rowsOf = createRows(db, "TRUE");

  /** By owner; owners without any are left out. */
  return (stretch: HeldStretch): Map<string, number> => {
    const counts = new Map<string, number>();
    for (const owner of stretch.owners) {
      let count = 0;
      for (const row of rowsOf(stretch, owner)) count += countIn(row, stretch);
      if (count > 0) counts.set(owner, count);
    }
    return counts;
  };
}

export type HeldCounts = ReturnType<typeof createHeldCounts>;

/** The same by day, counted from 1970 on, for all owners together; days without any are left out. */
export function createHeldDays(db: State) {
  const rowsOf = createRows(db, `first_ms / ${DAY_MS} = last_ms / ${DAY_MS}`);

  return (stretch: HeldStretch): Map<number, number> => {
    const counts = new Map<number, number>();
    const add = (timeMs: number, count: number) => {
      const day = Math.floor(timeMs / DAY_MS);
      counts.set(day, (counts.get(day) ?? 0) + count);
    };
    for (const owner of stretch.owners)
      for (const row of rowsOf(stretch, owner)) {
        if (row.entries === null) add(row.firstMs, row.bytes / ENTRY_BYTES);
        else for (const timeMs of timesIn(row.firstMs, row.entries, stretch)) add(timeMs, 1);
      }
    return counts;
  };
}

/** The rows of an owner. Entries are looked at only where a part is outside the stretch, or `isOne` is not true of the row. */
function createRows(db: State, isOne: string) {
  const isShared = createSharedOwners(db);
  const columns = `first_ms AS firstMs, length(entries) AS bytes,
    CASE WHEN first_ms >= @fromMs AND last_ms < @toMs AND ${isOne} THEN NULL ELSE entries END AS entries`;
  const stretch = "owner = @owner AND last_ms >= @fromMs AND first_ms < @toMs";
  const ofOwner = db.prepare(`SELECT ${columns} FROM identities WHERE ${stretch}`);
  const ofSource = db.prepare(
    `SELECT ${columns} FROM identities JOIN pages ON pages.number = identities.page
       WHERE ${stretch} AND ${OF_SOURCE}
     UNION ALL SELECT ${columns} FROM also_seen WHERE ${stretch} AND ${OF_SOURCE} AND entries IS NOT NULL`,
  );
  return ({ fromMs, toMs, account, provider }: HeldStretch, owner: string): Iterable<CountRow> => {
    const asked = { account, provider };
    const rows = isShared(owner, asked)
      ? ofSource.iterate({ owner, fromMs, toMs, ...sourceOf(owner, asked) })
      : ofOwner.iterate({ owner, fromMs, toMs });
    return rows as Iterable<CountRow>;
  };
}

interface CountRow {
  readonly firstMs: number;
  readonly bytes: number;
  readonly entries: Buffer | null;
}

function countIn({ firstMs, bytes, entries }: CountRow, { fromMs, toMs }: HeldStretch): number {
  if (entries === null) return bytes / ENTRY_BYTES;
  let count = 0;
  for (let at = IDENTITY_BYTES + 4; at < entries.length; at += ENTRY_BYTES) {
    const timeMs = firstMs + entries.readUInt32LE(at);
    if (timeMs >= fromMs && timeMs < toMs) count++;
  }
  return count;
}

function* timesIn(firstMs: number, entries: Buffer, { fromMs, toMs }: HeldStretch): Generator<number> {
  for (let at = IDENTITY_BYTES + 4; at < entries.length; at += ENTRY_BYTES) {
    const timeMs = firstMs + entries.readUInt32LE(at);
    if (timeMs >= fromMs && timeMs < toMs) yield timeMs;
  }
}

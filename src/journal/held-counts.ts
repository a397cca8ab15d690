import type { HeldQuery } from "../core/journal.ts";
import { IDENTITY_BYTES } from "../core/prepare-page.ts";
import type { State } from "./database.ts";
import { createSharedOwners, OF_SOURCE, sourceOf } from "./sources.ts";

export const ENTRY_BYTES = IDENTITY_BYTES + 8;

export type HeldStretch = Pick<HeldQuery, "owners" | "account" | "provider" | "fromMs" | "toMs">;

/** Counts held events from their identities (R36): those that the source of the query has shown. */
export function createHeldCounts(db: State) {
  const isShared = createSharedOwners(db);
  // The entries of a row are looked at only where a part of them is outside the stretch.
  const columns = `first_ms AS firstMs, length(entries) AS bytes,
    CASE WHEN first_ms >= @fromMs AND last_ms < @toMs THEN NULL ELSE entries END AS entries`;
  const stretch = "owner = @owner AND last_ms >= @fromMs AND first_ms < @toMs";
  const ofOwner = db.prepare(`SELECT ${columns} FROM identities WHERE ${stretch}`);
  const ofSource = db.prepare(
    `SELECT ${columns} FROM identities JOIN pages ON pages.number = identities.page
       WHERE ${stretch} AND ${OF_SOURCE}
     UNION ALL SELECT ${columns} FROM also_seen WHERE ${stretch} AND ${OF_SOURCE} AND entries IS NOT NULL`,
  );

  /** By owner; owners without any are left out. */
  return ({ owners, fromMs, toMs, ...asked }: HeldStretch): Map<string, number> => {
    const counts = new Map<string, number>();
    for (const owner of owners) {
      const rows = isShared(owner, asked)
        ? ofSource.iterate({ owner, fromMs, toMs, ...sourceOf(owner, asked) })
        : ofOwner.iterate({ owner, fromMs, toMs });
      let count = 0;
      for (const row of rows as Iterable<CountRow>) count += countIn(row, fromMs, toMs);
      if (count > 0) counts.set(owner, count);
    }
    return counts;
  };
}

export type HeldCounts = ReturnType<typeof createHeldCounts>;

interface CountRow {
  readonly firstMs: number;
  readonly bytes: number;
  readonly entries: Buffer | null;
}

function countIn({ firstMs, bytes, entries }: CountRow, fromMs: number, toMs: number): number {
  if (entries === null) return bytes / ENTRY_BYTES;
  let count = 0;
  for (let at = IDENTITY_BYTES + 4; at < entries.length; at += ENTRY_BYTES) {
    const timeMs = firstMs + entries.readUInt32LE(at);
    if (timeMs >= fromMs && timeMs < toMs) count++;
  }
  return count;
}

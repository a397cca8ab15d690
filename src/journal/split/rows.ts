import type { Move } from "./move.ts";

type Row = Record<string, unknown>;

interface CopyOptions {
  /** Only these rows; by default all. */
  readonly keep?: (row: Row) => boolean;
  /** Other values for some columns. */
  readonly change?: (row: Row) => Row;
  readonly onConflict?: string;
}

/** Copies rows with all columns that the table has, present and future. The checksums are made anew by triggers. */
export function copyRows(
  { db, source }: Move,
  table: string,
  { keep, change, onConflict = "" }: CopyOptions,
): void {
  const columns = (
    db.prepare(`SELECT name FROM pragma_table_info('${table}')`).pluck().all() as string[]
  ).filter((name) => name !== "row_checksum");
  const insert = db.prepare(
    `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${columns.map((name) => `@${name}`).join(", ")}) ${onConflict}`,
  );
  const rows = source.prepare(`SELECT ${columns.join(", ")} FROM ${table}`);
  for (const row of rows.iterate() as IterableIterator<Row>) {
    if (keep !== undefined && !keep(row)) continue;
    insert.run({ ...row, ...change?.(row) });
  }
}

/** Their pages are gone, so each gets a place before the first page, in the order in which they came. */
export function copyDeadLetters(move: Move): void {
  const { db, owners } = move;
  const last = db.prepare("SELECT COALESCE(MAX(event), 0) FROM dead_letters WHERE page = 0").pluck();
  let event = last.get() as number;
  copyRows(move, "dead_letters", {
    keep: ({ organization, provider }) =>
      owners.organization(provider === null ? (organization as string | null) : null),
    change: () => ({ id: null, page: 0, event: ++event }),
  });
}

/** Sums that belong to no organization. */
export function copyTotals(move: Move): void {
  copyRows(move, "unattributed", { change: () => ({ stream: 0 }), onConflict: "ON CONFLICT DO NOTHING" });
  copyRows(move, "lateness", {
    onConflict: "ON CONFLICT (account, at_most_ms) DO UPDATE SET events = events + excluded.events",
  });
  copyRows(move, "drift", {
    onConflict: `ON CONFLICT (service, kind, path, detail) DO UPDATE SET events = events + excluded.events,
      first_ms = MIN(first_ms, excluded.first_ms), last_ms = MAX(last_ms, excluded.last_ms)`,
  });
}

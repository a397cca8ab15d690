import type { DuckDBConnection } from "@duckdb/node-api";
import { loadDuckDb, quoted } from "../engine/duckdb.ts";
import type { IndexFile } from "../index/catalog.ts";
import type { IndexedSnapshot } from "../index/sync.ts";

/** The index as one query sees it. Tables with open pages belong to the query's connection. */
export interface QuerySnapshot {
  readonly indexed: IndexedSnapshot;
  /** A table expression over the rows of files that overlap a time; null where there are none. */
  source(fromNs: bigint | undefined, toNs: bigint | undefined): string | null;
  /** Rows in files that begin on each UTC day, as an upper bound of what a query finds there. */
  readonly days: readonly { readonly startNs: bigint; readonly rows: number }[];
}

const DAY_NS = 86_400_000_000_000n;
const OPEN_CHUNK = 2000;

export async function takeSnapshot(
  connection: DuckDBConnection,
  indexed: IndexedSnapshot,
): Promise<QuerySnapshot> {
  const isOpen = await openCondition(connection, indexed);
  const overlaps = (fromNs: bigint | undefined, toNs: bigint | undefined) => (file: IndexFile) =>
    file.rows > 0 &&
    (fromNs === undefined || file.lastNs >= fromNs) &&
    (toNs === undefined || file.firstNs < toNs);
  return {
    indexed,
    source(fromNs, toNs) {
      const parts = indexed.parts.filter(overlaps(fromNs, toNs));
      const pages = indexed.pages.filter(overlaps(fromNs, toNs));
      const sources = [
        ...(parts.length > 0 ? [`SELECT * FROM ${filesOf(parts)}`] : []),
        ...(pages.length > 0 ? [`SELECT p.* FROM ${filesOf(pages)} p WHERE ${isOpen}`] : []),
      ];
      return sources.length === 0 ? null : `(${sources.join(" UNION ALL ")})`;
    },
    days: daysOf([...indexed.parts, ...indexed.pages]),
  };
}

/** Up to so many open pages and days are written into the query itself; more go to tables of the connection. */
const INLINE_MAX = 500;

/** A page's rows count while the page, or the day of the organization, is open in this snapshot (A28). */
async function openCondition(connection: DuckDBConnection, indexed: IndexedSnapshot): Promise<string> {
  const { pages } = indexed.snapshot;
  const whole = pages.filter(({ open }) => open === null).map(({ number }) => -number);
  const some = pages.flatMap(({ number, open }) => (open ?? []).map((one) => ({ part: -number, ...one })));
  if (whole.length + some.length > INLINE_MAX) {
    await noteOpenPages(connection, indexed);
    return IS_OPEN;
  }
  const days = some.map(
    ({ part, organization, day }) =>
      `(p.part = ${part} AND p.organization = ${quoted(organization)} AND p.day = ${quoted(day)})`,
  );
  return `(${[...(whole.length > 0 ? [`p.part IN (${whole.join(", ")})`] : []), ...days].join(" OR ") || "false"})`;
}

const IS_OPEN = `(p.part IN (SELECT part FROM temp.main.open_pages)
  OR EXISTS (SELECT 1 FROM temp.main.open_days d WHERE d.part = p.part AND d.organization = p.organization AND d.day = p.day))`;

function filesOf(files: readonly IndexFile[]): string {
  return `read_parquet([${files.map(({ path }) => quoted(path)).join(", ")}])`;
}

async function noteOpenPages(connection: DuckDBConnection, { snapshot }: IndexedSnapshot): Promise<void> {
  const { BIGINT, DuckDBDataChunk, VARCHAR } = await loadDuckDb();
  await connection.run("CREATE OR REPLACE TEMP TABLE open_pages (part BIGINT)");
  await connection.run(
    "CREATE OR REPLACE TEMP TABLE open_days (part BIGINT, organization VARCHAR, day VARCHAR)",
  );
  const whole = snapshot.pages.filter(({ open }) => open === null);
  const some = snapshot.pages.flatMap(({ number, open }) => (open ?? []).map((one) => ({ number, ...one })));
  const pages = await connection.createAppender("open_pages", "main", "temp");
  for (let at = 0; at < whole.length; at += OPEN_CHUNK) {
    const rows = whole.slice(at, at + OPEN_CHUNK);
    const chunk = DuckDBDataChunk.create([BIGINT], rows.length);
    chunk.setColumns([rows.map(({ number }) => BigInt(-number))]);
    pages.appendDataChunk(chunk);
  }
  pages.closeSync();
  const days = await connection.createAppender("open_days", "main", "temp");
  for (let at = 0; at < some.length; at += OPEN_CHUNK) {
    const rows = some.slice(at, at + OPEN_CHUNK);
    const chunk = DuckDBDataChunk.create([BIGINT, VARCHAR, VARCHAR], rows.length);
    chunk.setColumns([
      rows.map(({ number }) => BigInt(-number)),
      rows.map(({ organization }) => organization),
      rows.map(({ day }) => day),
    ]);
    days.appendDataChunk(chunk);
  }
  days.closeSync();
}

function startOfDay(ns: bigint): bigint {
  const rest = ns % DAY_NS;
  return rest < 0n ? ns - rest - DAY_NS : ns - rest;
}

function daysOf(files: readonly IndexFile[]): { startNs: bigint; rows: number }[] {
  const days = new Map<bigint, number>();
  for (const { firstNs, lastNs, rows } of files) {
    if (rows === 0) continue;
    const [first, last] = [startOfDay(firstNs), startOfDay(lastNs)];
    days.set(first, (days.get(first) ?? 0) + rows);
    // An addition may reach over many days; its last day must be there even when no other file has one.
    if (last !== first) days.set(last, days.get(last) ?? 0);
  }
  return [...days]
    .map(([startNs, rows]) => ({ startNs, rows }))
    .sort((a, b) => (a.startNs < b.startNs ? -1 : 1));
}

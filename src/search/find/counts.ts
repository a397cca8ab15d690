import type { DuckDBConnection } from "@duckdb/node-api";
import type { Condition } from "./filter.ts";
import type { QuerySnapshot } from "./snapshot.ts";

/* Counts from the index alone. They are exact where the condition is one that the index decides. */

interface Range {
  readonly condition: Condition;
  readonly fromNs?: bigint | undefined;
  readonly toNs?: bigint | undefined;
}

async function rowsOf(
  connection: DuckDBConnection,
  snapshot: QuerySnapshot,
  { condition, fromNs, toNs }: Range,
  select: (source: string) => string,
): Promise<readonly (readonly unknown[])[]> {
  const source = snapshot.source(fromNs, toNs);
  if (source === null) return [];
  const reader = await connection.runAndReadAll(select(`${source} WHERE ${condition.sql}`), [
    ...condition.values,
  ]);
  return reader.getRows();
}

export async function countRows(
  connection: DuckDBConnection,
  snapshot: QuerySnapshot,
  range: Range,
): Promise<number> {
  const [row] = await rowsOf(connection, snapshot, range, (from) => `SELECT count(*) FROM ${from}`);
  return Number(row?.[0] ?? 0);
}

export interface TopValue {
  readonly value: string | null;
  readonly count: number;
}

/** The most frequent values of a column, which must be one of FIELDS. */
export async function topValues(
  connection: DuckDBConnection,
  snapshot: QuerySnapshot,
  range: Range,
  field: string,
  limit: number,
): Promise<TopValue[]> {
  const rows = await rowsOf(
    connection,
    snapshot,
    range,
    (from) =>
      `SELECT "${field}", count(*) AS n FROM ${from} GROUP BY 1 ORDER BY n DESC, 1 LIMIT ${Math.floor(limit)}`,
  );
  return rows.map(([value, count]) => ({ value: value as string | null, count: Number(count) }));
}

export interface Bucket {
  readonly startMs: number;
  readonly count: number;
}

/** Events in steps of equal length, aligned to `offsetMs`; empty steps are left out, and so are those beyond the limit. */
export async function countByTime(
  connection: DuckDBConnection,
  snapshot: QuerySnapshot,
  range: Range,
  stepMs: number,
  offsetMs = 0,
  limit = Number.MAX_SAFE_INTEGER,
): Promise<Bucket[]> {
  const [step, offset] = [BigInt(stepMs) * 1_000_000n, BigInt(offsetMs) * 1_000_000n];
  const rows = await rowsOf(
    connection,
    snapshot,
    range,
    (from) =>
      `SELECT (time_ns + ${offset}) // ${step} - CASE WHEN (time_ns + ${offset}) % ${step} < 0 THEN 1 ELSE 0 END AS bucket, count(*)
       FROM ${from} GROUP BY 1 ORDER BY 1 LIMIT ${Math.floor(limit)}`,
  );
  return rows.map(([bucket, count]) => ({
    startMs: Number(bucket as bigint) * stepMs - offsetMs,
    count: Number(count),
  }));
}

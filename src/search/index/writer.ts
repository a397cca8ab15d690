import { closeSync, fsyncSync, openSync } from "node:fs";
import type { DuckDBAppender, DuckDBConnection, DuckDBType } from "@duckdb/node-api";
import { COLUMNS, type IndexRow } from "../columns.ts";
import { loadDuckDb, quoted } from "../engine/duckdb.ts";

const CHUNK_ROWS = 2000;
const ROW_GROUP_ROWS = 50_000;

/** Writes rows to one Parquet file; after `finish` it is on disk. */
export interface IndexWriter {
  readonly rows: number;
  add(row: IndexRow): void;
  finish(path: string): Promise<void>;
  discard(): Promise<void>;
}

export async function createIndexWriter(connection: DuckDBConnection, table: string): Promise<IndexWriter> {
  const { BIGINT, DuckDBDataChunk, INTEGER, VARCHAR } = await loadDuckDb();
  const types: Readonly<Record<string, DuckDBType>> = { BIGINT, INTEGER, VARCHAR };
  await connection.run(
    `CREATE OR REPLACE TEMP TABLE ${table} (${COLUMNS.map(({ name, type }) => `"${name}" ${type}`).join(", ")})`,
  );
  const appender: DuckDBAppender = await connection.createAppender(table, "main", "temp");
  let columns: IndexRow[] = COLUMNS.map(() => []);
  let rows = 0;

  function flush(): void {
    const count = columns[0]!.length;
    if (count === 0) return;
    const chunk = DuckDBDataChunk.create(
      COLUMNS.map(({ type }) => types[type]!),
      count,
    );
    chunk.setColumns(columns);
    appender.appendDataChunk(chunk);
    columns = COLUMNS.map(() => []);
  }

  return {
    get rows() {
      return rows;
    },
    add(row) {
      for (const [at, value] of row.entries()) columns[at]!.push(value);
      rows++;
      if (columns[0]!.length === CHUNK_ROWS) flush();
    },
    async finish(path) {
      flush();
      appender.closeSync();
      await connection.run(
        `COPY (SELECT * FROM temp.main.${table}) TO ${quoted(path)} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE ${ROW_GROUP_ROWS})`,
      );
      await connection.run(`DROP TABLE temp.main.${table}`);
      syncFile(path);
    },
    async discard() {
      appender.closeSync();
      await connection.run(`DROP TABLE IF EXISTS temp.main.${table}`);
    },
  };
}

/** Waits until a file, or the names in a folder, are on disk. */
export function syncFile(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

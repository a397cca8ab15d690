import type Database from "better-sqlite3";

/*
 * Capture of changed rows (C2). Temporary triggers on every table of the writing connection note the keys of rows that
 * were inserted, updated or deleted. Nothing of this is stored in the file. A table that has no triggers is refused, so
 * a table that a later version adds is either replicated or an error.
 */

/** Tables that describe the file itself. Each copy has its own rows there. */
const LOCAL_TABLES = ["migrations", "replica_tip", "replica_bodies"];
/** Rows of `meta` that describe the running process. */
const LOCAL_META = ["live"];
/** Columns whose change alone is not replicated (C18). */
const CHURN: Readonly<Record<string, readonly string[]>> = { organizations: ["last_seen_ms"] };
/** SQLite's own table of the last AUTOINCREMENT ids. It takes no triggers. */
const SEQUENCES = "sqlite_sequence";

export type KeyValue = string | number;

export interface TouchedRow {
  readonly table: string;
  readonly key: readonly KeyValue[];
}

export interface ReplicatedTable {
  readonly name: string;
  readonly keyColumns: readonly string[];
  readonly isCounting: boolean;
}

export interface Capture {
  readonly tables: ReadonlyMap<string, ReplicatedTable>;
  /** Begins a part that can be undone. */
  begin(): void;
  keep(): void;
  discard(): void;
  /** The rows touched since the last call, each once. Throws when a table was made or altered meanwhile. */
  take(): readonly TouchedRow[];
}

/** Installs the triggers on a connection that writes. */
export function installCapture(db: Database.Database): Capture {
  // REPLACE removes the old row without a delete trigger otherwise.
  db.pragma("recursive_triggers = ON");
  const tables = replicatedTables(db);
  let kept = new Map<string, TouchedRow>();
  let current = new Map<string, TouchedRow>();

  function note(table: string, key: readonly KeyValue[]): void {
    if (table === "meta" && LOCAL_META.includes(key[0] as string)) return;
    current.set(recordKey(table, key), { table, key });
    if (tables.get(table)?.isCounting)
      current.set(recordKey(SEQUENCES, [table]), { table: SEQUENCES, key: [table] });
  }

  db.function("tidemark_capture", { varargs: true }, (table: unknown, ...key: unknown[]) => {
    note(table as string, key as KeyValue[]);
    return null;
  });
  for (const table of tables.values()) if (table.name !== SEQUENCES) installTriggers(db, table);
  const version = schemaVersion(db);

  return {
    tables,
    begin() {
      current = new Map();
    },
    keep() {
      for (const [key, row] of current) kept.set(key, row);
      current = new Map();
    },
    discard() {
      current = new Map();
    },
    take() {
      if (schemaVersion(db) !== version)
        throw new Error("A table was made or altered in a running lane: its rows would not be replicated.");
      const rows = [...kept.values()];
      kept = new Map();
      return rows;
    },
  };
}

/** The name of a row in the log. */
export function recordKey(table: string, key: readonly KeyValue[]): string {
  return JSON.stringify([table, ...key]);
}

function schemaVersion(db: Database.Database): number {
  return db.pragma("main.schema_version", { simple: true }) as number;
}

/** Every table of the file but the local ones, with its primary key. */
export function replicatedTables(db: Database.Database): ReadonlyMap<string, ReplicatedTable> {
  const found = db.prepare("SELECT name, sql FROM main.sqlite_schema WHERE type = 'table'").all() as {
    name: string;
    sql: string | null;
  }[];
  const tables = new Map<string, ReplicatedTable>();
  for (const { name, sql } of found) {
    if (LOCAL_TABLES.includes(name)) continue;
    if (name.startsWith("sqlite_") && name !== SEQUENCES) continue;
    const keyColumns = name === SEQUENCES ? ["name"] : keyColumnsOf(db, name);
    if (keyColumns.length === 0)
      throw new Error(`The table ${name} has no primary key, so its rows cannot be replicated.`);
    tables.set(name, { name, keyColumns, isCounting: /\bAUTOINCREMENT\b/i.test(sql ?? "") });
  }
  return tables;
}

function keyColumnsOf(db: Database.Database, table: string): string[] {
  return db
    .prepare(`SELECT name FROM pragma_table_info('${table}') WHERE pk > 0 ORDER BY pk`)
    .pluck()
    .all() as string[];
}

function columnsOf(db: Database.Database, table: string): string[] {
  return db.prepare(`SELECT name FROM pragma_table_info('${table}')`).pluck().all() as string[];
}

function installTriggers(db: Database.Database, { name, keyColumns }: ReplicatedTable): void {
  const call = (side: string) =>
    `tidemark_capture('${name}', ${keyColumns.map((column) => `${side}."${column}"`).join(", ")})`;
  const trigger = (event: string, body: string, when = "") =>
    db.exec(
      `CREATE TEMP TRIGGER capture_${name}_${event.toLowerCase()} AFTER ${event} ON main."${name}" ${when} BEGIN SELECT ${body}; END`,
    );
  trigger("INSERT", call("NEW"));
  trigger("UPDATE", `${call("OLD")}, ${call("NEW")}`, meaningful(db, name));
  trigger("DELETE", call("OLD"));
}

/** For tables with churn: an update counts only where another column changes. */
function meaningful(db: Database.Database, table: string): string {
  const churn = CHURN[table];
  if (churn === undefined) return "";
  const others = columnsOf(db, table).filter((column) => !churn.includes(column));
  return `WHEN ${others.map((column) => `OLD."${column}" IS NOT NEW."${column}"`).join(" OR ")}`;
}

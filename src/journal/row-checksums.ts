import { crc32 } from "node:zlib";
import type Database from "better-sqlite3";

/*
 * Every row that decides something has a checksum over its other columns (R37): a flipped bit in a cursor, a
 * position or an identity is found by `doctor`. The rows that decide what is read and delivered are checked at every
 * start (repair-rows.ts), identities and dead letters whenever they are used. Triggers keep the checksums, so no writer
 * can forget them. The rows of identities are large and never updated: they get theirs with the insert. So does a dead
 * letter, where its writer gives one: the trigger takes five times the memory of the event.
 *
 * Columns without a value do not count, so a migration may add columns. A migration that changes values sets
 * row_checksum to NULL; it is computed again when all migrations have run.
 */
const COLUMN = "row_checksum";

/** The tables, with the key of each. A key called id is not part of the checksum: indexes repeat it. */
const TABLES: Readonly<Record<string, string>> = {
  meta: "key",
  pages: "number",
  identities: "id",
  also_seen: "id",
  streams: "id",
  windows: "id",
  readers: "name",
  gaps: "id",
  dead_letters: "id",
};

type Row = Readonly<Record<string, unknown>>;

/** CRC-32 finds every single flipped bit of a value. */
export function rowChecksum(row: Row, names: readonly string[] = Object.keys(row).sort()): number {
  let crc = 0;
  // Few calls over long texts: this is computed for every row at a start.
  let text = "";
  for (const name of names) {
    const value = row[name];
    if (value === null || value === undefined || name === COLUMN || name === "id") continue;
    text += `${name} ${typeof value} `;
    if (value instanceof Uint8Array) {
      crc = crc32(value, crc32(text, crc));
      text = "";
    } else text += String(value);
  }
  return crc32(text, crc);
}

/** A row as `SELECT *` gives it. */
export function fitsChecksum(row: object): boolean {
  return (row as Row)[COLUMN] === rowChecksum(row as Row);
}

/** Gives a connection the function that the triggers call. Every connection that writes needs it. */
export function registerRowChecksum(db: Database.Database): void {
  db.function("tidemark_row_checksum", { varargs: true, deterministic: true }, (...pairs: unknown[]) => {
    const row: Record<string, unknown> = {};
    for (let at = 0; at < pairs.length; at += 2) row[pairs[at] as string] = pairs[at + 1];
    return rowChecksum(row);
  });
}

/** The migration since which dead letters bring their checksum. */
const LETTERS_BRING_THEIRS = 30;

/**
 * Makes the triggers for the columns that the tables have now, and the checksums of rows that have none. `migration`: the
 * last one that was run.
 */
export function installRowChecksums(db: Database.Database, migration: number): void {
  for (const [table, key] of Object.entries(TABLES)) {
    const columns = columnsOf(db, table);
    if (!columns.includes(COLUMN)) continue;
    const counted = columns.filter((name) => name !== COLUMN && name !== "id");
    const pairs = (prefix: string) => counted.map((name) => `'${name}', ${prefix}${name}`).join(", ");
    db.exec(`UPDATE ${table} SET ${COLUMN} = tidemark_row_checksum(${pairs("")}) WHERE ${COLUMN} IS NULL`);
    if (table === "identities") continue;
    for (const [event, of] of [
      ["INSERT", ""],
      ["UPDATE", ` OF ${counted.join(", ")}`],
    ] as const) {
      const name = `${table}_checksum_${event.toLowerCase()}`;
      const isBrought = table === "dead_letters" && event === "INSERT" && migration >= LETTERS_BRING_THEIRS;
      const when = isBrought ? ` WHEN NEW.${COLUMN} IS NULL` : "";
      db.exec(`DROP TRIGGER IF EXISTS ${name};
        CREATE TRIGGER ${name} AFTER ${event}${of} ON ${table}${when} BEGIN
          UPDATE ${table} SET ${COLUMN} = tidemark_row_checksum(${pairs("NEW.")}) WHERE ${key} = NEW.${key};
        END`);
    }
  }
}

export function columnsOf(db: Database.Database, table: string): string[] {
  return db.prepare(`SELECT name FROM pragma_table_info('${table}')`).pluck().all() as string[];
}

/** The keys of rows whose checksum does not fit, by table. */
export function* damagedRows(
  db: Database.Database,
  tables: readonly string[] = Object.keys(TABLES),
): Generator<{ readonly table: string; readonly key: string; readonly keys: unknown[] }> {
  for (const table of tables) {
    const key = TABLES[table]!;
    const names = columnsOf(db, table).sort();
    if (!names.includes(COLUMN)) continue;
    const keys: unknown[] = [];
    for (const row of db.prepare(`SELECT * FROM ${table}`).iterate() as IterableIterator<Row>)
      if (row[COLUMN] !== rowChecksum(row, names)) keys.push(row[key]);
    if (keys.length > 0) yield { table, key, keys };
  }
}

import { crc32 } from "node:zlib";
import { type Connection, DamagedStateError } from "./database.ts";
import { columnsOf, damagedRows, rowChecksum } from "./row-checksums.ts";

/*
 * Rows that decide what is read and delivered are checked whenever a process starts to work with the state (R37). A
 * damaged one must not be used: the next change of the row would give the damaged value a right checksum.
 *
 * A checksum shows also which bit is wrong, where only one is: with that bit turned back the checksum fits. CRC-32
 * differs for all values that differ in one or two bits, so there is only one such bit. Where none is found, more than
 * one bit is wrong, and the state file is refused.
 *
 * A row that its index does not have is never found, so indexes are compared with their tables first. They are made
 * again from the rows, which have checksums. Any other damage of their structure refuses the state file.
 */
const DECIDING: readonly string[] = ["meta", "streams", "windows", "readers", "gaps"];
/** The bits of a longer value are not tried. */
const BYTES_MAX = 65_536;
/** The sizes in which SQLite stores integers. */
const INTEGER_BYTES = [1, 2, 3, 4, 6, 8];

/** Gives the names of what was damaged and is as before now; throws DamagedStateError for anything else. */
export function repairRows(db: Connection): readonly string[] {
  if (damageIn(db).length === 0) return [];
  return db.transaction(() => repairAll(db)).immediate();
}

/** In words. The rows of a table whose structure is damaged are not looked at. */
export function damageIn(db: Connection): readonly string[] {
  const problems = DECIDING.flatMap((table) => structureProblems(db, table));
  if (problems.length > 0) return problems;
  const stray = strayWindow(db);
  return [...damagedIn(db).map(rowProblem), ...(stray === undefined ? [] : [stray])];
}

function repairAll(db: Connection): readonly string[] {
  const indexes = DECIDING.filter((table) => {
    const problems = structureProblems(db, table).filter((problem) => !VALUE_PROBLEM.test(problem));
    refuse(
      db,
      problems.find((problem) => !INDEX_PROBLEM.test(problem)),
    );
    if (problems.length > 0) db.exec(`REINDEX ${table}`);
    return problems.length > 0;
  });
  const rows = damagedIn(db);
  for (const row of rows) if (!repairRow(db, row)) refuse(db, rowProblem(row));
  for (const table of DECIDING) refuse(db, structureProblems(db, table)[0]);
  refuse(db, strayWindow(db));
  return [
    ...indexes.map((table) => `indexes of ${table}`),
    ...rows.map(({ table, value }) => `${table} ${value}`),
  ];
}

/** An index that has more entries than its table has rows is none of these: rows may be lost. */
const INDEX_PROBLEM = /^(row \d+ missing from index|rowid not at end-of-record for row \d+ of index) /;
/** The checksum of its row finds it. */
const VALUE_PROBLEM = /^(CHECK constraint failed in|NULL value in|\S+ value in) /;

/** Of the table and of its indexes, in the words of SQLite. */
function structureProblems(db: Connection, table: string): string[] {
  const found = db.prepare(`PRAGMA integrity_check(${table})`).pluck().all() as string[];
  return found.filter((line) => line !== "ok");
}

/** Checksums leave out the ids of rows. A stream whose id has a wrong bit is found by its windows, which would not be read. */
function strayWindow(db: Connection): string | undefined {
  const [stray] = db.pragma("foreign_key_check(windows)") as readonly { readonly rowid: number }[];
  return stray && `the row ${stray.rowid} of windows names a stream that is not there`;
}

function damagedIn(db: Connection): Place[] {
  return [...damagedRows(db, DECIDING)].flatMap(({ table, key, keys }) =>
    keys.map((value) => ({ table, key, value })),
  );
}

function rowProblem({ table, value }: Place): string {
  return `the row ${value} of ${table} does not fit its checksum`;
}

function refuse(db: Connection, problem: string | undefined): void {
  if (problem !== undefined) throw new DamagedStateError(db.name, problem);
}

interface Place {
  readonly table: string;
  readonly key: string;
  readonly value: unknown;
}

/** A column that counts, as the checksum sees it. */
interface Part {
  readonly name: string;
  readonly head: Buffer;
  readonly bytes: Buffer;
  readonly type: "text" | "integer" | "real" | "blob";
}

/** Turns one wrong bit of a row back, within a change of the state; throws DamagedStateError where more are wrong. */
export function repairOrRefuse(db: Connection, table: string, id: number): void {
  const place = { table, key: "id", value: id };
  if (!repairRow(db, place)) refuse(db, rowProblem(place));
}

function repairRow(db: Connection, { table, key, value }: Place): boolean {
  const set = (name: string, to: unknown) =>
    db.prepare(`UPDATE ${table} SET "${name}" = ? WHERE ${key} = ?`).run(to, value);
  const row = db.prepare(`SELECT * FROM ${table} WHERE ${key} = ?`).get(value) as Record<string, unknown>;
  if (row === undefined) return false;
  const { row_checksum: stored } = row as { row_checksum: number | null };
  if (stored === null) return false;
  const computed = rowChecksum(row);
  if (bitsIn(stored ^ computed) === 1) set("row_checksum", computed);
  else {
    const fix = fixOf(partsOf(db, { table, key, value }), stored);
    if (fix === undefined) return false;
    set(fix.name, fix.value);
  }
  const now = db.prepare(`SELECT * FROM ${table} WHERE ${key} = ?`).get(value) as typeof row | undefined;
  return now !== undefined && now.row_checksum === rowChecksum(now) && bitsIn(stored ^ rowChecksum(now)) <= 1;
}

function bitsIn(number: number): number {
  let count = 0;
  for (let left = number >>> 0; left > 0; left = (left & (left - 1)) >>> 0) count++;
  return count;
}

/** Texts as their bytes: a flipped bit may make them no UTF-8. */
function partsOf(db: Connection, { table, key, value }: Place): Part[] {
  const names = columnsOf(db, table)
    .filter((name) => name !== "row_checksum" && name !== "id")
    .sort();
  return names.flatMap((name) => {
    const found = db
      .prepare(
        `SELECT typeof("${name}") AS type, CASE typeof("${name}") WHEN 'text' THEN CAST("${name}" AS BLOB) ELSE "${name}" END AS value
         FROM ${table} WHERE ${key} = ?`,
      )
      .get(value) as { type: Part["type"] | "null"; value: Buffer | number | null };
    if (found.type === "null") return [];
    const { type } = found;
    const kind = type === "text" ? "string" : type === "blob" ? "object" : "number";
    // SQLite gives an empty text as no bytes at all.
    const bytes =
      kind === "number" ? Buffer.from(String(found.value)) : Buffer.from((found.value ?? []) as Buffer);
    return [{ name, head: Buffer.from(`${name} ${kind} `), bytes, type }];
  });
}

/** The column, and its value with one bit turned, with which the row has this checksum. */
function fixOf(parts: readonly Part[], checksum: number): { name: string; value: unknown } | undefined {
  let before = 0;
  for (const [at, { name, head, bytes, type }] of parts.entries()) {
    const behind = Buffer.concat(parts.slice(at + 1).flatMap((part) => [part.head, part.bytes]));
    const start = crc32(head, before);
    const fits = (tried: Buffer) => crc32(behind, crc32(tried, start)) === checksum;
    const value =
      type === "integer" ? integerOf(bytes, fits) : type === "real" ? undefined : bytesOf(bytes, fits);
    if (value !== undefined)
      return { name, value: type === "text" && Buffer.isBuffer(value) ? value.toString() : value };
    before = crc32(bytes, start);
  }
  return undefined;
}

function bytesOf(bytes: Buffer, fits: (tried: Buffer) => boolean): Buffer | undefined {
  if (bytes.length > BYTES_MAX) return undefined;
  const tried = Buffer.from(bytes);
  for (let at = 0; at < tried.length; at++)
    for (let bit = 0; bit < 8; bit++) {
      tried[at]! ^= 1 << bit;
      if (fits(tried)) return tried;
      tried[at]! ^= 1 << bit;
    }
  return undefined;
}

function integerOf(digits: Buffer, fits: (tried: Buffer) => boolean): number | undefined {
  const value = BigInt(digits.toString());
  for (const size of INTEGER_BYTES)
    for (let bit = 0; bit < 8 * size; bit++) {
      const tried = BigInt.asIntN(8 * size, BigInt.asUintN(8 * size, value) ^ (1n << BigInt(bit)));
      if (Number.isSafeInteger(Number(tried)) && fits(Buffer.from(String(tried)))) return Number(tried);
    }
  return undefined;
}

import { hash } from "node:crypto";
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { explain } from "../core/errors.ts";
import { checksumOf } from "../core/page-body.ts";
import { Sqlite } from "../core/sqlite.ts";
import type { Connection } from "./database.ts";
import { MIGRATIONS_TABLE, migrations } from "./migrations.ts";
import { damagedRows, installRowChecksums, registerRowChecksum } from "./row-checksums.ts";
import { checkLog } from "./write-ahead-log.ts";

/** At most so many are named; the rest are counted. */
const NAMED_MAX = 5;

export interface Verified {
  readonly pages: number;
  readonly events: number;
  /** Pages whose bytes are still there. */
  readonly bodies: number;
  /** In words; empty when everything fits. */
  readonly problems: readonly string[];
  readonly damagedPages: readonly DamagedPage[];
}

/** A page whose bytes cannot be used, with the time of its events as far as it is known. */
export interface DamagedPage {
  readonly number: number;
  readonly account: string;
  readonly fromMs: number | null;
  readonly toMs: number | null;
}

/**
 * Checks everything in an open state file: the database's own structure, its schema, the checksum of every page
 * (R16), the chain of hashes that positions are judged by (R20), and the checksums of rows (R37). Reads the
 * whole file.
 */
export function verifyState(db: Connection): Verified {
  const nothing = { pages: 0, events: 0, bodies: 0, damagedPages: [] };
  try {
    // No row of a file whose structure is damaged can be trusted.
    const structure = [...structureProblems(db), ...schemaProblems(db)];
    if (structure.length > 0) return { ...nothing, problems: structure };
    const pages = verifyPages(db);
    return { ...pages, problems: [...pages.problems, ...rowProblems(db)] };
  } catch (error) {
    return { ...nothing, problems: [`it cannot be read to its end (${explain(error)})`] };
  }
}

/** Checks the parts of the file that are not seen through SQLite: the header, and the log beside it. */
export function verifyFiles(file: string): string[] {
  const log = checkLog(`${file}-wal`);
  return [
    ...headerProblems(file, log.frames > 0),
    ...(log.problem === null ? [] : [`the log beside it: ${log.problem}`]),
  ];
}

/** Checks the structure alone; for a file that cannot be opened in the usual way. */
export function verifyStructure(file: string): string[] {
  try {
    const db = new Sqlite(file, { readonly: true });
    try {
      return structureProblems(db);
    } finally {
      db.close();
    }
  } catch (error) {
    return [`it cannot be opened (${explain(error)})`];
  }
}

const HEADER_BYTES = 100;

function headerProblems(file: string, hasLog: boolean): string[] {
  if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) < HEADER_BYTES) return ["it has no header"];
  const header = Buffer.alloc(HEADER_BYTES);
  const handle = openSync(file, "r");
  try {
    readSync(handle, header, 0, HEADER_BYTES, 0);
  } finally {
    closeSync(handle);
  }
  // A new file has these numbers in its log alone.
  const isOrNew = (found: number, expected: number) => found === expected || (hasLog && found === 0);
  // SQLite ignores a log whose database says that it uses none.
  const [writes, reads] = [header[18]!, header[19]!];
  const isVersionFit = writes === reads && (writes === 2 || (writes === 1 && !hasLog));
  const isFit =
    header.toString("latin1", 0, 16) === "SQLite format 3\0" &&
    isVersionFit &&
    header[20] === 0 &&
    isOrNew(header.readUInt32BE(44), 4) &&
    isOrNew(header.readUInt32BE(56), 1);
  return isFit ? [] : ["its header is damaged"];
}

function structureProblems(db: Connection): string[] {
  const found = db.prepare(`PRAGMA integrity_check(${NAMED_MAX})`).pluck().all() as string[];
  return found.filter((line) => line !== "ok").map((line) => `the file's structure: ${line}`);
}

/** Compares tables, indexes and triggers with those that the migrations make. */
function schemaProblems(db: Connection): string[] {
  const list = db.prepare("SELECT number, name FROM migrations ORDER BY number").all() as {
    number: number;
    name: string;
  }[];
  const expected = new Sqlite(":memory:");
  try {
    registerRowChecksum(expected);
    expected.exec(MIGRATIONS_TABLE);
    for (const { number, sql } of migrations())
      if (list.some((run) => run.number === number)) expected.exec(sql);
    installRowChecksums(expected, Math.max(0, ...list.map(({ number }) => number)));
    const misnamed = list.filter(({ number, name }) =>
      migrations().some((known) => known.number === number && known.name !== name),
    );
    if (misnamed.length > 0) return ["the list of migrations names others than were run"];
    const wanted = schemaOf(expected);
    const found = schemaOf(db);
    const names = new Set([...wanted.keys(), ...found.keys()]);
    return [...names]
      .filter((name) => !/^(sqlite_stat|replica_)/.test(name) && wanted.get(name) !== found.get(name))
      .map((name) => `the definition of ${name} is not the one that was stored`);
  } finally {
    expected.close();
  }
}

function schemaOf(db: Connection): Map<string, string> {
  const rows = db.prepare("SELECT type, name, tbl_name AS of, sql FROM sqlite_schema").all() as {
    type: string;
    name: string;
    of: string;
    sql: string | null;
  }[];
  // Only the white space that is really used: a flipped bit turns a line break into a vertical tab.
  return new Map(
    rows.map(({ type, name, of, sql }) => [name, `${type} ${of} ${sql?.replace(/[ \n\t]+/g, " ")}`]),
  );
}

function* namedRows(db: Connection): Generator<string> {
  for (const { table, keys } of damagedRows(db)) {
    yield `${table} ${firstOf(keys)}: the row does not match its checksum`;
  }
}

function rowProblems(db: Connection): string[] {
  return [...namedRows(db), ...keptApartProblems(db)];
}

/** Events that were kept apart are found by the hash of their bytes, which are the only copy. */
function keptApartProblems(db: Connection): string[] {
  const rows = db.prepare("SELECT digest, bytes FROM unattributed").iterate();
  const damaged: string[] = [];
  for (const { digest, bytes } of rows as IterableIterator<{ digest: string; bytes: Buffer }>)
    if (hash("sha256", bytes, "hex") !== digest) damaged.push(digest.slice(0, 16));
  if (damaged.length === 0) return [];
  return [`events that were kept apart (${firstOf(damaged)}): the bytes do not match their hash`];
}

interface Row {
  readonly number: number;
  readonly account: string;
  readonly events: number;
  readonly checksum: Buffer;
  readonly rolling: string;
  readonly body: Buffer | null;
}

function verifyPages(db: Connection): Verified {
  const rows = db
    .prepare(
      "SELECT p.number, p.account, p.events, p.checksum, p.rolling, b.body FROM pages p LEFT JOIN bodies b ON b.page = p.number ORDER BY p.number",
    )
    .iterate() as IterableIterator<Row>;
  const damaged: Pick<Row, "number" | "account">[] = [];
  const unchained: number[] = [];
  const total = { pages: 0, events: 0, bodies: 0 };
  let before: Pick<Row, "number" | "rolling"> | undefined;
  for (const { number, account, events, checksum, rolling, body } of rows) {
    total.pages++;
    total.events += events;
    if (body !== null) {
      total.bodies++;
      if (!checksumOf(body).equals(checksum)) damaged.push({ number, account });
    }
    // Old pages are deleted one by one, so the chain may begin anywhere and may have gaps.
    if (before?.number === number - 1 && rollingOf(before.rolling, checksum) !== rolling)
      unchained.push(number);
    before = { number, rolling };
  }
  const orphans = db
    .prepare("SELECT page FROM bodies WHERE page NOT IN (SELECT number FROM pages)")
    .pluck()
    .all() as number[];
  const problems = [
    ...(damaged.length > 0
      ? [`${named(damaged.map(({ number }) => number))}: the bytes do not match their checksum`]
      : []),
    ...(unchained.length > 0 ? [`${named(unchained)}: the hash does not follow from the page before`] : []),
    ...(orphans.length > 0 ? [`${named(orphans)}: there are bytes without a page`] : []),
  ];
  return { ...total, problems, damagedPages: damaged.map((page) => timesOf(db, page)) };
}

/** The identities of a page say when its events happened. */
export function timesOf(db: Connection, { number, account }: Pick<Row, "number" | "account">): DamagedPage {
  const span = db
    .prepare(
      "SELECT MIN(first_ms) AS fromMs, MAX(last_ms) AS toMs FROM identities WHERE page = ? AND first_ms > 0",
    )
    .get(number) as { fromMs: number | null; toMs: number | null };
  return { number, account, ...span };
}

function named(numbers: readonly number[]): string {
  return `${numbers.length === 1 ? "page" : "pages"} ${firstOf(numbers)}`;
}

function firstOf(names: readonly unknown[]): string {
  const more = names.length > NAMED_MAX ? ` and ${names.length - NAMED_MAX} more` : "";
  return `${names.slice(0, NAMED_MAX).join(", ")}${more}`;
}

/** The rolling hash of all pages up to and including the one with this checksum. */
export function rollingOf(before: string, checksum: Buffer): string {
  return hash("sha256", `${before}${checksum.toString("hex")}`, "hex").slice(0, 32);
}

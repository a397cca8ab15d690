import { closeSync, existsSync, openSync, statSync } from "node:fs";
import type Database from "better-sqlite3";
import type { Change } from "../core/change.ts";
import { UsageError } from "../core/errors.ts";
import { linkTarget } from "../core/link-target.ts";
import { Sqlite } from "../core/sqlite.ts";
import { createChange } from "./change.ts";
import { copyWhole } from "./copy.ts";
import { isSeenLocked } from "./lock.ts";
import { MIGRATIONS_TABLE, type Migration, migrations } from "./migrations.ts";
import { installRowChecksums, registerRowChecksum } from "./row-checksums.ts";
import { checkLog } from "./write-ahead-log.ts";

export type Connection = Database.Database;

/** An open state file. Reading is direct; everything that changes it goes through `change`. */
export type State = Connection & { readonly change: Change };

const PAGE_BYTES = 16_384;
/** Pages are appended and read once, mostly from our own memory, so a larger cache would not be used. */
const CACHE_KIBIBYTES = 4096;
/** How long a statement waits for another process. */
export const BUSY_MS = 10_000;
/** Readable by this user alone: it contains events. */
const MODE = 0o600;

/**
 * Opens the state file for writing: WAL, every commit on disk before it returns, migrations run forward.
 * A file of a newer program is refused; before an older file is migrated a copy of it is set aside.
 */
export function openState(file: string, known: readonly Migration[] = migrations()): State {
  refuseDamagedLog(file);
  const db = connect(file, {}, () => makeState(file, known));
  try {
    enterWal(db);
    db.pragma("synchronous = FULL");
    db.pragma(`cache_size = -${CACHE_KIBIBYTES}`);
    db.pragma("wal_autocheckpoint = 2000");
    // Statements that change many pages would write a temporary file otherwise, and may find no folder for it.
    db.pragma("temp_store = MEMORY");
    db.pragma("foreign_keys = ON");
    if (isWithoutTables(db)) throw new DamagedStateError(file, "it has no tables");
    migrate(db, file, known);
    return db;
  } catch (error) {
    db.close();
    throw damaged(file, error);
  }
}

/**
 * Makes an empty state file under another name and then gives it its own. So a file that has no header or no tables is
 * never a first start that was ended: its content is lost, and a new journal must not take its place unnoticed.
 */
function makeState(file: string, known: readonly Migration[]): void {
  const target = linkTarget(file);
  try {
    copyWhole(target, MODE, (temporary) => {
      closeSync(openSync(temporary, "wx", MODE));
      const db = new Sqlite(temporary);
      try {
        registerRowChecksum(db);
        db.pragma(`page_size = ${PAGE_BYTES}`);
        migrate(db, temporary, known);
      } finally {
        db.close();
      }
    });
  } catch (error) {
    // Another process has made it meanwhile.
    if (!existsSync(target)) throw error;
  }
}

function isWithoutTables(db: Connection): boolean {
  return db.prepare("SELECT 1 FROM sqlite_master LIMIT 1").get() === undefined;
}

/** SQLite ignores every transaction behind a damaged one without a word, and then writes over them (R37). */
function refuseDamagedLog(file: string, counts = () => true): void {
  const { problem, frames } = checkLog(`${file}-wal`);
  if (problem !== null && counts()) throw new DamagedStateError(file, `the log ${file}-wal: ${problem}`);
  refuseEmptied(file, frames);
}

/** SQLite takes a file without a byte for a new one, and overwrites the log of a file that is not there. */
function refuseEmptied(file: string, frames: number): void {
  const bytes = statSync(file, { throwIfNoEntry: false })?.size;
  if (bytes === 0) throw new DamagedStateError(file, "it is empty");
  if (bytes === undefined && frames > 0) throw new DamagedStateError(file, lostText(file));
}

/** The log may hold all that was ever committed. */
export function lostText(file: string): string {
  return `it is not there, and its log ${file}-wal is: put the file back beside it`;
}

/** Opens the state file beside a running process: nothing can be changed through it. */
export function openStateForReading(file: string, known: readonly Migration[] = migrations()): State {
  // Beside a running process the frames are found by its index in memory: what is read is whole.
  refuseDamagedLog(file, () => !isSeenLocked(file));
  if (!existsSync(file)) {
    throw new UsageError(
      `There is no state file at ${file}: start "tidemark run" first, or name the right config.`,
    );
  }
  const db = connect(file, { readonly: true });
  try {
    if (isWithoutTables(db)) throw new DamagedStateError(file, "it has no tables");
    const pending = pendingIn(db, file, known);
    if (pending.length > 0) throw olderError(file, pending[0]!);
    return db;
  } catch (error) {
    db.close();
    throw unreadable(file, error);
  }
}

/** The highest migration that was run in it; throws where a newer program has run one that this one lacks. */
export function schemaOf(db: Connection, file: string): number {
  pendingIn(db, file, migrations());
  return Math.max(0, ...appliedIn(db));
}

function connect(file: string, options: Database.Options, make: () => void = () => {}): State {
  try {
    if (!existsSync(file)) make();
    const db = new Sqlite(file, { timeout: BUSY_MS, ...options });
    registerRowChecksum(db);
    return Object.assign(db, { change: createChange(db) });
  } catch (error) {
    throw new UsageError(
      `The state file ${file} cannot be opened (${(error as Error).message}): check that its folder exists and that this user may write there.`,
      { cause: error },
    );
  }
}

/** When two processes create a file at once, SQLite refuses one without waiting, so it is tried again here. */
function enterWal(db: State): void {
  const untilMs = Date.now() + BUSY_MS;
  for (;;) {
    try {
      db.pragma("journal_mode = WAL");
      return;
    } catch (error) {
      if (!isBusy(error) || Date.now() > untilMs) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
    }
  }
}

function isBusy(error: unknown): boolean {
  return (error as { code?: string }).code?.startsWith("SQLITE_BUSY") === true;
}

/**
 * A table lists the migrations that have been run, by number: a migration that is added later between two
 * others shifts nothing. All run in one transaction, so that no process sees a file between two of them; it looks
 * again at what is still to do, since another process may have done it meanwhile. user_version is the highest number.
 */
function migrate(db: Connection, file: string, known: readonly Migration[]): void {
  const pending = pendingIn(db, file, known);
  if (pending.length === 0) return;
  if (pending.length < known.length) setAside(db, `${file}.before-${pending[0]!.name.slice(0, 4)}`);
  db.transaction(() => {
    const left = pendingIn(db, file, known);
    if (left.length === 0) return;
    makeList(db, known);
    const insert = db.prepare("INSERT INTO migrations (number, name, run_ms) VALUES (?, ?, ?)");
    for (const { number, name, sql } of left) {
      db.exec(sql);
      insert.run(number, name, Date.now());
    }
    const latest = Math.max(...left.map(({ number }) => number), ...appliedIn(db));
    db.pragma(`user_version = ${latest}`);
    installRowChecksums(db, latest);
  }).exclusive();
}

function makeList(db: Connection, known: readonly Migration[]): void {
  if (hasList(db)) return;
  const applied = appliedIn(db);
  db.exec(MIGRATIONS_TABLE);
  const insert = db.prepare("INSERT INTO migrations (number, name, run_ms) VALUES (?, ?, ?)");
  for (const { number, name } of known) if (applied.has(number)) insert.run(number, name, Date.now());
}

function hasList(db: Connection): boolean {
  return db.prepare("SELECT 1 FROM sqlite_master WHERE name = 'migrations'").get() !== undefined;
}

/** Files without a list counted these instead. */
const COUNTED = [1, 10, 11];

function appliedIn(db: Connection): ReadonlySet<number> {
  const version = db.pragma("user_version", { simple: true }) as number;
  if (!hasList(db)) return new Set(version > COUNTED.length ? [version] : COUNTED.slice(0, version));
  const listed = db.prepare("SELECT number FROM migrations").pluck().all() as number[];
  return new Set(version > 0 ? [...listed, version] : listed);
}

function pendingIn(db: Connection, file: string, known: readonly Migration[]): readonly Migration[] {
  const applied = appliedIn(db);
  const unknown = [...applied].filter((number) => !known.some((migration) => migration.number === number));
  if (!isListFit(db)) throw new DamagedStateError(file, "its list of migrations does not match its header");
  if (unknown.length > 0) throw newerError(file, Math.max(...unknown), known);
  return known.filter(({ number }) => !applied.has(number));
}

/** The list and the header are written together. A flipped bit in either must not pass for another version (R37). */
function isListFit(db: Connection): boolean {
  const version = db.pragma("user_version", { simple: true }) as number;
  if (!hasList(db)) return version <= COUNTED.length;
  const listed = db.prepare("SELECT number, name FROM migrations").all() as {
    number: number;
    name: string;
  }[];
  const isNamed = listed.every(({ number, name }) => Number.parseInt(name, 10) === number);
  return isNamed && Math.max(0, ...listed.map(({ number }) => number)) === version;
}

/** A copy under this name is of an earlier attempt or of another process, made before anything was changed. */
function setAside(db: Connection, target: string): void {
  if (existsSync(target)) return;
  try {
    copyWhole(target, MODE, (path) => db.prepare("VACUUM INTO ?").run(path));
  } catch (error) {
    if (!existsSync(target)) throw error;
  }
}

function newerError(file: string, unknown: number, known: readonly Migration[]): UsageError {
  return new UsageError(
    `The state file ${file} was written by a newer Tidemark (schema ${unknown}, this one knows ${known.at(-1)?.number}): update the program; nothing was changed.`,
  );
}

function olderError(file: string, missing: Migration): UsageError {
  return new UsageError(
    `The state file ${file} is of an older Tidemark (it lacks ${missing.name}): start "tidemark run" once, it brings the file forward.`,
  );
}

/** The error, or in its place that the state file is damaged, where SQLite says so. */
export function damaged(file: string, error: unknown): unknown {
  for (let at: unknown = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++)
    if (/^SQLITE_(CORRUPT|NOTADB)/.test((at as { code?: string }).code ?? ""))
      return new DamagedStateError(file, at.message, { cause: error });
  return error;
}

/** The first reader of a file makes its shared memory, a file beside it. */
function unreadable(file: string, error: unknown): unknown {
  const isBlocked = /^SQLITE_(FULL|READONLY|CANTOPEN|IOERR_SHM)/.test(
    (error as { code?: string }).code ?? "",
  );
  return isBlocked ? new UnreadableStateError(file, error as Error) : damaged(file, error);
}

/** The state file may be whole: something else keeps it from being read. */
export class UnreadableStateError extends Error {
  constructor(file: string, cause: Error) {
    super(
      `The state file ${file} cannot be read at the moment (${cause.message}). This is not damage: while no process runs with it, reading makes ${file}-shm beside it, and the disk is full or read-only, or this user may not write there. Make room, repair the disk, or use the user that Tidemark runs as.`,
      { cause },
    );
  }
}

/** The bytes of the state file are not those that were written. */
export class DamagedStateError extends UsageError {
  readonly what: string;

  constructor(file: string, what: string, options?: ErrorOptions) {
    super(
      `The state file ${file} is damaged (${what}). Nothing was changed. Run "tidemark doctor" to see the extent, and "tidemark restore FILE" to put the newest copy in its place: Tidemark then reads again from the service what came after that copy. Keep the damaged file: it is the only record of what was read and delivered since.`,
      options,
    );
    this.what = what;
  }
}

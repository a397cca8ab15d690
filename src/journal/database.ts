import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import Database from "better-sqlite3";
import { UsageError } from "../core/errors.ts";

export type State = Database.Database;

/** The path is the same seen from src/journal and from dist/journal. */
const MIGRATIONS = new URL("../../src/journal/migrations/", import.meta.url);
const PAGE_BYTES = 16_384;
/** How long a statement waits for another process. */
export const BUSY_MS = 10_000;

/**
 * Opens the state file for writing: WAL, every commit on disk before it returns, migrations run forward.
 * A file of a newer program is refused; before an older file is migrated a copy of it is set aside.
 */
export function openState(file: string): State {
  const db = connect(file, {});
  try {
    db.pragma(`page_size = ${PAGE_BYTES}`);
    db.pragma("journal_mode = WAL");
    db.pragma("synchronous = FULL");
    db.pragma("wal_autocheckpoint = 2000");
    db.pragma("foreign_keys = ON");
    migrate(db, file);
    return db;
  } catch (error) {
    db.close();
    throw damaged(file, error);
  }
}

/** Opens the state file beside a running process: nothing can be changed through it. */
export function openStateForReading(file: string): State {
  if (!existsSync(file)) {
    throw new UsageError(
      `There is no state file at ${file}: start "tidemark run" first, or name the right config.`,
    );
  }
  const db = connect(file, { readonly: true });
  try {
    const version = db.pragma("user_version", { simple: true }) as number;
    if (version !== migrations().length) throw versionError(file, version);
    return db;
  } catch (error) {
    db.close();
    throw damaged(file, error);
  }
}

function connect(file: string, options: Database.Options): State {
  try {
    return new Database(file, { timeout: BUSY_MS, ...options });
  } catch (error) {
    throw new UsageError(
      `The state file ${file} cannot be opened (${(error as Error).message}): check that its folder exists and that this user may write there.`,
      { cause: error },
    );
  }
}

interface Migration {
  readonly name: string;
  readonly sql: string;
}

function migrations(): readonly Migration[] {
  const folder = fileURLToPath(MIGRATIONS);
  return readdirSync(folder)
    .filter((name) => /^\d{4}-.*\.sql$/.test(name))
    .sort()
    .map((name) => ({ name, sql: readFileSync(new URL(name, MIGRATIONS), "utf8") }));
}

/** user_version counts the migrations that have been run; each runs in a transaction with its count. */
function migrate(db: State, file: string): void {
  const all = migrations();
  const version = db.pragma("user_version", { simple: true }) as number;
  if (version > all.length) throw versionError(file, version);
  if (version > 0 && version < all.length)
    backUp(db, `${file}.before-${String(version + 1).padStart(4, "0")}`);
  for (const [index, migration] of all.entries()) {
    if (index < version) continue;
    db.transaction(() => {
      db.exec(migration.sql);
      db.pragma(`user_version = ${index + 1}`);
    }).exclusive();
  }
}

function backUp(db: State, target: string): void {
  if (!existsSync(target)) db.prepare("VACUUM INTO ?").run(target);
}

function versionError(file: string, version: number): UsageError {
  const known = migrations().length;
  return new UsageError(
    version > known
      ? `The state file ${file} was written by a newer Tidemark (schema ${version}, this one knows ${known}): update the program; nothing was changed.`
      : `The state file ${file} has schema ${version} and this Tidemark needs ${known}: start "tidemark run" once, it brings the file forward.`,
  );
}

function damaged(file: string, error: unknown): unknown {
  const code = (error as { code?: string }).code ?? "";
  if (!/^SQLITE_(CORRUPT|NOTADB)/.test(code)) return error;
  return new UsageError(
    `The state file ${file} is damaged (${(error as Error).message}): restore it with "tidemark restore" from a backup, or set it aside to start anew; the service still holds its events, and sinks that keep their own position say what they have. Nothing was changed.`,
    { cause: error },
  );
}

import { closeSync, existsSync, openSync } from "node:fs";
import type Database from "better-sqlite3";
import { UsageError } from "../core/errors.ts";
import { linkTarget } from "../core/link-target.ts";
import { Sqlite } from "../core/sqlite.ts";

export interface Lock {
  release(): void;
}

/** Only this user may open it, because opening the file is enough to hold the lock. */
const MODE = 0o600;
/** A command that checks the lock holds it for a moment. Waiting that long avoids a wrong refusal. */
const LOOK_MS = 500;

/**
 * The lock of a state file (R15): an exclusive transaction on a side file, held for as long as the process
 * lives. The operating system frees it after kill -9, in a container too.
 */
export function takeLock(stateFile: string): Lock {
  const lock = tryLock(stateFile, LOOK_MS);
  if (lock !== null) return lock;
  throw new UsageError(
    `Another Tidemark works with ${stateFile}: only one may write. Stop it first, or give this one its own "state".`,
  );
}

/** Whether a running process holds the lock. */
export function isLocked(stateFile: string): boolean {
  const lock = tryLock(stateFile, 0);
  lock?.release();
  return lock === null;
}

/** The same for a look at everything; false also where the lock cannot be looked at. */
export function isSeenLocked(stateFile: string): boolean {
  try {
    return isLocked(stateFile);
  } catch {
    return false;
  }
}

function tryLock(stateFile: string, timeoutMs: number): Lock | null {
  const db = openLock(stateFile, timeoutMs);
  try {
    db.pragma("journal_mode = DELETE");
    db.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    db.close();
    if ((error as { code?: string }).code?.startsWith("SQLITE_BUSY")) return null;
    throw cannotLock(stateFile, error);
  }
  return {
    release() {
      if (!db.open) return;
      db.exec("ROLLBACK");
      db.close();
    },
  };
}

function openLock(stateFile: string, timeoutMs: number): Database.Database {
  try {
    // SQLite follows a symbolic link, so the lock is beside the file that the link names.
    const file = `${linkTarget(stateFile)}.lock`;
    if (!existsSync(file)) closeSync(openSync(file, "a", MODE));
    return new Sqlite(file, { timeout: timeoutMs });
  } catch (error) {
    throw cannotLock(stateFile, error);
  }
}

function cannotLock(stateFile: string, error: unknown): Error {
  const { code } = error as NodeJS.ErrnoException;
  // This passes, and is no fault of the command: whoever starts the program may start it again.
  if (/^(SQLITE_(FULL|IOERR)|ENOSPC|EDQUOT|EIO)/.test(code ?? ""))
    return new Error(
      `The lock ${stateFile}.lock cannot be taken (${(error as Error).message}): make room on its disk, and start again.`,
      { cause: error },
    );
  return new UsageError(
    `The lock ${stateFile}.lock cannot be taken (${(error as Error).message}): check that its folder exists, and that this user may write there and may open the lock file. It belongs to the user that made it.`,
    { cause: error },
  );
}

import Database from "better-sqlite3";
import { UsageError } from "../core/errors.ts";

/**
 * The lock of a state file (R15): an exclusive transaction on a side file, held for as long as the process
 * lives. The operating system frees it after kill -9, in a container too.
 */
export function takeLock(stateFile: string): { release(): void } {
  const file = `${stateFile}.lock`;
  const db = new Database(file, { timeout: 0 });
  try {
    db.pragma("journal_mode = DELETE");
    db.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    db.close();
    if ((error as { code?: string }).code?.startsWith("SQLITE_BUSY")) {
      throw new UsageError(
        `Another Tidemark works with ${stateFile}: only one may write. Stop it first, or give this one its own "state".`,
        { cause: error },
      );
    }
    throw error;
  }
  return {
    release() {
      if (!db.open) return;
      db.exec("ROLLBACK");
      db.close();
    },
  };
}

/** Whether a running process holds the lock. */
export function isLocked(stateFile: string): boolean {
  try {
    takeLock(stateFile).release();
    return false;
  } catch (error) {
    if (error instanceof UsageError) return true;
    throw error;
  }
}

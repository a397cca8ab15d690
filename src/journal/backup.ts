import { chmodSync, existsSync, renameSync, rmSync, statSync } from "node:fs";
import { copyFile } from "node:fs/promises";
import { dirname } from "node:path";
import { explain, UsageError } from "../core/errors.ts";
import { Sqlite } from "../core/sqlite.ts";
import { alreadyThere, nameTwice, publish, sync, temporaryName } from "./copy.ts";
import {
  type Connection,
  DamagedStateError,
  openState,
  openStateForReading,
  type State,
  schemaOf,
} from "./database.ts";
import { registerRowChecksum } from "./row-checksums.ts";
import { putMeta, setFinalBackup } from "./shard.ts";
import { splitProblems } from "./split/ready.ts";
import { verifyState } from "./verify.ts";
import { checkLog } from "./write-ahead-log.ts";

/** Facts that a copy contains about itself. */
export interface CopyFacts {
  readonly journal: string;
  /** When it was made; null for a file that `backup` did not make. */
  readonly madeMs: number | null;
  readonly schema: number;
  readonly endPage: number;
}

export interface BackupOptions {
  readonly nowMs: number;
  readonly signal: AbortSignal;
  /** The last copy before the state is split: everything is delivered, and no process goes on with it (R20). */
  readonly final?: boolean;
  /** How much of it is done, from 0 to 1. */
  progress?(share: number): void;
  /** The copy is whole, but its time could not be noted in the state file. */
  unnoted?(error: unknown): void;
}

const MODE = 0o600;
/** Copied at a time, 16 KiB each; between two such steps the process can be stopped. */
const STEP_PAGES = 500;
const MADE = "backup";
const LAST = "last_backup";
const RESTORED = "restored";

/**
 * A consistent copy of a state file that a process may be writing to: the state at one moment, durable and
 * whole before it has its name. Nothing is overwritten.
 */
export async function backUp(file: string, target: string, options: BackupOptions): Promise<CopyFacts> {
  if (existsSync(target)) throw alreadyThere(target);
  const folder = dirname(target);
  if (!existsSync(folder)) throw new UsageError(`There is no folder ${folder}: make it first.`);
  if (options.final) await makeFinal(file, options.nowMs);
  const temporary = temporaryName(target);
  const db = openStateForReading(file);
  try {
    await copySnapshot(db, temporary, options);
    const facts = sealCopy(temporary, options.nowMs);
    publish(temporary, target, MODE);
    // With a full or read-only disk a copy is needed most: it counts all the same.
    await rememberBackup(file, options.nowMs).catch((error) => options.unnoted?.(error));
    return facts;
  } finally {
    db.close();
    for (const left of ["", "-journal", "-wal", "-shm"]) rmSync(`${temporary}${left}`, { force: true });
  }
}

/** The mark is durable before the copy is made: a process that ends in between leaves a state that nothing goes on with. */
async function makeFinal(file: string, nowMs: number): Promise<void> {
  const db = openState(file);
  try {
    const problems = splitProblems(db);
    if (problems.length > 0)
      throw new UsageError(
        `The state file ${file} cannot be split yet:\n${problems.map((problem) => `  - ${problem}`).join("\n")}\nRun "tidemark run --once", which reads and delivers everything, then try again. Nothing was changed.`,
      );
    await db.change(() => setFinalBackup(db, nowMs));
  } finally {
    db.close();
  }
}

/** An open read keeps its moment: without it the copy would begin anew with every commit of the other process. */
async function copySnapshot(db: State, temporary: string, options: BackupOptions): Promise<void> {
  db.exec("BEGIN");
  try {
    db.prepare("SELECT COUNT(*) FROM meta").get();
    await db.backup(temporary, {
      progress({ totalPages, remainingPages }) {
        options.signal.throwIfAborted();
        if (totalPages > 0) options.progress?.(1 - remainingPages / totalPages);
        return STEP_PAGES;
      },
    });
  } finally {
    db.exec("ROLLBACK");
  }
}

/** Makes it a single file with the time of its making, and without requests that would be carried out again. */
function sealCopy(copy: string, nowMs: number): CopyFacts {
  const db = new Sqlite(copy);
  registerRowChecksum(db);
  try {
    db.pragma("journal_mode = DELETE");
    db.pragma("synchronous = FULL");
    db.transaction(() => {
      putMeta(db, MADE, String(nowMs));
      db.exec("DELETE FROM requests; DELETE FROM meta WHERE key = 'live'");
    })();
    return factsOf(db, copy);
  } finally {
    db.close();
  }
}

/** For `doctor`, which reports the age of the newest copy. */
async function rememberBackup(file: string, nowMs: number): Promise<void> {
  const db = openState(file);
  try {
    await db.change(() => putMeta(db, LAST, String(nowMs)));
  } finally {
    db.close();
  }
}

/** When the newest copy of this state was made, if one ever was. */
export function lastBackupMs(db: State): number | undefined {
  return numberIn(db, LAST);
}

/** When this state was put in place of another, if it was. */
export function restoredMs(db: State): number | undefined {
  return numberIn(db, RESTORED);
}

/** When the copy was made that this state was restored from, and when it was restored; undefined where either is not known. */
export function restoredCopy(
  db: State,
): { readonly madeMs: number; readonly restoredMs: number } | undefined {
  const [madeMs, at] = [numberIn(db, MADE), restoredMs(db)];
  return madeMs === undefined || at === undefined ? undefined : { madeMs, restoredMs: at };
}

/** Whether the state was restored and this reader has committed nothing since. */
export function isAsRestored(db: State, reader: string): boolean {
  const committedMs = db.prepare("SELECT committed_ms FROM readers WHERE name = ?").pluck().get(reader) as
    | number
    | undefined;
  return committedMs !== undefined && committedMs <= (restoredMs(db) ?? Number.NEGATIVE_INFINITY);
}

/**
 * Puts a copy in the place of the state file, whose lock the caller holds. The copy is checked through before
 * anything is touched; the present state is kept under another name, whatever shape it is in.
 */
export async function restore(
  file: string,
  copy: string,
  nowMs: number,
): Promise<{ readonly facts: CopyFacts; readonly aside: string | null }> {
  if (statSync(copy, { throwIfNoEntry: false })?.isFile() !== true)
    throw new UsageError(`There is no file ${copy}.`);
  const temporary = temporaryName(file);
  try {
    await copyFile(copy, temporary);
    // A state file that was copied by hand may have its newest commits in the log beside it.
    if (existsSync(`${copy}-wal`)) await copyFile(`${copy}-wal`, `${temporary}-wal`);
    const facts = prepareRestored(temporary, copy, nowMs);
    chmodSync(temporary, MODE);
    sync(temporary);
    const aside = setAside(file, nowMs);
    renameSync(temporary, file);
    sync(dirname(file));
    return { facts, aside };
  } finally {
    for (const left of ["", "-journal", "-wal", "-shm"]) rmSync(`${temporary}${left}`, { force: true });
  }
}

function prepareRestored(temporary: string, copy: string, nowMs: number): CopyFacts {
  let db: Connection | undefined;
  try {
    db = new Sqlite(temporary);
    registerRowChecksum(db);
    const facts = factsOf(db, copy);
    const { problems } = verifyState(db);
    if (problems.length > 0) throw new Error(problems.join("; "));
    db.pragma("journal_mode = DELETE");
    db.pragma("synchronous = FULL");
    putMeta(db, RESTORED, String(nowMs));
    setFinalBackup(db, undefined);
    db.exec("DELETE FROM requests");
    doubtImports(db, nowMs);
    return facts;
  } catch (error) {
    // The advice about a damaged state file does not apply to a damaged copy.
    const isCopyDamaged = error instanceof DamagedStateError;
    if (error instanceof UsageError && !isCopyDamaged) throw error;
    throw new UsageError(
      `${copy} is no whole copy of a state file (${isCopyDamaged ? error.what : explain(error)}): nothing was changed.`,
      {
        cause: error,
      },
    );
  } finally {
    db?.close();
  }
}

/**
 * Imports that the copy has as waiting may have been sent since. They become uncertain, so that none is sent twice
 * (R28). A part whose time has not come was not sent.
 */
function doubtImports(db: Connection, nowMs: number): void {
  // Older copies have no parts.
  if (db.prepare("SELECT 1 FROM sqlite_master WHERE name = 'job_parts'").get() === undefined) return;
  const reason = "the state was restored, and the import may have been sent before";
  db.prepare(
    `UPDATE job_parts SET state = 'uncertain', reason = ?
     WHERE state = 'sent' OR (state = 'planned' AND at_ms <= ?)`,
  ).run(reason, nowMs);
  // A list that was stored in part when the copy was made is read again, or never.
  db.exec(
    `DELETE FROM job_users WHERE number IS NOT NULL AND job IN (SELECT id FROM jobs WHERE ended_ms IS NULL
       AND origin <> 'elsewhere' AND offered_ms IS NULL AND id NOT IN (SELECT job FROM job_parts))`,
  );
  db.prepare(
    `INSERT INTO job_parts (job, part, account, state, at_ms, reason)
     SELECT id, 0, account, 'uncertain', requested_ms, ? FROM jobs
     WHERE ended_ms IS NULL AND origin <> 'elsewhere' AND offered_ms IS NULL
       AND id NOT IN (SELECT job FROM job_parts)`,
  ).run(reason);
}

/** The file keeps its name until the copy takes it, so that at no moment there is none. */
export function setAside(file: string, nowMs: number): string | null {
  const isThere = existsSync(file);
  if (!isThere && !existsSync(`${file}-wal`)) return null;
  // Writing a damaged log back would drop its frames behind the damage.
  if (isThere && checkLog(`${file}-wal`).problem === null) emptyLog(file);
  const stamp = new Date(nowMs).toISOString().replace(/[:.]/g, "-");
  const aside = `${file}.replaced-${stamp}`;
  if (isThere) nameTwice(file, aside);
  // A log that could not be written back belongs to the old file: beside the new one it would damage it.
  for (const part of ["-wal", "-shm"]) {
    if (existsSync(`${file}${part}`)) renameSync(`${file}${part}`, `${aside}${part}`);
  }
  sync(dirname(file));
  return aside;
}

/** After kill -9 the newest commits are in the log. A damaged file is kept as it is. */
function emptyLog(file: string): void {
  try {
    const db = new Sqlite(file);
    try {
      db.pragma("wal_checkpoint(TRUNCATE)");
    } finally {
      db.close();
    }
  } catch {
    // It is set aside all the same, with its log.
  }
}

function factsOf(db: Connection, file: string): CopyFacts {
  const schema = schemaOf(db, file);
  const journal = db.prepare("SELECT value FROM meta WHERE key = 'journal'").pluck().get() as
    | string
    | undefined;
  if (journal === undefined) throw new UsageError(`${file} holds no journal: it is no copy of a state file.`);
  const endPage = db.prepare("SELECT COALESCE(MAX(number), 0) FROM pages").pluck().get() as number;
  return { journal, schema, endPage, madeMs: numberIn(db, MADE) ?? null };
}

function numberIn(db: Connection, key: string): number | undefined {
  const text = db.prepare("SELECT value FROM meta WHERE key = ?").pluck().get(key) as string | undefined;
  return text === undefined ? undefined : Number(text);
}

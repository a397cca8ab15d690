import { existsSync, statfsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Config } from "../config/schema.ts";
import type { Clock } from "../core/clock.ts";
import { explain, UsageError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import { Secret } from "../core/secret.ts";
import { formatDuration } from "../core/time.ts";
import { lastBackupMs, restoredMs } from "../journal/backup.ts";
import {
  lostText,
  openStateForReading,
  type State,
  schemaOf,
  UnreadableStateError,
} from "../journal/database.ts";
import { refetchCommand } from "../journal/left-out.ts";
import { isLocked, isSeenLocked } from "../journal/lock.ts";
import { refuseOtherShard } from "../journal/shard.ts";
import { createSpace } from "../journal/space.ts";
import { type DamagedPage, verifyFiles, verifyState, verifyStructure } from "../journal/verify.ts";
import { checkAccount } from "./check/account.ts";
import type { CheckFinding } from "./check/finding.ts";
import { refuseMismatch } from "./check/positions.ts";
import { checkSinks } from "./check/sinks.ts";
import { ownConfig, sinkConfigs } from "./sinks.ts";

export interface Examination {
  readonly config: Config;
  readonly configFile: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly stdout: NodeJS.WritableStream;
  /** Do not ask the service, open no sink. */
  readonly offline: boolean;
  /** Do not read the whole state file. */
  readonly quick: boolean;
}

const MB = 1_000_000;
const FREE_MIN = 256 * MB;
/** The log is written back from 32 MB on; far above that somebody keeps it from being. */
const LOG_MAX = 256 * MB;

/** Everything that can be looked at from here, one finding after the other; nothing is changed. */
export async function* examine(options: Examination): AsyncGenerator<CheckFinding> {
  const { config, signal, offline } = options;
  yield* examinePermissions(options);
  yield* examineState(options);
  yield* examineDisk(config);
  if (offline) return;
  for (const account of config.accounts) yield* checkAccount(account, config.shard, signal);
  yield* checkSinks(config, options);
}

function* examinePermissions({ config, configFile }: Examination): Generator<CheckFinding> {
  yield modeFinding("config", configFile, 0o022, "can be changed by its group or others");
  const files = new Set([...secretFilesOf(config)]);
  for (const file of files)
    yield modeFinding("secret", file, 0o077, "can be read or changed by its group or others");
  for (const file of [config.state, `${config.state}-wal`]) {
    if (!existsSync(file)) continue;
    yield modeFinding("state", file, 0o077, "holds events and can be read or changed by its group or others");
  }
}

function modeFinding(subject: string, file: string, forbidden: number, words: string): CheckFinding {
  const mode = statSync(file).mode & 0o777;
  if ((mode & forbidden) === 0)
    return { subject, ok: true, message: `${file} has safe permissions (${mode.toString(8)})` };
  const safe = (mode & ~forbidden).toString(8);
  return { subject, ok: false, message: `${file} ${words} (${mode.toString(8)}): run chmod ${safe} ${file}` };
}

function* secretFilesOf(value: unknown): Generator<string> {
  if (value instanceof Secret) {
    if (value.source !== undefined && "file" in value.source) yield value.source.file;
  } else if (typeof value === "object" && value !== null) {
    for (const item of Object.values(value)) yield* secretFilesOf(item);
  }
}

function* examineState(options: Examination): Generator<CheckFinding> {
  const { config } = options;
  const subject = "state";
  const isLogThere = (statSync(`${config.state}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0;
  if (!existsSync(config.state) && isLogThere) {
    yield { subject, ok: false, message: `The state file ${config.state}: ${lostText(config.state)}` };
    return;
  }
  if (!existsSync(config.state)) {
    yield {
      subject,
      ok: true,
      message: `there is no state file at ${config.state} yet: the first run makes it`,
    };
    return;
  }
  yield lockFinding(config.state);
  const fileProblems = verifyFiles(config.state);
  if (fileProblems.length > 0) {
    yield damageFinding(fileProblems);
    return;
  }
  let db: State | undefined;
  try {
    db = openStateForReading(config.state);
    yield { subject, ok: true, message: `${config.state} has schema ${schemaOf(db, config.state)}` };
    if (!options.quick) yield* integrityFindings(db);
    yield logFinding(config.state);
    yield backupFinding(db, options.clock.now());
    yield positionsFinding(config, db);
  } catch (error) {
    yield unopenedFinding(config.state, error);
  } finally {
    db?.close();
  }
}

/** A damaged file can look like one of another version, so the structure is checked before that is said (R37). */
function unopenedFinding(file: string, error: unknown): CheckFinding {
  const problems = error instanceof UnreadableStateError ? [] : verifyStructure(file);
  if (problems.length > 0) return damageFinding(problems);
  return { subject: "state", ok: false, message: explain(error) };
}

function lockFinding(file: string): CheckFinding {
  const subject = "lock";
  try {
    const message = isLocked(file)
      ? "a process is running with this state file"
      : "no process is running with this state file; its lock is free";
    return { subject, ok: true, message };
  } catch (error) {
    return { subject, ok: false, message: explain(error) };
  }
}

/** The next start is refused where sinks and positions do not belong together (R14), or the work goes on elsewhere. */
function positionsFinding(config: Config, db: State): CheckFinding {
  const subject = "positions";
  try {
    refuseOtherShard(db, config.state, config.shard);
    refuseMismatch(config, db, isSeenLocked(config.state));
    return { subject, ok: true, message: "the sinks of the config match the state file" };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return { subject, ok: false, message: error.message };
  }
}

function* integrityFindings(db: State): Generator<CheckFinding> {
  const { pages, events, bodies, problems, damagedPages } = verifyState(db);
  if (problems.length > 0) yield damageFinding(problems);
  else
    yield {
      subject: "integrity",
      ok: true,
      message: `the state file is whole: ${pages} pages with ${events} events, the checksums of ${bodies} pages that are still held and of all rows match`,
    };
  for (const page of damagedPages.slice(0, PAGES_NAMED_MAX)) yield refetchFinding(page);
}

function damageFinding(problems: readonly string[]): CheckFinding {
  return {
    subject: "integrity",
    ok: false,
    message: `the state file is damaged: ${problems.join("; ")}. Keep it, and put the newest copy in its place with "tidemark restore FILE"; Tidemark reads again from the service what came after that copy`,
  };
}

const PAGES_NAMED_MAX = 10;

/** A sink that needs a damaged page stops there; the service may still have its events. */
function refetchFinding({ number, account, fromMs, toMs }: DamagedPage): CheckFinding {
  const subject = "integrity";
  if (fromMs === null || toMs === null)
    return { subject, ok: false, message: `it is not known when the events of page ${number} happened` };
  const command = refetchCommand({ account, fromMs, toMs }, "NAME");
  return {
    subject,
    ok: false,
    message: `the events of page ${number} can be fetched again from the service as long as it has them: for each sink that stops at this page, run "tidemark sinks resume NAME --from behind-damage", then "${command}"`,
  };
}

function logFinding(file: string): CheckFinding {
  const bytes = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  const subject = "log";
  if (bytes <= LOG_MAX)
    return { subject, ok: true, message: `the log beside the state file has ${megabytes(bytes)}` };
  return {
    subject,
    ok: true,
    warning: true,
    message: `the log beside the state file has ${megabytes(bytes)}: something reads the state file for very long, such as a backup or a tool; end that, and the log is written back`,
  };
}

function backupFinding(db: State, nowMs: number): CheckFinding {
  const madeMs = lastBackupMs(db);
  const restored = restoredMs(db);
  const after =
    restored === undefined
      ? ""
      : `; this state was restored from a copy at ${new Date(restored).toISOString()}`;
  if (madeMs === undefined)
    return {
      subject: "backup",
      ok: true,
      warning: true,
      message: `no copy was made of this state so far: "tidemark backup FILE" makes one${after}`,
    };
  return {
    subject: "backup",
    ok: true,
    message: `the newest copy was made ${formatDuration(Math.max(0, nowMs - madeMs))} ago${after}`,
  };
}

function* examineDisk(config: Config): Generator<CheckFinding> {
  const usedBytes = stateBytes(config);
  const growth = Math.max(0, config.journal.budget - usedBytes);
  yield diskFinding("disk", dirname(resolve(config.state)), growth);
  for (const sink of sinkConfigs(config)) {
    const { directory } = ownConfig(sink) as { directory?: unknown };
    if (typeof directory === "string") yield diskFinding(`disk of ${sink.name}`, resolve(directory), 0);
  }
}

function stateBytes(config: Config): number {
  if (!existsSync(config.state)) return 0;
  try {
    const db = openStateForReading(config.state);
    try {
      return createSpace(db, config.state, config.journal.budget).usedBytes();
    } finally {
      db.close();
    }
  } catch {
    // Another finding says why it cannot be read.
    return 0;
  }
}

function diskFinding(subject: string, folder: string, growth: number): CheckFinding {
  let existing = folder;
  while (!existsSync(existing) && dirname(existing) !== existing) existing = dirname(existing);
  const { bavail, bsize } = statfsSync(existing);
  const free = bavail * bsize;
  if (free < FREE_MIN)
    return {
      subject,
      ok: false,
      message: `${existing} has only ${megabytes(free)} free, less than ${megabytes(FREE_MIN)}: make room; polling or this sink waits when it is full`,
    };
  if (free < growth)
    return {
      subject,
      ok: true,
      warning: true,
      message: `${existing} has ${megabytes(free)} free and the journal may grow by ${megabytes(growth)}: make room or lower journal.budget`,
    };
  return { subject, ok: true, message: `${existing} has ${megabytes(free)} free` };
}

function megabytes(bytes: number): string {
  return bytes < 10_000 * MB ? `${Math.round(bytes / MB)} MB` : `${Math.round(bytes / 1000 / MB)} GB`;
}

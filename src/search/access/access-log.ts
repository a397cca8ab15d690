import {
  accessSync,
  appendFileSync,
  constants,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";

/*
 * Who looked at archived events: one line of JSON for each query, appended before the answer is given. A file for
 * each month, beside the state file. Lines are below the size that the system appends in one piece.
 */
export interface AccessEntry {
  readonly time: string;
  /** The token's name, or the user of the command. */
  readonly who: string;
  /** Where the request came from. */
  readonly address: string | null;
  readonly operation: string;
  /** Null for all. */
  readonly organizations: readonly string[] | null;
  /** What was asked. */
  readonly query: unknown;
  readonly status: number;
  /** How many events came back; null where the answer is a number or a list of values. */
  readonly events: number | null;
  /** How many refusals of unknown callers were left out before this one. */
  readonly omitted?: number;
}

/** For `who`, where no token was recognized. */
export const UNKNOWN_CALLER = "unknown";

export interface AccessLog {
  /** Throws where entries cannot be written. */
  prepare(): void;
  /** Entries no longer name this organization, or this event; says how many did. Who asked, and when, stays (A23). */
  erase(organization: string, event: string | null): number;
  append(entry: Omit<AccessEntry, "time">): void;
  /** The newest last. */
  list(limit: number): AccessEntry[];
}

const ERASED = "[erased]";
const QUERY_LENGTH_MAX = 2000;
const LISTED_OWNERS = 20;
/** Anybody who reaches the port can cause these: they must not fill the disk or keep it busy. */
const UNKNOWN_PER_MINUTE = 60;
const MINUTE_MS = 60_000;

export function openAccessLog(folder: string, nowMs: () => number): AccessLog {
  const unknown = { minute: 0, written: 0, omitted: 0 };

  /** Undefined when the entry is left out; else how many were left out before it. */
  function omittedBefore(minute: number): number | undefined {
    if (minute !== unknown.minute) Object.assign(unknown, { minute, written: 0 });
    if (unknown.written >= UNKNOWN_PER_MINUTE) {
      unknown.omitted++;
      return undefined;
    }
    unknown.written++;
    const { omitted } = unknown;
    unknown.omitted = 0;
    return omitted;
  }

  const prepare = () => {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    accessSync(folder, constants.W_OK);
  };
  return {
    prepare,
    erase: (organization, event) =>
      filesIn(folder).reduce(
        (sum, name) => sum + eraseIn(join(folder, name), (event ?? organization).toLowerCase()),
        0,
      ),
    append(entry) {
      const ms = nowMs();
      const isUnknown = entry.who === UNKNOWN_CALLER;
      const omitted = isUnknown ? omittedBefore(Math.floor(ms / MINUTE_MS)) : 0;
      if (omitted === undefined) return;
      prepare();
      const time = new Date(ms).toISOString();
      const own = isUnknown ? { ...entry, query: null } : entry;
      const line = JSON.stringify({ time, ...shortened(own), ...(omitted > 0 && { omitted }) });
      appendFileSync(join(folder, `${time.slice(0, 7)}.jsonl`), `${line}\n`, { mode: 0o600, flush: true });
    },
    list(limit) {
      const entries: AccessEntry[] = [];
      for (const name of filesIn(folder).toReversed()) {
        const lines = readFileSync(join(folder, name), "utf8").split("\n").slice(0, -1);
        entries.unshift(...lines.slice(-(limit - entries.length)).flatMap(entryOf));
        if (entries.length >= limit) break;
      }
      return entries;
    },
  };
}

function shortened({ query, organizations, ...entry }: Omit<AccessEntry, "time">) {
  const text = JSON.stringify(query) ?? "null";
  return {
    ...entry,
    organizations:
      organizations === null || organizations.length <= LISTED_OWNERS
        ? organizations
        : [...organizations.slice(0, LISTED_OWNERS), `and ${organizations.length - LISTED_OWNERS} more`],
    query: text.length <= QUERY_LENGTH_MAX ? query : `${text.slice(0, QUERY_LENGTH_MAX)}…`,
  };
}

/** Another process may append meanwhile: then the file is read again. */
function eraseIn(path: string, name: string): number {
  for (;;) {
    const text = readFileSync(path, "utf8");
    let erased = 0;
    const lines = text.split("\n").map((line) => {
      if (!line.toLowerCase().includes(name)) return line;
      erased++;
      return erasedLine(line, name);
    });
    if (erased === 0) return 0;
    const temporary = `${path}.new`;
    writeFileSync(temporary, lines.join("\n"), { mode: 0o600, flush: true });
    if (statSync(path).size !== Buffer.byteLength(text)) continue;
    renameSync(temporary, path);
    return erased;
  }
}

function erasedLine(line: string, name: string): string {
  const [entry] = entryOf(line);
  if (entry === undefined) return "";
  const organizations =
    entry.organizations?.map((one) => (one.toLowerCase().includes(name) ? ERASED : one)) ?? null;
  const isAsked = JSON.stringify(entry.query).toLowerCase().includes(name);
  return JSON.stringify({ ...entry, organizations, ...(isAsked && { query: ERASED }) });
}

/** A line that a full disk cut off is left out. */
function entryOf(line: string): AccessEntry[] {
  try {
    return [JSON.parse(line) as AccessEntry];
  } catch {
    return [];
  }
}

function filesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
      .filter((name) => /^\d{4}-\d\d\.jsonl$/.test(name))
      .sort();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

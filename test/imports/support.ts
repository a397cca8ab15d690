import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import type { Clock } from "../../src/core/clock.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import type { Log } from "../../src/core/log.ts";
import { Sqlite } from "../../src/core/sqlite.ts";
import { timestampMsOf } from "../../src/core/time.ts";
import { type ImportDefinition, importSchema } from "../../src/imports/config.ts";
import type { StartContext } from "../../src/imports/context.ts";
import type { ImportSource, OfferedUser, StartAnswer } from "../../src/imports/source.ts";
import { type ImportState, openImportStore } from "../../src/imports/store/open.ts";
import { createChange } from "../../src/journal/change.ts";

const MIGRATIONS = new URL("../../src/journal/migrations/", import.meta.url);

/** A state file with every table; in memory without a path. */
export function openState(file = ":memory:"): ImportState {
  const plain = new Sqlite(file);
  const db = Object.assign(plain, { change: createChange(plain) });
  db.pragma("foreign_keys = ON");
  db.pragma("journal_mode = WAL");
  db.pragma("synchronous = OFF");
  const isNew = db.prepare("SELECT count(*) AS tables FROM sqlite_master").get() as { tables: number };
  if (isNew.tables > 0) return db;
  for (const name of readdirSync(MIGRATIONS)
    .filter((entry) => entry.endsWith(".sql"))
    .sort()) {
    db.exec(readFileSync(new URL(name, MIGRATIONS), "utf8"));
  }
  return db;
}

export interface HandClock extends Clock {
  advance(ms: number): void;
  set(time: string): void;
}

export function handClock(start: string): HandClock {
  let nowMs = Date.parse(start);
  return {
    now: () => nowMs,
    advance(ms) {
      nowMs += ms;
    },
    set(time) {
      nowMs = Date.parse(time);
    },
    async sleep(ms, signal) {
      signal.throwIfAborted();
      nowMs += ms;
    },
  };
}

/** An event as the journal gives it, from the object that the service served. */
export function eventOf(body: Readonly<Record<string, unknown>>): JournalEvent {
  const bytes = Buffer.from(JSON.stringify(body));
  const timestamp = String(body.timestamp ?? "");
  const correlation = body.correlation as { id?: string } | undefined;
  return {
    bytes,
    size: bytes.length,
    account: "acme",
    organization: String(body.organization ?? "o1"),
    provider: null,
    service: String(body.service ?? "directory"),
    eventType: String(body.event_type ?? ""),
    timestamp,
    timestampMs: timestampMsOf(timestamp) ?? 0,
    id: body.id as string | undefined,
    correlationId: correlation?.id,
    identity: createHash("sha256").update(`${body.id}${timestamp}`).digest("hex").slice(0, 32),
    fetchedAtMs: Date.now(),
    page: 1,
    index: 0,
  };
}

export interface SourceScript extends ImportSource {
  readonly starts: string[];
  readonly posted: (readonly OfferedUser[])[];
  readonly activated: string[];
}

/**
 * A source that answers starts from a list; a function runs before the answer is given. Without an offer the list of
 * users cannot be read, so that an application's offer is not known.
 */
export function sourceOf(
  answers: (StartAnswer | (() => StartAnswer | Promise<StartAnswer>))[],
  results: () => readonly Readonly<Record<string, unknown>>[] = () => [],
  offer?: readonly OfferedUser[],
): SourceScript {
  const starts: string[] = [];
  const posted: (readonly OfferedUser[])[] = [];
  const activated: string[] = [];
  const next = async (what: string) => {
    starts.push(what);
    const answer = answers.shift();
    if (answer === undefined) throw new Error("No answer is left.");
    return typeof answer === "function" ? answer() : answer;
  };
  return {
    ...{ starts, posted, activated },
    async *offered(_organization, { kind }) {
      if (offer === undefined && kind === "application") throw new Error("404 no such list");
      yield* offer ?? [worker("ada")];
    },
    existing: async () => undefined,
    start: (_organization, application) => next(application),
    startWorkday(_organization, workday, users) {
      posted.push(users);
      return next(workday);
    },
    async *workdayResults() {
      yield* results();
    },
    async activate(_organization, user) {
      activated.push(user);
    },
  };
}

export function worker(username: string, more: Partial<OfferedUser> = {}): OfferedUser {
  return {
    username,
    email: `${username}@example.test`,
    firstname: "F",
    lastname: "L",
    attributes: [],
    ...more,
  };
}

export function definitionOf(
  changes: Partial<Record<keyof ImportDefinition, unknown>> = {},
): ImportDefinition {
  return importSchema.parse({
    name: "nightly-hr",
    account: "acme",
    organization: "o1",
    application: "app1",
    schedule: "0 2 * * *",
    ...changes,
  });
}

/** Jobs as tests look at them. */
export function jobsOf(db: ImportState) {
  const store = openImportStore(db);
  return {
    store,
    row: store.jobs.row,
    move: store.jobs.move,
    job: store.job,
    list: store.list,
    counts: store.users.counts,
    users: store.users.list,
    timeline: store.users.timeline,
  };
}
export type Jobs = ReturnType<typeof jobsOf>;

/** The context of a start by command. */
export function startContext(
  db: ImportState,
  source: ImportSource,
  clock: Clock,
  log: Log,
  sender = "command:test",
): StartContext {
  return { store: openImportStore(db), source: () => source, clock, log, sender, sending: new Set() };
}

export interface HeardLog extends Log {
  readonly heard: { level: string; sentence: string; fields: Record<string, unknown> }[];
}

export function heardLog(): HeardLog {
  const heard: HeardLog["heard"] = [];
  const at = (level: string) => (fields: object, sentence: string) => {
    heard.push({ level, sentence, fields: fields as Record<string, unknown> });
  };
  const log: HeardLog = {
    heard,
    error: at("error"),
    warn: at("warn"),
    info: at("info"),
    debug: at("debug"),
    child: () => log,
  };
  return log;
}

export const forever = new AbortController().signal;

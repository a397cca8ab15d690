import type { Database } from "better-sqlite3";
import type { JournalEvent } from "../../core/event.ts";
import { foldName } from "../fold-name.ts";
import type { ImportNews, ImportUser } from "../import-news.ts";
import type { Counts, JobEvent, JobUser, UserOutcome } from "../job.ts";
import type { OfferedUser } from "../source.ts";
import { type Activations, openActivations } from "./activations.ts";
import { createFolding, nameKeyOf } from "./name-keys.ts";
import { type OfferedRows, openOfferedRows } from "./offered-rows.ts";
import { countsOf, jobTotals, listOf, timelineOf, type UserTotals } from "./user-views.ts";
import { openVerdicts, USER_COLUMNS, type UserRow } from "./verdicts.ts";

/** The users of jobs, and what became of each. A method that changes anything runs inside the caller's change. */
export interface Users extends OfferedRows, Activations {
  /**
   * Stores a slice of what the source offered; `first` is the place of its first user in the list. A user with a reason
   * is skipped; the others belong to a part. A user that events named before keeps its outcome.
   */
  offer(job: number, users: readonly NewUser[], first?: number): void;
  /** Takes an event into a job's timeline; false when it is there already. */
  addEvent(job: number, event: JournalEvent, news: ImportNews): boolean;
  /** Takes a Workday result over for a user whom no event has decided. */
  tell(job: number, user: ImportUser, outcome: UserOutcome, reason: string | undefined): void;
  /** The users of a part, in the order of the offer. */
  ofPart(job: number, part: number): PartUser[];
  /** Whether an event or a result told of any user of the part. */
  isSeen(job: number, part: number): boolean;
  moveToPart(ids: readonly number[], part: number): void;
  /** Gives users without an outcome one that the answer to the start decided. */
  fail(ids: readonly number[], reason: string): void;
  /** Takes over what was found under a service's job id before it was known whose it is. */
  adopt(from: number, to: number): void;
  /** The names of each of a job's users, folded. */
  names(job: number, part?: number): string[][];
  counts(job: number): Counts;
  totals(job: number): UserTotals;
  list(job: number, filter: { outcome?: UserOutcome | undefined; limit: number; offset: number }): JobUser[];
  timeline(job: number, page: { limit: number; offset: number }): JobEvent[];
}

export interface NewUser {
  readonly user: OfferedUser;
  readonly part: number | null;
  readonly skipped: string | null;
  /** The user is posted as the list has it. Otherwise only its names are stored. */
  readonly isPosted: boolean;
}

export interface PartUser {
  readonly id: number;
  readonly outcome: UserOutcome;
  readonly user: OfferedUser | null;
}

/** Id, username and e-mail address. */
type Names = readonly [string | null, string | null, string | null];

export function openUsers(db: Database): Users {
  const insertEvent = db.prepare(
    `INSERT OR IGNORE INTO job_events (job, identity, user, event_id, event_type, timestamp, timestamp_ms, outcome, reason)
     VALUES (?, ?, NULL, ?, ?, ?, ?, ?, ?)`,
  );
  const linkEvent = db.prepare("UPDATE job_events SET user = ? WHERE job = ? AND identity = ?");
  const findBy = (column: "user_id" | "name_key" | "email_key") =>
    db.prepare<[number, string], UserRow>(
      `SELECT ${USER_COLUMNS} FROM job_users WHERE job = ? AND ${column} = ?`,
    );
  const [byId, byName, byEmail] = [findBy("user_id"), findBy("name_key"), findBy("email_key")];
  const fold = createFolding(db);
  const insertRow = db.prepare(
    `INSERT INTO job_users (name_key, email_key, job, user_id, username, email, outcome, reason, told_by, number, entry,
       part)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const insert = {
    run: (
      job: number,
      userId: string | null,
      username: string | null,
      email: string | null,
      ...rest: unknown[]
    ) => insertRow.run(nameKeyOf(username), nameKeyOf(email), job, userId, username, email, ...rest),
  };
  const addNames = db.prepare(
    `UPDATE job_users SET user_id = coalesce(user_id, ?), username = coalesce(username, ?), email = coalesce(email, ?),
       name_key = iif(username IS NULL, ?, name_key), email_key = iif(email IS NULL, ?, email_key)
     WHERE id = ?`,
  );
  const describe = (names: Names, id: number) =>
    addNames.run(...names, nameKeyOf(names[1]), nameKeyOf(names[2]), id);
  const verdicts = openVerdicts(db);
  const place = db.prepare("UPDATE job_users SET number = ?, entry = ?, part = ? WHERE id = ?");

  /** An e-mail address alone may be shared, so it counts only where nothing better matches. */
  function found(job: number, { userId, username, email }: ImportUser): readonly UserRow[] {
    fold(job);
    const rows = [
      ...(userId === undefined ? [] : byId.all(job, userId)),
      ...(username === undefined ? [] : byName.all(job, foldName(username))),
    ];
    const isOther = (row: UserRow) =>
      (row.username !== null && username !== undefined) ||
      (row.user_id !== null && userId !== undefined && row.user_id !== userId);
    const matching =
      rows.length === 0 && email !== undefined
        ? byEmail.all(job, foldName(email)).filter((row) => !isOther(row))
        : rows;
    const unique = matching.filter((row, at) => matching.findIndex(({ id }) => id === row.id) === at);
    return unique.toSorted((a, b) => Number(a.number === null) - Number(b.number === null) || a.id - b.id);
  }

  /** The user's row; rows that turn out to be one user become one, and an offered one stays. */
  function rowFor(job: number, user: ImportUser, by: UserRow["told_by"]): number {
    const names: Names = [user.userId ?? null, user.username ?? null, user.email ?? null];
    const [first, ...others] = found(job, user);
    if (first === undefined) {
      return Number(insert.run(job, ...names, "pending", null, by, null, null, null).lastInsertRowid);
    }
    describe(names, first.id);
    for (const other of others.filter(({ number }) => number === null)) {
      describe([other.user_id, other.username, other.email], first.id);
      verdicts.absorb(first.id, other);
    }
    return first.id;
  }

  const fail = db.prepare(
    "UPDATE job_users SET outcome = 'failed', reason = ?, told_by = 'answer' WHERE id = ? AND outcome = 'pending'",
  );
  const move = db.prepare("UPDATE job_users SET part = ? WHERE id = ?");
  const ofJob = db.prepare<[number], UserRow>(`SELECT ${USER_COLUMNS} FROM job_users WHERE job = ?`);
  const partUsers = db.prepare<[number, number], { id: number; outcome: UserOutcome; entry: string | null }>(
    "SELECT id, outcome, entry FROM job_users WHERE job = ? AND part = ? ORDER BY number",
  );
  const seen = db.prepare<[number, number]>(
    `SELECT 1 FROM job_users u WHERE job = ? AND part = ? AND (told_by = 'results'
       OR EXISTS (SELECT 1 FROM job_events e WHERE e.user = u.id)) LIMIT 1`,
  );

  return {
    ...openOfferedRows(db),
    ...openActivations(db),
    offer(job, users, first = 0) {
      for (const [at, { user, part, skipped, isPosted }] of users.entries()) {
        const number = first + at;
        const entry = isPosted ? JSON.stringify(user) : null;
        const names = { userId: undefined, username: user.username, email: user.email };
        const seen = found(job, names).find((row) => row.number === null);
        if (seen !== undefined) {
          place.run(number, entry, part, seen.id);
          continue;
        }
        insert.run(
          ...([job, null, user.username ?? null, user.email ?? null] as const),
          ...(skipped === null ? ["pending", null, "events"] : ["skipped", skipped, "choice"]),
          ...[number, entry, part],
        );
      }
    },
    addEvent(job, event, news) {
      const { changes } = insertEvent.run(
        ...[job, event.identity, event.id ?? null, event.eventType, event.timestamp, event.timestampMs],
        ...[news.outcome ?? null, news.reason ?? null],
      );
      if (changes === 0) return false;
      if (news.user === undefined) return true;
      const user = rowFor(job, news.user, "events");
      linkEvent.run(user, job, event.identity);
      verdicts.byEvents(user);
      if (news.userState !== undefined) verdicts.inState(user, news.userState, event.timestampMs);
      return true;
    },
    tell(job, user, outcome, reason) {
      verdicts.byResult(rowFor(job, user, "results"), outcome, reason);
    },
    ofPart: (job, part) =>
      partUsers.all(job, part).map(({ id, outcome, entry }) => ({
        ...{ id, outcome },
        user: entry === null ? null : (JSON.parse(entry) as OfferedUser),
      })),
    isSeen: (job, part) => seen.get(job, part) !== undefined,
    moveToPart(ids, part) {
      for (const id of ids) move.run(part, id);
    },
    fail(ids, reason) {
      for (const id of ids) fail.run(reason.slice(0, 500), id);
    },
    adopt(from, to) {
      const theirs = ofJob.all(from);
      db.prepare("UPDATE OR IGNORE job_events SET job = ? WHERE job = ?").run(to, from);
      for (const row of theirs) {
        const names = {
          userId: row.user_id ?? undefined,
          username: row.username ?? undefined,
          email: row.email ?? undefined,
        };
        verdicts.absorb(rowFor(to, names, "events"), row);
      }
    },
    names(job, part) {
      const rows = db
        .prepare<unknown[], { username: string | null; email: string | null; user_id: string | null }>(
          "SELECT username, email, user_id FROM job_users WHERE job = ? AND (? IS NULL OR part = ?)",
        )
        .all(job, part ?? null, part ?? null);
      return rows.map(({ username, email, user_id }) =>
        [username, email, user_id].filter((name) => name !== null).map(foldName),
      );
    },
    counts: (job) => countsOf(db, job),
    totals: (job) => jobTotals(db, job),
    list: (job, filter) => listOf(db, job, filter),
    timeline: (job, page) => timelineOf(db, job, page),
  };
}

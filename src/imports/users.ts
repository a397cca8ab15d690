import type { Database } from "better-sqlite3";
import type { JournalEvent } from "../core/event.ts";
import type { Outcome } from "./job.ts";
import type { ImportNews, ImportUser } from "./meaning.ts";

/** What became of each user of a job. */
export interface Users {
  /** Takes an event into a job's timeline; false when it is there already. Inside a transaction of the caller. */
  add(job: number, event: JournalEvent, news: ImportNews): boolean;
  /** What a Workday result says about a user; what events told stays. */
  tell(job: number, user: ImportUser, outcome: Outcome, reason: string | undefined): void;
}

interface UserRow {
  readonly id: number;
  readonly user_id: string | null;
  readonly username: string | null;
  readonly email: string | null;
  readonly told_by: "events" | "results";
}

interface EventRow {
  readonly event_id: string | null;
  readonly timestamp: string;
  readonly outcome: Outcome;
  readonly reason: string | null;
}

export function openUsers(db: Database): Users {
  const insertEvent = db.prepare(
    `INSERT OR IGNORE INTO job_events (job, identity, user, event_id, event_type, timestamp, timestamp_ms, outcome, reason)
     VALUES (?, ?, NULL, ?, ?, ?, ?, ?, ?)`,
  );
  const linkEvent = db.prepare("UPDATE job_events SET user = ? WHERE job = ? AND identity = ?");
  const findBy = (column: "user_id" | "username" | "email") =>
    db.prepare<[number, string], UserRow>(`SELECT * FROM job_users WHERE job = ? AND ${column} = ?`);
  const [byId, byName, byEmail] = [findBy("user_id"), findBy("username"), findBy("email")];
  const insertUser = db.prepare(
    "INSERT INTO job_users (job, user_id, username, email, outcome, told_by) VALUES (?, ?, ?, ?, 'pending', ?)",
  );
  const describe = db.prepare(
    "UPDATE job_users SET user_id = coalesce(user_id, ?), username = coalesce(username, ?), email = coalesce(email, ?) WHERE id = ?",
  );
  const eventsOf = db.prepare<[number], EventRow>(
    `SELECT event_id, timestamp, outcome, reason FROM job_events WHERE user = ? AND outcome IS NOT NULL
     ORDER BY timestamp_ms, timestamp, identity`,
  );
  const decide = db.prepare(
    "UPDATE job_users SET outcome = ?, reason = ?, event = ?, timestamp = ?, told_by = ? WHERE id = ?",
  );

  /** An e-mail address alone may be shared, so it counts only where nothing better is known. */
  function found(job: number, user: ImportUser): readonly UserRow[] {
    const { userId, username, email } = user;
    const rows = [
      ...(userId === undefined ? [] : byId.all(job, userId)),
      ...(username === undefined ? [] : byName.all(job, username)),
    ];
    if (userId === undefined && username === undefined && email !== undefined) return byEmail.all(job, email);
    return rows.filter((row, at) => rows.findIndex(({ id }) => id === row.id) === at);
  }

  /** The user's row; two rows that turn out to be one user become one. */
  function rowFor(job: number, user: ImportUser, toldBy: UserRow["told_by"]): number {
    const names = [user.userId ?? null, user.username ?? null, user.email ?? null] as const;
    const [first, ...others] = found(job, user);
    if (first === undefined) return Number(insertUser.run(job, ...names, toldBy).lastInsertRowid);
    for (const other of others) {
      db.prepare("UPDATE job_events SET user = ? WHERE user = ?").run(first.id, other.id);
      db.prepare("DELETE FROM job_users WHERE id = ?").run(other.id);
    }
    describe.run(...names, first.id);
    return first.id;
  }

  return {
    add(job, event, news) {
      const { changes } = insertEvent.run(
        job,
        event.identity,
        event.id ?? null,
        event.eventType,
        event.timestamp,
        event.timestampMs,
        news.outcome ?? null,
        news.reason ?? null,
      );
      if (changes === 0) return false;
      if (news.user === undefined) return true;
      const user = rowFor(job, news.user, "events");
      linkEvent.run(user, job, event.identity);
      const decisive = decisiveOf(eventsOf.all(user));
      if (decisive !== undefined) {
        decide.run(decisive.outcome, decisive.reason, decisive.event_id, decisive.timestamp, "events", user);
      }
      return true;
    },
    tell(job, user, outcome, reason) {
      const id = rowFor(job, user, "results");
      const row = db
        .prepare<[number], { told_by: string; event: string | null; outcome: Outcome }>(
          "SELECT told_by, event, outcome FROM job_users WHERE id = ?",
        )
        .get(id)!;
      if (row.told_by === "events" && row.outcome !== "pending") return;
      decide.run(outcome, reason ?? null, null, null, "results", id);
    },
  };
}

const STRENGTH: Readonly<Record<Outcome, number>> = {
  created: 3,
  reactivated: 2,
  updated: 1,
  pending: 0,
  failed: 0,
};

/** A user whose last event is a failure has failed; else the strongest thing that was done counts. */
function decisiveOf(events: readonly EventRow[]): EventRow | undefined {
  const last = events.at(-1);
  if (last === undefined || last.outcome === "failed") return last;
  return events.reduce(
    (best, event) => (STRENGTH[event.outcome] > STRENGTH[best.outcome] ? event : best),
    last,
  );
}

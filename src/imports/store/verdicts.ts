import type { Database } from "better-sqlite3";
import type { UserOutcome } from "../job.ts";

/** What events and results say of one user. Every method runs inside the caller's change. */
export interface Verdicts {
  /** All of a user's events decide, whatever order they came in. */
  byEvents(user: number): void;
  /** A result counts where no event has decided. */
  byResult(user: number, outcome: UserOutcome, reason: string | undefined): void;
  /** The state that a user had at a time: the newest stays. */
  inState(user: number, state: string, ms: number): void;
  /** Takes over all that is known of a user from a second row of the same user, and removes that. */
  absorb(user: number, second: UserRow): void;
}

export interface UserRow {
  readonly id: number;
  readonly number: number | null;
  readonly user_id: string | null;
  readonly username: string | null;
  readonly email: string | null;
  readonly told_by: "events" | "results" | "answer" | "choice";
  readonly outcome: UserOutcome;
  readonly reason: string | null;
  readonly user_state: string | null;
  readonly state_ms: number;
  readonly activated_ms: number | null;
}

/** An activation that was done here gives the state a newer time than the last event. */
export const USER_COLUMNS = `id, number, user_id, username, email, told_by, outcome, reason, user_state, activated_ms,
  max(coalesce(state_ms, 0), iif(user_state = 'ACTIVATED', coalesce(activated_ms, 0), 0)) AS state_ms`;

interface EventRow {
  readonly event_id: string | null;
  readonly timestamp: string;
  readonly outcome: UserOutcome;
  readonly reason: string | null;
}

export function openVerdicts(db: Database): Verdicts {
  const one = db.prepare<[number], UserRow>(`SELECT ${USER_COLUMNS} FROM job_users WHERE id = ?`);
  const eventsOf = db.prepare<[number], EventRow>(
    `SELECT event_id, timestamp, outcome, reason FROM job_events WHERE user = ? AND outcome IS NOT NULL
     ORDER BY timestamp_ms, timestamp, identity`,
  );
  const decide = db.prepare(
    "UPDATE job_users SET outcome = ?, reason = ?, event = ?, timestamp = ?, told_by = ? WHERE id = ?",
  );
  /** Events are not read in the order in which they happened. A claim that is open says nothing of the state. */
  const setState = db.prepare(
    `UPDATE job_users SET user_state = @state, state_ms = @ms
     WHERE id = @id AND @ms >= coalesce(state_ms, @ms)
       AND (user_state IS NOT 'ACTIVATED' OR @ms > coalesce(activated_ms, @ms - 1))`,
  );
  const keepClaim = db.prepare(
    "UPDATE job_users SET activated_ms = max(coalesce(activated_ms, 0), ?) WHERE id = ?",
  );
  const relink = db.prepare("UPDATE job_events SET user = ? WHERE user = ?");
  const remove = db.prepare("DELETE FROM job_users WHERE id = ?");

  const verdicts: Verdicts = {
    byEvents(user) {
      const decisive = decisiveOf(eventsOf.all(user));
      if (decisive === undefined) return;
      decide.run(decisive.outcome, decisive.reason, decisive.event_id, decisive.timestamp, "events", user);
    },
    byResult(user, outcome, reason) {
      const row = one.get(user)!;
      if (row.told_by === "events" && row.outcome !== "pending") return;
      if (outcome !== "pending" || row.outcome === "pending")
        decide.run(outcome, reason ?? null, null, null, "results", user);
    },
    inState(user, state, ms) {
      setState.run({ id: user, state, ms });
    },
    absorb(user, second) {
      relink.run(user, second.id);
      remove.run(second.id);
      if (second.told_by === "results") verdicts.byResult(user, second.outcome, second.reason ?? undefined);
      verdicts.byEvents(user);
      if (second.user_state !== null) verdicts.inState(user, second.user_state, second.state_ms);
      if (second.activated_ms !== null) keepClaim.run(second.activated_ms, user);
    },
  };
  return verdicts;
}

const STRENGTH: Readonly<Record<UserOutcome, number>> = {
  created: 3,
  reactivated: 2,
  updated: 1,
  pending: 0,
  failed: 0,
  skipped: 0,
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

import type { Database } from "better-sqlite3";
import { PASSED_OVER } from "../import-news.ts";
import type { Counts, JobEvent, JobUser, UserOutcome } from "../job.ts";

/** Who activates a user claims it for so long, in `activated_ms`. */
const CLAIM_MS = 600_000;

/** Users of a job that can be activated; takes the job's number. */
export const CAN_BE_ACTIVATED = `outcome IN ('created', 'updated', 'reactivated') AND user_id IS NOT NULL
  AND (activated_ms IS NULL OR activated_ms < unixepoch('subsec') * 1000 - ${CLAIM_MS})
  AND (user_state = 'STAGED' OR (user_state IS NULL AND outcome = 'created'))`;
export const STAGED = `job = ? AND ${CAN_BE_ACTIVATED}`;

/** Takes the job's number. A list that is only half stored, or is being stored, does not count. */
const COUNTED = `job = ? AND (number IS NULL OR outcome NOT IN ('pending', 'skipped')
  OR (SELECT offered_ms FROM jobs WHERE id = ?) IS NOT NULL)`;

export function countsOf(db: Database, job: number): Counts {
  const rows = db
    .prepare<[number, number], { outcome: UserOutcome; users: number }>(
      `SELECT outcome, count(*) AS users FROM job_users WHERE ${COUNTED} GROUP BY outcome`,
    )
    .all(job, job);
  const events = db
    .prepare<[number], { events: number }>("SELECT count(*) AS events FROM job_events WHERE job = ?")
    .get(job)!.events;
  const counts = { created: 0, updated: 0, reactivated: 0, failed: 0, skipped: 0, pending: 0, events };
  for (const { outcome, users } of rows) counts[outcome] = users;
  return counts;
}

export interface UserTotals {
  readonly offered: number;
  /** Offered users without an outcome. */
  readonly waiting: number;
  readonly staged: number;
  /** Events that were too large to be read. */
  readonly passedOver: number;
}

export function jobTotals(db: Database, job: number): UserTotals {
  const row = db
    .prepare<[number], { offered: number; waiting: number | null }>(
      `SELECT count(*) AS offered, sum(outcome = 'pending') AS waiting FROM job_users
       WHERE job = ? AND number IS NOT NULL`,
    )
    .get(job)!;
  const staged = db.prepare<[number], number>(`SELECT count(*) FROM job_users WHERE ${STAGED}`).pluck();
  // The words are part of the statement, so that the index is used.
  const passed = db
    .prepare<[number], number>(`SELECT count(*) FROM job_events WHERE job = ? AND reason = '${PASSED_OVER}'`)
    .pluck();
  return {
    offered: row.offered,
    waiting: row.waiting ?? 0,
    staged: staged.get(job) as number,
    passedOver: passed.get(job) as number,
  };
}

export function listOf(
  db: Database,
  job: number,
  filter: { outcome?: UserOutcome | undefined; limit: number; offset: number },
): JobUser[] {
  const rows = db
    .prepare<unknown[], Omit<JobUser, "offered"> & { number: number | null }>(
      `SELECT user_id AS userId, username, email, outcome, reason, event, timestamp, number, user_state AS state
       FROM job_users WHERE ${COUNTED} AND (? IS NULL OR outcome = ?)
       ORDER BY coalesce(username, email, user_id), id LIMIT ? OFFSET ?`,
    )
    .all(job, job, filter.outcome ?? null, filter.outcome ?? null, filter.limit, filter.offset);
  return rows.map(({ number, ...user }) => ({ ...user, offered: number !== null }));
}

export function timelineOf(db: Database, job: number, page: { limit: number; offset: number }): JobEvent[] {
  return db
    .prepare<unknown[], JobEvent>(
      `SELECT e.identity, e.event_id AS eventId, e.event_type AS eventType, e.timestamp,
         coalesce(u.username, u.email, u.user_id) AS username, e.outcome, e.reason
       FROM job_events e LEFT JOIN job_users u ON u.id = e.user
       WHERE e.job = ? ORDER BY e.timestamp_ms, e.timestamp, e.identity LIMIT ? OFFSET ?`,
    )
    .all(job, page.limit, page.offset);
}

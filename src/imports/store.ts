import type { Database } from "better-sqlite3";
import {
  type Counts,
  type Job,
  type JobEvent,
  type JobRow,
  type JobState,
  type JobUser,
  jobOf,
  type Outcome,
} from "./job.ts";

export interface NewJob {
  readonly import: string | null;
  readonly account: string;
  readonly organization: string | null;
  readonly kind: "application" | "workday";
  readonly source: string | null;
  readonly request: object;
  readonly origin: Job["origin"];
  readonly requestedBy: string;
  readonly requestedMs: number;
  readonly answerByMs: number;
  readonly quietAfterMs: number;
  readonly finishAfterMs: number;
}

/** Another job of the same import has not ended. */
export class OpenJobError extends Error {
  override readonly name = "OpenJobError";
  readonly job: number;

  constructor(job: number, state: JobState) {
    super(`Job ${job} of the same import has not ended (${state}); two never run at once.`);
    this.job = job;
  }
}

export interface JobFilter {
  readonly state?: JobState | undefined;
  readonly account?: string | undefined;
  readonly import?: string | undefined;
  readonly open?: boolean | undefined;
  readonly limit?: number | undefined;
}

/** The jobs in the state file. Every change is on disk when its call returns. */
export interface Jobs {
  /** Writes the row in state `requested`; OpenJobError when the import has a job that has not ended. */
  create(job: NewJob): JobRow;
  row(id: number): JobRow | undefined;
  rows(filter: JobFilter): JobRow[];
  job(id: number): Job | undefined;
  list(filter: JobFilter): Job[];
  counts(id: number): Counts;
  users(id: number, filter: { outcome?: Outcome | undefined; limit: number; offset: number }): JobUser[];
  timeline(id: number, page: { limit: number; offset: number }): JobEvent[];
  /** Moves a job; `endedMs` set lets its schedule go on, null opens it again where that is possible. */
  move(
    id: number,
    state: JobState,
    nowMs: number,
    change?: { reason?: string | null; endedMs?: number | null },
  ): void;
  /** The service's job id is known: what came before under that id becomes this job's, and it runs. */
  confirm(id: number, serviceJob: string, nowMs: number): void;
  /** Remembers a poll of a Workday job's results. */
  polled(id: number, digest: string, nextPollMs: number, activeMs: number | null): void;
}

const COLUMNS = `import, account, organization, kind, source, request, origin, requested_by, requested_ms,
  answer_by_ms, state, state_ms, quiet_after_ms, finish_after_ms, active_ms`;

export function openJobs(db: Database): Jobs {
  const insert = db.prepare(
    `INSERT INTO jobs (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'requested', ?, ?, ?, ?)`,
  );
  const byId = db.prepare<[number], JobRow>("SELECT * FROM jobs WHERE id = ?");
  const openOf = db.prepare<[string, string | null, string | null], JobRow>(
    `SELECT * FROM jobs WHERE account = ? AND organization IS ? AND source IS ?
       AND ended_ms IS NULL AND origin <> 'elsewhere'`,
  );
  const row = (id: number) => byId.get(id);
  const counts = (id: number) => countsOf(db, id);

  const create = db.transaction((job: NewJob): JobRow => {
    const open = openOf.get(job.account, job.organization, job.source);
    if (open !== undefined) throw new OpenJobError(open.id, open.state);
    const { lastInsertRowid } = insert.run(
      job.import,
      job.account,
      job.organization,
      job.kind,
      job.source,
      JSON.stringify(job.request),
      job.origin,
      job.requestedBy,
      job.requestedMs,
      job.answerByMs,
      job.requestedMs,
      job.quietAfterMs,
      job.finishAfterMs,
      job.requestedMs,
    );
    return row(Number(lastInsertRowid))!;
  });

  return {
    create: (job) => create.immediate(job),
    row,
    rows: (filter) => rowsOf(db, filter),
    job(id) {
      const found = row(id);
      return found && jobOf(found, counts(id));
    },
    list: (filter) => rowsOf(db, filter).map((found) => jobOf(found, counts(found.id))),
    counts,
    users: (id, filter) => usersOf(db, id, filter),
    timeline: (id, page) => timelineOf(db, id, page),
    move: (id, state, nowMs, change = {}) => move(db, row(id), state, nowMs, change),
    confirm: (id, serviceJob, nowMs) => db.transaction(confirm).immediate(db, id, serviceJob, nowMs),
    polled(id, digest, nextPollMs, activeMs) {
      db.prepare(
        "UPDATE jobs SET results_digest = ?, next_poll_ms = ?, active_ms = coalesce(?, active_ms) WHERE id = ?",
      ).run(digest, nextPollMs, activeMs, id);
    },
  };
}

function move(
  db: Database,
  row: JobRow | undefined,
  state: JobState,
  nowMs: number,
  change: { reason?: string | null; endedMs?: number | null },
): void {
  if (row === undefined) return;
  const reason = change.reason === undefined ? row.reason : change.reason;
  let endedMs = change.endedMs === undefined ? row.ended_ms : change.endedMs;
  // Its import may have another job by now; then this one goes on without holding it up.
  if (endedMs === null && row.ended_ms !== null && hasOpenSibling(db, row)) endedMs = row.ended_ms;
  db.prepare("UPDATE jobs SET state = ?, state_ms = ?, reason = ?, ended_ms = ? WHERE id = ?").run(
    state,
    row.state === state ? row.state_ms : nowMs,
    reason,
    endedMs,
    row.id,
  );
}

function hasOpenSibling(db: Database, row: JobRow): boolean {
  return (
    db
      .prepare(
        `SELECT 1 FROM jobs WHERE account = ? AND organization IS ? AND source IS ? AND id <> ?
           AND ended_ms IS NULL AND origin <> 'elsewhere'`,
      )
      .get(row.account, row.organization, row.source, row.id) !== undefined
  );
}

function confirm(db: Database, id: number, serviceJob: string, nowMs: number): void {
  const job = db.prepare<[number], JobRow>("SELECT * FROM jobs WHERE id = ?").get(id);
  if (job === undefined) throw new Error(`There is no job ${id}.`);
  const found = db
    .prepare<[string, string, number], JobRow>(
      "SELECT * FROM jobs WHERE service_job = ? AND account = ? AND id <> ?",
    )
    .get(serviceJob, job.account, id);
  if (found !== undefined) {
    if (found.origin !== "elsewhere")
      throw new Error(`The service's job ${serviceJob} belongs to job ${found.id}.`);
    adopt(db, found, id);
  }
  db.prepare("UPDATE jobs SET service_job = ?, active_ms = ?, next_poll_ms = ? WHERE id = ?").run(
    serviceJob,
    Math.max(nowMs, found?.active_ms ?? 0),
    job.kind === "workday" ? nowMs : null,
    id,
  );
  move(db, job, "running", nowMs, { reason: null, endedMs: null });
}

/** What was found under the service's job id before it was known whose it is. */
function adopt(db: Database, found: JobRow, id: number): void {
  db.prepare("UPDATE job_events SET job = ? WHERE job = ?").run(id, found.id);
  db.prepare("UPDATE job_users SET job = ? WHERE job = ?").run(id, found.id);
  db.prepare("UPDATE jobs SET first_event_ms = ?, last_event_ms = ? WHERE id = ?").run(
    found.first_event_ms,
    found.last_event_ms,
    id,
  );
  db.prepare("DELETE FROM jobs WHERE id = ?").run(found.id);
}

function rowsOf(db: Database, filter: JobFilter): JobRow[] {
  const tests: string[] = [];
  const values: unknown[] = [];
  for (const column of ["state", "account", "import"] as const) {
    if (filter[column] === undefined) continue;
    tests.push(`${column} = ?`);
    values.push(filter[column]);
  }
  if (filter.open === true) tests.push("ended_ms IS NULL");
  const where = tests.length > 0 ? `WHERE ${tests.join(" AND ")}` : "";
  return db
    .prepare<unknown[], JobRow>(`SELECT * FROM jobs ${where} ORDER BY requested_ms DESC, id DESC LIMIT ?`)
    .all(...values, filter.limit ?? 1000);
}

function countsOf(db: Database, id: number): Counts {
  const rows = db
    .prepare<[number], { outcome: Outcome; users: number }>(
      "SELECT outcome, count(*) AS users FROM job_users WHERE job = ? GROUP BY outcome",
    )
    .all(id);
  const events = db
    .prepare<[number], { events: number }>("SELECT count(*) AS events FROM job_events WHERE job = ?")
    .get(id)!.events;
  const counts = { created: 0, updated: 0, reactivated: 0, failed: 0, pending: 0, events };
  for (const { outcome, users } of rows) counts[outcome] = users;
  return counts;
}

function usersOf(
  db: Database,
  id: number,
  filter: { outcome?: Outcome | undefined; limit: number; offset: number },
): JobUser[] {
  return db
    .prepare<unknown[], JobUser>(
      `SELECT user_id AS userId, username, email, outcome, reason, event, timestamp FROM job_users
       WHERE job = ? AND (? IS NULL OR outcome = ?)
       ORDER BY coalesce(username, email, user_id), id LIMIT ? OFFSET ?`,
    )
    .all(id, filter.outcome ?? null, filter.outcome ?? null, filter.limit, filter.offset);
}

function timelineOf(db: Database, id: number, page: { limit: number; offset: number }): JobEvent[] {
  return db
    .prepare<unknown[], JobEvent>(
      `SELECT e.identity, e.event_id AS eventId, e.event_type AS eventType, e.timestamp,
         coalesce(u.username, u.email, u.user_id) AS username, e.outcome, e.reason
       FROM job_events e LEFT JOIN job_users u ON u.id = e.user
       WHERE e.job = ? ORDER BY e.timestamp_ms, e.timestamp, e.identity LIMIT ? OFFSET ?`,
    )
    .all(id, page.limit, page.offset);
}

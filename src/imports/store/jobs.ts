import type { Database, Statement } from "better-sqlite3";
import type { Job, JobRow, JobState, StoredState } from "../job.ts";

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
  readonly sender: string;
}

/** A job that was found by its events. */
export interface FoundJob {
  readonly account: string;
  readonly organization: string | null;
  readonly kind: Job["kind"];
  readonly source: string | null;
  readonly ms: number;
  readonly serviceJob: string;
  readonly hasEnded: boolean;
  readonly nowMs: number;
  readonly quietAfterMs: number;
  readonly finishAfterMs: number;
}

/** Another job of the same import has not ended. */
export class OpenJobError extends Error {
  override readonly name = "OpenJobError";
  readonly job: number;

  constructor(job: number, state: StoredState) {
    super(`Job ${job} of the same import has not ended (${state}); two never run at once.`);
    this.job = job;
  }
}

export interface JobFilter {
  readonly state?: JobState | undefined;
  readonly account?: string | undefined;
  readonly import?: string | undefined;
  readonly open?: boolean | undefined;
  /** Open ones, and those that went on after their end while their import had another open job. */
  readonly followed?: boolean | undefined;
  readonly limit?: number | undefined;
}

/** The rows of jobs. A method that changes anything runs inside the caller's change. */
export interface JobRows {
  /** OpenJobError when the import has a job that has not ended. */
  create(job: NewJob): JobRow;
  createFound(job: FoundJob): JobRow;
  row(id: number): JobRow | undefined;
  rows(filter: JobFilter): JobRow[];
  /**
   * The job that a correlation id belongs to, by the job itself or by one of its parts. Two organizations may have the
   * same id. Events have it in lower case, whatever the answer to the start has. An event may be read by another account than the job's, where both read its organization.
   */
  byServiceJob(serviceJob: string, of: Pick<JobRow, "account" | "organization">): JobRow | undefined;
  /** False in a state that has never seen an import: no event belongs to a job then. */
  isAny(): boolean;
  /** Whether a start waits for events that name its job; of any account without one. */
  isAwaited(account?: string, organization?: string | null): boolean;
  /**
   * Jobs of unknown origin that an uncertain part may have become. Events of a Workday import may name another id than
   * the integration's, so its users alone tell it.
   */
  candidates(job: JobRow, fromMs: number, toMs: number): JobRow[];
  /** Uncertain parts of the same source that were sent in this time. */
  rivals(job: JobRow, fromMs: number, toMs: number): number;
  /** Jobs that were called finished before their last event. */
  endedEarly(nowMs: number): JobRow[];
  move(id: number, state: StoredState, nowMs: number, change?: JobChange): void;
  /** Sets the service's job id of a job, the first one it got. */
  name(id: number, serviceJob: string): void;
  /** The offer is stored. A note says why it may contain users that the import leaves out. */
  offered(id: number, nowMs: number, note: string | null): void;
  /** Why the offer is not known yet. */
  noteOffer(id: number, note: string | null): void;
  /** The sender, and until when it may be alive. */
  send(id: number, sender: string, answerByMs: number): void;
  /** The same, if it is still the sender. */
  renew(id: number, sender: string, answerByMs: number): boolean;
  /** An event or a result was seen. */
  touch(id: number, nowMs: number, eventMs: number | null, source: string | null): void;
  /** Takes the times of a found job over and removes it. */
  absorb(found: JobRow, into: number): void;
}

export interface JobChange {
  readonly reason?: string | null;
  /** Set, it lets the schedule go on; null opens the job again where that is possible. */
  readonly endedMs?: number | null;
  /** The person that ends a job. Any later move is the program's own. */
  readonly endedBy?: string;
}

/** A job's state as people see it. */
export const SHOWN_STATE = "CASE WHEN jobs.ended_by IS NULL THEN jobs.state ELSE 'ended' END";

/** In a cluster jobs of all lanes have different numbers: those of a lane leave its own remainder. */
export interface JobNumbering {
  readonly index: number;
  readonly count: number;
}

export function openJobRows(db: Database, numbering?: JobNumbering): JobRows {
  const highest = db
    .prepare<[], number>(
      `SELECT MAX(COALESCE((SELECT MAX(id) FROM jobs), 0),
         COALESCE((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'jobs_after'), 0))`,
    )
    .pluck();
  /** null: the next one. */
  const nextId = (): number | null => {
    if (numbering === undefined) return null;
    const { index, count } = numbering;
    const after = highest.get()!;
    return after + 1 + ((((index - after - 1) % count) + count) % count);
  };
  const insert = db.prepare(
    `INSERT INTO jobs (id, import, account, organization, kind, source, request, origin, requested_by, requested_ms,
       answer_by_ms, state, state_ms, quiet_after_ms, finish_after_ms, active_ms, sender)
     VALUES (@id, @import, @account, @organization, @kind, @source, @request, @origin, @requestedBy, @requestedMs,
       @answerByMs, 'requested', @requestedMs, @quietAfterMs, @finishAfterMs, @requestedMs, @sender)`,
  );
  const insertFound = db.prepare(
    `INSERT INTO jobs (id, account, organization, kind, source, request, origin, requested_by, requested_ms, answer_by_ms,
       service_job, state, state_ms, quiet_after_ms, finish_after_ms, active_ms, ended_ms)
     VALUES (@id, @account, @organization, @kind, @source, '{}', 'elsewhere', 'elsewhere', @ms, @ms,
       @serviceJob, @state, @nowMs, @quietAfterMs, @finishAfterMs, @nowMs, @endedMs)`,
  );
  const byId = db.prepare<[number], JobRow>("SELECT * FROM jobs WHERE id = ?");
  const openOf = db.prepare<unknown[], JobRow>(
    `SELECT * FROM jobs WHERE account = @account AND lower(source) IS lower(@source) AND id <> @id
       AND (organization IS NULL OR @organization IS NULL OR organization = @organization)
       AND ended_ms IS NULL AND origin <> 'elsewhere'`,
  );
  /** Another job of the same import. Ids mean the same in any case, and a key of one organization need not name it. */
  const openJobOf = (
    { account, organization, source }: Pick<JobRow, "account" | "organization" | "source">,
    id: number,
  ) => openOf.get({ account, organization, source, id });
  const inOrganization = `(@organization IS NULL OR organization IS NULL OR organization = @organization)
     ORDER BY jobs.account = @account DESC, jobs.id LIMIT 1`;
  const own = db.prepare<unknown[], JobRow>(
    `SELECT * FROM jobs WHERE service_job = @serviceJob COLLATE NOCASE AND ${inOrganization}`,
  );
  const ofPart = db.prepare<unknown[], JobRow>(
    `SELECT jobs.* FROM job_parts JOIN jobs ON jobs.id = job_parts.job
     WHERE job_parts.service_job = @serviceJob COLLATE NOCASE AND ${inOrganization}`,
  );
  const any = db.prepare("SELECT 1 FROM jobs LIMIT 1");
  const awaited = db.prepare<unknown[], unknown>(
    `SELECT 1 FROM jobs WHERE service_job IS NULL AND state IN ('requested', 'uncertain')
       AND (@account IS NULL OR (account = @account AND (organization IS NULL OR organization = @organization)))
     UNION ALL SELECT 1 FROM job_parts JOIN jobs ON jobs.id = job_parts.job
       WHERE (job_parts.state IN ('sent', 'uncertain')
         OR (job_parts.state = 'planned' AND job_parts.first_sent_ms IS NOT NULL)) AND jobs.ended_ms IS NULL
       AND (@account IS NULL OR (jobs.account = @account AND (organization IS NULL OR organization = @organization)))
     LIMIT 1`,
  );
  const candidates = db.prepare<unknown[], JobRow>(
    `SELECT * FROM jobs WHERE origin = 'elsewhere' AND service_job IS NOT NULL AND account = @account
       AND (@organization IS NULL OR organization = @organization)
       AND (@kind = 'workday' OR source IS NULL OR lower(source) = lower(@source)) AND first_event_ms BETWEEN @fromMs AND @toMs`,
  );
  const rivals = db
    .prepare<unknown[], number>(
      `SELECT count(*) FROM job_parts p JOIN jobs j ON j.id = p.job WHERE p.state = 'uncertain'
         AND j.account = @account AND j.organization IS @organization AND lower(j.source) IS lower(@source)
         AND p.at_ms BETWEEN @fromMs AND @toMs`,
    )
    .pluck();
  const early = db.prepare<[number], JobRow>(
    `SELECT * FROM jobs WHERE state = 'finished' AND last_event_ms > ended_ms AND active_ms > ended_ms
       AND ? - active_ms < finish_after_ms`,
  );
  const update = db.prepare(
    "UPDATE jobs SET state = ?, state_ms = ?, reason = ?, ended_ms = ?, ended_by = ? WHERE id = ?",
  );
  const touch = db.prepare(
    `UPDATE jobs SET active_ms = max(active_ms, @nowMs), source = coalesce(source, @source),
       first_event_ms = coalesce(min(coalesce(first_event_ms, @ms), @ms), first_event_ms),
       last_event_ms = coalesce(max(coalesce(last_event_ms, @ms), @ms), last_event_ms)
     WHERE id = @id`,
  );

  const statements = new Map<string, Statement<unknown[], JobRow>>();
  /** The steps of imports ask several times a second. */
  function prepared(sql: string) {
    const statement = statements.get(sql) ?? db.prepare<unknown[], JobRow>(sql);
    statements.set(sql, statement);
    return statement;
  }

  return {
    create(job) {
      const open = openJobOf(job, -1);
      if (open !== undefined) throw new OpenJobError(open.id, open.state);
      const { lastInsertRowid } = insert.run({ ...job, id: nextId(), request: JSON.stringify(job.request) });
      return byId.get(Number(lastInsertRowid))!;
    },
    createFound({ hasEnded, ...job }) {
      const state = hasEnded ? "finished" : "running";
      const endedMs = hasEnded ? job.nowMs : null;
      const { lastInsertRowid } = insertFound.run({ ...job, id: nextId(), state, endedMs });
      return byId.get(Number(lastInsertRowid))!;
    },
    row: (id) => byId.get(id),
    rows: (filter) => rowsOf(prepared, filter),
    byServiceJob(serviceJob, { account, organization }) {
      const id = { serviceJob, account, organization };
      return own.get(id) ?? ofPart.get(id);
    },
    isAny: () => any.get() !== undefined,
    isAwaited: (account, organization) =>
      awaited.get({ account: account ?? null, organization: organization ?? null }) !== undefined,
    candidates: ({ account, organization, kind, source }, fromMs, toMs) =>
      candidates.all({ account, organization, kind, source, fromMs, toMs }),
    rivals: ({ account, organization, source }, fromMs, toMs) =>
      rivals.get({ account, organization, source, fromMs, toMs }) as number,
    endedEarly: (nowMs) => early.all(nowMs),
    move(id, state, nowMs, change = {}) {
      const row = byId.get(id);
      if (row === undefined) return;
      const reason = change.reason === undefined ? row.reason : change.reason;
      let endedMs = change.endedMs === undefined ? row.ended_ms : change.endedMs;
      // Its import may have another job by now; then this one goes on without holding that up.
      const isReopened = endedMs === null && row.ended_ms !== null;
      const sibling = () => openJobOf(row, row.id);
      if (isReopened && sibling() !== undefined) endedMs = row.ended_ms;
      update.run(
        state,
        row.state === state ? row.state_ms : nowMs,
        reason,
        endedMs,
        change.endedBy ?? null,
        id,
      );
    },
    name(id, serviceJob) {
      db.prepare("UPDATE jobs SET service_job = coalesce(service_job, ?) WHERE id = ?").run(serviceJob, id);
    },
    offered(id, nowMs, note) {
      db.prepare("UPDATE jobs SET offered_ms = ?, offer_note = ? WHERE id = ?").run(nowMs, note, id);
    },
    noteOffer(id, note) {
      db.prepare("UPDATE jobs SET offer_note = ? WHERE id = ?").run(note?.slice(0, 500) ?? null, id);
    },
    renew: (id, sender, answerByMs) =>
      db.prepare("UPDATE jobs SET answer_by_ms = ? WHERE id = ? AND sender = ?").run(answerByMs, id, sender)
        .changes === 1,
    send(id, sender, answerByMs) {
      db.prepare("UPDATE jobs SET sender = ?, answer_by_ms = ? WHERE id = ?").run(sender, answerByMs, id);
    },
    touch(id, nowMs, ms, source) {
      touch.run({ id, nowMs, ms, source });
    },
    absorb(found, into) {
      touch.run({ id: into, nowMs: found.active_ms, ms: found.first_event_ms, source: found.source });
      touch.run({ id: into, nowMs: found.active_ms, ms: found.last_event_ms, source: found.source });
      db.prepare("DELETE FROM jobs WHERE id = ?").run(found.id);
    },
  };
}

function rowsOf(prepared: (sql: string) => Statement<unknown[], JobRow>, filter: JobFilter): JobRow[] {
  const tests: string[] = [];
  const values: unknown[] = [];
  const columns = { state: SHOWN_STATE, account: "account", import: "import" } as const;
  for (const column of ["state", "account", "import"] as const) {
    if (filter[column] === undefined) continue;
    tests.push(`${columns[column]} = ?`);
    values.push(filter[column]);
  }
  if (filter.open === true) tests.push("ended_ms IS NULL");
  if (filter.followed === true) tests.push("(ended_ms IS NULL OR state IN ('running', 'quiet'))");
  const where = tests.length > 0 ? `WHERE ${tests.join(" AND ")}` : "";
  const select = prepared(`SELECT * FROM jobs ${where} ORDER BY requested_ms DESC, id DESC LIMIT ?`);
  return select.all(...values, filter.limit ?? 1000);
}

import type { Database } from "better-sqlite3";
import type { JobPart } from "../job.ts";

/** A request of a job to the service. send-parts.ts describes its states. */
export interface PartRow {
  readonly job: number;
  readonly part: number;
  readonly account: string;
  readonly state: JobPart["state"];
  readonly service_job: string | null;
  /** When it was sent, or when a planned one may be sent. */
  readonly at_ms: number;
  /** The first send, of a part that was planned again because the answer was lost. */
  readonly first_sent_ms: number | null;
  readonly tries: number;
  readonly reason: string | null;
  readonly results_digest: string | null;
  readonly next_poll_ms: number | null;
}

export interface Parts {
  of(job: number): PartRow[];
  /** With the number of users each carries. */
  views(job: number): JobPart[];
  /** Adds a planned part and gives its number. `firstSentMs`: its users were sent before, and the answer was lost. */
  plan(job: number, account: string, atMs: number, firstSentMs?: number | null): number;
  move(job: number, part: number, change: PartChange): void;
  polled(job: number, part: number, digest: string | null, nextPollMs: number): void;
}

export interface PartChange {
  readonly state: JobPart["state"];
  readonly atMs?: number;
  readonly firstSentMs?: number;
  readonly tries?: number;
  readonly reason?: string | null;
  readonly serviceJob?: string;
  readonly nextPollMs?: number;
}

export function openParts(db: Database): Parts {
  const of = db.prepare<[number], PartRow>("SELECT * FROM job_parts WHERE job = ? ORDER BY part");
  const views = db.prepare<[number], JobPart>(
    `SELECT p.part, p.state, p.service_job AS serviceJob, p.reason,
       (SELECT count(*) FROM job_users u WHERE u.job = p.job AND u.part = p.part) AS users
     FROM job_parts p WHERE p.job = ? ORDER BY p.part`,
  );
  const highest = db
    .prepare<[number], number | null>("SELECT max(part) FROM job_parts WHERE job = ?")
    .pluck();
  const insert = db.prepare(
    "INSERT INTO job_parts (job, part, account, state, at_ms, first_sent_ms) VALUES (?, ?, ?, 'planned', ?, ?)",
  );
  const update = db.prepare(
    `UPDATE job_parts SET state = @state, at_ms = coalesce(@atMs, at_ms),
       first_sent_ms = coalesce(first_sent_ms, @firstSentMs), tries = coalesce(@tries, tries),
       reason = @reason, service_job = coalesce(@serviceJob, service_job),
       next_poll_ms = coalesce(@nextPollMs, next_poll_ms)
     WHERE job = @job AND part = @part`,
  );
  const polled = db.prepare(
    `UPDATE job_parts SET results_digest = coalesce(?, results_digest), next_poll_ms = ?
     WHERE job = ? AND part = ?`,
  );
  return {
    of: (job) => of.all(job),
    views: (job) => views.all(job),
    plan(job, account, atMs, firstSentMs = null) {
      const part = ((highest.get(job) as number | null) ?? -1) + 1;
      insert.run(job, part, account, atMs, firstSentMs);
      return part;
    },
    move(job, part, change) {
      const {
        state,
        atMs = null,
        firstSentMs = null,
        tries = null,
        reason = null,
        serviceJob = null,
        nextPollMs = null,
      } = change;
      update.run({ job, part, state, atMs, firstSentMs, tries, reason, serviceJob, nextPollMs });
    },
    polled: (job, part, digest, nextPollMs) => {
      polled.run(digest, nextPollMs, job, part);
    },
  };
}

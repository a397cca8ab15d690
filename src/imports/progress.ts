import type { Database } from "better-sqlite3";
import type { Log } from "../core/log.ts";
import type { JobRow } from "./job.ts";
import type { Jobs } from "./store.ts";

/**
 * The states of a job and its moves.
 *
 * A job is *requested* when its row is written, before the service hears of it. The service's answer with a
 * job id makes it *running*; a refusal makes it *failed*. When the answer is lost, or when it has not come
 * long after it had to (the process was killed, say), the job is *uncertain*: it may run at the service or not.
 *
 * A running job becomes *quiet* when nothing new has been seen of it for a while (a while in which events were
 * read: an outage is no silence), and runs again with the next event. A quiet job is *finished* when the quiet lasts: the service has no other way to say so. Events that
 * come later still are counted in; one that happened after the end opens the job again.
 *
 * An uncertain job is resolved by events when exactly one job of unknown origin belongs to that application and
 * began when this one was requested; it is then that job. A person may resolve it too. When nothing does, it
 * ends at a deadline: it stays uncertain, and its schedule goes on.
 *
 * Jobs that were started elsewhere begin as running. A job that has ended no longer holds up its import.
 */
export interface ProgressContext {
  readonly db: Database;
  readonly jobs: Jobs;
  readonly log: Log;
  /** Up to when an account's events have been read; quiet counts only so far. Absent: up to now. */
  readonly readUntilMs?: ((account: string) => number | undefined) | undefined;
}

/** Clocks may differ by this much, and a job's first event may come this much later than its request. */
const EARLY_MS = 120_000;
const LATE_MS = 3_600_000;
const RESOLVE_WITHIN_MS = 86_400_000;

/** Makes every move that is due at this time. */
export function moveJobs(context: ProgressContext, nowMs: number): void {
  const { jobs } = context;
  for (const job of jobs.rows({ open: true })) moveJob(context, job, nowMs);
  for (const job of jobs.rows({ state: "uncertain" })) {
    if (nowMs >= job.answer_by_ms && nowMs < job.requested_ms + RESOLVE_WITHIN_MS)
      resolve(context, job, nowMs);
  }
  reopen(context, nowMs);
}

function moveJob({ jobs, log, readUntilMs }: ProgressContext, job: JobRow, nowMs: number): void {
  const fields = { job: job.id, import: job.import, account: job.account };
  const idleMs = Math.min(nowMs, readUntilMs?.(job.account) ?? nowMs) - job.active_ms;
  switch (job.state) {
    case "requested":
      if (nowMs < job.answer_by_ms) return;
      jobs.move(job.id, "uncertain", nowMs, { reason: "no answer to the start was seen" });
      log.warn(fields, "Import start uncertain; it is not repeated.");
      return;
    case "running":
    case "quiet":
      if (idleMs >= job.finish_after_ms) {
        jobs.move(job.id, "finished", nowMs, { endedMs: nowMs });
        log.info({ ...fields, ...jobs.counts(job.id) }, "Import finished.");
      } else if (job.state === "running" && idleMs >= job.quiet_after_ms) {
        jobs.move(job.id, "quiet", nowMs);
      }
      return;
    case "uncertain":
      if (nowMs < job.answer_by_ms + job.finish_after_ms) return;
      jobs.move(job.id, "uncertain", nowMs, { endedMs: nowMs });
      log.warn(fields, "Import start still uncertain; its schedule goes on.");
      return;
    case "finished":
    case "failed":
      jobs.move(job.id, job.state, nowMs, { endedMs: nowMs });
  }
}

/** By events, if there is exactly one candidate, and no other uncertain job that it could be as well (R28). */
function resolve({ db, jobs, log }: ProgressContext, job: JobRow, nowMs: number): void {
  const candidates = db
    .prepare<unknown[], JobRow>(
      `SELECT * FROM jobs WHERE origin = 'elsewhere' AND account = ? AND (? IS NULL OR organization = ?)
         AND (source IS NULL OR source = ?) AND first_event_ms BETWEEN ? AND ?`,
    )
    .all(
      job.account,
      job.organization,
      job.organization,
      job.source,
      job.requested_ms - EARLY_MS,
      job.requested_ms + LATE_MS,
    );
  const [only] = candidates;
  if (only === undefined || candidates.length > 1 || only.source !== job.source) return;
  const rivals = db
    .prepare<unknown[], { rivals: number }>(
      `SELECT count(*) AS rivals FROM jobs WHERE state = 'uncertain' AND account = ? AND organization IS ?
         AND source IS ? AND ? BETWEEN requested_ms - ? AND requested_ms + ?`,
    )
    .get(job.account, job.organization, job.source, only.first_event_ms, EARLY_MS, LATE_MS)!.rivals;
  if (rivals > 1 || only.service_job === null) return;
  jobs.confirm(job.id, only.service_job, nowMs);
  // What made it active were its events, not this discovery.
  db.prepare("UPDATE jobs SET active_ms = ? WHERE id = ?").run(only.active_ms, job.id);
  log.info({ job: job.id, import: job.import, serviceJob: only.service_job }, "Import found by its events.");
}

/** A job that was called finished too early. */
function reopen({ db, jobs, log }: ProgressContext, nowMs: number): void {
  const early = db
    .prepare<[number], JobRow>(
      `SELECT * FROM jobs WHERE state = 'finished' AND last_event_ms > ended_ms AND active_ms > ended_ms
         AND ? - active_ms < finish_after_ms`,
    )
    .all(nowMs);
  for (const job of early) {
    jobs.move(job.id, "running", nowMs, { endedMs: null });
    log.info({ job: job.id, import: job.import }, "Import goes on after it was called finished.");
  }
}

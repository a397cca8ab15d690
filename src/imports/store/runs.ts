import type { Database } from "better-sqlite3";
import type { JobState } from "../job.ts";
import { SHOWN_STATE } from "./jobs.ts";

export type RunOutcome = "started" | "missed" | "overlapped";

/** A scheduled run, whatever became of it. */
export interface RunRow {
  readonly import: string;
  /** Date and time on the wall clock of the schedule. */
  readonly local: string;
  readonly scheduledMs: number;
  readonly outcome: RunOutcome;
  readonly job: number | null;
  readonly jobState: JobState | null;
  readonly reason: string | null;
}

export interface Runs {
  isTaken(name: string, run: { readonly local: string; readonly ms: number }): boolean;
  record(
    name: string,
    run: { readonly local: string; readonly ms: number },
    outcome: RunOutcome,
    job: number | null,
    reason: string | null,
  ): void;
  /** The latest first. */
  list(filter: { import?: string | undefined; outcome?: RunOutcome | undefined; limit: number }): RunRow[];
  /** Up to where a schedule has been looked at; undefined for a new or changed one. */
  consideredMs(name: string, schedule: string): number | undefined;
  consider(name: string, schedule: string, nowMs: number): void;
  /**
   * Forgets what was recorded for times that have not come: the clock was ahead, and it is not true that they were
   * missed. Runs that were started stay, so that none starts twice. Returns up to where runs are still recorded.
   */
  forgetFuture(name: string, nowMs: number): number | undefined;
}

export function openRuns(db: Database): Runs {
  const taken = db.prepare<[string, string, number], unknown>(
    "SELECT 1 FROM import_runs WHERE import = ? AND (local = ? OR scheduled_ms = ?)",
  );
  const insert = db.prepare(
    "INSERT INTO import_runs (import, local, scheduled_ms, outcome, job, reason) VALUES (?, ?, ?, ?, ?, ?)",
  );
  const list = db.prepare<unknown[], RunRow>(
    `SELECT r.import, r.local, r.scheduled_ms AS scheduledMs, r.outcome, r.job, ${SHOWN_STATE} AS jobState,
       coalesce(r.reason, jobs.reason) AS reason
     FROM import_runs r LEFT JOIN jobs ON jobs.id = r.job
     WHERE (@import IS NULL OR r.import = @import) AND (@outcome IS NULL OR r.outcome = @outcome)
     ORDER BY r.scheduled_ms DESC, r.import LIMIT @limit`,
  );
  const considered = db.prepare<[string], { schedule: string; considered_ms: number }>(
    "SELECT schedule, considered_ms FROM import_schedules WHERE import = ?",
  );
  const consider = db.prepare(
    `INSERT INTO import_schedules (import, schedule, considered_ms) VALUES (?, ?, ?)
     ON CONFLICT (import) DO UPDATE SET schedule = excluded.schedule, considered_ms = excluded.considered_ms`,
  );
  const forgetFuture = db.prepare(
    "DELETE FROM import_runs WHERE import = ? AND scheduled_ms > ? AND outcome <> 'started'",
  );
  const newest = db
    .prepare<[string, number], number | null>(
      "SELECT MAX(scheduled_ms) FROM import_runs WHERE import = ? AND scheduled_ms <= ?",
    )
    .pluck();
  return {
    isTaken: (name, run) => taken.get(name, run.local, run.ms) !== undefined,
    record(name, run, outcome, job, reason) {
      insert.run(name, run.local, run.ms, outcome, job, reason);
    },
    list: (filter) =>
      list.all({ import: filter.import ?? null, outcome: filter.outcome ?? null, limit: filter.limit }),
    consideredMs(name, schedule) {
      const row = considered.get(name);
      return row?.schedule === schedule ? row.considered_ms : undefined;
    },
    consider(name, schedule, nowMs) {
      consider.run(name, schedule, nowMs);
    },
    forgetFuture(name, nowMs) {
      forgetFuture.run(name, nowMs);
      return newest.get(name, nowMs) ?? undefined;
    },
  };
}

import type { Database } from "better-sqlite3";
import { type Job, type JobRow, jobOf } from "../job.ts";
import { type JobFilter, type JobRows, openJobRows } from "./jobs.ts";
import { openParts, type Parts } from "./parts.ts";
import { openRuns, type Runs } from "./runs.ts";
import { openUsers, type Users } from "./users.ts";

/** Everything that imports keep in the state file. All SQL of imports is in this folder. */
export interface ImportStore {
  readonly jobs: JobRows;
  readonly parts: Parts;
  readonly users: Users;
  readonly runs: Runs;
  /** All or nothing, on disk when it returns. */
  change<Result>(work: () => Result): Result;
  /** A job with its counts, as people and programs see it. */
  job(id: number): Job | undefined;
  list(filter: JobFilter): Job[];
}

export function openImportStore(db: Database): ImportStore {
  const [jobs, parts, users, runs] = [openJobRows(db), openParts(db), openUsers(db), openRuns(db)];
  const view = (row: JobRow): Job =>
    jobOf(row, { counts: users.counts(row.id), ...users.totals(row.id), parts: parts.views(row.id) });
  return {
    ...{ jobs, parts, users, runs },
    change: (work) => (db.inTransaction ? work() : db.transaction(work).immediate()),
    job(id) {
      const row = jobs.row(id);
      return row && view(row);
    },
    list: (filter) => jobs.rows(filter).map(view),
  };
}

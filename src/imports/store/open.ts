import type { Database } from "better-sqlite3";
import type { Change } from "../../core/change.ts";
import { type Job, type JobRow, jobOf } from "../job.ts";
import { type JobFilter, type JobNumbering, type JobRows, openJobRows } from "./jobs.ts";
import { openParts, type Parts } from "./parts.ts";
import { openRuns, type Runs } from "./runs.ts";
import { openUsers, type Users } from "./users.ts";

/** Everything that imports keep in the state file. All SQL of imports is in this folder. */
export interface ImportStore {
  readonly jobs: JobRows;
  readonly parts: Parts;
  readonly users: Users;
  readonly runs: Runs;
  readonly change: Change;
  /** A job with its counts, as people and programs see it. */
  job(id: number): Job | undefined;
  list(filter: JobFilter): Job[];
}

/** A state file: it is read directly and changed through `change` alone. */
export type ImportState = Database & { readonly change: Change };

export function openImportStore(db: ImportState, numbering?: JobNumbering): ImportStore {
  const [jobs, parts, users, runs] = [openJobRows(db, numbering), openParts(db), openUsers(db), openRuns(db)];
  const view = (row: JobRow): Job =>
    jobOf(row, { counts: users.counts(row.id), ...users.totals(row.id), parts: parts.views(row.id) });
  return {
    ...{ jobs, parts, users, runs },
    change: db.change,
    job(id) {
      const row = jobs.row(id);
      return row && view(row);
    },
    list: (filter) => jobs.rows(filter).map(view),
  };
}

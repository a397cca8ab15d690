import type { Move } from "./move.ts";
import { copyRows } from "./rows.ts";

/** Jobs with all that belongs to them, and schedules with the runs that were taken: none is started twice (R28). */
export function copyImports(move: Move): void {
  const { db, owners } = move;
  // Numbers of one source stay as they are; those of the next begin behind them.
  const after = (table: string) =>
    db.prepare(`SELECT COALESCE(MAX(id), 0) FROM ${table}`).pluck().get() as number;
  const [jobsAfter, usersAfter] = [after("jobs"), after("job_users")];
  const jobs = ownJobs(move);
  const job = (id: unknown) => (id as number) + jobsAfter;
  const keep = (row: Record<string, unknown>) => jobs.has(row.job as number);
  copyRows(move, "jobs", {
    keep: ({ id }) => jobs.has(id as number),
    change: ({ id }) => ({ id: job(id) }),
  });
  copyRows(move, "job_parts", { keep, change: (row) => ({ job: job(row.job) }) });
  copyRows(move, "job_users", {
    keep,
    change: (row) => ({ job: job(row.job), id: (row.id as number) + usersAfter }),
  });
  copyRows(move, "job_events", {
    keep,
    change: (row) => ({
      job: job(row.job),
      user: row.user === null ? null : (row.user as number) + usersAfter,
    }),
  });
  copyRows(move, "import_runs", {
    keep: (row) => owners.import(row.import as string),
    change: (row) => ({ job: row.job !== null && jobs.has(row.job as number) ? job(row.job) : null }),
    onConflict: "ON CONFLICT DO NOTHING",
  });
  copyRows(move, "import_schedules", {
    keep: (row) => owners.import(row.import as string),
    onConflict:
      "ON CONFLICT (import) DO UPDATE SET considered_ms = MAX(considered_ms, excluded.considered_ms)",
  });
}

function ownJobs({ source, owners }: Move): ReadonlySet<number> {
  const rows = source.prepare("SELECT id, account, organization FROM jobs");
  return new Set(
    (rows.all() as { id: number; account: string; organization: string | null }[])
      .filter(({ account, organization }) => owners.job(account, organization))
      .map(({ id }) => id),
  );
}

import type { Database } from "better-sqlite3";
import type { ImportDefinition } from "./config.ts";
import type { JobRow } from "./job.ts";
import { dueRuns, nextRun, type Run } from "./schedule.ts";
import { requestJob, type StartContext, type StartOrder, sendStart } from "./start.ts";
import { OpenJobError } from "./store.ts";

/** How far back missed runs are told one by one. */
const MISSED_MS_MAX = 7 * 86_400_000;

/**
 * Starts what is due. A run is a row for its local date and time before anything is sent, so neither a crash
 * nor a clock change starts it twice (R28). What is later than `catchUp` is missed, and of several that are
 * due only the last is started; both are written down and said.
 */
export interface Scheduler {
  /** Everything due at this time; resolves when the starts have been answered. */
  runDue(nowMs: number, signal: AbortSignal): Promise<void>;
}

export function openScheduler(
  db: Database,
  context: StartContext,
  definitions: readonly ImportDefinition[],
): Scheduler {
  const nextMs = new Map<string, number>();

  const considered = (definition: ImportDefinition, nowMs: number): number => {
    const row = db
      .prepare<[string], { schedule: string; considered_ms: number }>(
        "SELECT schedule, considered_ms FROM import_schedules WHERE import = ?",
      )
      .get(definition.name);
    // A new or changed schedule counts from now on.
    if (row?.schedule === keyOf(definition)) return Math.max(row.considered_ms, nowMs - MISSED_MS_MAX);
    consider(db, definition, nowMs);
    return nowMs;
  };

  async function runOne(definition: ImportDefinition, nowMs: number, signal: AbortSignal): Promise<void> {
    const schedule = definition.schedule!;
    if (nowMs < (nextMs.get(definition.name) ?? 0)) return;
    const runs = dueRuns(schedule, definition.timeZone, considered(definition, nowMs), nowMs);
    const order = orderOf(definition);
    const job = take(db, context, definition, order, runs, nowMs);
    nextMs.set(definition.name, nextRun(schedule, definition.timeZone, nowMs)?.ms ?? nowMs + 86_400_000);
    if (job !== undefined) await sendStart(context, job, order, signal);
  }

  return {
    async runDue(nowMs, signal) {
      const scheduled = definitions.filter((definition) => definition.schedule !== undefined);
      await Promise.all(scheduled.map((definition) => runOne(definition, nowMs, signal)));
    },
  };
}

/** Writes down what becomes of the runs, and the job's row with it, in one transaction. */
function take(
  db: Database,
  context: StartContext,
  definition: ImportDefinition,
  order: StartOrder,
  runs: readonly Run[],
  nowMs: number,
): JobRow | undefined {
  const fresh = runs.filter((run) => !isTaken(db, definition.name, run));
  if (fresh.length === 0) return undefined;
  const last = fresh.at(-1)!;
  const isTimely = last.ms >= nowMs - definition.catchUp;
  const missed = isTimely ? fresh.slice(0, -1) : fresh;
  const fields = { import: definition.name };
  return db
    .transaction((): JobRow | undefined => {
      for (const run of missed) record(db, definition.name, run, "missed", null, "not started in time");
      if (missed.length > 0) {
        const scheduled = missed.slice(-10).map((run) => run.local);
        context.log.warn({ ...fields, runs: missed.length, scheduled }, "Scheduled imports were missed.");
      }
      consider(db, definition, nowMs);
      if (!isTimely) return undefined;
      try {
        const job = requestJob(context, order);
        record(db, definition.name, last, "started", job.id, null);
        return job;
      } catch (error) {
        if (!(error instanceof OpenJobError)) throw error;
        record(db, definition.name, last, "overlapped", error.job, error.message);
        context.log.warn(
          { ...fields, scheduled: last.local, job: error.job },
          "Scheduled import left out: the last one has not ended.",
        );
        return undefined;
      }
    })
    .immediate();
}

function isTaken(db: Database, name: string, run: Run): boolean {
  const row = db.prepare("SELECT 1 FROM import_runs WHERE import = ? AND (local = ? OR scheduled_ms = ?)");
  return row.get(name, run.local, run.ms) !== undefined;
}

function record(
  db: Database,
  name: string,
  run: Run,
  outcome: "started" | "missed" | "overlapped",
  job: number | null,
  reason: string | null,
): void {
  db.prepare(
    "INSERT INTO import_runs (import, local, scheduled_ms, outcome, job, reason) VALUES (?, ?, ?, ?, ?, ?)",
  ).run(name, run.local, run.ms, outcome, job, reason);
}

function consider(db: Database, definition: ImportDefinition, nowMs: number): void {
  db.prepare(
    `INSERT INTO import_schedules (import, schedule, considered_ms) VALUES (?, ?, ?)
     ON CONFLICT (import) DO UPDATE SET schedule = excluded.schedule, considered_ms = excluded.considered_ms`,
  ).run(definition.name, keyOf(definition), nowMs);
}

function keyOf(definition: ImportDefinition): string {
  return `${definition.schedule} ${definition.timeZone}`;
}

export function orderOf(definition: ImportDefinition): StartOrder {
  return {
    import: definition.name,
    account: definition.account,
    organization: definition.organization,
    application: definition.application,
    workday: definition.workday,
    request: {
      operations: definition.operations,
      allowUserReactivation: definition.allowUserReactivation,
      ...(definition.queryString === undefined ? {} : { queryString: definition.queryString }),
    },
    origin: "schedule",
    requestedBy: "schedule",
    quietAfterMs: definition.quietAfter,
    finishAfterMs: definition.finishAfter,
  };
}

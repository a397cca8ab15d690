import { hash } from "node:crypto";
import type { Database } from "better-sqlite3";
import { explain } from "../core/errors.ts";
import type { JobRow, Outcome } from "./job.ts";
import type { ImportUser } from "./meaning.ts";
import type { StartContext } from "./start.ts";
import { openUsers } from "./users.ts";

const POLL_MS = 15_000;

/**
 * A Workday import tells its results when it is asked: they are polled until they stop changing, and a change
 * counts as activity. Gives how many jobs were asked about.
 */
export async function pollWorkday(
  db: Database,
  context: StartContext,
  nowMs: number,
  signal: AbortSignal,
): Promise<number> {
  const due = context.jobs
    .rows({ open: true })
    .filter((job) => job.kind === "workday" && job.next_poll_ms !== null && job.next_poll_ms <= nowMs);
  for (const job of due) await pollOne(db, context, job, nowMs, signal);
  return due.length;
}

async function pollOne(
  db: Database,
  { source, jobs, log }: StartContext,
  job: JobRow,
  nowMs: number,
  signal: AbortSignal,
): Promise<void> {
  if (job.source === null || job.service_job === null) return;
  try {
    const results = await source(job.account).workdayResults(
      job.organization ?? undefined,
      job.source,
      job.service_job,
      signal,
    );
    const digest = hash("sha256", JSON.stringify(results), "hex");
    const isNew = digest !== job.results_digest;
    db.transaction(() => {
      if (isNew) tellAll(db, job.id, results);
      jobs.polled(job.id, digest, nowMs + POLL_MS, isNew ? nowMs : null);
      if (isNew && job.state === "quiet") jobs.move(job.id, "running", nowMs);
    }).immediate();
  } catch (error) {
    if (signal.aborted) throw error;
    log.warn({ job: job.id, reason: explain(error) }, "Workday results could not be read; trying again.");
    jobs.polled(job.id, job.results_digest ?? "", nowMs + POLL_MS, null);
  }
}

type Result = Readonly<Record<string, unknown>>;

function tellAll(db: Database, job: number, results: readonly Result[]): void {
  const users = openUsers(db);
  for (const result of results) {
    const user = userOf(result);
    const told = outcomeOf(result);
    if (user !== undefined && told !== undefined) users.tell(job, user, told.outcome, told.reason);
  }
}

/** The specification does not show a result; these are the names that are seen. */
function userOf(result: Result): ImportUser | undefined {
  const nested = result.persistedFields;
  const fields = { ...(typeof nested === "object" && nested !== null ? nested : {}), ...result } as Result;
  const text = (...names: readonly string[]) => {
    const found = names
      .map((name) => fields[name])
      .find((value) => typeof value === "string" && value !== "");
    return found as string | undefined;
  };
  const user = {
    userId: text("systemUserId", "system_user_id", "userId"),
    username: text("username"),
    email: text("email"),
  };
  return (user.userId ?? user.username ?? user.email) ? user : undefined;
}

function outcomeOf(result: Result): { outcome: Outcome; reason: string | undefined } | undefined {
  const status = String(result.status ?? "").toLowerCase();
  const message = String(result.statusMsg ?? result.message ?? result.error ?? "");
  if (/fail|error/.test(status)) return { outcome: "failed", reason: message.slice(0, 500) || undefined };
  if (/pend|queue|running|progress|^$/.test(status)) return { outcome: "pending", reason: undefined };
  const words = `${status} ${message.toLowerCase()} ${String(result.operation ?? "").toLowerCase()}`;
  if (/skip/.test(words)) return undefined;
  if (/reactiv/.test(words)) return { outcome: "reactivated", reason: undefined };
  return { outcome: /creat/.test(words) ? "created" : "updated", reason: undefined };
}

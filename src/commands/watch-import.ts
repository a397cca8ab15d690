import { UsageError } from "../core/errors.ts";
import type { Job } from "../imports/job.ts";
import { openImportStore } from "../imports/store/open.ts";
import type { Io } from "./io.ts";
import { jobReader } from "./job-reader.ts";
import type { ManagementContext } from "./management.ts";

const WATCH_MS = 1000;
/** No process follows a job that should have moved this long ago. */
const ALONE_MS = 120_000;

/**
 * Shows a job until it ends: one line that is rewritten where a person watches, a line for each change
 * otherwise, a JSON object for each change with --json. The exit code is 0 when it finished, no user failed and no
 * offered user is unaccounted for.
 */
export async function watchJob(
  io: Io,
  context: ManagementContext,
  id: number,
  asJson: boolean,
): Promise<void> {
  const jobs = jobReader(context);
  let shown = "";
  for (;;) {
    const job = await jobs.job(id);
    if (job === undefined) throw new UsageError(`There is no job ${id}; see "tidemark imports list".`);
    const line = asJson ? JSON.stringify(job) : words(job);
    if (line !== shown) write(io, line, asJson, shown !== "");
    shown = line;
    if (job.endedAt !== null) return end(io, job, asJson);
    if (context.cluster === undefined && isAlone(context, id)) {
      throw new Error(`No process follows job ${id}. Is "tidemark run" working with this config?`);
    }
    await context.clock.sleep(WATCH_MS, io.signal);
  }
}

function words({ id, import: name, source, state, summary }: Job): string {
  return `job ${id} (${name ?? source ?? "elsewhere"}) ${state}: ${summary}`;
}

function write(io: Io, line: string, asJson: boolean, again: boolean): void {
  const rewrites = io.interactive && !asJson;
  io.stdout.write(rewrites ? `${again ? "\r\u001b[K" : ""}${line}` : `${line}\n`);
}

function end(io: Io, job: Job, asJson: boolean): void {
  if (io.interactive && !asJson) io.stdout.write("\n");
  if (!wentWell(job)) io.setExitCode(1);
  if (!asJson && job.reason !== null) io.stdout.write(`${job.reason}\n`);
}

/** Where the offer is not exactly known, a job went well only if users have outcomes and none is waiting. */
export function wentWell({ state, counts, unaccounted }: Job): boolean {
  if (state !== "finished" || counts.failed > 0) return false;
  if (unaccounted !== null) return unaccounted === 0;
  const { created, updated, reactivated, skipped, pending } = counts;
  return pending === 0 && created + updated + reactivated + skipped > 0;
}

/** In a cluster a machine that runs the job's lane has just answered. */
function isAlone(context: ManagementContext, id: number): boolean {
  const nowMs = context.clock.now();
  const row = openImportStore(context.database("read")).jobs.row(id);
  if (row === undefined) return false;
  const dueMs =
    row.state === "requested" || row.state === "uncertain"
      ? row.answer_by_ms + row.finish_after_ms
      : row.active_ms + row.finish_after_ms;
  return nowMs > dueMs + ALONE_MS;
}

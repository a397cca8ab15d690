import { UsageError } from "../core/errors.ts";
import { ANSWER_BY_MS, type StartContext } from "./context.ts";
import type { Choice, Job, JobRequest, JobRow } from "./job.ts";
import { sendJob } from "./send-parts.ts";

/** Everything that a start needs: from a definition of the config, or from a person's own words. */
export interface StartOrder {
  readonly import: string | null;
  readonly account: string;
  readonly organization: string | undefined;
  readonly application?: string | undefined;
  readonly workday?: string | undefined;
  readonly request: JobRequest;
  /** Which workers are posted; Workday only. */
  readonly choice: Choice;
  readonly origin: Job["origin"];
  readonly requestedBy: string;
  readonly quietAfterMs: number;
  readonly finishAfterMs: number;
}

/**
 * Starts an import: the row is on disk before anything is sent, and an application's import whose answer is lost is
 * marked `uncertain` and never repeated (R28). Throws OpenJobError when the import has a job that has not ended.
 */
export async function startImport(
  context: StartContext,
  order: StartOrder,
  signal: AbortSignal,
): Promise<JobRow> {
  const job = await context.store.change(() => createJob(context, order));
  await sendJob(context, job.id, signal);
  return context.store.jobs.row(job.id) ?? job;
}

/** Writes the row, inside the caller's change. */
export function createJob({ store, clock, sender, refusal }: StartContext, order: StartOrder): JobRow {
  const why = refusal?.(order.account, order.organization);
  if (why !== undefined) throw new UsageError(why);
  const nowMs = clock.now();
  const isWorkday = order.workday !== undefined;
  return store.jobs.create({
    import: order.import,
    account: order.account,
    organization: order.organization?.toLowerCase() ?? null,
    kind: isWorkday ? "workday" : "application",
    source: order.workday ?? order.application ?? null,
    request: isWorkday ? order.choice : order.request,
    origin: order.origin,
    requestedBy: order.requestedBy,
    requestedMs: nowMs,
    answerByMs: nowMs + ANSWER_BY_MS,
    quietAfterMs: order.quietAfterMs,
    finishAfterMs: order.finishAfterMs,
    sender,
  });
}

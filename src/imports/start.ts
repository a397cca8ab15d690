import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import { timeoutSignal } from "../core/timeout.ts";
import type { Job, JobRequest, JobRow } from "./job.ts";
import type { ImportSource, StartAnswer } from "./source.ts";
import type { Jobs } from "./store.ts";

/** Everything that a start needs to know; a definition of the config, or a person's own words. */
export interface StartOrder {
  readonly import: string | null;
  readonly account: string;
  readonly organization: string | undefined;
  readonly application?: string | undefined;
  readonly workday?: string | undefined;
  readonly request: JobRequest;
  readonly origin: Job["origin"];
  readonly requestedBy: string;
  readonly quietAfterMs: number;
  readonly finishAfterMs: number;
}

export interface StartContext {
  readonly jobs: Jobs;
  readonly source: (account: string) => ImportSource;
  readonly clock: Clock;
  readonly log: Log;
}

/** How long the service may take to answer a start. */
const START_MS = 120_000;
/** The row waits longer than the request can, so that another process never calls a start uncertain that is under way. */
const ANSWER_BY_MS = START_MS + 60_000;

/**
 * Starts an import: the row is on disk before the request goes out, and a start whose answer is lost is marked
 * `uncertain` and never repeated (R28). Throws OpenJobError when the import has a job that has not ended.
 */
export async function startImport(
  context: StartContext,
  order: StartOrder,
  signal: AbortSignal,
): Promise<JobRow> {
  return sendStart(context, requestJob(context, order), order, signal);
}

/** Writes the row. */
export function requestJob({ jobs, clock }: StartContext, order: StartOrder): JobRow {
  const nowMs = clock.now();
  return jobs.create({
    import: order.import,
    account: order.account,
    organization: order.organization?.toLowerCase() ?? null,
    kind: order.workday === undefined ? "application" : "workday",
    source: order.workday ?? order.application ?? null,
    request: order.workday === undefined ? order.request : {},
    origin: order.origin,
    requestedBy: order.requestedBy,
    requestedMs: nowMs,
    answerByMs: nowMs + ANSWER_BY_MS,
    quietAfterMs: order.quietAfterMs,
    finishAfterMs: order.finishAfterMs,
  });
}

/** Sends the request of a row that is on disk, and writes down what became of it. */
export async function sendStart(
  context: StartContext,
  job: JobRow,
  order: StartOrder,
  signal: AbortSignal,
): Promise<JobRow> {
  const limited = AbortSignal.any([signal, timeoutSignal(START_MS)]);
  const source = context.source(order.account);
  const answer =
    order.workday === undefined
      ? await source.start(order.organization, order.application ?? "", order.request, limited)
      : await source.startWorkday(order.organization, order.workday, limited);
  settleStart(context, job, answer);
  return context.jobs.row(job.id) ?? job;
}

function settleStart({ jobs, clock, log }: StartContext, job: JobRow, answer: StartAnswer): void {
  const nowMs = clock.now();
  const fields = { job: job.id, import: job.import, account: job.account };
  switch (answer.kind) {
    case "started":
      confirmStart(jobs, job, answer.serviceJob, nowMs);
      log.info({ ...fields, serviceJob: answer.serviceJob }, "Import started.");
      return;
    case "refused":
      jobs.move(job.id, "failed", nowMs, { reason: answer.reason, endedMs: nowMs });
      log.error({ ...fields, reason: answer.reason }, "Import refused by the service.");
      return;
    case "uncertain":
      jobs.move(job.id, "uncertain", nowMs, { reason: answer.reason });
      log.warn({ ...fields, reason: answer.reason }, "Import start uncertain; it is not repeated.");
  }
}

/** A service that answers with the id of a job it has started before has not started another. */
function confirmStart(jobs: Jobs, job: JobRow, serviceJob: string, nowMs: number): void {
  try {
    jobs.confirm(job.id, serviceJob, nowMs);
  } catch (error) {
    jobs.move(job.id, "failed", nowMs, { reason: (error as Error).message, endedMs: nowMs });
  }
}

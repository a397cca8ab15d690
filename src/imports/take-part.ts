import type { StartContext } from "./context.ts";
import type { JobRow } from "./job.ts";

/** The ends of the reason of a job that a person has ended. */
export const NOT_STARTED = "; it is not known to have started";
export const NOT_FINISHED = "; it was not seen to finish";

/**
 * The service's job id of a part is known. Events that were found under it before become the job's. A service that
 * answers with the id of another job of ours has not started one. Several parts of one job may get the same id: the
 * first of them keeps it, and the others are taken without one. A job that a person has ended stays so, with the id;
 * events of a later time open it again.
 */
export function takePart(
  { store, log }: Pick<StartContext, "store" | "log">,
  job: JobRow,
  part: number,
  serviceJob: string,
  nowMs: number,
): void {
  const known = store.jobs.byServiceJob(serviceJob, job);
  const isShared = known?.id === job.id;
  if (known !== undefined && !isShared && known.origin !== "elsewhere") {
    const reason = `The service's job ${serviceJob} belongs to job ${known.id}.`;
    store.parts.move(job.id, part, { state: "refused", reason });
    const users = store.users.ofPart(job.id, part).map(({ id }) => id);
    store.users.fail(users, reason);
    return;
  }
  if (known !== undefined && !isShared) {
    store.users.adopt(known.id, job.id);
    store.jobs.absorb(known, job.id);
  }
  const isKept = store.parts.of(job.id).some((row) => row.part !== part && row.service_job === serviceJob);
  const nextPollMs = job.kind === "workday" ? { nextPollMs: nowMs } : {};
  store.parts.move(job.id, part, {
    state: "taken",
    ...(isKept ? {} : { serviceJob }),
    ...nextPollMs,
  });
  store.jobs.name(job.id, serviceJob);
  if (known === undefined || isShared) store.jobs.touch(job.id, nowMs, null, null);
  const row = store.jobs.row(job.id);
  if (row?.ended_by != null) {
    const reason = row.reason?.replace(NOT_STARTED, NOT_FINISHED) ?? null;
    store.jobs.move(job.id, "finished", nowMs, { reason, endedBy: row.ended_by });
  } else store.jobs.move(job.id, "running", nowMs, { reason: null, endedMs: null });
  log.info({ job: job.id, import: job.import, account: job.account, part, serviceJob }, "Import started.");
}

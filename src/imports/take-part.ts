import type { StartContext } from "./context.ts";
import type { JobRow } from "./job.ts";

/**
 * The service's job id of a part is known. Events that were found under it before become the job's. A service that
 * answers with the id of a job of ours has not started another.
 */
export function takePart(
  { store, log }: Pick<StartContext, "store" | "log">,
  job: JobRow,
  part: number,
  serviceJob: string,
  nowMs: number,
): void {
  const known = store.jobs.byServiceJob(serviceJob, job.account);
  if (known !== undefined && known.origin !== "elsewhere") {
    const reason = `The service's job ${serviceJob} belongs to job ${known.id}.`;
    store.parts.move(job.id, part, { state: "refused", reason });
    const users = store.users.ofPart(job.id, part).map(({ id }) => id);
    store.users.fail(users, reason);
    return;
  }
  if (known !== undefined) {
    store.users.adopt(known.id, job.id);
    store.jobs.absorb(known, job.id);
  }
  const nextPollMs = job.kind === "workday" ? { nextPollMs: nowMs } : {};
  store.parts.move(job.id, part, { state: "taken", serviceJob, ...nextPollMs });
  store.jobs.name(job.id, serviceJob);
  if (known === undefined) store.jobs.touch(job.id, nowMs, null, null);
  store.jobs.move(job.id, "running", nowMs, { reason: null, endedMs: null });
  log.info({ job: job.id, import: job.import, account: job.account, part, serviceJob }, "Import started.");
}

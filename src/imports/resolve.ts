import { z } from "zod";
import type { StartContext } from "./context.ts";
import { hasEnded, type JobRow } from "./job.ts";
import { settleJob } from "./progress.ts";
import { TRIES_MAX } from "./send-parts.ts";
import { NOT_FINISHED, NOT_STARTED, takePart } from "./take-part.ts";

export const resolutionSchema = z.union([
  z.strictObject({
    serviceJob: z.string().min(1).meta({ description: "The service's job id: the start was taken." }),
  }),
  z.strictObject({ started: z.literal(false).meta({ description: "The start was not taken." }) }),
  z.strictObject({
    ended: z.literal(true).meta({ description: "A person ends the job; its schedule may go on." }),
    reason: z
      .string()
      .trim()
      .min(1)
      .max(500)
      .optional()
      .meta({ description: "Why; it is kept with the job." }),
  }),
]);
export type JobResolution = z.output<typeof resolutionSchema>;

/** A person's word about a job. Throws when it contradicts what is known. */
export async function resolveJob(
  context: Pick<StartContext, "store" | "clock" | "log">,
  id: number,
  resolution: JobResolution,
  by: string,
): Promise<void> {
  const { store } = context;
  await store.change(() => {
    const job = store.jobs.row(id);
    if (job === undefined) throw new Error(`There is no job ${id}.`);
    if ("ended" in resolution) return endJob(context, job, by, resolution.reason);
    const uncertain = store.parts.of(id).filter(({ state }) => state === "uncertain");
    if (uncertain.length === 0) throw new Error(contradictionOf(job));
    if ("serviceJob" in resolution)
      return confirmJob(context, job, uncertain[0]!.part, resolution.serviceJob);
    const reason = `not started, says ${by}`;
    for (const { part } of uncertain) dropPart(context, job, part, reason);
    const nowMs = context.clock.now();
    if (job.service_job !== null) settleJob(context, id, nowMs);
    else store.jobs.move(id, "failed", nowMs, { reason, endedMs: nowMs });
  });
}

function contradictionOf(job: JobRow): string {
  if (job.service_job !== null) return `Job ${job.id} is the service's job ${job.service_job} already.`;
  if (job.state === "requested") return `Job ${job.id} is being started; its answer may still come.`;
  return `No part of job ${job.id} is uncertain.`;
}

/** It is not called finished: that was not seen. */
function endJob(
  { store, clock }: Pick<StartContext, "store" | "clock">,
  job: JobRow,
  by: string,
  why: string | undefined,
): void {
  if (hasEnded(job) && job.state !== "uncertain")
    throw new Error(`Job ${job.id} has ended already (${job.ended_by === null ? job.state : job.reason}).`);
  const nowMs = clock.now();
  for (const { part, state } of store.parts.of(job.id)) {
    // The answer to a request that is out may still come, and then the job has its id. It is not sent again, also not
    // when an event opens the job again.
    if (state === "sent" || state === "uncertain") {
      const reason = `ended by ${by} before the answer came`;
      store.parts.move(job.id, part, { state: "uncertain", tries: TRIES_MAX, reason });
    }
    if (state === "planned") store.parts.move(job.id, part, { state: "refused", reason: `ended by ${by}` });
  }
  const because = why === undefined ? "" : `: ${why}`;
  const seen = job.service_job === null ? NOT_STARTED : NOT_FINISHED;
  const reason = `ended by ${by}${because}${seen}`;
  store.jobs.move(job.id, "finished", nowMs, { reason, endedMs: nowMs, endedBy: by });
}

function confirmJob(
  context: Pick<StartContext, "store" | "clock" | "log">,
  job: JobRow,
  part: number,
  serviceJob: string,
): void {
  const known = context.store.jobs.byServiceJob(serviceJob, job);
  if (known !== undefined && known.id !== job.id && known.origin !== "elsewhere")
    throw new Error(`The service's job ${serviceJob} belongs to job ${known.id}.`);
  takePart(context, job, part, serviceJob, context.clock.now());
}

function dropPart({ store }: Pick<StartContext, "store">, job: JobRow, part: number, reason: string): void {
  store.parts.move(job.id, part, { state: "refused", reason });
  store.users.fail(
    store.users.ofPart(job.id, part).map(({ id }) => id),
    reason,
  );
}

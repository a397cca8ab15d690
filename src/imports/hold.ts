import { ANSWER_BY_MS, type StartContext } from "./context.ts";
import type { JobRow } from "./job.ts";

/** Another process has taken the job over, because this one was not heard of for ANSWER_BY_MS. */
export class JobTakenOverError extends Error {
  override readonly name = "JobTakenOverError";

  constructor() {
    super("Another process has taken the import over.");
  }
}

/**
 * Every step of a sender holds its job first, in the same change: a process that was suspended for long must not go
 * on beside the one that took over. Throws where that happened.
 */
export function hold({ store, clock, sender }: StartContext, id: number): void {
  if (!store.jobs.renew(id, sender, clock.now() + ANSWER_BY_MS)) throw new JobTakenOverError();
}

/** Takes a job whose sender has ended, inside a change. Undefined: another process has it. */
export function takeJob(context: StartContext, id: number): JobRow | undefined {
  const { store, clock, sender } = context;
  const job = store.jobs.row(id);
  if (job === undefined || (job.sender !== sender && !hasEndedSender(context, job))) return undefined;
  store.jobs.send(id, sender, clock.now() + ANSWER_BY_MS);
  return job;
}

export function hasEndedSender({ sender, clock }: StartContext, job: JobRow): boolean {
  if (job.sender === null || clock.now() >= job.answer_by_ms) return true;
  const isRun = (name: string) => name.startsWith("run:");
  return isRun(sender) && isRun(job.sender) && job.sender !== sender;
}

import { explain } from "../core/errors.ts";
import type { StartContext } from "./context.ts";

export interface Activation {
  readonly activated: number;
  readonly failed: readonly { readonly user: string; readonly reason: string }[];
}

/**
 * Activates the users of a job that are STAGED, or were created without a known state. A user that cannot be activated
 * does not keep the others from it. Each one is claimed first, so that two that activate a job share its users, and
 * recorded when the service has answered. After a kill a claimed one can be activated again ten minutes later, which the
 * service takes as done.
 */
export async function activateStaged(
  { store, source, clock }: StartContext,
  job: number,
  signal: AbortSignal,
): Promise<Activation> {
  const row = store.jobs.row(job);
  if (row === undefined) throw new Error(`There is no job ${job}.`);
  const failed: { user: string; reason: string }[] = [];
  let activated = 0;
  /** A job that was found by its events may be taken over by the one that it is, with its users. */
  const jobNow = () => {
    const isGone = store.jobs.row(job) === undefined && row.service_job !== null;
    return (isGone ? store.jobs.byServiceJob(row.service_job, row)?.id : undefined) ?? job;
  };
  for (const { userId, name } of store.users.staged(job)) {
    const claimedMs = clock.now();
    if (!(await store.change(() => store.users.claim(jobNow(), userId, claimedMs)))) continue;
    try {
      await source(row.account).activate(row.organization ?? undefined, userId, signal);
      await store.change(() => store.users.activated(jobNow(), userId, clock.now()));
      activated++;
    } catch (error) {
      await store.change(() => store.users.unclaim(jobNow(), userId, claimedMs));
      if (signal.aborted) throw error;
      failed.push({ user: name, reason: explain(error) });
    }
  }
  return { activated, failed };
}

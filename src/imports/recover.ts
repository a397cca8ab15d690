import type { StartContext } from "./context.ts";
import { hasEndedSender, takeJob } from "./hold.ts";
import type { JobRow } from "./job.ts";
import { sendJob, TRIES_MAX } from "./send-parts.ts";

/**
 * Goes on with jobs whose sender has ended: a part that was sent without an answer becomes uncertain, planned parts
 * are sent, and a job without parts is planned. The process that holds the state's lock knows at once that an
 * earlier holder has ended; of a command it knows when its time is over.
 */
export async function recoverJobs(
  context: StartContext,
  readUntilMs: (account: string) => number,
  signal: AbortSignal,
): Promise<void> {
  const { store, clock, sending } = context;
  for (const job of store.jobs.rows({ open: true })) {
    if (job.origin === "elsewhere" || sending.has(job.id) || !hasEndedSender(context, job)) continue;
    const parts = store.parts.of(job.id);
    const lost = parts.filter(({ state }) => state === "sent");
    if (lost.length > 0) {
      const isTaken = await store.change(() => {
        if (takeJob(context, job.id) === undefined) return false;
        const reason = "the process ended before the answer came";
        for (const { part } of lost) store.parts.move(job.id, part, { state: "uncertain", reason });
        return true;
      });
      if (!isTaken) continue;
      context.log.warn({ job: job.id, import: job.import, account: job.account }, "Import start uncertain.");
    }
    await planSilentParts(context, job, readUntilMs(job.account));
    const isUnplanned = parts.length === 0 && job.offered_ms === null;
    const isDue = store.parts
      .of(job.id)
      .some(({ state, at_ms }) => state === "planned" && at_ms <= clock.now());
    if (isUnplanned || isDue) await sendJob(context, job.id, signal);
  }
}

/**
 * A part of a Workday import whose answer was lost, and of whose users no event was seen within `quietAfter`, was
 * most likely not taken. It creates or updates the same users with the same data, so that sending it again does no
 * harm. An application's import is never repeated (R28).
 */
async function planSilentParts(
  { store, clock, log }: StartContext,
  job: JobRow,
  readUntilMs: number,
): Promise<void> {
  if (job.kind !== "workday" || job.offered_ms === null) return;
  for (const { part, state, at_ms, tries } of store.parts.of(job.id)) {
    const isSilent = state === "uncertain" && readUntilMs >= at_ms + job.quiet_after_ms && tries < TRIES_MAX;
    if (!isSilent) continue;
    const reason = "no event of its users was seen; sent again";
    await store.change(() => store.parts.move(job.id, part, { state: "planned", atMs: clock.now(), reason }));
    log.warn({ job: job.id, import: job.import, account: job.account, part }, "Import part is sent again.");
  }
}

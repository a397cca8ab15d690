import type { ReadUntil } from "../core/roster.ts";
import type { StartContext } from "./context.ts";
import { hasEndedSender, takeJob } from "./hold.ts";
import type { JobRow } from "./job.ts";
import { candidatesOf, isSentAgain, lostAfterMs, readTo, resolvePart } from "./progress.ts";
import { TRIES_MAX } from "./send-parts.ts";

/**
 * Goes on with jobs whose sender has ended: a part that was sent without an answer becomes uncertain, planned parts
 * are sent, and a job without parts is planned. The process that holds the state's lock knows at once that an
 * earlier holder has ended; of a command it knows when its time is over.
 */
export async function recoverJobs(
  context: StartContext,
  readUntilMs: ReadUntil,
  send: (job: number) => void,
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
    await planSilentParts(context, job, readUntilMs);
    const isUnplanned = parts.length === 0 && job.offered_ms === null;
    const isDue = store.parts
      .of(job.id)
      .some(({ state, at_ms }) => state === "planned" && at_ms <= clock.now());
    if (isUnplanned || isDue) send(job.id);
  }
}

/**
 * A part of a Workday import whose answer was lost, and of whose users no event was seen within `quietAfter`, was
 * most likely not taken. It creates or updates the same users with the same data, so that sending it again does no
 * harm. Events that were seen come first, also while the part waits for another try: they may show its job. An
 * application's import is never repeated (R28).
 */
async function planSilentParts(context: StartContext, job: JobRow, readUntilMs: ReadUntil): Promise<void> {
  const { store, clock, log } = context;
  if (job.kind !== "workday" || job.offered_ms === null) return;
  const waitMs = lostAfterMs(job);
  for (const row of store.parts.of(job.id)) {
    const { part, at_ms, tries } = row;
    const readMs = readTo({ readUntilMs }, job, at_ms, clock.now()) ?? 0;
    const isSilent = row.state === "uncertain" && readMs >= at_ms + waitMs && tries < TRIES_MAX;
    if (!isSilent && !isSentAgain(row)) continue;
    const isPlanned = await store.change(() => {
      resolvePart({ store, log, readUntilMs }, job, row, clock.now());
      const state = store.parts.of(job.id).find((one) => one.part === part)?.state;
      if (state !== row.state) return false;
      const isSeen = candidatesOf(store, job, row).length > 0;
      if (isSilent && !isSeen) {
        const reason = "no event of its users was seen; sent again";
        store.parts.move(job.id, part, { state: "planned", atMs: clock.now(), firstSentMs: at_ms, reason });
      }
      if (!isSilent && isSeen) {
        const reason =
          "the first answer was lost; events of its users were seen, but not of which job they are";
        store.parts.move(job.id, part, { state: "uncertain", reason });
      }
      return isSilent && !isSeen;
    });
    if (isPlanned)
      log.warn({ job: job.id, import: job.import, account: job.account, part }, "Import part is sent again.");
  }
}

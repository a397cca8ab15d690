import type { StartContext } from "./context.ts";
import { hold } from "./hold.ts";
import type { JobRow } from "./job.ts";
import { type OfferRead, readOffer } from "./read-offer.ts";

const PART_USERS_MAX = 100;

/** Reads the offer and stores it with the planned parts, in one transaction. A job that cannot be planned fails. */
export async function planParts(context: StartContext, job: JobRow, signal: AbortSignal): Promise<void> {
  const { store, clock, log } = context;
  const offer = await readOffer(context, job, signal);
  const nowMs = clock.now();
  const fields = { job: job.id, import: job.import, account: job.account };
  switch (offer.kind) {
    case "failed": {
      const { reason } = offer;
      await store.change(() => {
        hold(context, job.id);
        store.jobs.move(job.id, "failed", nowMs, { reason, endedMs: nowMs });
      });
      log.error({ ...fields, reason }, "Import failed before its start.");
      return;
    }
    case "unknown":
      await store.change(() => {
        hold(context, job.id);
        store.parts.plan(job.id, job.account, nowMs);
        store.jobs.noteOffer(job.id, offer.note);
      });
      log.warn({ ...fields, reason: offer.note }, "The users on offer could not be read.");
      return;
    case "known":
      await store.change(() => {
        hold(context, job.id);
        storeOffer(context, job, offer, nowMs);
      });
      log.info({ ...fields, offered: offer.users.length }, "Import users read.");
  }
}

function storeOffer(
  { store }: StartContext,
  job: JobRow,
  offer: Extract<OfferRead, { kind: "known" }>,
  nowMs: number,
): void {
  const posted = offer.users.filter(({ skipped }) => skipped === null).length;
  const perPart = job.kind === "workday" ? PART_USERS_MAX : Math.max(1, posted);
  const parts: number[] = [];
  let count = 0;
  const users = offer.users.map(({ user, skipped }) => {
    if (skipped !== null) return { user, skipped, part: null };
    const at = Math.floor(count++ / perPart);
    parts[at] ??= store.parts.plan(job.id, job.account, nowMs);
    return { user, skipped, part: parts[at] };
  });
  if (job.kind === "application" && parts.length === 0) store.parts.plan(job.id, job.account, nowMs);
  store.users.offer(job.id, users);
  store.jobs.offered(job.id, nowMs, offer.note);
}

import type { StartContext } from "./context.ts";
import { hold } from "./hold.ts";
import type { JobRow } from "./job.ts";
import { readOffer } from "./read-offer.ts";
import { OfferNotNeededError, refuseEnded, storeOffer } from "./store-offer.ts";

const PART_USERS_MAX = 100;

/**
 * Reads the offer and stores it, and the planned parts with its last slice. A job that cannot be planned fails; one that
 * a person ends meanwhile stays as it is.
 */
export async function planParts(context: StartContext, job: JobRow, signal: AbortSignal): Promise<void> {
  try {
    await readAndPlan(context, job, signal);
  } catch (error) {
    if (!(error instanceof OfferNotNeededError)) throw error;
    context.log.info({ job: job.id, import: job.import }, "Import ended before its start.");
  }
}

async function readAndPlan(context: StartContext, job: JobRow, signal: AbortSignal): Promise<void> {
  const { store, clock, log } = context;
  const offer = await readOffer(context, job, signal);
  const nowMs = clock.now();
  const fields = { job: job.id, import: job.import, account: job.account };
  const check = () => {
    hold(context, job.id);
    refuseEnded(context, job.id);
  };
  switch (offer.kind) {
    case "failed": {
      const { reason } = offer;
      await store.change(() => {
        check();
        store.jobs.noteOffer(job.id, null);
        store.jobs.move(job.id, "failed", nowMs, { reason, endedMs: nowMs });
      });
      log.error({ ...fields, reason }, "Import failed before its start.");
      return;
    }
    case "unknown":
      await store.change(() => {
        check();
        store.parts.plan(job.id, job.account, nowMs);
        store.jobs.noteOffer(job.id, offer.note);
      });
      log.warn({ ...fields, reason: offer.note }, "The users on offer could not be read.");
      return;
    case "known": {
      const perPart = job.kind === "workday" ? PART_USERS_MAX : Number.POSITIVE_INFINITY;
      await storeOffer(
        context,
        job,
        {
          ...{ users: offer.users, check },
          partOf: (posted) => Math.floor(posted / perPart),
          finish(posted) {
            const parts = job.kind === "workday" ? Math.ceil(posted / perPart) : 1;
            for (let part = 0; part < parts; part++) store.parts.plan(job.id, job.account, nowMs);
            store.jobs.offered(job.id, nowMs, offer.note);
          },
        },
        signal,
      );
      log.info({ ...fields, offered: offer.users.length }, "Import users read.");
    }
  }
}

import { explain } from "../core/errors.ts";
import { type Chosen, chooseUsers, limitToOperations } from "./choose.ts";
import { ANSWER_BY_MS, type StartContext } from "./context.ts";
import { choiceSchema, type JobRow, requestSchema } from "./job.ts";
import type { OfferedUser } from "./source.ts";

const OFFER_USERS_MAX = 200_000;
/** The lease of the sender is renewed after so many users of a long offer. */
const RENEW_USERS = 1000;

/**
 * The offer of a job:
 *
 * - *known*: every user, each with the reason why it is skipped. With a note the list may contain users that the
 *   import leaves out.
 * - *unknown*: an application's list cannot be read. The service reads the source itself, so the job can start, and
 *   the list is read again while it runs.
 * - *failed*: a Workday import has nothing to post without its list.
 */
export type OfferRead =
  | { readonly kind: "known"; readonly users: readonly Chosen[]; readonly note: string | null }
  | { readonly kind: "unknown"; readonly note: string }
  | { readonly kind: "failed"; readonly reason: string };

const UNSURE_QUERY =
  "The list of users on offer is the same with and without queryString, so it may contain users that the import leaves out.";

const LATE_LIST =
  "The list of users on offer could be read only after the start, so it may contain users that the import leaves out: those that exist now may have been created by it.";

export async function readOffer(context: StartContext, job: JobRow, signal: AbortSignal): Promise<OfferRead> {
  try {
    return job.kind === "workday"
      ? await readWorkers(context, job, signal)
      : await readApplication(context, job, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    const reason = explain(error);
    if (job.kind === "workday") return { kind: "failed", reason: `the workers could not be read: ${reason}` };
    return { kind: "unknown", note: `The users on offer could not be read: ${reason}` };
  }
}

async function readWorkers(context: StartContext, job: JobRow, signal: AbortSignal): Promise<OfferRead> {
  const users = await listOffer(context, job, undefined, signal);
  if (users.length === 0) return { kind: "failed", reason: "the integration offers no workers" };
  const choice = choiceSchema.parse(JSON.parse(job.request));
  const existing = choice.onlyNew ? await existingOf(context, job, signal) : undefined;
  if (choice.onlyNew && existing === undefined)
    return { kind: "failed", reason: "onlyNew is not possible: the service does not list its users" };
  return { kind: "known", users: chooseUsers(users, choice, existing), note: null };
}

/** A service that ignores the query gives the whole list, so the list is also read without it. */
async function readApplication(context: StartContext, job: JobRow, signal: AbortSignal): Promise<OfferRead> {
  const { operations, queryString } = requestSchema.parse(JSON.parse(job.request));
  const users = await listOffer(context, job, queryString, signal);
  const hasQuery = queryString !== undefined && queryString !== "";
  const isUnsure =
    hasQuery && users.length > 0 && users.length >= (await listOffer(context, job, undefined, signal)).length;
  const isLimited = operations.length === 1;
  // A user that exists after the start may have been created by this import.
  const isLate = isLimited && context.store.parts.of(job.id).length > 0;
  const existing = isLimited && !isLate ? await existingOf(context, job, signal) : undefined;
  const notes = [isUnsure && UNSURE_QUERY, isLate && LATE_LIST].filter((note) => note !== false);
  return {
    kind: "known",
    users: limitToOperations(users, operations, existing),
    note: notes.length === 0 ? null : notes.join(" "),
  };
}

function existingOf({ source }: StartContext, job: JobRow, signal: AbortSignal) {
  return source(job.account).existing(job.organization ?? undefined, signal);
}

async function listOffer(
  context: StartContext,
  job: JobRow,
  query: string | undefined,
  signal: AbortSignal,
): Promise<OfferedUser[]> {
  const { store, source, clock, sender } = context;
  const offer = { kind: job.kind, source: job.source ?? "", query };
  const users: OfferedUser[] = [];
  for await (const user of source(job.account).offered(job.organization ?? undefined, offer, signal)) {
    if (users.push(user) > OFFER_USERS_MAX) throw new Error(`more than ${OFFER_USERS_MAX} users are offered`);
    if (users.length % RENEW_USERS === 0)
      await store.change(() => store.jobs.renew(job.id, sender, clock.now() + ANSWER_BY_MS));
  }
  return users;
}

const AGAIN_MS = 60_000;

/** Reads the offers of running application imports again that could not be read before the start. */
export async function readMissingOffers(
  context: StartContext,
  nowMs: number,
  signal: AbortSignal,
): Promise<void> {
  const { store, clock, log } = context;
  for (const job of store.jobs.rows({ open: true })) {
    if (job.kind !== "application" || job.origin === "elsewhere" || job.offered_ms !== null) continue;
    const part = store.parts.of(job.id).find(({ state }) => state === "taken");
    if (part === undefined || (part.next_poll_ms ?? 0) > nowMs) continue;
    const offer = await readOffer(context, job, signal);
    await store.change(() => {
      store.parts.polled(job.id, part.part, null, clock.now() + AGAIN_MS);
      if (offer.kind === "unknown") store.jobs.noteOffer(job.id, offer.note);
      if (offer.kind !== "known" || store.jobs.row(job.id)?.offered_ms !== null) return;
      store.users.offer(
        job.id,
        offer.users.map(({ user, skipped }) => ({
          user,
          skipped,
          part: skipped === null ? part.part : null,
        })),
      );
      store.jobs.offered(job.id, clock.now(), offer.note);
      log.info({ job: job.id, offered: offer.users.length }, "Import users read.");
    });
  }
}

import { explain, isDiskTrouble } from "../core/errors.ts";
import { type Chosen, chooser, limitToOperations } from "./choose.ts";
import type { StartContext } from "./context.ts";
import { choiceSchema, type JobRow, requestSchema } from "./job.ts";
import { listOffer, namesOf, OfferTooLargeError, userBytes } from "./list-offer.ts";
import type { OfferedUser } from "./source.ts";
import { forgetOffer, OfferNotNeededError, refuseEnded, storeOffer } from "./store-offer.ts";

/** What is held of a Workday list to be posted. Users that are skipped hardly count. */
const POSTED_BYTES_MAX = 128 * 2 ** 20;
/** A larger worker would be a record that the changelog of a cluster refuses. */
const WORKER_BYTES_MAX = 256 * 1024;

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
  | { readonly kind: "unknown"; readonly note: string; readonly isTooLarge: boolean }
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
    // Trouble of the state file says nothing about the list.
    if (signal.aborted || error instanceof OfferNotNeededError || isDiskTrouble(error)) throw error;
    const reason = explain(error);
    if (job.kind === "workday") return { kind: "failed", reason: `the workers could not be read: ${reason}` };
    const isTooLarge = error instanceof OfferTooLargeError;
    return { kind: "unknown", note: `The users on offer could not be read: ${reason}`, isTooLarge };
  }
}

async function readWorkers(context: StartContext, job: JobRow, signal: AbortSignal): Promise<OfferRead> {
  const choice = choiceSchema.parse(JSON.parse(job.request));
  const existing = choice.onlyNew ? await existingOf(context, job, signal) : undefined;
  if (choice.onlyNew && existing === undefined)
    return { kind: "failed", reason: "onlyNew is not possible: the service does not list its users" };
  const choose = chooser(choice, existing);
  const users: Chosen[] = [];
  let bytes = 0;
  await listOffer(context, job, undefined, signal, (worker) => {
    const chosen = withoutHuge(choose(worker));
    const { user, skipped } = chosen;
    bytes += skipped === null ? userBytes(user) : 0;
    if (bytes > POSTED_BYTES_MAX) throw new OfferTooLargeError(tooManyBytes(users.length));
    users.push(skipped === null ? chosen : { user: namesOf(user), skipped });
  });
  if (users.length === 0) return { kind: "failed", reason: "the integration offers no workers" };
  return { kind: "known", users, note: null };
}

function withoutHuge(chosen: Chosen): Chosen {
  const bytes = userBytes(chosen.user);
  if (chosen.skipped !== null || bytes <= WORKER_BYTES_MAX) return chosen;
  const skipped = `its attributes hold ${Math.ceil(bytes / 1024)} KiB; at most ${WORKER_BYTES_MAX / 1024} KiB are posted`;
  return { user: chosen.user, skipped };
}

function tooManyBytes(users: number): string {
  return `the first ${users} workers hold more than ${POSTED_BYTES_MAX / 2 ** 20} MiB, which is more than is kept in memory, so nothing was posted. Import them in portions with "only", or have the integration offer fewer attributes`;
}

/** A service that ignores the query gives the whole list, so the list is also read without it. */
async function readApplication(context: StartContext, job: JobRow, signal: AbortSignal): Promise<OfferRead> {
  const { operations, queryString } = requestSchema.parse(JSON.parse(job.request));
  const users: OfferedUser[] = [];
  // The service reads the source itself, so attributes are not needed.
  await listOffer(context, job, queryString, signal, (user) => users.push(namesOf(user)));
  const hasQuery = queryString !== undefined && queryString !== "";
  const isUnsure =
    hasQuery && users.length > 0 && users.length >= (await listOffer(context, job, undefined, signal));
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
  return source(job.account).existing(job.organization ?? undefined, signal, "names");
}

const AGAIN_MS = 60_000;
/** A list that is too large is hardly smaller a minute later. */
const TOO_LARGE_AGAIN_MS = 3_600_000;

/** Reads the offers of running application imports again that could not be read before the start. */
export function readMissingOffers(
  context: StartContext,
  nowMs: number,
  begin: (job: JobRow, work: () => Promise<void>) => void,
  signal: AbortSignal,
): void {
  const { store } = context;
  for (const job of store.jobs.rows({ open: true })) {
    if (job.kind !== "application" || job.origin === "elsewhere" || job.offered_ms !== null) continue;
    const part = store.parts.of(job.id).find(({ state }) => state === "taken");
    if (part === undefined || (part.next_poll_ms ?? 0) > nowMs) continue;
    begin(job, () => readMissingOffer(context, job, part.part, signal));
  }
}

async function readMissingOffer(
  context: StartContext,
  job: JobRow,
  part: number,
  signal: AbortSignal,
): Promise<void> {
  const { store, clock, log } = context;
  try {
    const offer = await readOffer(context, job, signal);
    if (offer.kind !== "known") {
      const againMs = offer.kind === "unknown" && offer.isTooLarge ? TOO_LARGE_AGAIN_MS : AGAIN_MS;
      await store.change(() => {
        store.parts.polled(job.id, part, null, clock.now() + againMs);
        if (offer.kind === "unknown") store.jobs.noteOffer(job.id, offer.note);
      });
      return;
    }
    const { users, note } = offer;
    const check = () => refuseEnded(context, job.id);
    const finish = () => store.jobs.offered(job.id, clock.now(), note);
    await storeOffer(context, job, { users, check, finish, partOf: () => part }, signal);
    log.info({ job: job.id, offered: users.length }, "Import users read.");
  } catch (error) {
    if (!(error instanceof OfferNotNeededError)) throw error;
    await forgetOffer(context, job.id);
  }
}

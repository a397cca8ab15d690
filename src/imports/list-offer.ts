import { setImmediate } from "node:timers/promises";
import { ANSWER_BY_MS, type StartContext } from "./context.ts";
import type { JobRow } from "./job.ts";
import type { OfferedUser } from "./source.ts";
import { refuseEnded } from "./store-offer.ts";

const OFFER_USERS_MAX = 200_000;
/** The job's view says how far a long list was read, and the lease of the sender is renewed, after so much. */
const TURN_USERS = 1000;
const TURN_MS = 10_000;

/** The list holds more than is kept. */
export class OfferTooLargeError extends Error {
  override readonly name = "OfferTooLargeError";
}

/** Reads every user on offer, and gives their number. OfferNotNeededError: the job has ended meanwhile. */
export async function listOffer(
  context: StartContext,
  job: JobRow,
  query: string | undefined,
  signal: AbortSignal,
  take: (user: OfferedUser) => void = () => {},
): Promise<number> {
  const { store, source, clock, sender } = context;
  let count = 0;
  let turn = { count: 0, ms: clock.now() };
  const say = async () => {
    turn = { count, ms: clock.now() };
    await store.change(() => {
      refuseEnded(context, job.id);
      store.jobs.renew(job.id, sender, clock.now() + ANSWER_BY_MS);
      store.jobs.noteOffer(job.id, `The list of users on offer is being read: ${count} so far.`);
    });
    // A list that is in memory must not keep the process from other work.
    await setImmediate();
  };
  // The cause why it could not be read before stays until there is something new.
  if (job.offer_note === null) await say();
  const offer = { kind: job.kind, source: job.source ?? "", query };
  for await (const user of source(job.account).offered(job.organization ?? undefined, offer, signal)) {
    if (++count > OFFER_USERS_MAX)
      throw new OfferTooLargeError(`more than ${OFFER_USERS_MAX} users are offered`);
    take(user);
    if (count - turn.count >= TURN_USERS || clock.now() - turn.ms >= TURN_MS) await say();
  }
  return count;
}

const NONE: OfferedUser["attributes"] = [];

/** What tells a user from others. */
export function namesOf({ username, email }: OfferedUser): OfferedUser {
  return { username, email, attributes: NONE };
}

/** About how many bytes a user takes. */
export function userBytes(user: OfferedUser): number {
  const { username = "", email = "", firstname = "", lastname = "" } = user;
  const names = username.length + email.length + firstname.length + lastname.length;
  return user.attributes.reduce((sum, { name, value }) => sum + name.length + value.length, names);
}

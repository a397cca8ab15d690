import { setImmediate } from "node:timers/promises";
import type { Chosen } from "./choose.ts";
import type { StartContext } from "./context.ts";
import type { JobRow } from "./job.ts";

/** Users in one change: about 20 ms, and a record of few megabytes at most in the changelog of a cluster. */
const SLICE_USERS = 500;

/** The job has ended while its list was read or stored, so the list is not needed any more. */
export class OfferNotNeededError extends Error {
  override readonly name = "OfferNotNeededError";

  constructor() {
    super("The import has ended.");
  }
}

/** Inside a change: throws when the job has ended. */
export function refuseEnded({ store }: StartContext, id: number): void {
  if (store.jobs.row(id)?.ended_ms !== null) throw new OfferNotNeededError();
}

export interface StoringOffer {
  readonly users: readonly Chosen[];
  /** The part that carries a user; users that are posted are counted from 0. */
  partOf(posted: number): number;
  /** Begins every change. Throws where the list is not needed any more. */
  check(): void;
  /** The last change: the list is whole from here on. Gets the number of users that are posted. */
  finish(posted: number): void;
}

/**
 * Stores a list in slices, with a turn of the event loop after each.
 *
 * 1. What a process that ended had stored of the list is forgotten.
 * 2. Each slice is one change.
 * 3. The last change sets `offered_ms`. A job without it has no known list, whatever users are stored, so the next
 *    process reads the list again.
 */
export async function storeOffer(
  context: StartContext,
  job: JobRow,
  offer: StoringOffer,
  signal: AbortSignal,
): Promise<void> {
  const { store } = context;
  const isPosted = job.kind === "workday";
  const change = async <Result>(work: () => Result): Promise<Result> => {
    signal.throwIfAborted();
    const result = await store.change(() => {
      offer.check();
      return work();
    });
    await setImmediate();
    return result;
  };
  await forgetOffer(context, job.id, change);
  let posted = 0;
  for (let first = 0; first < offer.users.length; first += SLICE_USERS) {
    const slice = offer.users.slice(first, first + SLICE_USERS).map(({ user, skipped }) => ({
      ...{ user, skipped, isPosted: isPosted && skipped === null },
      part: skipped === null ? offer.partOf(posted++) : null,
    }));
    await change(() => store.users.offer(job.id, slice, first));
  }
  await change(() => offer.finish(posted));
}

/** Nothing in most cases. */
export async function forgetOffer(
  { store }: StartContext,
  job: number,
  change: <Result>(work: () => Result) => Promise<Result> = store.change,
): Promise<void> {
  while ((await change(() => store.users.forgetOffer(job, SLICE_USERS))) === SLICE_USERS)
    await setImmediate();
}

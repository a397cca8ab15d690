import { explain } from "../core/errors.ts";
import type { Wake } from "../core/wake.ts";
import type { Delivery } from "../delivery/deliver.ts";
import type { Follower } from "../delivery/follow.ts";
import { UnansweredError } from "../polling/plan/refused-retries.ts";
import type { Account } from "./account.ts";
import type { Loops } from "./loops.ts";

/*
 * `run --once`, step by step (R39):
 *
 *   1. Every account reads what there is, while sinks, followers and archives work on it.
 *   2. When all accounts have ended, well or not, the sinks are drained: no batch waits to be filled any more.
 *   3. A sink ends when everything is delivered, or when it cannot go on: it needs the operator, or it has failed
 *      for a minute. That stops neither the other sinks nor the reading.
 *   4. Whatever failed is reported together at the end. A signal ends everything early, and is a failure too.
 */
export interface OnceParts {
  readonly accounts: readonly Pick<Account, "name" | "poller">[];
  readonly deliveries: readonly Pick<Delivery, "drain">[];
  readonly followers: readonly Follower[];
  /**
   * Archives close days while accounts are read, because a backfill may be larger than the journal. Once
   * everything else is done, `drain` closes the rest; false: an archive could not.
   */
  readonly archives: readonly {
    readonly name: string;
    run(signal: AbortSignal, options: { readonly verifies: boolean }): Promise<void>;
    drain(signal: AbortSignal): Promise<boolean>;
  }[];
  readonly loops: Loops;
  readonly wake: Wake;
  /** From now on nothing more will come. */
  startDraining(): void;
  isDraining(): boolean;
  /** Background work, until everything is done. */
  upkeep(signal: AbortSignal): readonly Promise<void>[];
}

/** As long as a sink is tried before it is given up. */
const TROUBLE_MS_MAX = 60_000;

export async function pullAndDrain(parts: OnceParts, signal: AbortSignal): Promise<void> {
  const { accounts, deliveries, followers, loops, wake } = parts;
  const done = new AbortController();
  const failures: unknown[] = [];
  const noting = (work: Promise<unknown>) =>
    work.then(
      () => {},
      (error: unknown) => void failures.push(error),
    );
  const pull = async ({ name, poller }: OnceParts["accounts"][number]) => {
    try {
      await poller.once(signal);
    } catch (cause) {
      // It names the organizations: the rest of the account was read.
      if (cause instanceof UnansweredError) throw cause;
      throw new Error(`The account "${name}" could not be read`, { cause });
    }
  };
  const pulled = Promise.all(accounts.map((account) => noting(pull(account)))).then(() => {
    parts.startDraining();
    wake.wake();
  });
  const work = [
    pulled,
    ...deliveries.map((delivery) => noting(delivery.drain(signal))),
    ...followers.map((follower) => {
      const isDone = () => parts.isDraining() && follower.isSettled;
      const following = loops.follow(follower.step, signal, isDone, TROUBLE_MS_MAX);
      return noting(
        following.catch((cause: unknown) => {
          throw new Error("A reader of the program itself could not store its place; the next run goes on", {
            cause,
          });
        }),
      );
    }),
  ];
  const untilDone = AbortSignal.any([signal, done.signal]);
  const beside = [
    ...parts.upkeep(untilDone),
    ...parts.archives.map((archive) => archive.run(untilDone, { verifies: false })),
  ];
  await Promise.all(work);
  done.abort();
  await Promise.all(beside.map(noting));
  signal.throwIfAborted();
  for (const { name, drain } of parts.archives)
    if (!(await drain(signal)))
      failures.push(
        new Error(`The archive ${name} could not continue; its alarm says why. Nothing is lost.`),
      );
  if (failures.length === 1) throw failures[0];
  if (failures.length > 1) throw new AggregateError(failures, failures.map(explain).join(" "));
}

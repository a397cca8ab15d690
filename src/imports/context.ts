import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import type { ImportSource } from "./source.ts";
import type { ImportStore } from "./store/open.ts";

/** The dependencies of starting and sending jobs. */
export interface StartContext {
  readonly store: ImportStore;
  readonly source: (account: string) => ImportSource;
  /** Says why a job is not this process' to start; undefined where it is. */
  readonly refusal?: ((account: string, organization: string | undefined) => string | undefined) | undefined;
  readonly clock: Clock;
  readonly log: Log;
  /** Names this process: `run:…` for the one that holds the state's lock, `command:…` for others. */
  readonly sender: string;
  /** Jobs that this process is sending right now. */
  readonly sending: Set<number>;
}

/** A sender that was not heard of for this long has ended, so that another process may go on with its job. */
export const ANSWER_BY_MS = 180_000;

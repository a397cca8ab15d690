/** Why an organization is not asked for any more. */
export const NOT_IN_CONFIG = "not in the config any more";
export const NOT_LISTED = "the service no longer lists it";
export const ACCOUNT_NOT_IN_CONFIG = "its account is not in the config any more";
/** As older versions stored it. */
const NOT_FOUND = "the service no longer lists it, or the config leaves it out";
const GONE = "gone from the service's list of organizations";

/** Whether this is the reason of something that is not asked for, and so neither refused nor tried again. */
export function isSetAside(reason: string | null): boolean {
  return [NOT_IN_CONFIG, NOT_LISTED, ACCOUNT_NOT_IN_CONFIG, NOT_FOUND, GONE].some((one) =>
    reason?.startsWith(one),
  );
}

/** Whether this is the reason of something that the config leaves out, so that nobody misses it. */
export function isLeftOut(reason: string | null): boolean {
  return [NOT_IN_CONFIG, ACCOUNT_NOT_IN_CONFIG].some((one) => reason?.startsWith(one));
}

/** An organization of an account, as discovery and polling last saw it. */
export interface RosterEntry {
  readonly account: string;
  /** Lower case. */
  readonly id: string;
  readonly name: string;
  /** vanished: it is not in the config any more, or the service no longer lists it; `reason` says which. refused: it is listed, but the service denies access. */
  readonly state: "active" | "vanished" | "refused";
  readonly reason: string | null;
  /** The next attempt at a refused organization. */
  readonly nextMs: number | null;
  readonly lastEventMs: number | null;
  readonly events: number;
  /** Events an hour, smoothed. */
  readonly traffic: number;
}

/** The durable list of organizations. */
export interface Roster {
  list(account: string): readonly RosterEntry[];
  /** Adds new organizations as active, renames known ones and makes vanished ones active again. */
  seen(
    account: string,
    organizations: readonly { readonly id: string; readonly name: string }[],
    nowMs: number,
  ): Promise<void>;
  setState(
    account: string,
    ids: readonly string[],
    state: RosterEntry["state"],
    reason: string | null,
    nextMs: number | null,
  ): Promise<void>;
  /**
   * Says what is new in a page that was committed. Live events count as traffic, in memory until `smooth`; losing
   * these is harmless. A backfill is no traffic: it reads months of history within minutes.
   */
  addEvents(
    account: string,
    byOrganization: ReadonlyMap<string | null, { readonly events: number; readonly newestMs: number }>,
    live: boolean,
  ): void;
  /** Updates the smoothed traffic by what came in so many hours. */
  smooth(account: string, hours: number): Promise<void>;
}

/**
 * Up to when all events of an organization since a time have been read, and seen by the reader that asks. Null: the
 * account's own organization. Undefined: it is not read now, because it is refused, not listed, or was never reached.
 * An organization that the config leaves out is never read, so there is nothing to wait for.
 */
export type ReadUntil = (account: string, organization: string | null, sinceMs: number) => number | undefined;

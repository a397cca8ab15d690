/** An organization of an account, as discovery and polling last saw it. */
export interface RosterEntry {
  readonly account: string;
  /** Lower case. */
  readonly id: string;
  readonly name: string;
  /** vanished: the service no longer lists it. refused: it is listed, but the service denies access. */
  readonly state: "active" | "vanished" | "refused";
  readonly reason: string | null;
  /** The next attempt at a refused or vanished organization. */
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
   * Counts new events in memory until `flush`; losing a count is harmless. Only live events count as traffic,
   * because a backfill reads months of history within minutes.
   */
  addEvents(
    account: string,
    byOrganization: ReadonlyMap<string | null, { readonly events: number; readonly newestMs: number }>,
    live: boolean,
  ): void;
  /** Writes the counts. With `hours`, it also updates the smoothed traffic of that period. */
  flush(account: string, hours?: number): Promise<void>;
}

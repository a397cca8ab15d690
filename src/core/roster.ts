/** An organization of an account, as discovery and polling last saw it. */
export interface RosterEntry {
  readonly account: string;
  /** Lower case. */
  readonly id: string;
  readonly name: string;
  /** vanished: the service no longer lists it. refused: it is listed, but not given to us. */
  readonly state: "active" | "vanished" | "refused";
  readonly reason: string | null;
  /** When a refused or vanished one is tried again. */
  readonly nextMs: number | null;
  readonly lastEventMs: number | null;
  readonly events: number;
  /** Events an hour, smoothed. */
  readonly traffic: number;
}

/** The durable list of organizations. */
export interface Roster {
  list(account: string): readonly RosterEntry[];
  /** Adds new ones as active, renames known ones, makes vanished ones active again. */
  seen(
    account: string,
    organizations: readonly { readonly id: string; readonly name: string }[],
    nowMs: number,
  ): void;
  setState(
    account: string,
    ids: readonly string[],
    state: RosterEntry["state"],
    reason: string | null,
    nextMs: number | null,
  ): void;
  /**
   * New events; kept in memory until `flush`, since a lost count costs nothing. Only those that came live
   * count as traffic: a history of months that is read within minutes says nothing about it.
   */
  addEvents(
    account: string,
    byOrganization: ReadonlyMap<string | null, { readonly events: number; readonly newestMs: number }>,
    live: boolean,
  ): void;
  /** Writes what was added; given hours, also folds it into the smoothed traffic of that time. */
  flush(account: string, hours?: number): void;
}

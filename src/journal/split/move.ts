import type { Connection, State } from "../database.ts";

/** Which rows belong to the state that is made. */
export interface Owners {
  /** An organization of the lists; null and "" are a portal or a key's own organization. */
  organization(id: string | null): boolean;
  job(account: string, organization: string | null): boolean;
  /** An import of the config by its name. */
  import(name: string): boolean;
}

/** The new state, and one of those that it is made from. */
export interface Move {
  readonly db: State;
  readonly source: Connection;
  readonly owners: Owners;
}

/**
 * One query's scope: an organization, a group of organizations read together, or a provider's portal, with the
 * services asked for. Fixed once it is made (R1).
 */
export interface Stream {
  readonly id: number;
  readonly account: string;
  /** Set for the portal's own events; organizations is empty then. */
  readonly provider: string | null;
  /** Lower case, sorted. Empty without a provider: the key's own organization. */
  readonly organizations: readonly string[];
  /** As the API is asked for them, sorted. */
  readonly services: readonly string[];
}

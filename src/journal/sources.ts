import type { State } from "./database.ts";

/** A query, as far as it decides which of an owner's events it shows. */
export interface AskedSource {
  readonly account: string;
  readonly provider: string | null;
}

/*
 * A source is what shows the events of an owner. Each has counts of its own:
 *
 *   - an organization, whichever account asks for it
 *   - a provider's portal, whichever account asks for it; its events may name an organization
 *   - of events that name no organization: the own organization of one account
 *
 * Two sources may show the same event. It is stored once, with the page of the source that showed it first; the table
 * also_seen has the other sources.
 */

/** The condition for a row of `pages` or `also_seen`. */
export const OF_SOURCE = "provider IS @provider AND (@account IS NULL OR account = @account)";

/** The parameters of that condition. */
export function sourceOf(owner: string, { account, provider }: AskedSource) {
  return { provider, account: provider === null && owner === "" ? account : null };
}

/** Whether several sources may show events of an owner. Without a portal no organization has a second one. */
export function createSharedOwners(db: State): (owner: string, asked: AskedSource) => boolean {
  const newest = db.prepare("SELECT MAX(id) FROM streams").pluck();
  const portalAfter = db.prepare("SELECT 1 FROM streams WHERE id > ? AND provider IS NOT NULL LIMIT 1");
  let knownId = 0;
  let hasPortal = false;
  return (owner, { provider }) => {
    if (provider !== null || owner === "" || hasPortal) return true;
    // Streams are only ever added.
    const newestId = (newest.get() as number | null) ?? 0;
    if (newestId !== knownId) hasPortal = portalAfter.get(knownId) !== undefined;
    knownId = newestId;
    return hasPortal;
  };
}

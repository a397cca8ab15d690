import type { RosterEntry } from "../../core/roster.ts";
import type { Stream } from "../../core/window.ts";
import type { PollContext } from "../context.ts";

/** The organizations and the provider that the account reads now; null organizations: the key's own one. */
export interface AccountScope {
  readonly organizations: readonly RosterEntry[] | null;
  readonly provider: string | null;
}

export function activeOf(scope: AccountScope): readonly RosterEntry[] {
  return (scope.organizations ?? []).filter((entry) => entry.state === "active");
}

/** The stream of the same services for these organizations. */
export function streamOf(
  context: PollContext,
  like: Stream,
  organizations: readonly string[],
): Promise<Stream> {
  const { account, journal } = context;
  return journal.stream({ account, provider: like.provider, organizations, services: like.services });
}

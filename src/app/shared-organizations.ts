import type { AccountConfig, SinkConfig } from "../config/schema.ts";

/** A sink that chooses by account, and two accounts that read the same organizations, one of which it leaves out. */
export interface SharedOrganizations {
  readonly sink: string;
  readonly message: string;
}

/**
 * An event is held once, whichever accounts can read it (R11), and belongs to the account that read it first. So a
 * sink that chooses by account misses events of an organization that an account beside the chosen ones reads too.
 */
export function sharedOrganizations(
  accounts: readonly AccountConfig[],
  sinks: readonly SinkConfig[],
): SharedOrganizations[] {
  return sinks.flatMap((sink) => {
    const { taken, left } = choiceOf(sink, accounts);
    return taken.flatMap((own) =>
      left.flatMap((other) => {
        const which = sharedBy(own, other);
        if (which === undefined) return [];
        const message = `the accounts ${own.name} and ${other.name} ${which}. An event belongs to the account that read it first, so a sink that chooses by account may not get all of them: let one account read each organization, or choose by \`only.organizations\``;
        return [{ sink: sink.name, message }];
      }),
    );
  });
}

/** The accounts whose events the sink takes, and those it leaves out. */
function choiceOf({ only, except }: SinkConfig, accounts: readonly AccountConfig[]) {
  const isTaken = ({ name }: AccountConfig) =>
    (only?.accounts?.includes(name) ?? true) && !(except?.accounts?.includes(name) ?? false);
  return { taken: accounts.filter(isTaken), left: accounts.filter((account) => !isTaken(account)) };
}

/** `all` is known only when the service is asked: then the accounts may share organizations if they ask the same one. */
function sharedBy(own: AccountConfig, other: AccountConfig): string | undefined {
  const [mine, theirs] = [own.organizations, other.organizations];
  if (mine === undefined || theirs === undefined) return undefined;
  if (mine === "all" || theirs === "all")
    return own.region === other.region && own.insightsUrl === other.insightsUrl
      ? "may read the same organizations, because one of them reads all"
      : undefined;
  const ids = new Set(theirs.map((id) => id.toLowerCase()));
  const both = mine.filter((id) => ids.has(id.toLowerCase()));
  if (both.length === 0) return undefined;
  return both.length === 1
    ? `both read the organization ${both[0]}`
    : `both read ${both.length} organizations, ${both[0]} among them`;
}

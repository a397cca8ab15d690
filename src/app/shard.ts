import type { Config } from "../config/schema.ts";
import { UsageError } from "../core/errors.ts";
import { ownsOrganization, shardText, shareOf } from "../core/shard.ts";

/** Says why this process must not start an import: it belongs to another shard. undefined: it may. */
export type ImportRefusal = (account: string, organization: string | undefined) => string | undefined;

/** The lane of an import in a cluster. */
export function laneOfImport(
  config: Pick<Config, "accounts">,
  account: string,
  organization: string | undefined,
  lanes: number,
): number {
  const id = organization ?? onlyOrganization(config, account);
  return id === null || id === "" ? 0 : shareOf(id, lanes);
}

/** A job lives where its organization's events are read; so its schedule fires once over all shards. */
export function importRefusal(config: Pick<Config, "shard" | "accounts">): ImportRefusal {
  const { shard } = config;
  return (account, organization) => {
    const id = organization ?? onlyOrganization(config, account);
    if (shard === undefined || ownsOrganization(shard, id)) return undefined;
    const owner = id === null ? 0 : shareOf(id, shard.count);
    return `The organization ${id ?? "of the key"} belongs to shard ${owner}/${shard.count}, and this is shard ${shardText(shard)}: start the import there.`;
  };
}

/** An import without an organization means the key's own, which the account may name. */
function onlyOrganization({ accounts }: Pick<Config, "accounts">, name: string): string | null {
  const list = accounts.find((account) => account.name === name)?.organizations;
  return Array.isArray(list) && list.length === 1 ? list[0]! : null;
}

/** A command about an organization of another shard must not end as if nothing were there to do. */
export function refuseOtherShards(
  { shard }: Pick<Config, "shard">,
  organizations: readonly string[] | undefined,
): void {
  if (shard === undefined) return;
  for (const id of organizations ?? []) {
    if (ownsOrganization(shard, id)) continue;
    throw new UsageError(
      `The organization ${id} belongs to shard ${shareOf(id, shard.count)}/${shard.count}, and this is shard ${shardText(shard)}: run the command there.`,
    );
  }
}

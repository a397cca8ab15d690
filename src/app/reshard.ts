import type { Config } from "../config/schema.ts";
import { ownsOrganization } from "../core/shard.ts";
import type { Owners } from "../journal/split/move.ts";
import { type Resharded, reshard } from "../journal/split/reshard.ts";
import { importRefusal } from "./shard.ts";

/** Makes the state of the config's shard from the final copies of all old shards. */
export function reshardConfig(config: Config, copies: readonly string[], nowMs: number): Resharded {
  return reshard(config.state, copies, { shard: config.shard, owners: shardOwners(config), nowMs });
}

/** What belongs to the config's shard. */
export function shardOwners(config: Config): Owners {
  const { shard } = config;
  const refusal = importRefusal(config);
  const ownsJob = (account: string, organization: string | null) =>
    refusal(account, organization ?? undefined) === undefined;
  return {
    organization: (id: string | null) => ownsOrganization(shard, id),
    job: ownsJob,
    import(name: string) {
      const definition = config.imports.find((one) => one.name === name);
      if (definition === undefined) return ownsOrganization(shard, null);
      return ownsJob(definition.account, definition.organization ?? null);
    },
  };
}

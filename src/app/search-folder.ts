import { join } from "node:path";
import type { Config } from "../config/schema.ts";
import type { Clock } from "../core/clock.ts";
import { type AccessLog, openAccessLog } from "../search/access/access-log.ts";

/** Beside the state file: the index, tokens, and who asked for what. */
export function searchFolder(config: Pick<Config, "state">): string {
  return `${config.state}.search`;
}

export function openAccesses(config: Pick<Config, "state">, clock: Clock): AccessLog {
  return openAccessLog(join(searchFolder(config), "access"), clock.now);
}

/** Access entries may name what was erased (A23). The index follows with its next update. */
export function eraseAccesses(
  config: Config,
  { organization, event }: { readonly organization: string; readonly event?: string | undefined },
  clock: Clock,
): string {
  return `${openAccesses(config, clock).erase(organization, event ?? null)} access entries no longer name it; the index of search follows with its next update.`;
}

import type { Config } from "../config/schema.ts";
import { archiveConfigs, type RunningArchive } from "./archives.ts";

/** From this share on, polling begins no further stretch of history (A4). */
const NARROW_SHARE = 0.7;

/** The settings of polling, with those that archives decide. */
export function archivePolling(config: Config, archives: readonly RunningArchive[], usedShare: () => number) {
  return {
    ...config.polling,
    archived: archiveConfigs(config).length > 0,
    accounts: config.accounts.map(({ name }) => name),
    oldestOpenMs: () => oldestOpenMs(archives, usedShare()),
  };
}

/** The start of the oldest day that is open, while the journal is nearly full; polling completes it first (A4). */
function oldestOpenMs(archives: readonly RunningArchive[], usedShare: number): number | undefined {
  if (usedShare < NARROW_SHARE) return undefined;
  const days = archives.flatMap(({ state }) => state.oldestDay() ?? []).sort();
  return days[0] === undefined ? undefined : Date.parse(days[0]);
}

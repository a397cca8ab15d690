import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../../config/schema.ts";
import { isLocked, isSeenLocked } from "../../journal/lock.ts";

/** Whether there is a state on this machine: not before the first run, nor in a cluster, whose state is in Kafka. */
export function hasState({ state, cluster }: Config): boolean {
  return cluster === undefined && existsSync(state);
}

/** Whether a process runs here with this config. A machine of a cluster holds the locks of its lanes. */
export function runsHere({ state, cluster }: Config): boolean {
  if (!existsSync(state)) return false;
  if (cluster === undefined) return isLocked(state);
  const files = readdirSync(state).filter((file) => /^lane-\d+\.db$/.test(file));
  return files.some((file) => isSeenLocked(join(state, file)));
}

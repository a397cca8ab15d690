import type { Deletions } from "../archive/deletion/deletion.ts";
import { type Clock, createSteadyTime } from "../core/clock.ts";
import type { Log } from "../core/log.ts";

const RETRY_MS = 3_600_000;

/** Removes files of an archive whose lock has ended. Where that fails, days are closed all the same. */
export function createUnlockedRemoval(archive: string, clock: Clock, log: Log) {
  const steadyMs = createSteadyTime(clock);
  let notBeforeMs = 0;
  return async (deletions: Pick<Deletions, "removeUnlocked">): Promise<void> => {
    if (steadyMs() < notBeforeMs) return;
    try {
      const files = await deletions.removeUnlocked();
      if (files > 0) log.info({ archive, files }, "Files whose lock has ended were removed.");
    } catch (error) {
      notBeforeMs = steadyMs() + RETRY_MS;
      log.warn({ err: error, archive }, "Files whose lock has ended could not be removed; trying again.");
    }
  };
}

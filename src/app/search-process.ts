import type { Config } from "../config/schema.ts";
import type { Alarms } from "../core/alarms.ts";
import { type Clock, createSteadyTime } from "../core/clock.ts";
import { explain } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { Position } from "../core/position.ts";
import { isEngineInstalled } from "../search/engine/duckdb.ts";
import { createServiceClient } from "../search/service/client.ts";
import type { SearchService } from "../search/service/service.ts";
import { archiveConfigs, type RunningArchive } from "./archives.ts";

/*
 * The search process of the exporter. It answers questions of the server, and keeps the index up to date so that a
 * person who searches does not wait for it. It runs with the lowest priority and ends when it has nothing to do.
 *
 * The index is brought up to date
 *
 *   at the start
 *   when the archive has closed a part
 *   every ten minutes while events arrive
 *   ten minutes after a failure, which is an alarm meanwhile
 */
export interface SearchProcess {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface RunningSearch {
  readonly service: SearchService;
  /** Keeps the index of the archive up to date until the signal aborts. */
  keepIndex(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

export interface SearchParts {
  readonly clock: Clock;
  readonly alarms: Alarms;
  readonly log: Log;
  readonly archives: readonly Pick<RunningArchive, "name" | "state">[];
  readonly journal: { end(): Position };
}

const IDLE_MS = 600_000;
const LOOK_MS = 5000;
const EVERY_MS = 600_000;

export function openSearchProcess(
  config: Config,
  process: SearchProcess | undefined,
  parts: SearchParts,
): RunningSearch | undefined {
  if (process === undefined) return undefined;
  const { clock, log } = parts;
  const client = createServiceClient({ ...process, log, idleMs: IDLE_MS });
  return {
    service: client,
    async keepIndex(signal) {
      const archive = keptArchive(config);
      if (archive === undefined) return;
      if (!isEngineInstalled()) {
        log.info(
          { archive },
          "The index of search is not kept: the package @duckdb/node-api is not installed.",
        );
        return;
      }
      const step = createIndexStep(archive, client, parts);
      while (!signal.aborted) {
        await step(signal);
        await clock.sleep(LOOK_MS, signal).catch(() => {});
      }
    },
    close: () => client.close(),
  };
}

/** The archive that search reads by default; with several archives the config has to name it. */
function keptArchive(config: Config): string | undefined {
  if (!config.search.keepIndexed) return undefined;
  const names = archiveConfigs(config).map(({ name }) => name);
  return names.length === 1 ? names[0] : names.find((name) => name === config.search.archive);
}

/** One look: brings the index up to date when it is due. */
export function createIndexStep(archive: string, service: SearchService, parts: SearchParts) {
  const { clock, alarms, archives, journal } = parts;
  const state = archives.find(({ name }) => name === archive)?.state;
  let seen = { closed: -1, page: -1 };
  const steadyMs = createSteadyTime(clock);
  let dueMs = steadyMs();

  return async (signal: AbortSignal): Promise<void> => {
    const found = { closed: state?.head()?.size ?? 0, page: journal.end().page };
    const isFailing = alarms
      .list()
      .some(({ kind, subject }) => kind === "index_failing" && subject === archive);
    const isDue = steadyMs() >= dueMs && (isFailing || found.page !== seen.page);
    if (!isDue && (isFailing || found.closed === seen.closed)) return;
    try {
      await service.answer({ kind: "sync" }, signal);
      alarms.clear("index_failing", archive);
      seen = found;
    } catch (error) {
      if (signal.aborted) return;
      alarms.raise({
        kind: "index_failing",
        subject: archive,
        severity: "warning",
        message: `The index of search could not be brought up to date: ${explain(error)}`,
        remedy:
          "Retrying every ten minutes. Events are read, delivered and archived all the same; a search makes the missing index itself and takes longer. If this persists, check the disk of the index, and run `tidemark archive rebuild-index` to see the error.",
      });
    }
    dueMs = steadyMs() + EVERY_MS;
  };
}

import { join } from "node:path";
import type { Config } from "../config/schema.ts";
import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import type { RawRoute } from "../core/raw-route.ts";
import { openAccessLog } from "../search/access/access-log.ts";
import { openTokens } from "../search/access/tokens.ts";
import { insightsRoutes } from "../search/http/insights-routes.ts";
import { pageRoutes } from "../search/http/page-routes.ts";
import { createServiceClient } from "../search/service/client.ts";
import type { SearchService } from "../search/service/service.ts";
import { searchFolder } from "./search.ts";

/** How the exporter starts its search process. */
export interface SearchProcess {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface ServedSearch {
  readonly routes: readonly RawRoute[];
  /** Brings the index up to date, so that the first question after a closing is answered at once. */
  sync(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

const IDLE_MS = 600_000;

/** The search operations of the server. The work is done by a process of its own. */
export function serveSearch(config: Config, process: SearchProcess, clock: Clock, log: Log): ServedSearch {
  const client = createServiceClient({ ...process, log, idleMs: IDLE_MS });
  return {
    routes: searchRoutes(config, client, clock),
    async sync(signal) {
      await client.answer({ kind: "sync" }, signal);
    },
    close: () => client.close(),
  };
}

function searchRoutes(config: Config, service: SearchService, clock: Clock): RawRoute[] {
  const folder = searchFolder(config);
  const context = {
    service,
    tokens: openTokens(join(folder, "tokens"), clock.now),
    accesses: openAccessLog(join(folder, "access"), clock.now),
    timeoutMs: config.search.timeout,
  };
  return [...insightsRoutes(context), ...pageRoutes(context)];
}

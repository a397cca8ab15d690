import { join } from "node:path";
import type { Config } from "../config/schema.ts";
import type { Clock } from "../core/clock.ts";
import type { RawRoute } from "../core/raw-route.ts";
import { openTokens } from "../search/access/tokens.ts";
import { insightsRoutes } from "../search/http/insights-routes.ts";
import { pageRoutes } from "../search/http/page-routes.ts";
import type { SearchService } from "../search/service/service.ts";
import { openAccesses, searchFolder } from "./search-folder.ts";

/** The search operations of the server. */
export function searchRoutes(config: Config, service: SearchService, clock: Clock): RawRoute[] {
  const folder = searchFolder(config);
  const context = {
    service,
    tokens: openTokens(join(folder, "tokens"), clock.now),
    accesses: openAccesses(config, clock),
    timeoutMs: config.search.timeout,
  };
  return [...insightsRoutes(context), ...pageRoutes(context)];
}

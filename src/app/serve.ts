import type { Config } from "../config/schema.ts";
import type { Actions } from "../core/actions.ts";
import type { Clock } from "../core/clock.ts";
import type { Log } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import type { Route } from "../core/route.ts";
import type { PeersView } from "../core/view/peers.ts";
import type { View } from "../core/view.ts";
import type { SearchService } from "../search/service/service.ts";
import { registerGauges } from "../server/gauges.ts";
import type { Telemetry } from "../telemetry.ts";
import { VERSION } from "../version.ts";
import { searchRoutes } from "./search-routes.ts";

export interface Serving {
  readonly config: Config;
  readonly telemetry: Telemetry | undefined;
  readonly measured: Metrics;
  readonly view: View;
  readonly actions: Actions;
  readonly routes: readonly Route[];
  /** Answers searches; without it the server has none. */
  readonly search?: SearchService | undefined;
  /** The other machines of a cluster. */
  readonly others?: ((signal: AbortSignal) => Promise<PeersView>) | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

/** Starts the server where the config has one. Gauges are registered wherever something is measured. */
export async function serve(parts: Serving, signal: AbortSignal) {
  const { config, telemetry, measured, view, actions, routes, others, clock, log } = parts;
  if (telemetry === undefined) return undefined;
  const gauges = registerGauges(measured, view, clock);
  if (config.server === undefined) return undefined;
  // Loaded only by a run that has a server.
  const { startServer } = await import("../server/server.ts");
  const rawRoutes = parts.search && searchRoutes(config, parts.search, clock);
  return startServer({
    ...{
      config: config.server,
      version: VERSION,
      view,
      actions,
      routes,
      rawRoutes,
      others,
      clock,
      log,
      signal,
    },
    async metricsText() {
      await gauges.refresh();
      return telemetry.metricsText();
    },
  });
}

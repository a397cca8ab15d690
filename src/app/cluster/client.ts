import { createMachineBoard } from "../../cluster/machines.ts";
import { createRequestTopic } from "../../cluster/request-topic.ts";
import { checkTopics } from "../../cluster/topics.ts";
import type { ClusterConfig } from "../../config/cluster-schema.ts";
import type { Config } from "../../config/schema.ts";
import type { Actions } from "../../core/actions.ts";
import { createAlarms } from "../../core/alarms.ts";
import { systemClock } from "../../core/clock.ts";
import type { Log } from "../../core/log.ts";
import { type Route, RouteError } from "../../core/route.ts";
import type { View } from "../../core/view.ts";
import { createClusterActions, providersOf, sinkNamesOf } from "./actions.ts";
import { connectKafka } from "./connect-kafka.ts";
import { clusterImportRoutes } from "./import-routes.ts";
import { createMessenger } from "./messenger.ts";
import { viewOfLanes } from "./own-lanes.ts";
import { createRemoteMachines } from "./remote-machines.ts";

/** The cluster as a command sees it: everything is asked of the machines, through the topic of requests (C3). */
export interface ClusterClient {
  readonly actions: Actions;
  readonly view: View;
  /** Runs an operation of the HTTP API of imports. Throws RouteError. */
  call(method: Route["method"], path: string, input: RouteInputs): Promise<unknown>;
  close(): Promise<void>;
}

export interface RouteInputs {
  readonly params?: unknown;
  readonly query?: unknown;
  readonly body?: unknown;
  readonly caller?: string;
}

export async function openClusterClient(
  config: Config & { readonly cluster: ClusterConfig },
  log: Log,
  signal: AbortSignal,
): Promise<ClusterClient> {
  const { name, trial } = config.cluster;
  const connect = connectKafka(config.cluster, systemClock, log);
  const link = await connect(signal);
  const { lanes } = await link
    .within(30_000, checkTopics(link, name, trial, signal))
    .finally(() => link.end());
  const board = createMachineBoard(name, connect);
  await board.refresh(signal);
  const stop = new AbortController();
  const running = () => [];
  const look = () => Promise.reject(new Error("A command runs no lanes."));
  const messenger = createMessenger({
    ...{ lanes, log, look, open: running, topic: createRequestTopic(name, connect) },
  });
  const following = messenger.run(AbortSignal.any([signal, stop.signal]));
  const alarms = createAlarms(systemClock, log);
  const remote = createRemoteMachines({ own: undefined, board, messenger, alarms });
  const lookElsewhere = remote.look;
  const routes = clusterImportRoutes({ config, lanes, messenger, running, lookElsewhere });
  return {
    actions: createClusterActions({
      ...{ lanes, messenger, running, providers: providersOf(config), sinks: sinkNamesOf(config) },
    }),
    view: viewOfLanes(config, alarms, { startedMs: undefined, laneCount: lanes, lanes: remote.views }),
    async call(method, path, { params, query, body, caller = "command line" }) {
      const route = routes.find((one) => one.method === method && one.path === path);
      if (route === undefined) throw new RouteError(404, `There is no ${method} ${path}.`);
      return route.run({
        params: route.params.parse(params ?? {}),
        query: route.query.parse(query ?? {}),
        body: route.body?.parse(body),
        ...{ caller, signal, stopped: signal },
      });
    },
    async close() {
      stop.abort();
      await following;
      await board.end();
    },
  };
}

import type { ClusterConfig } from "../../config/cluster-schema.ts";
import type { Config } from "../../config/schema.ts";
import { systemClock } from "../../core/clock.ts";
import type { Log } from "../../core/log.ts";
import { createMetrics, silentMetrics } from "../../core/metrics.ts";
import type { Encoder } from "../../core/page-slice.ts";
import type { Preparer } from "../../polling/prepare/preparer.ts";
import type { Telemetry } from "../../telemetry.ts";
import { serve } from "../serve.ts";
import { createClusterActions, providersOf, sinkNamesOf } from "./actions.ts";
import type { FitnessLimits } from "./fitness.ts";
import { clusterImportRoutes } from "./import-routes.ts";
import { type Machine, openMachine } from "./machine.ts";
import { machinesView } from "./machines-view.ts";
import { runningLanes, viewOfLanes } from "./own-lanes.ts";
import { createRemoteMachines } from "./remote-machines.ts";

export interface RunMachineOptions {
  readonly config: Config & { readonly cluster: ClusterConfig };
  readonly log: Log;
  readonly stdout: NodeJS.WritableStream;
  readonly telemetry?: Telemetry | undefined;
  readonly preparer: Preparer;
  readonly encoder?: Encoder | undefined;
  /** Shorter ones for tests. */
  readonly limits?: FitnessLimits | undefined;
}

/** Runs this process as a machine of the cluster until the signal aborts. */
export async function runMachine(options: RunMachineOptions, signal: AbortSignal): Promise<void> {
  const { telemetry } = options;
  const measured = telemetry === undefined ? silentMetrics : createMetrics(telemetry.meter);
  const machine = await openMachine({ ...options, measured }, signal);
  const server = await serve({ ...options, telemetry, measured, ...pageOf(machine, options.config) }, signal);
  try {
    await machine.run(signal);
  } finally {
    await server?.close();
  }
}

/** The page of a machine: the whole cluster. Its own lanes are read directly, those of other machines through requests. */
function pageOf(machine: Machine, config: Config) {
  const { name, lanes, alarms, board, messenger } = machine;
  const clock = systemClock;
  const remote = createRemoteMachines({
    ...{ own: name, board, messenger, alarms },
    running: () => runningLanes(machine.statuses()),
  });
  const running = () => {
    const here = remote.here();
    return runningLanes(machine.statuses()).filter(({ lane }) => here.includes(lane));
  };
  const view = viewOfLanes(config, alarms, {
    ...{ startedMs: clock.now(), laneCount: lanes },
    lanes: () => [...running().map(({ lane, app }) => ({ lane, view: app.view })), ...remote.views()],
  });
  const providers = providersOf(config);
  const actions = createClusterActions({ lanes, messenger, providers, running, sinks: sinkNamesOf(config) });
  const lookElsewhere = remote.look;
  const routes = clusterImportRoutes({ config, lanes, messenger, running, lookElsewhere });
  const others = async () => machinesView(board.list(clock.now()), name, lanes, clock.now());
  return { view, actions, others, routes, clock };
}

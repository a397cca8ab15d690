import type { ClusterConfig } from "../../config/cluster-schema.ts";
import type { Config } from "../../config/schema.ts";
import { systemClock } from "../../core/clock.ts";
import type { Log } from "../../core/log.ts";
import { createMetrics, silentMetrics } from "../../core/metrics.ts";
import type { Preparer } from "../../polling/prepare/preparer.ts";
import type { Telemetry } from "../../telemetry.ts";
import { VERSION } from "../../version.ts";
import { serve } from "../serve.ts";
import { createMachineActions } from "./actions.ts";
import { type Machine, openMachine } from "./machine.ts";
import { machinesView } from "./machines-view.ts";
import { createMachineView } from "./view.ts";

export interface RunMachineOptions {
  readonly config: Config & { readonly cluster: ClusterConfig };
  readonly log: Log;
  readonly stdout: NodeJS.WritableStream;
  readonly telemetry?: Telemetry | undefined;
  readonly preparer: Preparer;
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

/** The page of a machine: its own lanes as one view, and the whole cluster from what the machines publish. */
function pageOf(machine: Machine, config: Config) {
  const clock = systemClock;
  const running = () =>
    machine
      .statuses()
      .flatMap(({ lane, state, app }) => (state === "running" && app !== undefined ? [{ lane, app }] : []));
  const view = createMachineView({
    ...{ version: VERSION, clock, startedMs: clock.now(), sinkBehindMs: config.alarms.sinkBehind },
    lanes: () => running().map(({ lane, app }) => ({ lane, view: app.view })),
    alarms: () => machine.alarms.list(),
  });
  const actions = createMachineActions(() =>
    running().map(({ lane, app }) => ({ lane, actions: app.actions })),
  );
  const others = async () =>
    machinesView(machine.board.list(clock.now()), machine.name, machine.lanes, clock.now());
  return { view, actions, others, routes: [], clock };
}

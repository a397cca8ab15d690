import type { ClusterConfig } from "../../config/cluster-schema.ts";
import type { Config } from "../../config/schema.ts";
import type { Log } from "../../core/log.ts";
import { createMetrics, silentMetrics } from "../../core/metrics.ts";
import type { Preparer } from "../../polling/prepare/preparer.ts";
import type { Telemetry } from "../../telemetry.ts";
import { openMachine } from "./machine.ts";

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
  await machine.run(signal);
}

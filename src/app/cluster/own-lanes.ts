import type { App } from "../../app.ts";
import type { Config } from "../../config/schema.ts";
import type { Alarms } from "../../core/alarms.ts";
import { systemClock } from "../../core/clock.ts";
import type { LaneRequest } from "../../core/lane-requests.ts";
import type { View } from "../../core/view.ts";
import { VERSION } from "../../version.ts";
import { lookInLanes } from "./import-routes.ts";
import type { LaneStatus } from "./lane.ts";
import { createMachineView, type LaneView } from "./view.ts";

export interface RunningLane {
  readonly lane: number;
  readonly app: App;
}

/** The lanes that run on this machine. */
export function runningLanes(statuses: readonly LaneStatus[]): readonly RunningLane[] {
  return statuses.flatMap(({ lane, state, app }) =>
    state === "running" && app !== undefined ? [{ lane, app }] : [],
  );
}

/** The view of lanes with the alarms of this machine. */
export function viewOfLanes(config: Config, alarms: Alarms, lanes: () => readonly LaneView[]): View {
  return createMachineView({
    ...{ version: VERSION, clock: systemClock, startedMs: systemClock.now(), lanes },
    sinkBehindMs: config.alarms.sinkBehind,
    alarms: () => alarms.list(),
  });
}

/** Answers what other machines and commands want to see of this machine's lanes. */
export function createLook(view: View, running: () => readonly RunningLane[]) {
  return async (request: LaneRequest, signal: AbortSignal): Promise<unknown> => {
    switch (request.kind) {
      case "look": {
        const part = view[request.part as keyof View] as ((...values: unknown[]) => unknown) | undefined;
        if (part === undefined) throw new Error(`This version cannot show "${request.part}".`);
        return part(...request.values);
      }
      case "look_route":
        return lookInLanes(running(), request.call, signal);
      case "action":
      case "route":
        throw new Error("A change is not a look.");
    }
  };
}

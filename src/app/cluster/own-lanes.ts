import type { App } from "../../app.ts";
import type { Config } from "../../config/schema.ts";
import type { Alarms } from "../../core/alarms.ts";
import { systemClock } from "../../core/clock.ts";
import type { LaneRequest, LanesAnswer } from "../../core/lane-requests.ts";
import { RouteError } from "../../core/route.ts";
import type { View } from "../../core/view.ts";
import { VERSION } from "../../version.ts";
import { isNotFound, lookInLanes } from "./import-routes.ts";
import type { LaneStatus } from "./lane.ts";
import { createMachineView, type LaneView, type MachineViewOptions } from "./view.ts";

export interface RunningLane {
  readonly lane: number;
  readonly sinceMs: number;
  readonly app: App;
}

/** The lanes that run on this machine. */
export function runningLanes(statuses: readonly LaneStatus[]): readonly RunningLane[] {
  return statuses.flatMap(({ lane, state, sinceMs, app }) =>
    state === "running" && app !== undefined ? [{ lane, sinceMs, app }] : [],
  );
}

/** The view of lanes with the alarms of this machine. */
export function viewOfLanes(
  config: Config,
  alarms: Alarms,
  options: Pick<MachineViewOptions, "lanes" | "startedMs" | "laneCount">,
): View {
  return createMachineView({
    ...{ version: VERSION, clock: systemClock, ...options },
    sinkBehindMs: config.alarms.sinkBehind,
    alarms: () => alarms.list(),
  });
}

/** Answers what other machines and commands want to see of this machine's lanes. */
export function createLook(
  viewOf: (lanes: () => readonly LaneView[]) => View,
  running: () => readonly RunningLane[],
) {
  async function look(
    request: LaneRequest,
    lanes: () => readonly RunningLane[],
    signal: AbortSignal,
  ): Promise<unknown> {
    switch (request.kind) {
      case "look": {
        const view = viewOf(() => lanes().map(({ lane, app }) => ({ lane, view: app.view })));
        const part = view[request.part as keyof View] as ((...values: unknown[]) => unknown) | undefined;
        if (part === undefined) throw new Error(`This version cannot show "${request.part}".`);
        const found = await part(...request.values);
        return LISTS.has(request.part) ? (found as Record<string, unknown>)[request.part] : found;
      }
      case "look_route":
        return lookInLanes(lanes(), request.call, signal);
      case "action":
      case "route":
        throw new Error("A change is not a look.");
    }
  }

  return async (request: LaneRequest, signal: AbortSignal): Promise<unknown> => {
    const wanted = "lanes" in request ? request.lanes : undefined;
    if (wanted === undefined) return look(request, running, signal);
    for (;;) {
      const before = running().filter(({ lane }) => wanted.includes(lane));
      const still = () => before.filter(({ app }) => running().some((one) => one.app === app));
      const [found] = await Promise.allSettled([look(request, still, signal)]);
      // A lane that closed meanwhile may be in the value or not: ask again.
      if (still().length < before.length) continue;
      if (found.status === "fulfilled")
        return { lanes: before.map(({ lane }) => lane), found: found.value } satisfies LanesAnswer;
      // What is not in these lanes may be in one that has moved.
      if (before.length < wanted.length && isNotFound(found.reason)) throw new RouteError(503, MOVED);
      throw found.reason;
    }
  };
}

/** Parts that travel as the bare list, as in earlier versions. Of which lanes it is, the answer says beside it. */
const LISTS: ReadonlySet<string> = new Set(["sinks", "archives"] satisfies (keyof View)[]);
const MOVED = "Lanes have just moved to another machine.";

import type { LaneSummary, MachineBoard, MachineSummary } from "../../cluster/machines.ts";
import type { Alarms } from "../../core/alarms.ts";
import { explain } from "../../core/errors.ts";
import type { Metrics } from "../../core/metrics.ts";
import { pause } from "../../core/pause.ts";
import { VERSION } from "../../version.ts";
import type { LaneStatus } from "./lane.ts";

const REPORT_MS = 5000;
/** A lane that opens, runs or stops is reported at once. */
const LOOK_MS = 250;
/** A lane may be without an owner for so long: that is a takeover. */
const UNOWNED_MS = 30_000;

export interface ReportedMachine {
  readonly name: string;
  readonly lanes: number;
  readonly alarms: Alarms;
  readonly board: MachineBoard;
  /** The digest of its accounts, sinks and imports. */
  readonly config: string;
  /** The lanes that this machine has now, by number. */
  statuses(): readonly LaneStatus[];
}

/** Reports this machine to the others, and watches for lanes that no machine runs. */
export async function reportMachine(
  machine: ReportedMachine,
  measured: Metrics,
  signal: AbortSignal,
): Promise<void> {
  const unownedSince = new Map<number, number>();
  const last: { lanes: readonly LaneSummary[] } = { lanes: [] };
  registerGauges(measured, () => last.lanes, unownedSince);
  while (!signal.aborted) {
    try {
      const summary = await summaryOf(machine);
      last.lanes = summary.lanes;
      await machine.board.publish(machine.name, summary, signal);
      await machine.board.refresh(signal);
      watchName(machine);
      watchOwners(machine, unownedSince);
      watchConfig(machine);
      machine.alarms.clear("cluster_silent", machine.name);
    } catch (error) {
      if (signal.aborted) return;
      machine.alarms.raise({
        kind: "cluster_silent",
        subject: machine.name,
        message: `This machine cannot exchange summaries with the others: ${explain(error)}`,
        remedy:
          "Check the brokers. Lanes that run go on; the page does not show the other machines meanwhile.",
        severity: "warning",
      });
    }
    await untilDue(machine, last.lanes, signal);
  }
}

/** Until it is time for the next report, or a lane is in another state than in the last one. */
async function untilDue(
  machine: ReportedMachine,
  reported: readonly LaneSummary[],
  signal: AbortSignal,
): Promise<void> {
  const stateOf = (lanes: readonly { readonly lane: number; readonly state: string }[]) =>
    lanes.map(({ lane, state }) => `${lane} ${state}`).join();
  const known = stateOf(reported);
  for (let waitedMs = 0; waitedMs < REPORT_MS && !signal.aborted; waitedMs += LOOK_MS) {
    await pause(LOOK_MS, signal);
    if (stateOf(machine.statuses()) !== known) return;
  }
}

const STATES = ["opening", "running", "waiting", "stopped"] as const;

function registerGauges(
  measured: Metrics,
  lanes: () => readonly LaneSummary[],
  unowned: ReadonlyMap<number, number>,
): void {
  measured.gauge("tidemark_cluster_lanes", () =>
    STATES.map((state) => ({
      value: lanes().filter((lane) => lane.state === state).length,
      attributes: { state },
    })),
  );
  measured.gauge("tidemark_cluster_lane_behind_events", () =>
    lanes().map(({ lane, behindEvents }) => ({ value: behindEvents, attributes: { lane: String(lane) } })),
  );
  measured.gauge("tidemark_cluster_unowned_lanes", () => [{ value: unowned.size }]);
}

async function summaryOf(machine: ReportedMachine): Promise<MachineSummary> {
  const statuses = machine.statuses();
  const own = machine.alarms.list();
  const inLanes = statuses.flatMap(({ app }) => app?.alarms.list() ?? []);
  return {
    ...{ machine: machine.name, version: VERSION, atMs: Date.now(), config: machine.config },
    lanes: await Promise.all(statuses.map(laneSummary)),
    alarms: [...own, ...inLanes].map(({ kind, subject, message }) => ({ kind, subject, message })),
  };
}

async function laneSummary({ lane, state, sinceMs, records, reason, app }: LaneStatus): Promise<LaneSummary> {
  // A lane that closes at this moment has no view any more.
  const none = { sinks: [] };
  const { sinks } = await (app?.view.sinks() ?? Promise.resolve(none)).catch(() => none);
  const totals = (await (app?.view.status() ?? Promise.resolve(undefined)).catch(() => undefined))?.totals;
  const behindEvents = Math.max(0, ...sinks.map(({ lagEvents }) => lagEvents));
  const { organizations, events, deadLetters } = totals ?? {};
  return {
    ...{ lane, state, sinceMs, records, behindEvents, reason },
    ...{ organizations, events, deadLetters },
  };
}

/** Two processes with one name: the config is the same everywhere, so a name in it is too. */
export function watchName({
  name,
  alarms,
  board,
}: Pick<ReportedMachine, "name" | "alarms"> & { readonly board: Pick<MachineBoard, "hasRival"> }): void {
  if (!board.hasRival()) {
    alarms.clear("machine_name_taken", name);
    return;
  }
  alarms.raise({
    kind: "machine_name_taken",
    subject: name,
    message: `Another process reports as the machine "${name}" too. Lanes are not affected, but the page and "tidemark cluster status" show only one of the two at a time.`,
    remedy: 'Give each machine its own name under "cluster.machine", or leave it out of the config.',
    severity: "warning",
  });
}

function watchOwners({ board, alarms, lanes }: ReportedMachine, since: Map<number, number>): void {
  const nowMs = Date.now();
  const running = new Set(
    board
      .list(nowMs)
      .flatMap((other) => other.lanes.filter(({ state }) => state === "running").map(({ lane }) => lane)),
  );
  for (let lane = 0; lane < lanes; lane++) {
    // The lanes of a machine that another one hides are not known.
    if (running.has(lane) || board.hasRival()) {
      since.delete(lane);
      alarms.clear("lane_without_owner", String(lane));
      continue;
    }
    const fromMs = since.get(lane) ?? nowMs;
    since.set(lane, fromMs);
    if (nowMs - fromMs < UNOWNED_MS) continue;
    alarms.raise({
      kind: "lane_without_owner",
      subject: String(lane),
      message: `No machine has run lane ${lane} since ${new Date(fromMs).toISOString()}: its organizations are not read.`,
      remedy:
        "Look for the lane in the logs of the machines. Nothing is lost while the service holds the events.",
      severity: "critical",
    });
  }
}

/** C15: says why this machine gets no lanes. */
export function watchConfig({
  name,
  config,
  alarms,
  board,
  statuses,
}: Pick<ReportedMachine, "name" | "config" | "alarms" | "statuses"> & {
  readonly board: Pick<MachineBoard, "list">;
}): void {
  const others = board.list(Date.now()).filter(({ machine }) => machine !== name);
  if (statuses().length > 0 || !hasOtherConfig(config, others)) {
    alarms.clear("config_differs", name);
    return;
  }
  alarms.raise({
    kind: "config_differs",
    subject: name,
    message:
      "This machine gets no lanes: its accounts, sinks or imports are not those of the machines that run them.",
    remedy:
      "Give all machines the same config, one after the other. This machine gets lanes once most machines have its config.",
    severity: "warning",
  });
}

/** True when all machines that run lanes have another config than this one. */
export function hasOtherConfig(
  own: string,
  others: readonly Pick<MachineSummary, "config" | "lanes">[],
): boolean {
  const running = others.filter(({ lanes }) => lanes.some(({ state }) => state === "running"));
  return running.length > 0 && running.every(({ config }) => config !== undefined && config !== own);
}

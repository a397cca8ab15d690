import type { MachineSummary } from "../../cluster/machines.ts";
import type { PeersView, PeerView } from "../../core/view/peers.ts";
import { totalsOfPeers } from "../../server/peers.ts";

/** A lane may be without a machine for so long while another takes it over. */
const TAKEOVER_MS = 30_000;

/**
 * The whole cluster as the page of each machine shows it: every machine with its lanes, and lanes that no machine
 * runs. Made from the summaries that machines publish; a machine without a recent report is left out.
 */
export function machinesView(
  machines: readonly MachineSummary[],
  own: string,
  laneCount: number,
  nowMs: number,
): PeersView {
  const peers = machines.map((machine) => peerOfMachine(machine, own, nowMs));
  return {
    configured: true,
    kind: "machines",
    problems: laneProblems(machines, laneCount),
    totals: totalsOfPeers(peers),
    peers: peers.sort((a, b) => ORDER[a.health] - ORDER[b.health] || (a.headline < b.headline ? -1 : 1)),
  };
}

const ORDER = { unknown: 0, bad: 1, degraded: 2, good: 3 };

function peerOfMachine(machine: MachineSummary, own: string, nowMs: number): PeerView {
  const { lanes, alarms } = machine;
  const sum = (value: "organizations" | "events" | "deadLetters") =>
    lanes.reduce((all, lane) => all + (lane[value] ?? 0), 0);
  const running = lanes.filter(({ state }) => state === "running").length;
  const stopped = lanes.some(({ state }) => state === "stopped");
  const late = nowMs - machine.atMs > TAKEOVER_MS / 2;
  const health = stopped ? "bad" : alarms.length > 0 || running < lanes.length || late ? "degraded" : "good";
  const slowest = [...lanes].sort((a, b) => b.behindEvents - a.behindEvents)[0];
  return {
    address: machine.machine === own ? null : (machine.url ?? machine.machine),
    ...{ problem: null, shard: null, version: machine.version, health, startedMs: null },
    headline: `${machine.machine} runs ${running} of its ${lanes.length} lanes.`,
    ...{ organizations: sum("organizations"), events: sum("events"), deadLetters: sum("deadLetters") },
    ...{ gaps: 0, liveLagMs: null, lossInMs: null },
    sinks: { running: 0, all: 0, worst: null },
    lanes: lanes.map(({ lane, state, sinceMs, behindEvents, reason }) => ({
      ...{ lane, state, sinceMs, behindEvents },
      reason: reason ?? null,
    })),
    alarms: alarms.map((alarm) => ({
      ...alarm,
      ...{ remedy: "See the page of that machine.", severity: "warning" as const, sinceMs: machine.atMs },
    })),
    ...(slowest === undefined || slowest.behindEvents === 0
      ? {}
      : { headline: headlineOf(machine, running, slowest) }),
  };
}

function headlineOf(
  { machine, lanes }: MachineSummary,
  running: number,
  slowest: MachineSummary["lanes"][number],
): string {
  return `${machine} runs ${running} of its ${lanes.length} lanes; lane ${slowest.lane} has up to ${slowest.behindEvents} events to deliver.`;
}

function laneProblems(machines: readonly MachineSummary[], laneCount: number): string[] {
  const problems: string[] = [];
  for (let lane = 0; lane < laneCount; lane++) {
    const owners = machines.filter((one) =>
      one.lanes.some((its) => its.lane === lane && its.state === "running"),
    );
    if (owners.length === 0) problems.push(`No machine runs lane ${lane} just now.`);
  }
  return problems.length <= 8
    ? problems
    : [...problems.slice(0, 8), `And ${problems.length - 8} more lanes without a machine.`];
}

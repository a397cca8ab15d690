import { hash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { hostname } from "node:os";
import { resolve } from "node:path";
import { openApp } from "../../app.ts";
import { createKafkaChangelog } from "../../cluster/kafka-changelog.ts";
import { createMachineBoard } from "../../cluster/machines.ts";
import { createRequestTopic } from "../../cluster/request-topic.ts";
import { checkTopics, LANE_HASH } from "../../cluster/topics.ts";
import { configDigest, configOfLane, laneFile } from "../../config/cluster.ts";
import type { ClusterConfig } from "../../config/cluster-schema.ts";
import type { Config } from "../../config/schema.ts";
import { type Alarms, createAlarms } from "../../core/alarms.ts";
import { systemClock } from "../../core/clock.ts";
import { UsageError } from "../../core/errors.ts";
import type { ConnectKafka } from "../../core/kafka.ts";
import type { Log } from "../../core/log.ts";
import type { Metrics } from "../../core/metrics.ts";
import type { Encoder } from "../../core/page-slice.ts";
import { pause } from "../../core/pause.ts";
import { timeoutSignal } from "../../core/timeout.ts";
import { migrations } from "../../journal/migrations.ts";
import type { Preparer } from "../../polling/prepare/preparer.ts";
import { connectKafka } from "./connect-kafka.ts";
import { FITNESS_LIMITS, type FitnessLimits } from "./fitness.ts";
import { type LaneRunner, type LaneStatus, runLane } from "./lane.ts";
import { createLaneSet } from "./lane-set.ts";
import { createMember } from "./member.ts";
import { createMessenger, type Messenger } from "./messenger.ts";
import { createLook, runningLanes, viewOfLanes } from "./own-lanes.ts";
import { type ReportedMachine, reportMachine } from "./report.ts";
import { createSharedParts } from "./shared-parts.ts";
import { watchTopics } from "./watch-topics.ts";

/*
 * One machine of a cluster. The group assigns lanes to it; it opens what is assigned, closes what is not, and lets the
 * rest run through a rebalance (C13). At the end it closes its lanes first and leaves the group then.
 */

export interface MachineOptions {
  readonly config: Config & { readonly cluster: ClusterConfig };
  readonly log: Log;
  readonly stdout: NodeJS.WritableStream;
  readonly measured: Metrics;
  readonly preparer: Preparer;
  readonly encoder?: Encoder | undefined;
  /** Shorter ones for tests. */
  readonly limits?: FitnessLimits | undefined;
}

export interface Machine extends ReportedMachine {
  /** Requests to and from the other machines (C3). */
  readonly messenger: Messenger;
  run(signal: AbortSignal): Promise<void>;
}

/** Checks the topics (C7) and gives a machine that can run. */
export async function openMachine(options: MachineOptions, signal: AbortSignal): Promise<Machine> {
  const { config, log } = options;
  const { cluster } = config;
  const connect = connectKafka(cluster, systemClock, log);
  const link = await connect(signal);
  const {
    lanes,
    problems,
    cluster: id,
  } = await link
    .within(30_000, checkTopics(link, cluster.name, cluster.trial, signal))
    .finally(() => link.end());
  if (problems.length > 0)
    throw new UsageError(
      `The topics of the cluster "${cluster.name}" are not as they must be:\n${problems.map((text) => `  - ${text}`).join("\n")}`,
    );
  mkdirSync(config.state, { recursive: true, mode: 0o700 });
  return createMachine(options, connect, { lanes, id });
}

function createMachine(
  options: MachineOptions,
  connect: ConnectKafka,
  { lanes, id }: { readonly lanes: number; readonly id: string | undefined },
): Machine {
  const { config, log, measured } = options;
  const { cluster } = config;
  const name = cluster.machine ?? defaultName(config.state);
  const alarms = createAlarms(systemClock, log);
  const board = createMachineBoard(cluster.name, connect);
  const shared = createSharedParts(config, { ...options, alarms });
  const schema = migrations().at(-1)!.number;
  const set = createLaneSet(
    laneOpener({
      ...{ options, connect, name, lanes, shared, alarms },
      answer: (lane, origin, outcome) => messenger.answer(lane, origin, outcome),
      running: () => member.knowsSchema(),
      tooNew: () => member.tooNew(),
    }),
    log,
  );
  const startedMs = systemClock.now();
  const running = () => runningLanes(set.statuses());
  const messenger = createMessenger({
    ...{ lanes, log, topic: createRequestTopic(cluster.name, connect) },
    open: () => set.statuses().flatMap(({ lane, app }) => (app === undefined ? [] : [{ lane, app }])),
    look: createLook((ofLanes) => viewOfLanes(config, alarms, { startedMs, lanes: ofLanes }), running),
  });
  const limits = options.limits ?? FITNESS_LIMITS;
  const member = createMember({
    ...{ config, name, lanes, schema, connect, board, alarms, log, limits, set },
  });
  const machine = { name, lanes, alarms, board, config: configDigest(config), statuses: set.statuses };

  return {
    ...machine,
    messenger,
    async run(signal) {
      const leaving = new AbortController();
      const parts = [
        member.run(leaving.signal),
        member.watch(signal),
        reportMachine(machine, measured, signal),
        watchTopics({ cluster, connect, alarms, id }, signal),
        messenger.run(leaving.signal),
      ];
      while (!signal.aborted) await pause(1000, signal);
      set.want([]);
      await set.closed();
      leaving.abort();
      await Promise.allSettled(parts);
      await board.publish(name, null, timeoutSignal(5000)).catch(() => {});
      await board.end();
      await shared.close();
    },
  };
}

interface OpenerOptions {
  readonly options: MachineOptions;
  readonly connect: ConnectKafka;
  readonly name: string;
  readonly lanes: number;
  readonly shared: ReturnType<typeof createSharedParts>;
  readonly alarms: Alarms;
  answer: Messenger["answer"];
  /** A lane runs. */
  running(): void;
  tooNew(): void;
}

/** How a lane is opened on this machine. */
function laneOpener(parts: OpenerOptions): (lane: number) => LaneRunner {
  const { options, connect, name, lanes, shared, alarms } = parts;
  const { config, log, stdout, measured } = options;
  const { cluster } = config;
  const changelog = createKafkaChangelog({
    name: cluster.name,
    connect,
    transactionTimeoutMs: Math.max(10_000, cluster.sessionTimeout),
  });
  return (lane) => {
    const laneLog = log.child({ lane });
    const laneConfig = configOfLane(config, lane, lanes);
    const { preparer, encoder } = shared;
    return runLane({
      ...{ lane, changelog, machine: name, sessionTimeoutMs: cluster.sessionTimeout },
      division: { lanes, hash: LANE_HASH },
      file: laneFile(config.state, lane),
      shared: shared.parts,
      log: laneLog,
      answer: (origin, outcome) => parts.answer(lane, origin, outcome),
      openApp: (own, repairing) =>
        openApp({ ...{ config: laneConfig, log: laneLog, stdout, preparer, encoder, repairing }, lane: own }),
      changed(status, isNew) {
        if (status.state === "running") parts.running();
        if (isNew) showStatus(status, alarms, laneLog);
        showFailing(status, alarms);
      },
      closed() {
        for (const kind of ["lane_stopped", "lane_failing"] as const) alarms.clear(kind, String(lane));
      },
      fenced: () => measured.add("tidemark_cluster_fences_total", 1, {}),
      tooNew: parts.tooNew,
    });
  };
}

function showStatus({ lane, state, reason, records, replay }: LaneStatus, alarms: Alarms, log: Log): void {
  if (state === "running") log.info({ records, replay }, "A lane runs here.");
  if (state === "waiting" && reason !== undefined)
    log.warn({ reason }, "A lane was lost; it is opened again.");
  if (state !== "stopped") {
    alarms.clear("lane_stopped", String(lane));
    return;
  }
  alarms.raise({
    kind: "lane_stopped",
    subject: String(lane),
    message: `Lane ${lane} cannot run here: ${reason ?? ""}`,
    remedy:
      "See docs/cluster.md. Its organizations are not read until the cause is removed; nothing is skipped.",
    severity: "critical",
  });
}

const FAILURES_MAX = 3;

/** A lane that is opened and lost again and again looks like a running one most of the time. */
export function showFailing(
  { lane, reason, failures = 0 }: Pick<LaneStatus, "lane" | "reason" | "failures">,
  alarms: Alarms,
): void {
  if (failures === 0) alarms.clear("lane_failing", String(lane));
  if (failures < FAILURES_MAX || reason === undefined) return;
  alarms.raise({
    kind: "lane_failing",
    subject: String(lane),
    message: `Lane ${lane} was opened here ${FAILURES_MAX} times or more and was lost each time within seconds: ${reason}`,
    remedy:
      "Remove the cause; the lane is opened again every ten seconds. Its organizations are hardly read meanwhile; nothing is lost while the service holds the events.",
    severity: "critical",
  });
}

function defaultName(state: string): string {
  return `${hostname()}-${hash("sha256", resolve(state)).slice(0, 6)}`;
}

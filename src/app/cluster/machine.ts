import { hash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { hostname } from "node:os";
import { resolve } from "node:path";
import { openApp } from "../../app.ts";
import { createKafkaChangelog } from "../../cluster/kafka-changelog.ts";
import { createMachineBoard } from "../../cluster/machines.ts";
import { joinGroup } from "../../cluster/membership.ts";
import { createRequestTopic } from "../../cluster/request-topic.ts";
import { instantNow } from "../../cluster/self-fence.ts";
import { checkTopics } from "../../cluster/topics.ts";
import { configDigest, configOfLane, laneFile } from "../../config/cluster.ts";
import type { ClusterConfig } from "../../config/cluster-schema.ts";
import type { Config } from "../../config/schema.ts";
import { createAlarms } from "../../core/alarms.ts";
import { systemClock } from "../../core/clock.ts";
import { explain, UsageError } from "../../core/errors.ts";
import type { Log } from "../../core/log.ts";
import type { Metrics } from "../../core/metrics.ts";
import { migrations } from "../../journal/migrations.ts";
import type { Preparer } from "../../polling/prepare/preparer.ts";
import { connectKafka } from "./connect-kafka.ts";
import { createFitness, STAY_AWAY_MS } from "./fitness.ts";
import { type LaneRunner, type LaneStatus, runLane, sleep } from "./lane.ts";
import { createMessenger, type Messenger } from "./messenger.ts";
import { createLook, runningLanes, viewOfLanes } from "./own-lanes.ts";
import { type ReportedMachine, reportMachine } from "./report.ts";
import { createSharedParts } from "./shared-parts.ts";

/*
 * One machine of a cluster. The group assigns lanes to it; it opens what is assigned, closes what is not, and lets the
 * rest run through a rebalance (C13). At the end it closes its lanes first and leaves the group then.
 */

const WATCH_MS = 5000;

export interface MachineOptions {
  readonly config: Config & { readonly cluster: ClusterConfig };
  readonly log: Log;
  readonly stdout: NodeJS.WritableStream;
  readonly measured: Metrics;
  readonly preparer: Preparer;
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
  const { lanes, problems } = await link
    .within(30_000, checkTopics(link, cluster.name, cluster.trial))
    .finally(() => link.end());
  if (problems.length > 0)
    throw new UsageError(
      `The topics of the cluster "${cluster.name}" are not as they must be:\n${problems.map((text) => `  - ${text}`).join("\n")}`,
    );
  mkdirSync(config.state, { recursive: true, mode: 0o700 });
  return createMachine(options, connect, lanes);
}

function createMachine(
  options: MachineOptions,
  connect: ReturnType<typeof connectKafka>,
  lanes: number,
): Machine {
  const { config, log, measured } = options;
  const { cluster } = config;
  const name = cluster.machine ?? defaultName(config.state);
  const alarms = createAlarms(systemClock, log);
  const board = createMachineBoard(cluster.name, connect);
  const changelog = createKafkaChangelog({
    name: cluster.name,
    connect,
    transactionTimeoutMs: Math.max(10_000, cluster.sessionTimeout),
  });
  const shared = createSharedParts(config, { ...options, alarms });
  const runners = new Map<number, LaneRunner>();
  const statuses = () =>
    [...runners.values()].map(({ status }) => status).toSorted((a, b) => a.lane - b.lane);
  const running = () => runningLanes(statuses());
  const messenger = createMessenger({
    ...{ lanes, log, topic: createRequestTopic(cluster.name, connect) },
    open: () => statuses().flatMap(({ lane, app }) => (app === undefined ? [] : [{ lane, app }])),
    look: createLook(
      viewOfLanes(config, alarms, () => running().map(({ lane, app }) => ({ lane, view: app.view }))),
      running,
    ),
  });
  const closing = new Map<number, Promise<void>>();
  let desired: ReadonlySet<number> = new Set();
  let laneSchema = 0;
  let rejoin = new AbortController();
  /** It has left the group for a while (C13). */
  let isAway = false;
  const schema = migrations().at(-1)!.number;

  function reconcile(): void {
    for (const [lane, runner] of runners) if (!desired.has(lane)) closeLane(lane, runner);
    for (const lane of desired) if (!runners.has(lane) && !closing.has(lane)) openLaneNumber(lane);
  }

  function closeLane(lane: number, runner: LaneRunner): void {
    runners.delete(lane);
    const done = runner.close().finally(() => {
      closing.delete(lane);
      log.info({ lane }, "A lane was closed.");
      reconcile();
    });
    closing.set(lane, done);
  }

  function openLaneNumber(lane: number): void {
    const laneLog = log.child({ lane });
    const runner = runLane({
      ...{ lane, changelog, machine: name, sessionTimeoutMs: cluster.sessionTimeout },
      file: laneFile(config.state, lane),
      shared: shared.parts,
      log: laneLog,
      answer: (origin, outcome) => messenger.answer(lane, origin, outcome),
      openApp: (parts, repairing) =>
        openApp({
          config: configOfLane(config, lane, lanes),
          log: laneLog,
          stdout: options.stdout,
          preparer: shared.preparer,
          lane: parts,
          repairing,
        }),
      changed: (status) => changed(status, laneLog),
      fenced: () => measured.add("tidemark_cluster_fences_total", 1, {}),
      tooNew() {
        laneSchema = schema + 1;
        rejoin.abort();
      },
    });
    runners.set(lane, runner);
  }

  function changed(status: LaneStatus, laneLog: Log): void {
    const { lane, state, reason, records, replay } = status;
    if (state === "running") {
      laneSchema = Math.max(laneSchema, schema);
      laneLog.info({ records, replay }, "A lane runs here.");
    }
    if (state === "waiting" && reason !== undefined)
      laneLog.warn({ reason }, "A lane was lost; it is opened again.");
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

  /** Closes all lanes, leaves the group, and lets it be joined again after a while. */
  async function leaveForAWhile(reason: string, signal: AbortSignal): Promise<void> {
    alarms.raise({
      kind: "machine_left",
      subject: name,
      message: `This machine has left the cluster for a while: ${reason}.`,
      remedy: "See its log for the cause. The other machines run its lanes; it joins again by itself.",
      severity: "warning",
    });
    isAway = true;
    rejoin.abort();
    desired = new Set();
    reconcile();
    await sleep(STAY_AWAY_MS, signal);
    isAway = false;
    alarms.clear("machine_left", name);
  }

  async function watchFitness(signal: AbortSignal): Promise<void> {
    const fitness = createFitness();
    while (!signal.aborted) {
      await sleep(WATCH_MS, signal);
      const others = board.list(Date.now()).filter(({ machine }) => machine !== name);
      const reason = signal.aborted ? undefined : fitness.look(statuses(), others, performance.now());
      if (reason !== undefined) await leaveForAWhile(reason, signal);
    }
  }

  async function member(signal: AbortSignal): Promise<void> {
    const confirmAll = (at = instantNow()) => {
      for (const runner of runners.values()) runner.confirm(at);
    };
    while (!signal.aborted) {
      while (isAway && !signal.aborted) await sleep(WATCH_MS / 10, signal);
      rejoin = new AbortController();
      await joinGroup(
        {
          ...{ name: cluster.name, lanes, connect, sessionTimeoutMs: cluster.sessionTimeout },
          facts: () => ({
            ...{ machine: name, schema, laneSchema, config: configDigest(config) },
            held: [...runners.keys()],
          }),
          assigned(own) {
            if (isAway) return;
            desired = new Set(own);
            log.info({ lanes: own }, "The group has assigned lanes.");
            reconcile();
            confirmAll();
          },
          alive: confirmAll,
          trouble: (error) => log.warn({ err: explain(error) }, "The group's client reported trouble."),
        },
        AbortSignal.any([signal, rejoin.signal]),
      );
    }
  }

  return {
    ...{ name, lanes, alarms, board, messenger, statuses },
    async run(signal) {
      const leaving = new AbortController();
      const parts = [member(leaving.signal), watchFitness(signal)];
      const machine = { name, lanes, alarms, board, statuses };
      const reporting = reportMachine(machine, measured, signal);
      const answering = messenger.run(leaving.signal);
      while (!signal.aborted) await sleep(1000, signal);
      desired = new Set();
      reconcile();
      await Promise.allSettled(closing.values());
      leaving.abort();
      await Promise.allSettled([...parts, reporting, answering]);
      await board.publish(name, null, AbortSignal.timeout(5000)).catch(() => {});
      await board.end();
      await shared.close();
    },
  };
}

function defaultName(state: string): string {
  return `${hostname()}-${hash("sha256", resolve(state)).slice(0, 6)}`;
}

import { copyFileSync, existsSync, renameSync, rmSync } from "node:fs";
import type { LaneParts } from "../src/app/cluster/lane-parts.ts";
import { type App, openApp } from "../src/app.ts";
import type { Config } from "../src/config/schema.ts";
import { createBufferPool } from "../src/core/buffer-pool.ts";
import { aroundCommits, type Changelog } from "../src/core/changelog.ts";
import type { Clock } from "../src/core/clock.ts";
import type { Log } from "../src/core/log.ts";
import { silentLog } from "../src/core/log.ts";
import { silentMetrics } from "../src/core/metrics.ts";
import type { SinkDefinition } from "../src/core/sink.ts";
import { type OpenedLane, openLane } from "../src/journal/replication/open.ts";
import { paceOf } from "../src/polling/config.ts";
import { createPace } from "../src/polling/limits/pace.ts";
import { inlinePreparer } from "../src/polling/prepare/preparer.ts";
import { openFileSink } from "../src/sinks/file/sink.ts";
import type { Disk } from "./disk.ts";
import type { DiskError } from "./faults.ts";
import { createNetwork } from "./network.ts";
import type { ModelService } from "./service.ts";
import { createProcessClock, type WorldClock } from "./world-clock.ts";

export interface ProcessOptions {
  readonly config: Config;
  readonly world: WorldClock;
  readonly service: ModelService;
  readonly disk: Disk;
  readonly latencyMs: number;
  skewMs(): number;
  /** The trouble of the disk at this path just now. */
  diskError(path: string): DiskError | undefined;
  readonly log?: Log;
  /** The process is a machine of a cluster: its state is a copy of this changelog. */
  readonly replica?: Replica | undefined;
}

export interface Replica {
  readonly changelog: Changelog;
  readonly machine: string;
}

/** One run of the program: the real application on the world's clock, network and disk. */
export interface Process {
  readonly app: App;
  /** Set when it ended by itself, which it never should. */
  failure: unknown;
  /** kill -9: nothing that it does afterwards reaches the outside. The state is as the disk has it. */
  kill(): Promise<void>;
  stop(): Promise<void>;
}

const SLOW_MS = 3000;
const HANG_CHECK_MS = 60_000;

export async function startProcess(options: ProcessOptions): Promise<Process> {
  const { config, world, service, disk, latencyMs } = options;
  let dead = false;
  const waiting = new Set<() => void>();
  const isDead = () => dead;
  const clock = createProcessClock(world, options.skewMs, isDead);
  const lane = options.replica && createLane(options.replica, config, clock, isDead);
  const app = await openApp({
    config,
    ...(lane && { lane: lane.parts }),
    log: options.log ?? silentLog,
    stdout: process.stdout,
    clock,
    preparer: inlinePreparer,
    dispatcher: createNetwork({ world, service, latencyMs, isDead }),
    sinkOf: (definition) => withDisk(definition, disk, gate),
  });
  const ending = new AbortController();
  const run: Process = { app, failure: undefined, kill, stop };
  const running = app.run(ending.signal).catch((error: unknown) => {
    if (!ending.signal.aborted) run.failure = error;
  });
  return run;

  /** Dead processes reach no disk; a broken disk fails, is slow or never answers. */
  async function gate(path: string, isChange: boolean): Promise<void> {
    if (dead) throw new Error("The process is dead.");
    for (let error = options.diskError(path); error !== undefined; error = options.diskError(path)) {
      if (error === "slow") {
        if (isChange) await passes(SLOW_MS);
        break;
      }
      if (error === "hang") {
        await passes(HANG_CHECK_MS);
        if (dead) throw new Error("The process is dead.");
        continue;
      }
      if (isChange) throw Object.assign(new Error(`${error}: ${path}`), { code: error });
      break;
    }
    if (dead) throw new Error("The process is dead.");
  }

  /** Ends early when the process dies: nothing waits in a dead one. */
  function passes(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = world.after(ms, () => {
        waiting.delete(give);
        resolve();
      });
      const give = () => {
        cancel();
        resolve();
      };
      waiting.add(give);
    });
  }

  async function kill(): Promise<void> {
    const state = config.state;
    for (const end of ["", "-wal"])
      if (existsSync(state + end)) copyFileSync(state + end, `${state}${end}.kept`);
    dead = true;
    for (const give of waiting) give();
    app.db.close();
    await end();
    for (const end of ["", "-wal", "-shm"]) rmSync(state + end, { force: true });
    for (const end of ["", "-wal"])
      if (existsSync(`${state}${end}.kept`)) renameSync(`${state}${end}.kept`, state + end);
  }

  async function stop(): Promise<void> {
    await end();
  }

  async function end(): Promise<void> {
    ending.abort(new Error("The process ends."));
    await running;
    await lane?.close();
    await app.close().catch((error: unknown) => {
      if (!dead) throw error;
    });
  }
}

/** One lane for the whole simulated service. A dead process reaches neither its log nor a sink. */
export function createLane(
  { changelog, machine }: Replica,
  config: Config,
  clock: Clock,
  isDead: () => boolean,
): { readonly parts: LaneParts; close(): Promise<void> } {
  let opened: OpenedLane | undefined;
  const refuseDead = () => {
    if (isDead()) throw new Error("The process is dead.");
  };
  const mortal = aroundCommits(changelog, async (commit) => {
    // Some awaits before and after, so that a kill can come between the log and the file.
    for (let at = 0; at < 3; at++) await null;
    refuseDead();
    const committed = await commit();
    for (let at = 0; at < 3; at++) await null;
    refuseDead();
    return committed;
  });
  const parts: LaneParts = {
    async openState(file) {
      const signal = new AbortController().signal;
      opened = await openLane({ file, changelog: mortal, lane: 0, machine, signal });
      return opened.state;
    },
    damagedPage: () => {},
    memory: createBufferPool({ clock }),
    measured: silentMetrics,
    paceOf: () => createPace(clock, paceOf(config.polling)),
    discover: (_, look) => look(),
    closeInTurn: (work) => work(),
    answer: async () => {},
    beforeEffect: refuseDead,
  };
  return { parts, close: async () => opened?.close().catch(() => {}) };
}

function withDisk(
  definition: SinkDefinition,
  disk: Disk,
  gate: (path: string, isChange: boolean) => Promise<void>,
): SinkDefinition {
  if (definition.type !== "file") return definition;
  const system = disk.systemFor(gate);
  return {
    ...definition,
    open: (context) => openFileSink(context as never as Parameters<typeof openFileSink>[0], system),
  };
}

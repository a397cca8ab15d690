import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { configOf } from "./config.ts";
import { createDisk } from "./disk.ts";
import { type DiskError, type Fault } from "./faults.ts";
import { lifeEndMs } from "./generate.ts";
import { createHistory, type History } from "./history.ts";
import { judge, type Violation } from "./oracle.ts";
import { type Plan, START_MS } from "./plan.ts";
import { type Process, startProcess } from "./process.ts";
import { randomOf } from "./random.ts";
import { createService } from "./service.ts";
import { createWorldClock, takeOverGlobals } from "./world-clock.ts";
import type { Log } from "../src/core/log.ts";

export interface LifeResult {
  readonly violations: readonly Violation[];
  /** Equal for equal lives: what was asked, delivered and kept. */
  readonly digest: string;
  readonly steps: number;
  readonly requests: number;
  readonly events: number;
  readonly delivered: number;
}

const { setImmediate } = globalThis;
/** Longest orderly end before the process is killed, as service managers do. */
const STOP_MS_MAX = 90_000;

/** Lives a plan to its end and judges it. Nothing but the plan decides what happens. */
export async function live(plan: Plan, folder: string, log?: Log): Promise<LifeResult> {
  const directory = mkdtempSync(join(folder, "life-"));
  const world = createWorldClock(START_MS);
  world.tickMs = plan.tickMs;
  const giveBack = takeOverGlobals(world, randomOf(plan.seed, "Math.random").next);
  try {
    return await liveIn(plan, directory, world, log);
  } finally {
    giveBack();
    rmSync(directory, { recursive: true, force: true });
  }
}

async function liveIn(plan: Plan, directory: string, world: ReturnType<typeof createWorldClock>, log: Log | undefined): Promise<LifeResult> {
  const disk = createDisk();
  const service = createService(plan, () => world.nowMs);
  const history: History = createHistory(plan, service, disk);
  const powerRandom = randomOf(plan.seed, "power");
  const state = join(directory, "state.db");
  let process: Process | undefined;
  let steps = 0;

  const standing = (kind: Fault["kind"]) => {
    const atMs = world.nowMs - START_MS;
    return plan.faults.filter((fault) => fault.kind === kind && "toMs" in fault && fault.fromMs <= atMs && atMs < fault.toMs);
  };

  function diskError(path: string): DiskError | undefined {
    for (const fault of standing("disk"))
      if (fault.kind === "disk" && typeof fault.target === "number" && path.startsWith(plan.settings.sinks[fault.target]?.folder ?? "?"))
        return fault.error;
    return undefined;
  }

  function skewMs(): number {
    return standing("clock").reduce((sum, fault) => sum + (fault.kind === "clock" ? fault.skewMs : 0), 0);
  }

  async function start(): Promise<void> {
    const config = configOf(history.settings, state);
    const { latencyMs } = plan.service;
    process = await startProcess({ config, world, service, disk, latencyMs, skewMs, diskError, ...(log && { log }) });
    history.started(world.nowMs);
  }

  async function end(fault: Fault): Promise<void> {
    const ending = process;
    if (ending === undefined) return;
    if (fault.kind === "kill" || fault.kind === "power") {
      await ending.kill();
      if (fault.kind === "power") disk.powerCut(powerRandom);
    } else if (!(await finishes(ending.stop()))) await ending.kill();
    process = undefined;
    history.ended(world.nowMs);
  }

  /** Lets the world go on until the work is done, or until it has taken too long. */
  async function finishes(work: Promise<void>): Promise<boolean> {
    let isDone = false;
    const done = work.then(() => {
      isDone = true;
    });
    const limitMs = world.nowMs + STOP_MS_MAX;
    while (!isDone && world.nowMs < limitMs) await step(limitMs);
    if (isDone) await done;
    return isDone;
  }

  /** Lets everything happen that can happen now, then moves the time to the next thing. */
  async function step(untilMs: number): Promise<void> {
    await quiet();
    steps++;
    if (process?.failure !== undefined) throw new Error("The program ended by itself.", { cause: process.failure });
    world.moveTo(Math.min(world.nextMs(), untilMs));
  }

  async function runUntil(ms: number): Promise<void> {
    while (world.nowMs < ms) await step(ms);
  }

  /** Some steps further and then some awaits into the work that the next moment brings. */
  async function runIntoWork(hops: number): Promise<void> {
    for (let at = 0; at < hops % 16; at++) await step(Number.POSITIVE_INFINITY);
    for (let at = 0; at < Math.floor(hops / 16); at++) await null;
  }

  await start();
  for (const fault of plan.faults) {
    if ("toMs" in fault) continue;
    await runUntil(START_MS + fault.fromMs);
    if ((fault.kind === "kill" || fault.kind === "power") && process !== undefined) await runIntoWork(fault.hops);
    await end(fault);
    await runUntil(Math.max(world.nowMs, START_MS + fault.fromMs + fault.downMs));
    await start();
  }
  await runUntil(START_MS + lifeEndMs(plan));
  await quiet();
  const judged = await judge(plan, history, process!.app, world.nowMs);
  await end({ kind: "kill", fromMs: 0, hops: 0, downMs: 0 });
  return { ...judged, steps, requests: service.requests, events: service.events.length };
}

/** Everything that can happen without time passing has happened after this. */
async function quiet(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
}

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Log } from "../src/core/log.ts";
import { judgeBounds } from "./bounds.ts";
import { configOf } from "./config.ts";
import { createDisk } from "./disk.ts";
import type { DiskError, Fault } from "./faults.ts";
import type { Violation } from "./findings.ts";
import { lifeEndMs } from "./generate.ts";
import { judgeHealth } from "./health.ts";
import { createHistory, type History } from "./history.ts";
import { createMachines, forCluster } from "./machines.ts";
import { createOperator } from "./operator.ts";
import { judge } from "./oracle.ts";
import { type Plan, START_MS } from "./plan.ts";
import { type Process, type Replica, startProcess } from "./process.ts";
import { randomOf } from "./random.ts";
import { createService } from "./service.ts";
import { createTally } from "./tally.ts";
import { createTicks } from "./ticks.ts";
import { createWorldClock, takeOverGlobals } from "./world-clock.ts";

export interface LifeResult {
  readonly violations: readonly Violation[];
  /** Equal for equal lives: what was asked, delivered and kept. */
  readonly digest: string;
  readonly steps: number;
  readonly requests: number;
  readonly events: number;
  readonly delivered: number;
  /** How often each kind of fault really happened. */
  readonly faults: Readonly<Record<string, number>>;
}

export interface LifeOptions {
  /** The state is replicated: every process is one of two machines that share the model of the changelog. */
  readonly cluster?: boolean;
}

const { setImmediate } = globalThis;
/** Longest orderly end before the process is killed, as service managers do. */
const STOP_MS_MAX = 90_000;
/** Looks at the program's own health: more often in short lives. */
const LOOKS = 40;
const LOOK_MS_MIN = 4 * 3_600_000;
/** Lives a plan to its end and judges it. Nothing but the plan decides what happens. */
export async function live(
  plan: Plan,
  folder: string,
  log?: Log,
  options: LifeOptions = {},
): Promise<LifeResult> {
  const directory = mkdtempSync(join(folder, "life-"));
  const world = createWorldClock(START_MS);
  world.tickMs = plan.tickMs;
  world.workTakesTime = plan.workTakesTime ?? false;
  const giveBack = takeOverGlobals(world, randomOf(plan.seed, "Math.random").next);
  try {
    return await liveIn(options.cluster ? forCluster(plan) : plan, directory, world, log, options);
  } finally {
    giveBack();
    rmSync(directory, { recursive: true, force: true });
  }
}

async function liveIn(
  plan: Plan,
  directory: string,
  world: ReturnType<typeof createWorldClock>,
  log: Log | undefined,
  options: LifeOptions,
): Promise<LifeResult> {
  const disk = createDisk();
  const tally = createTally();
  const service = createService(plan, () => world.nowMs, tally);
  const history: History = createHistory(plan, service, disk);
  const ticks = createTicks(plan);
  const powerRandom = randomOf(plan.seed, "power");
  let state = join(directory, "state.db");
  const machines = options.cluster ? createMachines(plan, directory, () => world.nowMs) : undefined;
  let replica: Replica | undefined;
  let process: Process | undefined;
  let steps = 0;

  const inForce = (kind: Fault["kind"]) => {
    const atMs = world.nowMs - START_MS;
    return plan.faults.filter(
      (fault) => fault.kind === kind && "toMs" in fault && fault.fromMs <= atMs && atMs < fault.toMs,
    );
  };

  function diskError(path: string): DiskError | undefined {
    for (const fault of inForce("disk"))
      if (
        fault.kind === "disk" &&
        typeof fault.target === "number" &&
        path.startsWith(plan.settings.sinks[fault.target]?.folder ?? "?")
      ) {
        tally.hit(`disk_${fault.error}`);
        return fault.error;
      }
    return undefined;
  }

  function skewMs(): number {
    return inForce("clock").reduce((sum, fault) => sum + (fault.kind === "clock" ? fault.skewMs : 0), 0);
  }

  /** In a cluster the next process may be another machine, with an older copy or with none. */
  function chooseMachine(): void {
    if (machines === undefined) return;
    const chosen = machines.next();
    state = chosen.file;
    replica = chosen;
  }

  async function start(): Promise<void> {
    const config = configOf(history.settings, state);
    const { latencyMs } = plan.service;
    process = await startProcess({
      config,
      world,
      service,
      disk,
      latencyMs,
      skewMs,
      diskError,
      ...(log && { log }),
      ...(replica && { replica }),
    });
    history.started(world.nowMs);
  }

  const operator = createOperator({
    ...{ world, history, directory, skewMs, tally },
    where: () => ({ state, replica }),
  });

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

  /** While the state's disk is full, SQLite gets no page more. */
  function limitState(): void {
    const isFull = inForce("disk").some((fault) => fault.kind === "disk" && fault.target === "state");
    // The state of a process that is ending may be closed already.
    if (process === undefined || !process.app.db.open || (process === limited) === isFull) return;
    const pages = isFull ? process.app.db.pragma("page_count", { simple: true }) : 2 ** 30;
    process.app.db.pragma(`max_page_count = ${pages}`);
    limited = isFull ? process : undefined;
    if (isFull) tally.hit("disk_state");
  }
  let limited: Process | undefined;

  /** Lets the world go on until the work is done, or until it has taken too long. */
  async function finishes(work: Promise<void>): Promise<boolean> {
    let isDone = false;
    const done = work.then(() => {
      isDone = true;
    });
    done.catch(() => {});
    const limitMs = world.nowMs + STOP_MS_MAX;
    while (!isDone && world.nowMs < limitMs) await step(limitMs);
    if (isDone) await done;
    return isDone;
  }

  /** Lets everything happen that can happen now, then moves the time to the next thing. */
  async function step(untilMs: number): Promise<void> {
    await quiet();
    steps++;
    world.tickMs = ticks.atMs(world.nowMs);
    if (plan.idleTickMs !== undefined) world.wakeMs = ticks.nextFineMs(world.nowMs);
    if (process?.failure !== undefined)
      throw new Error("The program ended by itself.", { cause: process.failure });
    world.moveTo(Math.min(world.nextMs(), untilMs));
    limitState();
  }

  async function runUntil(ms: number): Promise<void> {
    while (world.nowMs < ms) {
      await step(Math.min(ms, lookMs));
      if (world.nowMs >= lookMs) await look();
    }
  }

  /** Now and then the program is asked how it is. */
  async function look(): Promise<void> {
    lookMs = world.nowMs + lookEveryMs;
    await quiet();
    if (process !== undefined && seen.length < 3)
      seen.push(...(await judgeHealth(plan, history, process.app, world.nowMs)));
  }
  const seen: Violation[] = [];
  const lookEveryMs = Math.max(LOOK_MS_MIN, lifeEndMs(plan) / LOOKS);
  let lookMs = START_MS + lookEveryMs;

  /** Some steps further and then some awaits into the work that the next moment brings. */
  async function runIntoWork(hops: number): Promise<void> {
    for (let at = 0; at < hops % 16; at++) await step(Number.POSITIVE_INFINITY);
    for (let at = 0; at < Math.floor(hops / 16); at++) await null;
  }

  chooseMachine();
  await start();
  for (const { atMs, fault } of timelineOf(plan)) {
    await runUntil(START_MS + atMs);
    if (await operator.backsUp(fault, atMs)) continue;
    if ((fault.kind === "kill" || fault.kind === "power") && process !== undefined)
      await runIntoWork(fault.hops);
    await end(fault);
    tally.hit(fault.kind);
    await runUntil(Math.max(world.nowMs, START_MS + fault.fromMs + fault.downMs));
    chooseMachine();
    await operator.maintain(fault);
    await start();
  }
  await runUntil(START_MS + lifeEndMs(plan));
  await quiet();
  const { violations, digest, delivered } = await judge(plan, history, process!.app, world.nowMs);
  const stateBytes = statSync(state).size;
  await end({ kind: "kill", fromMs: 0, hops: 0, downMs: 0 });
  const facts = { steps, requests: service.requests, events: service.events.length };
  const bounds = judgeBounds(plan, { ...facts, stateBytes, livedMs: world.nowMs - START_MS });
  if (inForceEver(plan, "clock")) tally.hit("clock");
  return {
    violations: [...violations, ...seen, ...bounds],
    ...{ digest, delivered, faults: tally.counts },
    ...facts,
  };
}

function inForceEver({ faults }: Plan, kind: Fault["kind"]): boolean {
  return faults.some((fault) => fault.kind === kind);
}

/** The actions on the process, in the order of time. A restore needs its backup first. */
function timelineOf(plan: Plan) {
  const timeline = plan.faults.flatMap((fault) => {
    if ("toMs" in fault) return [];
    const at = { atMs: fault.fromMs, fault };
    return fault.kind === "restore" ? [{ atMs: fault.backupMs, fault }, at] : [at];
  });
  return timeline.sort((a, b) => a.atMs - b.atMs);
}

/** Everything that can happen without time passing has happened after this. */
async function quiet(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
}

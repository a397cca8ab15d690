import { existsSync } from "node:fs";
import { join } from "node:path";
import { type App, openApp } from "../src/app.ts";
import { silentLog } from "../src/core/log.ts";
import { backUp, restore } from "../src/journal/backup.ts";
import { inlinePreparer } from "../src/polling/prepare/preparer.ts";
import { changed, configOf } from "./config.ts";
import type { ModelEvent } from "./events.ts";
import type { Fault } from "./faults.ts";
import type { History } from "./history.ts";
import { forgetSince, knownEvents } from "./known.ts";
import { namedIn } from "./oracle.ts";
import { isConfigured, type SinkPlan, START_MS } from "./plan.ts";
import { createLane, type Replica } from "./process.ts";
import type { Tally } from "./tally.ts";
import { createProcessClock, type WorldClock } from "./world-clock.ts";

/** The person who looks after the program: backups, other configs, and commands while no process runs. */
export interface Operator {
  /** Makes the copy for a later restore when its time has come; false: it is something else's time. */
  backsUp(fault: Fault, atMs: number): Promise<boolean>;
  /** The work of a person while the process is down. */
  maintain(fault: Fault): Promise<void>;
}

export interface OperatorOptions {
  readonly world: WorldClock;
  readonly history: History;
  readonly directory: string;
  readonly tally: Tally;
  skewMs(): number;
  /** The state of the next process. */
  where(): { readonly state: string; readonly replica: Replica | undefined };
}

/** An event that the service forgets sooner after a restore need not be read again. */
const REREAD_MS = 86_400_000;

export function createOperator(options: OperatorOptions): Operator {
  const { world, history, directory, tally, skewMs, where } = options;
  const copied = new Map<number, ReadonlySet<ModelEvent>>();
  const copyOf = (backupMs: number) => join(directory, `backup-${backupMs}.db`);

  /** A command that changes the state while no process runs. */
  async function change(
    work: (actions: App["actions"], signal: AbortSignal, app: App) => Promise<unknown>,
  ): Promise<void> {
    const { state, replica } = where();
    const clock = createProcessClock(world, skewMs, () => false);
    const config = configOf(history.settings, state);
    const lane = replica && createLane(replica, config, clock, () => false);
    const app = await openApp({
      config,
      log: silentLog,
      stdout: process.stdout,
      clock,
      preparer: inlinePreparer,
      repairing: true,
      ...(lane && { lane: lane.parts }),
    });
    await work(app.actions, new AbortController().signal, app);
    await lane?.close();
    await app.close();
  }

  /** The copy may be older than a change of the config: sinks that only the copy knows are forgotten. */
  async function forgetOthers(): Promise<void> {
    const names = new Set(history.settings.sinks.map(({ name }) => name));
    await change(async (actions, signal, app) => {
      for (const sink of app.journal.readers.names())
        if (!names.has(sink) && !sink.startsWith("~")) await actions.forget({ sink }, signal);
    });
  }

  async function reconfigure({ change: wanted }: Extract<Fault, { kind: "reconfigure" }>): Promise<void> {
    const before = history.settings;
    const after = changed(before, wanted);
    tally.hit(`reconfigure_${wanted.type}`);
    history.reconfigured(after, world.nowMs);
    if (wanted.type !== "rename_sink" || after.sinks[wanted.index] === undefined) return;
    const from = before.sinks[wanted.index]!.name;
    await change((actions, signal) => actions.rename({ from, to: wanted.name }, signal));
  }

  /** The folders are ahead of the restored state. They are kept, and new ones take their place. */
  async function putBack({ backupMs, fromMs }: Extract<Fault, { kind: "restore" }>): Promise<void> {
    if (!existsSync(copyOf(backupMs))) return;
    await change(async (_actions, _signal, app) => {
      const unread = history.service.events.filter((event) => !isReadAgain(event, backupMs));
      for (const event of await namedIn(app, unread)) history.namedBefore.add(event);
    });
    forgetSince(history, copied.get(backupMs)!);
    await restore(where().state, copyOf(backupMs), world.nowMs);
    const sinks = history.settings.sinks.map((sink) => ({
      ...sink,
      ...anew(sink, fromMs),
      start: "now" as const,
    }));
    history.reconfigured({ ...history.settings, sinks }, world.nowMs);
    history.replacedMs = world.nowMs;
    await forgetOthers();
  }

  /** Whether the program has to find the event once more after the restore. */
  function isReadAgain(event: ModelEvent, backupMs: number): boolean {
    const { retentionMs } = history.settings;
    const untilMs = world.nowMs + REREAD_MS;
    return (
      event.timeMs >= START_MS + backupMs &&
      event.timeMs > untilMs - retentionMs &&
      isConfigured(history.settings, event.organization) &&
      history.service.isListed(event.organization, untilMs)
    );
  }

  return {
    async backsUp(fault, atMs) {
      if (fault.kind !== "restore" || atMs !== fault.backupMs || existsSync(copyOf(atMs))) return false;
      const signal = new AbortController().signal;
      await backUp(where().state, copyOf(atMs), { nowMs: world.nowMs, signal });
      copied.set(atMs, knownEvents(history, world.nowMs));
      return true;
    },
    async maintain(fault) {
      if (fault.kind === "reconfigure") await reconfigure(fault);
      if (fault.kind === "restore") await putBack(fault);
    },
  };
}

/** The time of an earlier restore is left out: names have a greatest length. */
function anew({ name }: SinkPlan, atMs: number) {
  const made = `${name.replace(/-\d+$/, "")}-${atMs}`;
  return { name: made, folder: `/sinks/${made}` };
}

import { existsSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Broker } from "../support/kafka.ts";
import type { ClusterScene } from "./machines-campaign.ts";

/*
 * Faults for the machines of a cluster and its brokers:
 *   kill     kill -9, started again at once
 *   stop     SIGSTOP for longer than the session, then SIGCONT: it wakes up as a zombie
 *   broker   a broker is killed with kill -9 and started again
 *   remove   SIGTERM, started again at once
 *   delete   killed, and its local files are gone
 *   swap     killed, and two of its files have each other's names
 *   add      another machine joins for a few seconds
 */
export const KINDS = ["kill", "stop", "broker", "remove", "delete", "swap", "add"] as const;
export type Kind = (typeof KINDS)[number];

export const MACHINES = ["one", "two", "three"];
/** Longer than the session, so that the group gives the lanes to others. */
const STOPPED_MS = 14_000;
const ADDED_MS = 6000;
/** A machine that is asked to end and takes longer hangs. */
const END_MS_MAX = 120_000;

export function createStrikes(scene: ClusterScene, broker: Broker, random: () => number) {
  async function strike(kind: Kind, machine: string): Promise<void> {
    switch (kind) {
      case "kill":
        await scene.kill(machine);
        return scene.start(machine);
      case "stop": {
        const { child } = scene.machines.get(machine)!;
        child.kill("SIGSTOP");
        await sleep(STOPPED_MS);
        child.kill("SIGCONT");
        return;
      }
      case "broker":
        await broker.kill();
        return broker.start();
      case "remove":
        await within(END_MS_MAX, scene.kill(machine, "SIGTERM"));
        return scene.start(machine);
      case "delete":
        await scene.kill(machine);
        deleteFiles(scene.folderOf(machine));
        return scene.start(machine);
      case "swap":
        await scene.kill(machine);
        swapFiles(scene.folderOf(machine));
        return scene.start(machine);
      case "add":
        scene.start("four");
        await sleep(ADDED_MS);
        return within(END_MS_MAX, scene.kill("four", random() < 0.5 ? "SIGKILL" : "SIGTERM"));
    }
  }

  return {
    /** Several blows that overlap, each machine hit at most once. Resolves with their names after the last one. */
    async burst(kinds: readonly Kind[]): Promise<string> {
      const machines = shuffled(MACHINES, random);
      const blows = kinds.map((kind) => {
        const machine = kind === "broker" || kind === "add" ? "" : machines.pop()!;
        return { kind, machine, afterMs: random() * 2000 };
      });
      await Promise.all(
        blows.map(async ({ kind, machine, afterMs }) => {
          await sleep(afterMs);
          await strike(kind, machine);
        }),
      );
      return blows.map(({ kind, machine }) => `${kind} ${machine}`.trimEnd()).join(", ");
    },
  };
}

function within(limitMs: number, ended: Promise<void>): Promise<void> {
  const late = sleep(limitMs, undefined, { ref: false }).then(() => {
    throw new Error(`A machine has not ended ${limitMs} ms after SIGTERM.`);
  });
  return Promise.race([ended, late]);
}

/** Files of lanes under each other's names, as after a wrong copy. */
function swapFiles(folder: string): void {
  if (!existsSync(join(folder, "state"))) return;
  const files = readdirSync(join(folder, "state")).filter((file) => file.endsWith(".db"));
  if (files.length < 2) return;
  const [one, other] = [join(folder, "state", files[0]!), join(folder, "state", files[1]!)];
  for (const part of ["-wal", "-shm"])
    for (const file of [one, other]) rmSync(`${file}${part}`, { force: true });
  renameSync(one, `${one}.swap`);
  renameSync(other, one);
  renameSync(`${one}.swap`, other);
}

function deleteFiles(folder: string): void {
  rmSync(join(folder, "state"), { recursive: true, force: true });
}

/** Numbers from 0 to 1, the same for the same seed. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

function shuffled<Value>(values: readonly Value[], random: () => number): Value[] {
  return values
    .map((value) => ({ value, at: random() }))
    .toSorted((one, other) => one.at - other.at)
    .map(({ value }) => value);
}

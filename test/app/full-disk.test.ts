import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { temporaryFolder } from "../journal/support.ts";
import { openWorld, type World } from "../support/world.ts";

const mountable = canMount();
if (!mountable)
  process.stderr.write("SKIPPED, a small file system cannot be mounted here: the tests of a full disk\n");

describe.skipIf(!mountable)("a full disk under the state file", () => {
  let world: World;
  let child: ChildProcess | undefined;
  let mounted: string | undefined;

  afterEach(async () => {
    if (child !== undefined && child.exitCode === null && child.signalCode === null) {
      child.kill("SIGKILL");
      await once(child, "exit");
    }
    if (mounted !== undefined) spawnSync("umount", [mounted]);
    await world.close();
  });

  test("is reported clearly, stops nothing permanently, and delivery continues exactly once when there is space", async () => {
    world = await openWorld({ events: 12_000 });
    mounted = world.at("small");
    mkdirSync(mounted);
    expect(spawnSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", mounted]).status).toBe(0);
    const config = world.configure({ state: `${mounted}/state.db` });
    child = spawn(process.execPath, ["dist/src/main.js", "run", "-c", config], {
      env: { PATH: process.env.PATH!, KEY: world.simulator.apiKey },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    for (const stream of [child.stdout!, child.stderr!])
      stream.on("data", (chunk: Buffer) => {
        output += chunk.toString();
      });
    await until(() => output.includes("The state file cannot be written: database or disk is full"));
    await sleep(2500);
    expect(child.exitCode).toBeNull();
    const served = world.served();
    expect(world.lines().length).toBeLessThan(served.length);
    expect(spawnSync("mount", ["-o", "remount,size=100m", mounted]).status).toBe(0);
    await until(() => world.lines().length >= served.length);
    child.kill("SIGTERM");
    const [code] = (await once(child, "exit")) as [number];
    expect(code).toBe(0);
    expect(world.lines().toSorted()).toEqual(served.toSorted());
  });

  test("is not called damage while no process runs, nor is a read-only one, and the advice is to make room", async () => {
    world = await openWorld({ events: 60 });
    mounted = world.at("small");
    mkdirSync(mounted);
    expect(spawnSync("mount", ["-t", "tmpfs", "-o", "size=12m", "tmpfs", mounted]).status).toBe(0);
    const config = world.configure({ state: `${mounted}/state.db` });
    expect((await world.run(["run", "--once", "-c", config])).code).toBe(0);
    const expectNamed = async () => {
      const words = /cannot be read at the moment \(.*\)\. This is not damage: .* Make room/;
      const doctor = await world.run(["doctor", "-c", config]);
      expect(doctor.stdout).toMatch(words);
      expect(doctor.stdout + doctor.stderr).not.toMatch(/is damaged|restore/);
      expect(doctor.stdout).toMatch(/account acme[\s\S]*FAILED {2}sink /);
      for (const command of ["status", "coverage", "dead-letters list"]) {
        const { code, stderr } = await world.run([...command.split(" "), "-c", config]);
        expect([command, code]).toEqual([command, 1]);
        expect(stderr).toMatch(words);
      }
    };
    expect(() => writeFileSync(`${mounted}/ballast`, Buffer.alloc(20_000_000))).toThrow("ENOSPC");
    await expectNamed();
    for (const name of ["ballast", "state.db-wal", "state.db-shm"])
      rmSync(`${mounted}/${name}`, { force: true });
    expect(spawnSync("mount", ["-o", "remount,ro", mounted]).status).toBe(0);
    await expectNamed();
  });

  async function until(condition: () => boolean): Promise<void> {
    for (const deadline = Date.now() + 400_000; !condition(); await sleep(100)) {
      if (child!.exitCode !== null) throw new Error(`The program has ended with ${child!.exitCode}.`);
      if (Date.now() > deadline) throw new Error("It never came to this.");
    }
  }
});

function canMount(): boolean {
  const folder = temporaryFolder();
  const { status } = spawnSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", folder.path]);
  if (status === 0) spawnSync("umount", [folder.path]);
  folder.remove();
  return status === 0;
}

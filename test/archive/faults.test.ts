import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { isPart } from "../../src/archive/log/leaf.ts";
import { openDirectory } from "../../src/archive/store/directory.ts";
import type { ArchiveStore } from "../../src/archive/store/store.ts";
import { A, B, DAY, openWorld, type World } from "./world.ts";

const DAYS = [DAY, "2026-03-11", "2026-03-12"];
const EVENTS = 20;

let world: World | undefined;
afterEach(() => {
  world?.end();
  world = undefined;
});

async function fill({ events, seal }: World): Promise<void> {
  for (const [at, day] of DAYS.entries()) {
    await events(A, day, at * 100, EVENTS);
    await seal([A, B], day, EVENTS);
  }
}

/** Closes as the app does: after an error the archive is opened again. Gives the errors. */
async function closeThrough(own: World, turnsMax: number): Promise<unknown[]> {
  const errors: unknown[] = [];
  for (let turn = 0; turn < turnsMax; turn++)
    try {
      if (errors.length > 0) await own.restart();
      await own.closeAll();
      return errors;
    } catch (error) {
      errors.push(error);
    }
  return errors;
}

/** Every event is there once, and every day has one part. */
async function expectWhole(own: World): Promise<void> {
  const verification = await own.verify();
  expect(verification.findings).toEqual([]);
  expect(verification.events).toBe(DAYS.length * EVENTS);
  expect(
    own.archive
      .leaves()
      .filter(isPart)
      .map(({ day }) => day),
  ).toEqual(DAYS);
  expect(own.db.prepare("SELECT COUNT(*) FROM archive_open").pluck().get()).toBe(0);
}

type Mode = "fails" | "answer is lost";

/** The n-th write fails without effect, or takes effect and its answer is lost. */
function faulty(store: ArchiveStore, count: { left: number; hit: boolean }, mode: Mode): ArchiveStore {
  const guarded =
    <Values extends unknown[]>(write: (...values: Values) => Promise<void>) =>
    async (...values: Values): Promise<void> => {
      const isNow = --count.left === 0;
      if (isNow) count.hit = true;
      if (isNow && mode === "fails")
        throw Object.assign(new Error("ENOSPC: no space left"), { code: "ENOSPC" });
      await write(...values);
      if (isNow) throw new Error("socket hang up");
    };
  // The note of a closing may stay, so closing goes on when it cannot be removed.
  return { ...store, create: guarded(store.create), replace: guarded(store.replace) };
}

describe("a store that fails while days are closed", () => {
  test.each<Mode>(["fails", "answer is lost"])("a write %s, each in turn", async (mode) => {
    let writes = 0;
    for (let isHit = true; isHit; ) {
      const count = { left: Number.POSITIVE_INFINITY, hit: false };
      world = await openWorld({
        openStore: async (folder) => faulty(await openDirectory(folder), count, mode),
      });
      await fill(world);
      count.left = ++writes;
      const errors = await closeThrough(world, 3);
      isHit = count.hit;
      expect(errors.length).toBe(isHit ? 1 : 0);
      await expectWhole(world);
      world.end();
      world = undefined;
    }
    // Data file and manifest of each day, tiles, checkpoints and texts.
    expect(writes).toBeGreaterThan(10);
  });
});

function mount(target: string, kilobytes: number, more = ""): boolean {
  const options = `size=${kilobytes}k${more}`;
  return spawnSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", target]).status === 0;
}

function canMount(): boolean {
  const target = mkdtempSync(join(tmpdir(), "tidemark-mount-"));
  const isMounted = process.getuid?.() === 0 && mount(target, 64);
  if (isMounted) spawnSync("umount", [target]);
  rmSync(target, { recursive: true, force: true });
  return isMounted;
}

const isMountable = canMount();
if (!isMountable)
  process.stderr.write("SKIPPED, a file system of a given size cannot be mounted: run as root\n");

/** Files of this process that were removed while they were open: they keep their space. */
function removedButOpen(folder: string): string[] {
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${fd}`);
      return target.startsWith(folder) && target.endsWith("(deleted)") ? [target] : [];
    } catch {
      return [];
    }
  });
}

describe.skipIf(!isMountable)("a full disk while days are closed", () => {
  test("at every size from empty to enough: nothing is lost or closed twice, and no space is kept", async () => {
    let full = 0;
    for (let kilobytes = 32; ; kilobytes += 8) {
      let isMounted = false;
      world = await openWorld({
        openStore: async (folder) => {
          // The first entries of the log need their room; the disk fills afterwards.
          if (!isMounted) isMounted = mount(folder, 4096);
          return openDirectory(folder);
        },
      });
      const own = world;
      try {
        expect(isMounted).toBe(true);
        await fill(own);
        expect(mount(own.storeFolder, kilobytes, ",remount")).toBe(true);
        const errors = await closeThrough(own, 3);
        for (const error of errors) expect(error).toMatchObject({ code: "ENOSPC" });
        expect(removedButOpen(own.storeFolder)).toEqual([]);
        if (errors.length > 0) {
          full++;
          // What is signed so far is right, also while the disk is full.
          await own.restart().catch(() => {});
          const { findings } = await own.verify();
          expect(findings.filter(({ check }) => !AFTER_CRASH.includes(check))).toEqual([]);
          expect(mount(own.storeFolder, 4096, ",remount")).toBe(true);
          await own.restart();
          await own.closeAll();
        }
        await expectWhole(own);
        if (errors.length === 0) break;
      } finally {
        spawnSync("umount", [own.storeFolder]);
        own.end();
        world = undefined;
      }
    }
    expect(full).toBeGreaterThan(2);
  });
});

/** An append that was interrupted leaves files ahead of the checkpoint; the next turn ends it. */
const AFTER_CRASH = ["unexpected files", "leaves.jsonl"];

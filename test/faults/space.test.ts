import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Simulator } from "../../simulator/index.ts";
import { openExport, partOf, startService } from "./export.ts";

/** So many sizes are tried, spread evenly; TIDEMARK_FAULTS=all tries every 4 KB up to what a whole export needs. */
const FAULTS = process.env.TIDEMARK_FAULTS ?? "3";
const STEP_BYTES = 4096;
/** A run on a full disk waits for space until it is killed after so long. */
const PATIENCE_S = process.env.TIDEMARK_FAULT_SECONDS ?? "15";

let simulator: Simulator;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tidemark-space-"));
  simulator = await startService();
});

afterAll(async () => {
  await simulator.close();
  rmSync(folder, { recursive: true, force: true });
});

function sizesUpTo(bytesMax: number): readonly number[] {
  const all = Array.from({ length: Math.ceil(bytesMax / STEP_BYTES) }, (_, at) => (at + 1) * STEP_BYTES);
  if (FAULTS === "all") return partOf(all, (bytes) => bytes / STEP_BYTES);
  const count = Math.min(all.length, Number(FAULTS));
  return Array.from({ length: count }, (_, at) => all[Math.floor(((at + 0.5) * all.length) / count)]!);
}

const isRoot = process.getuid?.() === 0 && canMount();
if (!isRoot) process.stderr.write("SKIPPED, a file system of a given size cannot be mounted: run as root\n");

function canMount(): boolean {
  const target = mkdtempSync(join(tmpdir(), "tidemark-mount-"));
  const mounted = mount(target, 65_536);
  if (mounted) unmount(target);
  rmSync(target, { recursive: true, force: true });
  return mounted;
}

function mount(target: string, bytes: number, more = ""): boolean {
  return spawnSync("mount", ["-t", "tmpfs", "-o", `size=${bytes}${more}`, "tmpfs", target]).status === 0;
}

function unmount(target: string): void {
  spawnSync("umount", [target]);
}

describe("a disk that fills", { timeout: 24 * 3_600_000 }, () => {
  test.skipIf(!isRoot)("a full file system at any size loses nothing and doubles nothing", async () => {
    const sizes = sizesUpTo(await bytesNeeded());
    for (const bytes of sizes) {
      const target = join(folder, `full-${bytes}`);
      mkdirSync(target);
      expect(mount(target, bytes + 8192)).toBe(true);
      try {
        const faulty = openExport(target, simulator);
        const code = await faulty.run(["timeout", "-s", "KILL", PATIENCE_S]);
        if (code === 0) expect(faulty.compare(), `${bytes} bytes, at once`).toEqual({ lost: 0, twice: 0 });
        expect(mount(target, 64_000_000, ",remount")).toBe(true);
        expect(await faulty.run(), `${bytes} bytes: the next run`).toBe(0);
        expect(faulty.compare(), `${bytes} bytes`).toEqual({ lost: 0, twice: 0 });
      } finally {
        unmount(target);
      }
    }
    process.stderr.write(`file systems of ${sizes.length} sizes, lost 0, twice 0\n`);
  });

  test("writes that are cut short at a file size lose nothing and double nothing", async () => {
    const sizes = sizesUpTo(300_000);
    for (const bytes of sizes) {
      const faulty = openExport(join(folder, `short-${bytes}`), simulator);
      const code = await faulty.run([
        "timeout",
        "-s",
        "KILL",
        PATIENCE_S,
        "prlimit",
        `--fsize=${bytes + 1000}`,
      ]);
      if (code === 0) expect(faulty.compare(), `${bytes} bytes, at once`).toEqual({ lost: 0, twice: 0 });
      expect(await faulty.run(), `${bytes} bytes: the next run`).toBe(0);
      expect(faulty.compare(), `${bytes} bytes`).toEqual({ lost: 0, twice: 0 });
    }
    process.stderr.write(`limits of ${sizes.length} file sizes, lost 0, twice 0\n`);
  });
});

/** The space that state and files of a whole export take, on a file system of its own. */
async function bytesNeeded(): Promise<number> {
  const target = join(folder, "whole");
  mkdirSync(target);
  expect(mount(target, 64_000_000)).toBe(true);
  try {
    const whole = openExport(target, simulator);
    expect(await whole.run()).toBe(0);
    expect(whole.compare()).toEqual({ lost: 0, twice: 0 });
    const used = spawnSync("df", ["-B1", "--output=used", target], { encoding: "utf8" }).stdout;
    return Number(used.trim().split("\n").at(-1));
  } finally {
    unmount(target);
  }
}

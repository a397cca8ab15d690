import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Simulator } from "../../simulator/index.ts";
import { programOnPath, skipUnless } from "../support/components.ts";
import { openExport, partOf, startService } from "./export.ts";

/** So many calls are tried, spread evenly over all; TIDEMARK_FAULTS=all tries each once with each error. */
const FAULTS = process.env.TIDEMARK_FAULTS ?? "4";
const CALLS = [
  "write",
  "pwrite64",
  "pwritev",
  "fdatasync",
  "fsync",
  "openat",
  "rename",
  "link",
  "unlink",
  "ftruncate",
  "mkdir",
];
const ERRORS = ["EIO", "ENOSPC", "EINTR"];

const strace = programOnPath("strace");
const skip = skipUnless("strace", strace, "install strace (Debian: strace)");
let simulator: Simulator;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tidemark-faults-"));
  simulator = await startService();
});

afterAll(async () => {
  await simulator.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Place {
  readonly call: string;
  /** The how-manieth of its kind on the paths of the export, in one thread. */
  readonly at: number;
}

/** Every call of the commit path, found by running the export once under strace. */
async function placesOf(): Promise<{ places: Place[]; paths: string[] }> {
  const first = openExport(join(folder, "first"), simulator);
  expect(await first.run()).toBe(0);
  const files = first.files().map((path) => path.slice(first.folder.length));
  const inside = [...new Set(files.flatMap((path) => [path, dirname(path)]))];
  const traced = openExport(join(folder, "traced"), simulator);
  const log = join(folder, "calls.log");
  expect(await traced.run([...tracing(pathsIn(traced.folder, inside)), "-o", log])).toBe(0);
  const counts = new Map<string, number>();
  for (const line of readFileSync(log, "utf8").split("\n")) {
    const [, thread, call] = /^(\d+) +(\w+)\(/.exec(line) ?? [];
    if (call !== undefined) counts.set(`${thread} ${call}`, (counts.get(`${thread} ${call}`) ?? 0) + 1);
  }
  const most = new Map<string, number>();
  for (const [key, count] of counts) {
    const call = key.split(" ")[1]!;
    most.set(call, Math.max(most.get(call) ?? 0, count));
  }
  const places = [...most].flatMap(([call, count]) =>
    Array.from({ length: count }, (_, at) => ({ call, at: at + 1 })),
  );
  return { places, paths: inside };
}

function tracing(paths: readonly string[]): string[] {
  return [strace!, "-f", "-qq", "-e", `trace=${CALLS.join(",")}`, ...paths.flatMap((path) => ["-P", path])];
}

function pathsIn(root: string, paths: readonly string[]): string[] {
  return paths.map((path) => join(root, path));
}

/** So many of the items, evenly over all. */
function spread<Item>(all: readonly Item[], count: number): Item[] {
  return Array.from({ length: count }, (_, at) => all[Math.floor(((at + 0.5) * all.length) / count)]!);
}

describe.skipIf(skip)("system calls that fail", () => {
  test("an error at any call of the commit path loses nothing and doubles nothing", {
    timeout: 24 * 3_600_000,
  }, async () => {
    const { places, paths } = await placesOf();
    const all = places.flatMap((place) => ERRORS.map((error) => ({ ...place, error })));
    const chosen =
      FAULTS === "all" ? partOf(all, ({ at }) => at) : spread(all, Math.min(all.length, Number(FAULTS)));
    let hit = 0;
    for (const { call, at, error } of chosen) {
      const faulty = openExport(join(folder, `${call}-${at}-${error}`), simulator);
      const log = join(folder, "injected.log");
      const inject = ["-e", `inject=${call}:error=${error}:when=${at}`, "-o", log];
      const code = await faulty.run([...tracing(pathsIn(faulty.folder, paths)), ...inject]);
      if (readFileSync(log, "utf8").includes("(INJECTED)")) hit++;
      // A run that says that it is done has to be done.
      if (code === 0)
        expect(faulty.compare(), `${call} ${at} ${error}, at once`).toEqual({ lost: 0, twice: 0 });
      expect(await faulty.run(), `${call} ${at} ${error}: the next run`).toBe(0);
      expect(faulty.compare(), `${call} ${at} ${error}`).toEqual({ lost: 0, twice: 0 });
      rmSync(faulty.folder, { recursive: true });
    }
    process.stderr.write(
      `calls of the commit path ${places.length}, tried ${chosen.length}, injected ${hit}, lost 0, twice 0\n`,
    );
    expect(hit).toBeGreaterThan(0);
  });
});

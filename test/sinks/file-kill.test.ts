import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Sqlite } from "../../src/core/sqlite.ts";
import { linesIn, makeFolder, namesIn } from "./file-support.ts";

const DRIVER = fileURLToPath(new URL("file-driver.js", import.meta.url));
const KILLS = Number(process.env.TIDEMARK_KILLS ?? 6);
const COMMITS_MAX = 4;
const KILL_AFTER_MS_MAX = 30;

let folder: ReturnType<typeof makeFolder>;
let directory: string;
let database: string;
const children = new Set<ChildProcess>();

beforeEach(() => {
  folder = makeFolder();
  directory = `${folder.path}/events`;
  database = `${folder.path}/reader.db`;
});

afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  folder.remove();
});

interface Case {
  readonly name: string;
  readonly settings: object;
  readonly organizations: number;
  readonly perBatch?: number;
}

const CASES: readonly Case[] = [
  { name: "files that are compressed when finished", settings: { gzip: true }, organizations: 3 },
  { name: "zstd files", settings: { compress: "zstd" }, organizations: 3 },
  { name: "gzip files", settings: { compress: "gzip" }, organizations: 3 },
  {
    name: "zstd files of many organizations",
    settings: { compress: "zstd" },
    organizations: 300,
    perBatch: 600,
  },
];

function start(until: number, { settings, organizations, perBatch = 60 }: Case): ChildProcess {
  const args = [
    DRIVER,
    directory,
    database,
    String(until),
    JSON.stringify(settings),
    String(organizations),
    String(perBatch),
  ];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  children.add(child);
  child.once("exit", () => children.delete(child));
  return child;
}

test.each(CASES)(
  `R17 R23 every event is exactly once and in order in $name after ${KILLS} times kill -9`,
  {
    timeout: 600_000 + KILLS * 10_000,
  },
  async (drive) => {
    for (let kill = 0; kill < KILLS; kill++) {
      const child = start(Number.MAX_SAFE_INTEGER, drive);
      const exited = once(child, "exit");
      const commits = 1 + Math.floor(Math.random() * COMMITS_MAX);
      for (let seen = 0; seen < commits; seen++) await Promise.race([once(child.stdout!, "data"), exited]);
      // Anywhere inside the next batch.
      const timer = setTimeout(() => child.kill("SIGKILL"), Math.random() * KILL_AFTER_MS_MAX);
      const [code, signal] = await exited;
      clearTimeout(timer);
      expect([code, signal]).toEqual([null, "SIGKILL"]);
    }
    const until = committedEvents() + 100;
    const [code] = await once(start(until, drive), "exit");
    expect(code).toBe(0);

    const numbers = linesIn(directory).map((line) => JSON.parse(line) as { number: number; padding: string });
    const counts = new Map<number, number>();
    for (const { number } of numbers) counts.set(number, (counts.get(number) ?? 0) + 1);
    const lost = Array.from({ length: until }, (_, at) => at).filter((number) => !counts.has(number));
    const twice = [...counts].filter(([, count]) => count > 1);
    process.stdout.write(
      `kills ${KILLS}, events ${until}, files ${namesIn(directory).length}, lost ${lost.length}, twice ${twice.length}\n`,
    );
    expect({ lost, twice, lines: numbers.length }).toEqual({ lost: [], twice: [], lines: until });
    for (const organization of [0, 1, 2]) {
      const own = numbers.filter(({ number }) => number % drive.organizations === organization);
      expect(own.every((event, at) => at === 0 || event.number > own[at - 1]!.number)).toBe(true);
    }
    for (const { number, padding } of numbers) expect(padding).toBe("é".repeat((number * 37) % 400));
  },
);

/** The driver's last commit; 0 before the first. */
function committedEvents(): number {
  const db = new Sqlite(database);
  try {
    return (db.prepare("SELECT event FROM reader").get() as { event: number } | undefined)?.event ?? 0;
  } finally {
    db.close();
  }
}

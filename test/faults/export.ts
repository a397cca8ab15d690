import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../../simulator/index.ts";

const PROGRAM = join(import.meta.dirname, "../../dist/src/main.js");
const EVENTS = 60;
/** A faulty run that neither ends nor goes on is killed after this; the next run has to make up for it. */
const RUN_MS_MAX = 60_000;

/**
 * TIDEMARK_PART=2/6 runs the second of six parts of a long campaign. The number of an item decides its part, so
 * that runs which find a few items more or less still have the same parts.
 */
export function partOf<Item>(all: readonly Item[], numberOf: (item: Item) => number): readonly Item[] {
  const [part = 1, parts = 1] = (process.env.TIDEMARK_PART ?? "1/1").split("/").map(Number);
  return all.filter((item) => numberOf(item) % parts === part - 1);
}

/** A small export to files, run again and again under faults of the machine. */
export interface SmallExport {
  readonly folder: string;
  /** One `run --once`, started by `command` (such as strace with its options); the exit code, null when it was killed. */
  run(command?: readonly string[]): Promise<number | null>;
  /** Files of the state and of the sink, as paths. */
  files(): readonly string[];
  /** How many events are missing and how many lines too many there are. */
  compare(): { readonly lost: number; readonly twice: number };
  readonly events: number;
}

export async function startService(): Promise<Simulator> {
  return startSimulator({
    organizations: 2,
    events: EVENTS,
    days: 3,
    eventBytes: 400,
    lateness: "none",
    liveEventsPerSecond: 0,
  });
}

/** In an empty folder; the service is shared. */
export function openExport(folder: string, simulator: Simulator): SmallExport {
  mkdirSync(folder, { recursive: true });
  const [config, sink] = [join(folder, "tidemark.yaml"), join(folder, "sink")];
  writeFileSync(
    config,
    JSON.stringify({
      accounts: [
        {
          name: "acme",
          insightsUrl: simulator.insightsUrl,
          managementUrl: simulator.managementUrl,
          apiKey: { env: "DIRECTORY_API_KEY" },
          organizations: "all",
          since: "10d",
        },
      ],
      state: join(folder, "state.db"),
      polling: { pageSize: 20 },
      sinks: [
        {
          name: "disk",
          type: "file",
          directory: sink,
          path: "{organization}",
          rotateSize: "8KB",
          gzip: false,
        },
      ],
    }),
  );
  const served = new Set([...simulator.control.allEvents()].map((bytes) => Buffer.from(bytes).toString()));
  return {
    folder,
    events: served.size,
    async run(command = []) {
      const [program, ...rest] = [...command, process.execPath, PROGRAM, "run", "--once", "--config", config];
      const child = spawn(program!, rest, {
        env: { PATH: process.env.PATH, DIRECTORY_API_KEY: simulator.apiKey, UV_THREADPOOL_SIZE: "1" },
        stdio: "ignore",
        detached: true,
      });
      return endOf(child);
    },
    files: () => filesBelow(folder).filter((path) => path !== config),
    compare() {
      const counts = new Map<string, number>();
      for (const path of filesBelow(sink)) {
        if (path.includes("/.tidemark/")) continue;
        for (const line of readFileSync(path, "utf8").split("\n"))
          if (line !== "") counts.set(line, (counts.get(line) ?? 0) + 1);
      }
      const lost = [...served].filter((text) => !counts.has(text)).length;
      let twice = 0;
      for (const [line, count] of counts) twice += served.has(line) ? count - 1 : count;
      return { lost, twice };
    },
  };
}

/** The whole group of processes ends with the tracer. */
async function endOf(child: ChildProcess): Promise<number | null> {
  const timer = setTimeout(() => process.kill(-child.pid!, "SIGKILL"), RUN_MS_MAX);
  const [code] = (await once(child, "exit")) as [number | null];
  clearTimeout(timer);
  return code;
}

function filesBelow(root: string): string[] {
  try {
    return readdirSync(root, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
  } catch {
    return [];
  }
}

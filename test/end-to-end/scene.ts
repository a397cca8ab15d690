import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { expect } from "vitest";
import { type Simulator, type SimulatorOptions, startSimulator } from "../../simulator/index.ts";
import { viewOptions } from "../../src/app/view.ts";
import { loadConfig } from "../../src/config/load.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { SinkView } from "../../src/core/view/sinks.ts";
import { openStateForReading } from "../../src/journal/database.ts";
import { createView } from "../../src/journal/view/view.ts";
import { type Program, runProgram, startProgram } from "../support/program.ts";

export interface SceneSink {
  readonly name: string;
  readonly type: string;
  readonly [key: string]: unknown;
}

/** A simulated service, a folder, and the built program with a config for both. */
export interface Scene {
  readonly simulator: Simulator;
  readonly folder: string;
  readonly state: string;
  readonly env: Record<string, string>;
  /** Writes the config; every command below uses it. */
  configure(sinks: readonly SceneSink[], more?: Readonly<Record<string, unknown>>): void;
  /** A command to its end. */
  command(...args: string[]): Promise<{ code: number | null; stdout: string; stderr: string }>;
  /** As `command`; fails with what it said unless it ends with 0. Gives its output. */
  done(...args: string[]): Promise<string>;
  /** `tidemark run` as a process of its own; killed when the scene is closed. */
  run(): Program;
  /** A sink in `tidemark status`. */
  sink(name: string): Promise<SinkView>;
  /**
   * Until the journal holds every event that the service has shown by now, and the sink has delivered all that it
   * wants of them.
   */
  caughtUp(name: string, timeoutMs?: number): Promise<void>;
  /** Until the sink's position is another one. */
  passes(name: string, position: SinkView["position"] | undefined): Promise<void>;
  /** Until the sink is in this state. */
  becomes(name: string, state: SinkView["state"], timeoutMs?: number): Promise<SinkView>;
  /** The exact bytes of every event that the service has shown. */
  served(): string[];
  path(name: string): string;
  close(): Promise<void>;
}

export async function openScene(options: SimulatorOptions = {}): Promise<Scene> {
  const folder = mkdtempSync(join(tmpdir(), "tidemark-scene-"));
  const simulator = await startSimulator({
    organizations: 3,
    events: 2000,
    days: 10,
    lateness: "none",
    ...options,
  });
  const env: Record<string, string> = { DIRECTORY_API_KEY: simulator.apiKey };
  const file = join(folder, "tidemark.yaml");
  const state = join(folder, "state.db");
  const running: Program[] = [];
  const command = (...args: string[]) => runProgram([...args, "--config", file], env);
  /** Of the config as it is; looked at several times a second. */
  let view: ReturnType<typeof viewOptions> | undefined;

  async function sink(name: string): Promise<SinkView> {
    const db = openStateForReading(state);
    try {
      view ??= viewOptions(loadConfig(file, env).config, systemClock);
      const { sinks } = await createView(db, null, view).sinks();
      const found = sinks.find((candidate) => candidate.name === name);
      if (found === undefined) throw new Error(`There is no sink "${name}".`);
      return found;
    } finally {
      db.close();
    }
  }

  /** How many events the journal has stored so far. */
  function held(): number {
    const db = openStateForReading(state);
    try {
      return db.prepare("SELECT COALESCE(SUM(events), 0) FROM pages").pluck().get() as number;
    } finally {
      db.close();
    }
  }

  async function done(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await command(...args);
    expect(code, `${args.join(" ")}: ${stdout.slice(-1000)}${stderr.slice(-3000)}`).toBe(0);
    return stdout;
  }

  async function until(name: string, timeout: number, holds: (view: SinkView) => boolean): Promise<SinkView> {
    for (const deadline = Date.now() + timeout; ; await sleep(300)) {
      // Before the first start is through there is no state to look at.
      const last = await sink(name).catch(() => undefined);
      if (last !== undefined && holds(last)) return last;
      if (Date.now() > deadline)
        throw new Error(`The sink "${name}" did not get there: ${JSON.stringify(last)}`);
    }
  }

  return {
    simulator,
    folder,
    state,
    env,
    configure(sinks, more = {}) {
      const account = {
        name: "acme",
        insightsUrl: simulator.insightsUrl,
        managementUrl: simulator.managementUrl,
        apiKey: { env: "DIRECTORY_API_KEY" },
        organizations: "all",
        provider: simulator.providerId,
        since: "30d",
      };
      const polling = { interval: "300ms", overlap: "1m", pageSize: 100 };
      writeFileSync(file, JSON.stringify({ accounts: [account], state, polling, sinks, ...more }));
      view = undefined;
    },
    command,
    done,
    run() {
      const program = startProgram(["run", "--config", file], env);
      running.push(program);
      return program;
    },
    sink,
    async caughtUp(name, timeoutMs = 400_000) {
      const shown = [...simulator.control.allEvents()].length;
      const isDone = ({ lagEvents, state }: SinkView) => lagEvents === 0 && state === "running";
      await until(name, timeoutMs, (sink) => isDone(sink) && held() >= shown);
    },
    async passes(name, position) {
      await until(name, 400_000, (view) => view.position !== position);
    },
    becomes: (name, wanted, timeoutMs = 400_000) => until(name, timeoutMs, ({ state }) => state === wanted),
    served: () => [...simulator.control.allEvents()].map((bytes) => Buffer.from(bytes).toString()),
    path: (name) => join(folder, name),
    async close() {
      for (const program of running) if (program.child.exitCode === null) await program.kill();
      await simulator.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The lines of all files below a folder, compressed ones too. */
export function linesBelow(root: string): string[] {
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.parentPath.includes(".tidemark"))
    .flatMap((entry) => {
      const bytes = readFileSync(join(entry.parentPath, entry.name));
      return linesOf(entry.name.endsWith(".gz") ? gunzipSync(bytes) : bytes);
    });
}

export function linesOf(bytes: Uint8Array): string[] {
  const lines = Buffer.from(bytes).toString().split("\n");
  expect(lines.pop()).toBe("");
  return lines;
}

/** How often each is there, compared byte for byte: what is missing, what is there more often than it should be. */
export function compare(wanted: readonly string[], found: readonly string[]) {
  const counts = new Map<string, number>();
  for (const text of wanted) counts.set(digestOf(text), (counts.get(digestOf(text)) ?? 0) + 1);
  for (const text of found) counts.set(digestOf(text), (counts.get(digestOf(text)) ?? 0) - 1);
  let lost = 0;
  let surplus = 0;
  for (const count of counts.values()) {
    if (count > 0) lost += count;
    else surplus -= count;
  }
  return { lost, surplus };
}

/** Events at the destination that the service never showed. */
export function invented(wanted: readonly string[], found: readonly string[]): number {
  const known = new Set(wanted.map(digestOf));
  return found.filter((text) => !known.has(digestOf(text))).length;
}

function digestOf(text: string): string {
  return createHash("sha256").update(text).digest("base64");
}

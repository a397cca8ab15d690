import { chmodSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough, Writable } from "node:stream";
import { gunzipSync } from "node:zlib";
import { type Simulator, type SimulatorOptions, startSimulator } from "../../simulator/index.ts";
import { main } from "../../src/commands/index.ts";
import type { Io } from "../../src/commands/io.ts";
import { temporaryFolder } from "../journal/support.ts";

/** A simulated service, a folder, and a config between them. */
export interface World {
  readonly simulator: Simulator;
  readonly folder: string;
  /** A path below the folder. */
  at(name: string): string;
  /** Writes a config; `more` are further lines at its top level, `sinks` and `account` take the place of the usual ones. */
  configure(parts?: ConfigParts): string;
  /** Runs a command of the program in this process. */
  run(args: readonly string[], over?: RunOptions): Promise<Outcome>;
  /** Every event of the organizations, as the service has it. */
  served(): string[];
  /** The lines of every event file below a folder. */
  lines(directory?: string): string[];
  close(): Promise<void>;
}

export interface ConfigParts {
  readonly account?: string;
  readonly sinks?: readonly string[];
  readonly more?: readonly string[];
  readonly state?: string;
  readonly polling?: string;
  readonly file?: string;
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  readonly signal?: AbortSignal;
  readonly onOutput?: (text: string) => void;
}

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export async function openWorld(options: SimulatorOptions = {}): Promise<World> {
  const simulator = await startSimulator({
    organizations: 3,
    events: 600,
    days: 20,
    lateness: "none",
    ...options,
  });
  const folder = temporaryFolder();
  const at = (name: string) => join(folder.path, name);
  const world: World = {
    simulator,
    folder: folder.path,
    at,
    configure(parts = {}) {
      const account = parts.account ?? "organizations: all, since: 30d";
      const text = [
        "accounts:",
        `  - { name: acme, insightsUrl: '${simulator.insightsUrl}', managementUrl: '${simulator.managementUrl}', apiKey: { env: KEY }, ${account} }`,
        `state: ${parts.state ?? at("state.db")}`,
        `polling: { ${parts.polling ?? "interval: 1s"} }`,
        "log: { level: warn }",
        "sinks:",
        ...(parts.sinks ?? [`{ name: disk, type: file, directory: ${at("events")} }`]).map(
          (sink) => `  - ${sink}`,
        ),
        ...(parts.more ?? []),
      ].join("\n");
      const file = parts.file ?? at("tidemark.yaml");
      writeFileSync(file, `${text}\n`);
      chmodSync(file, 0o600);
      return file;
    },
    run: (args, over = {}) => runMain(args, { KEY: simulator.apiKey, ...over.env }, over),
    served: () =>
      simulator.organizations.flatMap(({ id }) =>
        [...simulator.control.allEvents({ organization: id })].map((bytes) => Buffer.from(bytes).toString()),
      ),
    lines: (directory = at("events")) => linesBelow(directory),
    async close() {
      await simulator.close();
      folder.remove();
    },
  };
  return world;
}

export async function runMain(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  over: RunOptions = {},
): Promise<Outcome> {
  const outcome = { code: 0, stdout: "", stderr: "" };
  const stdin = new PassThrough();
  stdin.end(over.input ?? "");
  const collect = (name: "stdout" | "stderr") =>
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        outcome[name] += chunk.toString();
        over.onOutput?.(chunk.toString());
        done();
      },
    });
  const io: Io = {
    stdout: collect("stdout"),
    stderr: collect("stderr"),
    stdin,
    env: { TIDEMARK_POISON_MEMORY: "1", ...env },
    signal: over.signal ?? new AbortController().signal,
    interactive: false,
    setExitCode: (code) => {
      outcome.code = code;
    },
  };
  await main(args, io);
  return outcome;
}

export function linesBelow(directory: string): string[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.jsonl(\.gz)?$/.test(entry.name))
    .flatMap((entry) => {
      const bytes = readFileSync(join(entry.parentPath, entry.name));
      const text = (entry.name.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString();
      return text.split("\n").slice(0, -1);
    });
}

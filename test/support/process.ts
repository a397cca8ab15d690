import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** A real component as a child process of the test, with the end of what it printed. */
export interface Running {
  readonly pid: number;
  /** The last of what it wrote to stdout and stderr. */
  output(): string;
  /** Ends it with this signal and waits until it is gone. */
  kill(signal?: NodeJS.Signals): Promise<void>;
}

const OUTPUT_LENGTH_MAX = 4_000_000;
const children = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});

/** Starts a program and waits until `isReady`; throws with its output when it ends or takes too long. */
export async function startProcess(
  command: string,
  args: readonly string[],
  options: SpawnOptions & {
    readonly isReady: () => Promise<boolean>;
    readonly readyMsMax?: number;
    /** Takes all output, of one start after the other: what the program has written is there at once. */
    readonly outputFile?: string;
  },
): Promise<Running> {
  const { isReady, readyMsMax = 300_000, outputFile, ...spawnOptions } = options;
  const file = outputFile === undefined ? undefined : openSync(outputFile, "a");
  const child = spawn(command, args, { ...spawnOptions, stdio: ["ignore", file ?? "pipe", file ?? "pipe"] });
  if (file !== undefined) closeSync(file);
  children.add(child);
  let piped = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.on("data", (chunk: Buffer) => {
      piped = (piped + chunk.toString()).slice(-OUTPUT_LENGTH_MAX);
    });
  const output = () => (outputFile === undefined ? piped : readFileSync(outputFile, "utf8"));
  const gone = once(child, "exit").then(() => children.delete(child));
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  const running: Running = {
    pid: child.pid!,
    output,
    async kill(signal = "SIGKILL") {
      if (!hasEnded()) child.kill(signal);
      await gone;
    },
  };
  const deadline = Date.now() + readyMsMax;
  while (!(await isReady().catch(() => false))) {
    if (hasEnded() || Date.now() > deadline) {
      await running.kill();
      throw new Error(`${command} did not become ready:\n${output().slice(-4000)}`);
    }
    await sleep(50);
  }
  return running;
}

/** A component in a temporary folder of its own, which is removed if it cannot be started. */
export async function inTemporaryFolder<Component>(
  prefix: string,
  start: (folder: string) => Promise<Component>,
): Promise<Component> {
  const folder = mkdtempSync(join(tmpdir(), prefix));
  try {
    return await start(folder);
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
}

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

const PROGRAM = join(import.meta.dirname, "../../dist/src/main.js");

/** The built program as a process of its own. */
export interface Program {
  readonly child: ChildProcess;
  stderr(): string;
  stdout(): string;
  /** Waits until it ends; returns its exit code. */
  ended(): Promise<number | null>;
  kill(signal?: NodeJS.Signals): Promise<void>;
}

export function startProgram(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  script = PROGRAM,
): Program {
  const child = spawn(process.execPath, [script, ...args], {
    // A view of a page's memory that outlives its lease shows as damaged events.
    env: { PATH: process.env.PATH, TIDEMARK_POISON_MEMORY: "1", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exit = once(child, "exit") as Promise<[number | null, string | null]>;
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk: Buffer) => {
    stdout = (stdout + chunk.toString()).slice(-1_000_000);
  });
  child.stderr.on("data", (chunk: Buffer) => {
    stderr = (stderr + chunk.toString()).slice(-1_000_000);
  });
  return {
    child,
    stderr: () => stderr,
    stdout: () => stdout,
    ended: async () => (await exit)[0],
    async kill(signal = "SIGKILL") {
      child.kill(signal);
      await exit;
    },
  };
}

export async function runProgram(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const program = startProgram(args, env);
  const code = await program.ended();
  return { code, stdout: program.stdout(), stderr: program.stderr() };
}

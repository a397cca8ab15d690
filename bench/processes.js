import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export const PROGRAM = fileURLToPath(new URL("../dist/src/main.js", import.meta.url));
const REPORT_USAGE = new URL("report-usage.js", import.meta.url).href;

/** Starts the simulator in its own process; resolves when it serves. */
export async function startSimulator(...flags) {
  const child = spawn(process.execPath, [PROGRAM, "simulate", "--json", ...flags.map(String)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = await once(createInterface({ input: child.stdout }), "line");
  return {
    ...JSON.parse(line),
    pid: child.pid,
    async stop() {
      child.kill("SIGTERM");
      await once(child, "exit");
    },
  };
}

/**
 * Runs a node program to its end. Gives wall-clock seconds, processor seconds of all its threads, and peak
 * resident memory. Throws with its error output when it ends with another code than 0.
 */
export async function measure(args, { env = process.env, ...options } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "tidemark-usage-"));
  const usage = join(folder, "usage.json");
  try {
    const started = performance.now();
    const child = spawn(process.execPath, ["--import", REPORT_USAGE, ...args], {
      stdio: ["ignore", "ignore", "pipe"],
      env: { ...env, BENCH_USAGE: usage },
      ...options,
    });
    const said = [];
    child.stderr.on("data", (chunk) => said.push(chunk));
    const [code] = await once(child, "close");
    const seconds = (performance.now() - started) / 1000;
    if (code !== 0) {
      const text = Buffer.concat(said).toString().slice(-2000);
      throw Object.assign(new Error(`${args.join(" ")} ended with exit code ${code}: ${text}`), { code });
    }
    return { seconds, ...JSON.parse(readFileSync(usage, "utf8")) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs another program to its end. Gives wall-clock seconds and processor seconds, as bash's `time` tells them. */
export async function measureCommand(command, args) {
  const child = spawn("bash", ["-c", 'TIMEFORMAT="%R %U %S"; time "$0" "$@" >/dev/null', command, ...args], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const said = [];
  child.stderr.on("data", (chunk) => said.push(chunk));
  const [code] = await once(child, "close");
  const [seconds, user, system] = Buffer.concat(said).toString().trim().split(" ").map(Number);
  if (code !== 0 || Number.isNaN(system)) throw new Error(`${command} failed: ${Buffer.concat(said)}`);
  return { seconds, cpuSeconds: user + system };
}

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

export const PROGRAM = fileURLToPath(new URL("../dist/src/main.js", import.meta.url));
export const REPORT_USAGE = new URL("report-usage.js", import.meta.url).href;
/** A measured program that takes longer than this hangs. */
const RUN_MS_MAX = 300_000;
const END_MS = 20_000;

/** Starts the simulator in its own process; resolves when it serves. */
export async function startSimulator(...flags) {
  const child = spawn(process.execPath, [PROGRAM, "simulate", "--json", ...flags.map(String)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const died = once(child, "exit").then(([code]) => {
    throw new Error(`The simulator ended with exit code ${code}.`);
  });
  died.catch(() => {});
  const [line] = await Promise.race([once(createInterface({ input: child.stdout }), "line"), died]);
  return { ...JSON.parse(line), pid: child.pid, stop: () => end(child) };
}

/** Ends a process that was started here, if it still runs. */
export async function end(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  const late = setTimeout(() => child.kill("SIGKILL"), END_MS);
  await ended;
  clearTimeout(late);
}

/** An export with the default config; nothing here switches off what users have on. */
export function configText(simulator, sinks, more = {}) {
  return JSON.stringify({
    accounts: [
      {
        name: "bench",
        insightsUrl: simulator.url,
        managementUrl: `${simulator.url}/api`,
        apiKey: { env: "BENCH_KEY" },
        organizations: simulator.organizations.map(({ id }) => id),
      },
    ],
    ...more,
    sinks: [sinks].flat(),
  });
}

/**
 * Runs a node program to its end. Gives wall-clock seconds, processor seconds of all its threads, and peak
 * resident memory. Throws with its error output when it ends with another code than 0 or not within five minutes.
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
    const late = setTimeout(() => child.kill("SIGKILL"), RUN_MS_MAX);
    const [code, signal] = await once(child, "close");
    clearTimeout(late);
    const seconds = (performance.now() - started) / 1000;
    if (signal !== null)
      throw new Error(`${args.join(" ")} was ended by ${signal} after ${Math.round(seconds)} s`);
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

/** The journal's pages behind `last` and the place of the sink `disk` in a state file. Undefined while the tables are made. */
export function lookAt(db, last) {
  try {
    return {
      pages: db.prepare("SELECT number, events FROM pages WHERE number > ? ORDER BY number").all(last),
      reader: db.prepare("SELECT page, event FROM readers WHERE name = 'disk'").get(),
    };
  } catch {
    return undefined;
  }
}

/** Asks the simulator about itself, or resets it. */
export async function control(simulator, method, path) {
  const response = await fetch(`${simulator.url}/_control/${path}`, { method });
  const text = await response.text();
  return text === "" ? undefined : JSON.parse(text);
}

/** Until requests have come and then none for a while. */
export async function firstReadOf(simulator) {
  let last = -1;
  for (let quiet = 0; quiet < 6; ) {
    await sleep(500);
    const { insightsRequests } = await control(simulator, "GET", "statistics");
    quiet = insightsRequests > 0 && insightsRequests === last ? quiet + 1 : 0;
    last = insightsRequests;
  }
}

/** Processor time of a process so far. */
export function cpuSeconds(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** The most memory that a process has had. */
export function peakBytes(pid) {
  return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024;
}

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export const PROGRAM = fileURLToPath(new URL("../dist/src/main.js", import.meta.url));

/** Starts the simulator in its own process; resolves when it serves. */
export async function startSimulator(...flags) {
  const child = spawn(process.execPath, [PROGRAM, "simulate", "--json", ...flags], {
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

/** Runs a node program to its end; gives seconds and peak resident memory. */
export async function measure(args, options = {}) {
  const started = performance.now();
  const child = spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit"], ...options });
  let peakBytes = 0;
  const timer = setInterval(() => {
    peakBytes = Math.max(peakBytes, residentBytes(child.pid));
  }, 50);
  const [code] = await once(child, "exit");
  clearInterval(timer);
  if (code !== 0) throw new Error(`${args.join(" ")} ended with exit code ${code}.`);
  return { seconds: (performance.now() - started) / 1000, peakBytes };
}

/** The kernel's own high-water mark; 0 where there is no /proc. */
function residentBytes(pid) {
  try {
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

export function row(name, { events, bytes, seconds, peakBytes }) {
  return {
    job: name,
    "events/s": Math.round(events / seconds),
    "MB/s": Number((bytes / seconds / 1e6).toFixed(1)),
    "peak RSS MB": Math.round(peakBytes / 1e6),
    seconds: Number(seconds.toFixed(2)),
  };
}

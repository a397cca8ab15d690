// Preloaded into a measured process: writes what it used to the file in BENCH_USAGE when it exits.
import { writeFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";

/** BENCH_LOOP also asks how long the event loop was blocked. Timers are late by a millisecond or two without that. */
const loop = process.env.BENCH_LOOP === undefined ? undefined : monitorEventLoopDelay({ resolution: 5 });
loop?.enable();

process.on("exit", () => {
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
  const usage = { cpuSeconds: (userCPUTime + systemCPUTime) / 1e6, peakBytes: maxRSS * 1024, ...loopOf() };
  writeFileSync(process.env.BENCH_USAGE, JSON.stringify(usage));
});

function loopOf() {
  if (loop === undefined) return {};
  const ms = (ns) => Math.max(0, Math.round(ns / 1e6) - 5);
  return { blockedMs: { p99: ms(loop.percentile(99)), max: ms(loop.max) } };
}

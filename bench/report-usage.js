// Preloaded into a measured process: writes what it used to the file in BENCH_USAGE when it exits.
import { writeFileSync } from "node:fs";

process.on("exit", () => {
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
  const usage = { cpuSeconds: (userCPUTime + systemCPUTime) / 1e6, peakBytes: maxRSS * 1024 };
  writeFileSync(process.env.BENCH_USAGE, JSON.stringify(usage));
});

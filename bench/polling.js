import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  control,
  cpuSeconds,
  firstReadOf,
  measure,
  PROGRAM,
  peakBytes,
  startSimulator,
} from "./processes.js";

/**
 * What `cycleSeconds` of polling quiet organizations costs: requests a cycle, memory, share of one core. With
 * `shards` so many processes share them; memory is that of the largest, the rest is over all of them.
 */
export async function benchQuiet(organizations, { cycles = 2, cycleSeconds = 30, shards = 0 } = {}) {
  const simulator = await startSimulator(
    ...["--organizations", String(organizations), "--events", String(organizations * 2)],
    ...["--days", "5", "--live", "0", "--no-late"],
  );
  const scenes = Array.from({ length: Math.max(1, shards) }, (_, index) =>
    sceneOf(
      simulator,
      { interval: `${cycleSeconds}s` },
      { since: "5d" },
      shards === 0 ? {} : { shard: `${index}/${shards}` },
    ),
  );
  const children = scenes.map((scene) =>
    spawn(process.execPath, [PROGRAM, "run", "--config", scene.file], {
      stdio: ["ignore", "ignore", "inherit"],
      env: scene.env,
    }),
  );
  const cpuOfAll = () => children.reduce((sum, { pid }) => sum + cpuSeconds(pid), 0);
  try {
    await firstReadOf(simulator);
    await control(simulator, "DELETE", "statistics");
    const before = cpuOfAll();
    await sleep(cycles * cycleSeconds * 1000);
    const { insightsRequests } = await control(simulator, "GET", "statistics");
    return {
      organizations,
      processes: children.length,
      "requests a cycle": Number((insightsRequests / cycles).toFixed(1)),
      "peak RSS MB": Math.round(Math.max(...children.map(({ pid }) => peakBytes(pid))) / 1e6),
      "% of one core": Number((((cpuOfAll() - before) / (cycles * cycleSeconds)) * 100).toFixed(2)),
    };
  } finally {
    for (const child of children) child.kill("SIGTERM");
    await Promise.all(children.map((child) => once(child, "exit")));
    await simulator.stop();
    for (const scene of scenes) scene.remove();
  }
}

/** A first read of 90 days at 500 ms a request and 1,000 events a page, with many requests at once and with one. */
export async function benchBackfill(events, { latencyMs = 500, pageSize = 1000, concurrency = 16 } = {}) {
  const simulator = await startSimulator(
    ...["--organizations", "20", "--events", String(events), "--days", "90", "--live", "0", "--no-late"],
    ...["--fault", JSON.stringify({ kind: "latency", ms: latencyMs, api: "insights" })],
  );
  const read = async (requestsAtOnce) => {
    const polling = { pageSize, concurrency: requestsAtOnce };
    const scene = sceneOf(simulator, polling, { since: "90d", retention: "91d" });
    await control(simulator, "DELETE", "statistics");
    try {
      const { seconds, peakBytes: peak } = await measure([PROGRAM, "run", "--once", "--config", scene.file], {
        env: scene.env,
      });
      const { insightsRequests } = await control(simulator, "GET", "statistics");
      return {
        "requests at once": requestsAtOnce,
        requests: insightsRequests,
        seconds: Number(seconds.toFixed(1)),
        "events/s": Math.round(events / seconds),
        "peak RSS MB": Math.round(peak / 1e6),
      };
    } finally {
      scene.remove();
    }
  };
  try {
    const many = await read(concurrency);
    const one = await read(1);
    return { rows: [one, many], ratio: Number((one.seconds / many.seconds).toFixed(1)) };
  } finally {
    await simulator.stop();
  }
}

function sceneOf(simulator, polling, account, more = {}) {
  const folder = mkdtempSync(join(tmpdir(), "tidemark-bench-"));
  const file = join(folder, "tidemark.yaml");
  const config = {
    accounts: [
      {
        name: "bench",
        insightsUrl: simulator.insightsUrl,
        managementUrl: simulator.managementUrl,
        apiKey: { env: "DIRECTORY_API_KEY" },
        organizations: "all",
        ...account,
      },
    ],
    state: join(folder, "state.db"),
    polling,
    ...more,
    sinks: [{ name: "raw", type: "file", directory: join(folder, "raw") }],
    log: { level: "warn" },
  };
  writeFileSync(file, JSON.stringify(config));
  return {
    file,
    env: { PATH: process.env.PATH, DIRECTORY_API_KEY: simulator.apiKey },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

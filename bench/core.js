import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { measure, PROGRAM, row, startSimulator } from "./processes.js";

/** The main job: everything from the API into raw files, against a bare loop over the same pages. */
export async function benchCore(events) {
  const simulator = await startSimulator("--events", String(events), "--organizations", "1", "--days", "60", "--no-late", "--no-gzip", "--live", "0");
  const folder = mkdtempSync(join(tmpdir(), "tidemark-bench-"));
  try {
    const start = new Date(Date.now() - 89 * 86_400_000).toISOString();
    const ids = simulator.organizations.map(({ id }) => id).join(",");
    const bare = [fileURLToPath(new URL("bare.js", import.meta.url)), simulator.url, simulator.apiKey, ids, start];
    await measure(bare, { stdio: "ignore" });
    const loop = await measure(bare, { stdio: "ignore" });
    writeFileSync(join(folder, "tidemark.yaml"), configText(simulator, folder));
    const run = await measure([PROGRAM, "run", "--once", "--config", join(folder, "tidemark.yaml")], {
      env: { ...process.env, BENCH_KEY: simulator.apiKey },
    });
    const bytes = events * 1024;
    const rows = [row("bare loop", { events, bytes, ...loop }), row("run --once to raw files", { events, bytes, ...run })];
    return { rows, ratio: loop.seconds / run.seconds };
  } finally {
    await simulator.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

function configText(simulator, folder) {
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
    state: join(folder, "tidemark.db"),
    sinks: [{ name: "disk", type: "file", directory: join(folder, "events"), path: "{organization}" }],
    drift: false,
  });
}

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { measure, PROGRAM, row, startSimulator } from "./processes.js";

const BARE = fileURLToPath(new URL("bare.js", import.meta.url));

/**
 * The main job, everything from the API into a sink by `run --once`, beside a bare loop over the same pages
 * that throws them away, in turns. Pages are 10,000 events of about 1 KB. `jobs` are names of `sinksOf`.
 */
export async function benchCore(events, jobs, rounds = 1) {
  const simulator = await startSimulator(
    "--events",
    String(events),
    "--organizations",
    "1",
    "--days",
    "60",
    "--no-late",
    "--no-gzip",
    "--live",
    "0",
  );
  const receiver = await startReceiver();
  try {
    const start = new Date(Date.now() - 89 * 86_400_000).toISOString();
    const ids = simulator.organizations.map(({ id }) => id).join(",");
    const bare = [BARE, simulator.url, simulator.apiKey, ids, start];
    const sinks = sinksOf(receiver.url);
    const best = new Map();
    await measure(bare, { stdio: "ignore" });
    for (let round = 0; round < rounds; round++) {
      note(best, "bare loop", await measure(bare, { stdio: "ignore" }));
      for (const name of jobs) note(best, name, await exportTo(simulator, sinks[name]));
    }
    const { seconds } = best.get("bare loop");
    return [...best].map(([name, run]) => ({
      ...row(name, { events, bytes: events * 1024, ...run }),
      ratio: Number((seconds / run.seconds).toFixed(2)),
    }));
  } finally {
    await receiver.stop();
    await simulator.stop();
  }
}

/** Of time the best round counts, since what a machine does beside can only cost some; of memory the worst. */
function note(best, name, { seconds, peakBytes }) {
  const before = best.get(name) ?? { seconds, peakBytes };
  best.set(name, {
    seconds: Math.min(before.seconds, seconds),
    peakBytes: Math.max(before.peakBytes, peakBytes),
  });
}

function sinksOf(url) {
  const file = (more) => ({
    name: "disk",
    type: "file",
    directory: "events",
    path: "{organization}",
    ...more,
  });
  return {
    "raw files": file({}),
    "gzip files": file({ gzip: true, rotateSize: "64MB" }),
    "OCSF files": file({ format: "ocsf" }),
    "bulk receiver": { name: "bulk", type: "opensearch", url, index: "events-{date}", template: false },
  };
}

async function exportTo(simulator, sink) {
  const folder = mkdtempSync(join(tmpdir(), "tidemark-bench-"));
  try {
    writeFileSync(join(folder, "tidemark.yaml"), configText(simulator, sink));
    return await measure([PROGRAM, "run", "--once"], {
      cwd: folder,
      stdio: ["ignore", "ignore", "inherit"],
      env: { ...process.env, BENCH_KEY: simulator.apiKey },
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function configText(simulator, sink) {
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
    sinks: [sink],
    log: { level: "warn" },
    drift: false,
  });
}

/** Takes bulk requests and says that every item was stored. */
async function startReceiver() {
  const server = createServer((request, response) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () =>
      response.setHeader("content-type", "application/json").end(answerTo(request, Buffer.concat(chunks))),
    );
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function answerTo(request, body) {
  if (!request.url.includes("_bulk"))
    return JSON.stringify({ version: { number: "2.19.1", distribution: "opensearch" } });
  const plain = request.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body;
  let lines = 0;
  for (let at = plain.indexOf(10); at >= 0; at = plain.indexOf(10, at + 1)) lines++;
  const item = { create: { status: 201 } };
  return JSON.stringify({ errors: false, items: Array.from({ length: lines / 2 }, () => item) });
}

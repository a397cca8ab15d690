// The exporter while searches run beside it: processor time per event, memory, and the latency of live events.
//   node bench/search-beside.js FOLDER [SECONDS]        after `npm run build` and `node bench/search.js FOLDER`
// Prints one JSON line. FOLDER has the archive that is searched; it is not changed.
//
//   alone          no search
//   command        `tidemark search --text` over a month of the archive, again and again
//   own process    the same exporter's page and Insights interface asked about its journal, again and again
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Sqlite } from "../dist/src/core/sqlite.js";
import { configText, lookAt, PROGRAM, startSimulator } from "./processes.js";

const [archive, seconds = "40"] = process.argv.slice(2);
const HELD = 100_000;
const LIVE_PER_SECOND = 200;
const TOKEN = "a-token-of-the-benchmark";
const LOOK_MS = 5;
/** Clock ticks of /proc are hundredths of a second on every Linux that we know. */
const TICK_MS = 10;

const simulator = await startSimulator(
  ...["--events", HELD, "--organizations", 5, "--days", 20, "--event-bytes", 1024],
  ...["--no-late", "--no-gzip", "--live", LIVE_PER_SECOND],
);
const folder = mkdtempSync(join(tmpdir(), "tidemark-beside-"));
const port = await freePort();
const sinks = [
  { name: "disk", type: "file", directory: "events" },
  // Another reader, which is left behind, keeps the pages for the searches.
  { name: "held", type: "http", url: "http://127.0.0.1:9/" },
];
const more = {
  state: "state.db",
  polling: { interval: "1s" },
  server: { port, host: "127.0.0.1", token: { env: "BENCH_TOKEN" } },
  log: { level: "error" },
};
writeFileSync(join(folder, "tidemark.yaml"), configText(simulator, sinks, more));
symlinkSync(resolve(archive, "cache"), join(folder, "tidemark"));
const exporter = spawn(process.execPath, [PROGRAM, "run"], {
  cwd: folder,
  stdio: ["ignore", "ignore", "inherit"],
  env: { ...process.env, BENCH_KEY: simulator.apiKey, BENCH_TOKEN: TOKEN },
});
try {
  const db = await settled();
  const result = { alone: await phase(db, async () => {}) };
  result.command = await phase(db, searchArchive);
  result.ownProcess = await phase(db, askExporter);
  result.aloneAgain = await phase(db, async () => {});
  db.close();
  process.stdout.write(`${JSON.stringify(result)}\n`);
} finally {
  if (exporter.kill("SIGTERM")) await once(exporter, "exit");
  await simulator.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port: found } = server.address();
  server.close();
  await once(server, "close");
  return found;
}

/** The state file, once everything that was there at the start is delivered. */
async function settled() {
  const state = join(folder, "state.db");
  while (!existsSync(state) && exporter.exitCode === null) await sleep(50);
  const db = new Sqlite(state, { readonly: true });
  for (;;) {
    await sleep(1000);
    if (exporter.exitCode !== null) throw new Error("The exporter has ended.");
    const look = lookAt(db, 0);
    if (look === undefined) continue;
    const held = look.pages.reduce((sum, { events }) => sum + events, 0);
    const last = look.pages.at(-1)?.number ?? 0;
    if (held >= HELD && (look.reader?.page ?? 0) >= last - 1) return db;
  }
}

async function phase(db, search) {
  const ended = new AbortController();
  const searching = search(ended.signal);
  let last = lookAt(db, 0).pages.at(-1)?.number ?? 0;
  const waits = [];
  const waiting = new Map();
  let [events, peakRss] = [0, 0];
  const [start, cpu] = [performance.now(), cpuMs()];
  while (performance.now() - start < Number(seconds) * 1000) {
    await sleep(LOOK_MS);
    const look = lookAt(db, last);
    const now = performance.now();
    for (const page of look.pages) {
      events += page.events;
      last = page.number;
      waiting.set(page.number, { now, events: page.events });
    }
    const { page = 0, event = 0 } = look.reader ?? {};
    for (const [number, { now: since, events: count }] of waiting) {
      if (page < number || (page === number && event < count)) break;
      waits.push(now - since);
      waiting.delete(number);
    }
    peakRss = Math.max(peakRss, rssBytes());
  }
  const used = cpuMs() - cpu;
  ended.abort();
  const searches = (await searching) ?? 0;
  const sorted = waits.toSorted((a, b) => a - b);
  const at = (share) => Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]);
  const row = {
    ...{ searches, events, microsecondsPerEvent: Math.round((used * 1000) / events) },
    ...{ peakRssMb: Math.round(peakRss / 1e6), p50Ms: at(0.5), p99Ms: at(0.99), maxMs: at(1) },
  };
  process.stderr.write(`${JSON.stringify(row)}\n`);
  return row;
}

function cpuMs() {
  const fields = readFileSync(`/proc/${exporter.pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

function rssBytes() {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${exporter.pid}/status`, "utf8"))[1]) * 1024;
}

async function searchArchive(signal) {
  const args = ["search", "--store", resolve(archive, "archive"), "--text", "a needle nowhere"];
  let searches = 0;
  while (!signal.aborted) {
    const child = spawn(
      process.execPath,
      [PROGRAM, ...args, "--since", "2025-06-01", "--until", "2025-07-01"],
      { stdio: "ignore", env: { ...process.env, XDG_CACHE_HOME: folder } },
    );
    const stop = () => child.kill("SIGKILL");
    signal.addEventListener("abort", stop);
    const [code] = await once(child, "exit");
    signal.removeEventListener("abort", stop);
    if (code === 0) searches++;
    else if (!signal.aborted) throw new Error(`The search ended with code ${code}.`);
  }
  return searches;
}

async function askExporter(signal) {
  const headers = { authorization: `Bearer ${TOKEN}` };
  let searches = 0;
  while (!signal.aborted) {
    for (const query of ["text=a+needle+nowhere", "service=sso&limit=100", "outcome=failure&limit=100"]) {
      const answer = await fetch(`http://127.0.0.1:${port}/api/search/events?${query}`, { headers });
      if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`);
      await answer.text();
      searches++;
    }
  }
  return searches;
}

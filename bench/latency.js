import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Sqlite } from "../dist/src/core/sqlite.js";
import { configText, end, lookAt, PROGRAM, REPORT_USAGE, startSimulator } from "./processes.js";

const LOOK_MS = 5;
const LIMIT_MS = 180_000;
/** Each has up to one live page a second: a 99th percentile needs more than a hundred of them. */
const ORGANIZATIONS = 20;
/** A page of the live tail has few events; those of the backfill are full. */
const LIVE_EVENTS_MAX = 1000;
/** The backfill has ended when no full page came for so long, and has begun after this. */
const REST_MS = 2500;
const START_MS = 5000;

/**
 * The time of live pages from their commit in the journal until they are durable in a file, while a backfill runs.
 * Each organization is an account of its own, so that there are several live pages a second. Looks at the state file
 * every few milliseconds, so the figures are that much too large. Node compiles the program in its first seconds.
 * For pages of that time only their number and longest wait are shown; the percentiles are of the pages after it.
 */
export async function benchLatency(events) {
  const simulator = await startSimulator(
    ...["--events", events, "--organizations", ORGANIZATIONS, "--days", 60, "--event-bytes", 1024],
    ...["--no-late", "--no-gzip", "--live", 50],
  );
  const folder = mkdtempSync(join(tmpdir(), "tidemark-bench-"));
  const sink = { name: "disk", type: "file", directory: "events" };
  // Often, for more than a few samples in a short run.
  const more = { state: "state.db", polling: { interval: "1s" }, log: { level: "error" } };
  const { accounts, ...rest } = JSON.parse(configText(simulator, sink, more));
  const [account] = accounts;
  const each = account.organizations.map((id, at) => ({
    ...account,
    name: `bench-${at}`,
    organizations: [id],
  }));
  writeFileSync(join(folder, "tidemark.yaml"), JSON.stringify({ ...rest, accounts: each }));
  const usage = join(folder, "usage.json");
  const child = spawn(process.execPath, ["--import", REPORT_USAGE, PROGRAM, "run"], {
    cwd: folder,
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, BENCH_KEY: simulator.apiKey, BENCH_USAGE: usage, BENCH_LOOP: "1" },
  });
  try {
    const state = join(folder, "state.db");
    for (let waitedMs = 0; !existsSync(state) && waitedMs < LIMIT_MS; waitedMs += 50) await sleep(50);
    const watched = await watch(state, events);
    await end(child);
    return rowOf(events, watched, JSON.parse(readFileSync(usage, "utf8")));
  } finally {
    await end(child);
    await simulator.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The waits of live pages until the backfill has come to its end. */
async function watch(file, events) {
  const db = new Sqlite(file, { readonly: true });
  const waits = [];
  const waiting = new Map();
  let last = 0;
  let held = 0;
  const started = performance.now();
  let lastFull = started;
  try {
    // The first page may take long on a slow machine.
    while (held === 0 || performance.now() - Math.max(lastFull, started + START_MS) < REST_MS) {
      if (performance.now() - started > LIMIT_MS)
        throw new Error(`The backfill took more than ${LIMIT_MS} ms.`);
      await sleep(LOOK_MS);
      const look = lookAt(db, last);
      if (look === undefined) continue;
      const now = performance.now();
      for (const page of look.pages) {
        held += page.events;
        last = page.number;
        if (page.events > LIVE_EVENTS_MAX) lastFull = now;
        else if (held > page.events) waiting.set(page.number, { now, events: page.events });
      }
      const { page = 0, event = 0 } = look.reader ?? {};
      for (const [number, { now: since, events: count }] of waiting) {
        if (page < number || (page === number && event < count)) break;
        waits.push({ ms: now - since, since });
        waiting.delete(number);
      }
    }
  } finally {
    db.close();
  }
  const during = waits.filter(({ since }) => since <= lastFull);
  const early = during.filter(({ since }) => since < started + START_MS).map(({ ms }) => ms);
  const later = during.filter(({ since }) => since >= started + START_MS).map(({ ms }) => ms);
  if (held < events / 2 || later.length === 0)
    throw new Error(`Only ${held} of ${events} events and ${later.length} live pages were seen.`);
  return { early, waits: later, seconds: (lastFull - started) / 1000, held };
}

function rowOf(events, { early, waits, seconds, held }, { blockedMs, peakBytes }) {
  const sorted = waits.toSorted((a, b) => a - b);
  const at = (share) =>
    Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN);
  return {
    "events of the backfill": events,
    "events/s": Math.round(held / seconds),
    "live pages": waits.length,
    [`max ms of ${early.length} in the first ${START_MS / 1000} s`]: Math.round(Math.max(0, ...early)),
    "p50 ms": at(0.5),
    "p99 ms": at(0.99),
    "max ms": at(1),
    "loop blocked p99 ms": blockedMs.p99,
    "loop blocked max ms": blockedMs.max,
    "RSS MB": Math.round(peakBytes / 1e6),
  };
}

import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { type Fault, type Simulator, startSimulator } from "../../simulator/index.ts";
import { openStateForReading } from "../../src/journal/database.ts";
import { type Program, runProgram, startProgram } from "../support/program.ts";

/** TIDEMARK_KILLS=100 TIDEMARK_EVENTS=100000 is the long campaign. */
const KILLS = Number(process.env.TIDEMARK_KILLS ?? 5);
const EVENTS = Number(process.env.TIDEMARK_EVENTS ?? 4000);
const HOUR = 3_600_000;
/** A second of ours is so many of the service's: hours of lateness pass in seconds. */
const SPEED = 600;
/** Nothing here depends on the machine's speed: each step waits for its condition, up to this limit. */
const PATIENT = { timeout: 400_000, interval: 250 };

const faults: readonly Fault[] = [
  { kind: "status", status: 503, share: 0.02, api: "insights" },
  // Rare: each one lowers the rate of requests, and 2 in 100 at random would end at one request a second.
  { kind: "status", status: 429, retryAfter: 0.1, share: 0.003, api: "insights" },
  { kind: "cut_body", share: 0.02, api: "insights" },
  { kind: "cut_headers", share: 0.01, api: "insights" },
  { kind: "refused_cursor", share: 0.02, api: "insights" },
  { kind: "wrong_count", by: 1, share: 0.02, api: "insights" },
  { kind: "broken_json", share: 0.01, api: "insights" },
  { kind: "latency", ms: 20, api: "insights" },
];

let simulator: Simulator | undefined;
let running: Program | undefined;
let folder: string | undefined;
afterEach(async () => {
  await running?.kill();
  await simulator?.close();
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
});

test(
  `late indexing, edges, faults and ${KILLS} kills: every event that was ever served is in the files once, and old windows are sealed`,
  async () => {
    folder = mkdtempSync(join(tmpdir(), "tidemark-polling-"));
    simulator = await startSimulator({
      seed: 11,
      organizations: 6,
      events: EVENTS,
      days: 2,
      eventBytes: 600,
      // Of the service's seconds.
      liveEventsPerSecond: EVENTS / (2 * KILLS * SPEED),
      lateness: { typicalMs: 5000, lateShare: 0.1, lateMs: 10 * 60_000, tailShare: 0.05, tailMs: 5 * HOUR },
      futureShare: 0.002,
      endTimeInclusive: true,
      // Its time stays behind this machine's: the earlier of both clocks decides when windows are sealed.
      clock: { start: new Date(Date.now() - 240 * HOUR).toISOString(), speed: SPEED },
      faults,
    });
    const { control } = simulator;
    const args = ["run", "--config", writeConfig(simulator, folder)];
    const env = { DIRECTORY_API_KEY: simulator.apiKey };
    for (let kill = 0; kill < KILLS; kill++) {
      const before = control.statistics().requests;
      running = startProgram(args, env);
      await expect
        .poll(() => control.statistics().requests, { ...PATIENT, interval: 20 })
        .toBeGreaterThan(before);
      await sleep(Math.random() * 2500);
      await running.kill();
    }
    // It runs on while events come and are indexed late; then they end, and a day and a half passes in steps.
    const state = join(folder, "state.db");
    running = startProgram(args, env);
    await expect.poll(() => lateOnes(state), PATIENT).toBeGreaterThan(0);
    control.setLiveRate(0);
    control.clock.setSpeed(0);
    for (let hour = 0; hour < 32; hour += 4) {
      control.clock.advance(4 * HOUR);
      await expect.poll(() => due(state, control.clock.read().nowMs), PATIENT).toEqual([]);
      if (hour === 12) control.faults.clear();
    }
    // Time goes on: what a last sweep found late is compared once more before its window is sealed.
    const unsealedNow = () => {
      control.clock.advance(HOUR / 6);
      return unsealed(state, control.clock.read().nowMs);
    };
    await expect.poll(unsealedNow, { ...PATIENT, interval: 500 }).toEqual([]);
    await running.kill("SIGTERM");
    const last = await runProgram([...args, "--once"], env);
    expect(last, last.stderr.slice(-2000)).toMatchObject({ code: 0 });

    const served = digests([...control.allEvents()]);
    const written = digests(linesBelow(join(folder, "raw")));
    const total = [...served.values()].reduce((sum, count) => sum + count, 0);
    const off = { lost: surplus(served, written), twice: surplus(written, served) };
    const late = lateOnes(state);
    process.stderr.write(
      `kills ${KILLS}, events ${total}, late ${late}, lost ${off.lost}, twice ${off.twice}\n`,
    );
    expect(off).toEqual({ lost: 0, twice: 0 });
    expect(total).toBeGreaterThan(EVENTS);
    expect(unsealed(state, control.clock.read().nowMs)).toEqual([]);
  },
  1_200_000 + KILLS * 8000,
);

function writeConfig(service: Simulator, root: string): string {
  const file = join(root, "tidemark.yaml");
  const config = {
    accounts: [
      {
        name: "acme",
        insightsUrl: service.insightsUrl,
        managementUrl: service.managementUrl,
        apiKey: { env: "DIRECTORY_API_KEY" },
        organizations: "all",
        provider: service.providerId,
        since: "3d",
      },
    ],
    state: join(root, "state.db"),
    polling: { interval: "200ms", pageSize: 200 },
    sinks: [{ name: "raw", type: "file", directory: join(root, "raw"), rotateSize: "1MB" }],
    log: { level: "warn" },
  };
  writeFileSync(file, JSON.stringify(config));
  return file;
}

/** Windows that ended more than 26 hours ago and are not sealed. */
function unsealed(state: string, nowMs: number): unknown[] {
  const sql =
    "SELECT id, state, (? - to_ms) / 3600000.0 AS hours, sweeps, reason FROM windows WHERE live = 0 AND to_ms < ? AND state <> 'sealed'";
  return rowsOf(state, sql, nowMs, nowMs - 26 * HOUR);
}

/** Windows that are to be read or swept now. */
function due(state: string, nowMs: number): unknown[] {
  const sql =
    "SELECT id, state, sweeps, reason FROM windows WHERE live = 0 AND (state = 'unread' OR next_ms <= ?)";
  return rowsOf(state, sql, nowMs);
}

function lateOnes(state: string): number {
  const [row] = rowsOf(state, "SELECT COALESCE(SUM(events), 0) AS late FROM lateness");
  return (row as { late: number }).late;
}

function rowsOf(state: string, sql: string, ...values: number[]): unknown[] {
  const db = openStateForReading(state);
  try {
    return db.prepare(sql).all(...values);
  } finally {
    db.close();
  }
}

function digests(lines: Iterable<Uint8Array>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const line of lines) {
    const digest = createHash("sha256").update(line).digest("hex");
    counts.set(digest, (counts.get(digest) ?? 0) + 1);
  }
  return counts;
}

/** How many of `one` are not in `other`, each as often. */
function surplus(one: ReadonlyMap<string, number>, other: ReadonlyMap<string, number>): number {
  let count = 0;
  for (const [digest, times] of one) count += Math.max(0, times - (other.get(digest) ?? 0));
  return count;
}

function* linesBelow(root: string): Generator<Buffer> {
  for (const name of readdirSync(root, { recursive: true }) as string[]) {
    const path = join(root, name);
    if (name.split("/").some((part) => part.startsWith(".")) || !statSync(path).isFile()) continue;
    const bytes = readFileSync(path);
    for (let start = 0, end = bytes.indexOf(10); end >= 0; start = end + 1, end = bytes.indexOf(10, start))
      yield bytes.subarray(start, end);
  }
}

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { configText, measure, PROGRAM, startSimulator } from "./processes.js";

const BARE = fileURLToPath(new URL("bare.js", import.meta.url));
const JSON_COST = fileURLToPath(new URL("json-cost.js", import.meta.url));
const DAYS = 60;
const EVENT_BYTES = 1024;
const BARE_RUNS = 3;

/**
 * The main job: everything from the API into one sink by `run --once`, with the default config. Beside it a
 * bare loop reads the same pages and throws them away. Each job runs with `events` and with three times as
 * many. Speed and processor time per event are the slopes between the two, so start-up does not count; the
 * column "seconds" is the whole larger run. Jobs take turns.
 *
 * @param {{ events: number, organizations: number, pageSize: number, rounds: number,
 *   jobs: readonly { name: string, sink: object | (() => object), env?: object }[] }} scenario
 */
export async function benchExport({ events, organizations, pageSize, rounds, jobs }) {
  const runs = new Map();
  /** By job, the reason; such a job has a row that says so. */
  const failed = new Map();
  let jsonSecondsPerEvent = 0;
  for (const count of [events, 3 * events]) {
    const simulator = await startSimulator(
      ...["--events", count, "--organizations", organizations, "--days", DAYS],
      ...["--event-bytes", EVENT_BYTES, "--no-late", "--no-gzip", "--live", "0"],
    );
    try {
      const start = new Date(Date.now() - (DAYS + 1) * 86_400_000).toISOString();
      if (count === events) jsonSecondsPerEvent = jsonCost(simulator, start);
      const bare = [
        BARE,
        simulator.url,
        simulator.apiKey,
        start,
        String(pageSize),
        simulator.organizations.map(({ id }) => id).join(","),
      ];
      await measure(bare);
      // A small run that something else slowed down makes every slope too good, and it takes a third of the time.
      const turns = count === events ? rounds + 1 : rounds;
      for (let round = 0; round < turns; round++) {
        // It is the measure of all jobs and takes a second, so a disturbance would be a large part of it.
        for (let again = 0; again < BARE_RUNS; again++) note(runs, "bare loop", count, await measure(bare));
        for (const job of jobs) {
          if (failed.has(job.name)) continue;
          try {
            note(runs, job.name, count, await exportTo(simulator, pageSize, job));
          } catch (error) {
            console.error(error);
            failed.set(job.name, error.message.split("\n")[0].slice(0, 200));
          }
        }
      }
    } finally {
      await simulator.stop();
    }
  }
  const measured = [...runs]
    .filter(([name]) => !failed.has(name))
    .map(([name, counts]) => rowOf(name, counts, events, runs.get("bare loop"), jsonSecondsPerEvent));
  const notes = Array.from(failed, ([name, reason]) => ({ job: `${name}: failed, ${reason}` }));
  return { rows: [...measured, ...notes], failed: failed.size };
}

/** The best round counts for time, because other load can only add to it; for memory the worst. */
function note(runs, name, count, run) {
  const counts = runs.get(name) ?? new Map();
  const before = counts.get(count) ?? run;
  counts.set(count, {
    seconds: Math.min(before.seconds, run.seconds),
    cpuSeconds: Math.min(before.cpuSeconds, run.cpuSeconds),
    peakBytes: Math.max(before.peakBytes, run.peakBytes),
  });
  runs.set(name, counts);
}

function rowOf(name, counts, events, bareCounts, jsonSecondsPerEvent) {
  const [small, large] = [counts.get(events), counts.get(3 * events)];
  const slope = (large.cpuSeconds - small.cpuSeconds) / (2 * events);
  const perSecond = speedOf(counts, events);
  return {
    job: name,
    "events/s": Math.round(perSecond),
    "MB/s": Math.round((perSecond * EVENT_BYTES) / 1e6),
    "of the bare loop": Number((perSecond / speedOf(bareCounts, events)).toFixed(2)),
    seconds: Number(large.seconds.toFixed(1)),
    "µs/event": Number((slope * 1e6).toFixed(1)),
    "of JSON": Number((slope / jsonSecondsPerEvent).toFixed(2)),
    [`RSS MB ${events}`]: Math.round(small.peakBytes / 1e6),
    [`RSS MB ${3 * events}`]: Math.round(large.peakBytes / 1e6),
  };
}

function speedOf(counts, events) {
  return (2 * events) / (counts.get(3 * events).seconds - counts.get(events).seconds);
}

function jsonCost(simulator, start) {
  const args = [JSON_COST, simulator.url, simulator.apiKey, start, simulator.organizations[0].id, "10"];
  return JSON.parse(execFileSync(process.execPath, args, { encoding: "utf8" })).secondsPerEvent;
}

async function exportTo(simulator, pageSize, { sink, env = {} }) {
  const folder = mkdtempSync(join(tmpdir(), "tidemark-bench-"));
  try {
    writeFileSync(
      join(folder, "tidemark.yaml"),
      configText(
        simulator,
        typeof sink === "function" ? sink() : sink,
        pageSize === 10_000 ? {} : { polling: { pageSize } },
      ),
    );
    return await measure([PROGRAM, "run", "--once"], {
      cwd: folder,
      env: { ...process.env, ...env, BENCH_KEY: simulator.apiKey },
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

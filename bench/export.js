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
/** Where a round takes longer, it is the last one: the default run has to end within 20 minutes on a slow machine too. */
const ROUND_MS_MAX = 180_000;

/**
 * The main job: everything from the API into one sink by `run --once`, with the default config. Beside it a
 * bare loop reads the same pages and throws them away. Each job runs with `events` and with `larger` events, mostly
 * three times as many. Speed and processor time per event are the slopes between the two, so start-up does not count;
 * the column "seconds" is the whole larger run. Jobs take turns, and the two sizes of a job follow each other: a machine
 * that is slower for some minutes slows both. Each job is run as often as the others, because the best of more runs
 * would be faster.
 *
 * @param {{ events: number, larger: number, organizations: number, pageSize: number, rounds: number,
 *   jobs: readonly { name: string, sink: object | (() => object), env?: object, rounds?: number }[] }} scenario
 */
export async function benchExport({ events, larger, organizations, pageSize, rounds, jobs }) {
  const runs = new Map();
  /** By job, the reason; such a job has a row that says so. */
  const failed = new Map();
  const start = new Date(Date.now() - (DAYS + 1) * 86_400_000).toISOString();
  const simulators = new Map();
  let jsonSecondsPerEvent = 0;
  try {
    for (const count of [events, larger]) simulators.set(count, await simulatorFor(count, organizations));
    jsonSecondsPerEvent = jsonCost(simulators.get(events), start);
    for (const simulator of simulators.values()) await measure(bareLoop(simulator, start, pageSize));
    for (let round = 0, startedMs = Date.now(); round < rounds; round++, startedMs = Date.now()) {
      for (const [count, simulator] of simulators)
        note(runs, "bare loop", count, await measure(bareLoop(simulator, start, pageSize)));
      for (const job of jobs) {
        if (failed.has(job.name) || round >= (job.rounds ?? rounds)) continue;
        try {
          for (const [count, simulator] of simulators)
            note(runs, job.name, count, await exportTo(simulator, pageSize, job));
        } catch (error) {
          console.error(error);
          failed.set(job.name, error.message.split("\n")[0].slice(0, 200));
        }
      }
      if (Date.now() - startedMs > ROUND_MS_MAX) break;
    }
  } finally {
    for (const simulator of simulators.values()) await simulator.stop();
  }
  const measured = [...runs]
    .filter(([name]) => !failed.has(name))
    .map(([name, counts]) =>
      rowOf(name, counts, { events, larger }, runs.get("bare loop"), jsonSecondsPerEvent),
    );
  const notes = Array.from(failed, ([name, reason]) => ({ job: `${name}: failed, ${reason}` }));
  return { rows: [...measured, ...notes], failed: failed.size };
}

function simulatorFor(events, organizations) {
  return startSimulator(
    ...["--events", events, "--organizations", organizations, "--days", DAYS],
    ...["--event-bytes", EVENT_BYTES, "--no-late", "--no-gzip", "--live", "0"],
  );
}

function bareLoop({ url, apiKey, organizations }, start, pageSize) {
  return [BARE, url, apiKey, start, String(pageSize), organizations.map(({ id }) => id).join(",")];
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

function rowOf(name, counts, sizes, bareCounts, jsonSecondsPerEvent) {
  const { events, larger } = sizes;
  const [small, large] = [counts.get(events), counts.get(larger)];
  const slope = (large.cpuSeconds - small.cpuSeconds) / (larger - events);
  const perSecond = speedOf(counts, sizes);
  const speed =
    perSecond === undefined
      ? { "events/s": "too noisy", "MB/s": "", "of the bare loop": "" }
      : {
          "events/s": Math.round(perSecond),
          "MB/s": Math.round((perSecond * EVENT_BYTES) / 1e6),
          "of the bare loop": shareOf(perSecond, speedOf(bareCounts, sizes)),
        };
  return {
    job: name,
    ...speed,
    seconds: Number(large.seconds.toFixed(1)),
    "µs/event": Number((slope * 1e6).toFixed(1)),
    "of JSON": Number((slope / jsonSecondsPerEvent).toFixed(2)),
    [`RSS MB ${events}`]: Math.round(small.peakBytes / 1e6),
    [`RSS MB ${larger}`]: Math.round(large.peakBytes / 1e6),
  };
}

function shareOf(perSecond, bare) {
  return bare === undefined ? "" : Number((perSecond / bare).toFixed(2));
}

/** Undefined where the larger run took hardly longer than the smaller one: something else slowed that down. */
function speedOf(counts, { events, larger }) {
  const [small, large] = [counts.get(events).seconds, counts.get(larger).seconds];
  return large > 1.2 * small ? (larger - events) / (large - small) : undefined;
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

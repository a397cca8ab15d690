import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { newSignerText } from "../dist/src/archive/log/note.js";
import { benchArchive } from "./archive.js";
import { benchMachines, benchQuietCluster } from "./cluster.js";
import { startBrokerAlone, startDestinations } from "./components.js";
import { benchExport } from "./export.js";
import { benchFormats, simulatedEvents } from "./formats.js";
import { benchLatency } from "./latency.js";
import { benchBackfill, benchQuiet } from "./polling.js";

/**
 * `npm run bench` measures the default config within 20 minutes and writes bench/RESULTS.md;
 * `npm run bench -- --all` measures the whole matrix; `npm run bench -- core formats` only those parts.
 * Compare ratios inside one run, and processor time per event: machines are noisy. A part that fails, and a
 * component that is missing, is a line of its own in the results; the other parts go on. The exit code is 1 if a
 * part or a job failed, or the cluster missed a limit.
 * Sizes come from variables: BENCH_EVENTS, BENCH_ROUNDS, BENCH_BACKFILL, BENCH_ORGANIZATIONS,
 * BENCH_CLUSTER_ORGANIZATIONS, BENCH_CLUSTER_EVENTS.
 */
/** Of the smaller run of an export. In the first 100,000 events formats still learn. */
const events = Number(process.env.BENCH_EVENTS ?? 300_000);
const rounds = Number(process.env.BENCH_ROUNDS ?? 2);
const backfill = Number(process.env.BENCH_BACKFILL ?? 50_000);
const quietOrganizations = Number(process.env.BENCH_ORGANIZATIONS ?? 1000);
const clusterOrganizations = Number(process.env.BENCH_CLUSTER_ORGANIZATIONS ?? 10_000);
const clusterEvents = Number(process.env.BENCH_CLUSTER_EVENTS ?? 40_000);
const chosen = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
const isAll = process.argv.includes("--all");

const file = (more) => ({ name: "disk", type: "file", directory: "events", ...more });
const FILES = {
  raw: { name: "raw files", sink: file({}) },
  zstd: { name: "zstd files", sink: file({ compress: "zstd" }) },
  gzip: { name: "gzip files", sink: file({ compress: "gzip" }) },
  ocsf: { name: "OCSF files", sink: file({ format: "ocsf" }) },
  ocsfZstd: { name: "OCSF zstd files", sink: file({ format: "ocsf", compress: "zstd" }) },
};
/** Limits of the cluster: a quiet machine, and three machines against one where the API is what they wait for. */
const QUIET_PERCENT_MAX = 10;
const MACHINES_RATIO_MIN = 2.3;
/** Very many organizations have a file for each day: most of the time goes into making and syncing files. */
const MANY_ORGANIZATIONS = 3000;

/** Nothing rests, so `run --once` closes all days but the newest ones, which the service may still change. */
const ARCHIVE = {
  name: "archive",
  sink: {
    name: "evidence",
    type: "archive",
    origin: "example.com/bench",
    key: { env: "BENCH_ARCHIVE_KEY" },
    store: { directory: "archive" },
    settle: "0s",
  },
  env: { BENCH_ARCHIVE_KEY: newSignerText("example.com/bench") },
  // It takes several times as long as the others.
  rounds: 1,
};

const parts = {
  async core() {
    return [await exportTable({ organizations: 1, jobs: [FILES.raw, ARCHIVE] })];
  },
  async files() {
    return [
      await exportTable({ organizations: 1, jobs: [...Object.values(FILES), ARCHIVE] }),
      await exportTable({ organizations: 50, jobs: [FILES.raw, FILES.zstd, FILES.ocsf] }),
    ];
  },
  async many() {
    const few = { organizations: MANY_ORGANIZATIONS, size: Math.ceil(events / 20) };
    return [await exportTable({ ...few, jobs: [FILES.raw, FILES.zstd] })];
  },
  async latency() {
    const title = "Live pages, from their commit to the journal until they are in a file, during a backfill";
    return [{ title, rows: [await benchLatency(8 * events)] }];
  },
  async destinations() {
    const destinations = await startDestinations();
    try {
      const { jobs, missing } = remoteJobs(destinations);
      const table = await exportTable({ organizations: 1, jobs: [FILES.raw, ...jobs] });
      return [table, ...missing];
    } finally {
      await destinations.stop();
    }
  },
  async matrix() {
    if (!isAll && !chosen.includes("matrix")) return [];
    const tables = [];
    for (const organizations of [1, 50, 3000])
      for (const pageSize of [10_000, 1000])
        tables.push(await exportTable({ organizations, pageSize, jobs: Object.values(FILES) }));
    return tables;
  },
  /** Memory must not grow with the number of events. */
  async flat() {
    if (!isAll && !chosen.includes("flat")) return [];
    const jobs = [FILES.raw, FILES.ocsf, FILES.ocsfZstd];
    return [await exportTable({ organizations: 1, jobs, times: 10, turns: 1 })];
  },
  async archive() {
    const tables = [];
    const size = Math.ceil(events / 2);
    for (const organizations of [1, 300]) {
      const rows = await benchArchive({ events: size, organizations, rounds });
      tables.push({
        title: `Archive: ${size} events of ${organizations} organization(s) in ten days`,
        rows,
      });
    }
    return tables;
  },
  async formats() {
    const results = benchFormats(await simulatedEvents(10_000));
    const rows = Object.entries(results).map(([format, perSecond]) => ({
      format,
      "events/s a core": perSecond,
      "of JSON": Number((perSecond / results.json).toFixed(2)),
    }));
    return [{ title: "Formats on one core, beside JSON.parse and JSON.stringify", rows }];
  },
  async quiet() {
    return [{ title: "Quiet organizations, read in groups", rows: [await benchQuiet(quietOrganizations)] }];
  },
  async backfill() {
    const { rows, ratio } = await benchBackfill(backfill);
    const title = `Backfill of ${backfill} events over 90 days at 500 ms a request, 1,000 events a page: many requests at once are ${ratio} times as fast as one`;
    return [{ title, rows }];
  },
  async cluster() {
    if (!isAll && !chosen.includes("cluster")) return [];
    const { kafka, stop } = await startBrokerAlone();
    try {
      if (kafka === undefined) return [missingTable("The cluster", "There is no broker on this machine.")];
      return await clusterTables(kafka);
    } finally {
      await stop();
    }
  },
};

const results = [];
const startedMs = Date.now();
const minutes = () => ((Date.now() - startedMs) / 60_000).toFixed(1);
for (const [name, part] of Object.entries(parts)) {
  const isWanted = chosen.length > 0 ? chosen.includes(name) : name !== "core";
  if (!isWanted) continue;
  for (const table of await tablesOf(name, part)) {
    console.log(`\n${table.title}`);
    console.table(table.rows);
    results.push(table);
  }
  console.log(`${name} done after ${minutes()} minutes.`);
  // After every part: a run that is ended early leaves what it has measured.
  if (chosen.length === 0) writeFileSync(new URL("RESULTS.md", import.meta.url), resultsText(results));
}

/** The broker and the simulator run on the same processors as the machines. */
async function clusterTables(kafka) {
  const quiet = await benchQuietCluster(kafka, clusterOrganizations);
  const waiting = await benchMachines(kafka, clusterEvents, { pageSize: 200, concurrency: 1 });
  const working = await benchMachines(kafka, 3 * clusterEvents, { pageSize: 1000 });
  const three = ({ ratio }) => `three machines do ${ratio} times the work of one`;
  const share = Math.max(...quiet.map((row) => row["% of one core"]));
  requireLimit(share <= QUIET_PERCENT_MAX, `a quiet machine takes ${share}% of a core`, QUIET_PERCENT_MAX);
  requireLimit(waiting.ratio >= MACHINES_RATIO_MIN, three(waiting), MACHINES_RATIO_MIN);
  return [
    { title: `A quiet cluster of ${clusterOrganizations} organizations, 16 lanes`, rows: quiet },
    { title: `A cluster that waits for an API of 300 ms: ${three(waiting)}`, rows: waiting.rows },
    {
      title: `A cluster that uses all of this computer's processors: ${three(working)}`,
      rows: working.rows,
    },
  ];
}

function requireLimit(isMet, found, limit) {
  if (isMet) return;
  console.error(`A limit is missed: ${found}; the limit is ${limit}.`);
  process.exitCode = 1;
}

async function tablesOf(name, part) {
  try {
    return await part();
  } catch (error) {
    console.error(error);
    process.exitCode = 1;
    return [missingTable(`The part "${name}"`, error.message.split("\n")[0].slice(0, 300))];
  }
}

function missingTable(title, reason) {
  return { title: `${title} was not measured`, rows: [{ reason }] };
}

async function exportTable({
  organizations,
  pageSize = 10_000,
  jobs,
  size = events,
  times = 3,
  turns = rounds,
}) {
  const larger = times * size;
  const sizes = { events: size, larger };
  const { rows, failed } = await benchExport({ ...sizes, organizations, pageSize, rounds: turns, jobs });
  if (failed > 0) process.exitCode = 1;
  const title = `Export by \`run --once\`: ${organizations} organization(s), pages of ${pageSize}, ${size} and ${larger} events`;
  return { title, rows };
}

function remoteJobs({ bulk, kafka, s3 }) {
  const jobs = [{ name: "ECS bulk", sink: { name: "bulk", type: "opensearch", url: bulk } }];
  // Each run has a new state, so it needs a sink and a topic of its own.
  const broker = (name, format) => ({
    name,
    sink: () => {
      const topic = `bench-${randomUUID()}`;
      const createTopics = { partitions: 6, replication: 1 };
      return { name: topic, type: "kafka", brokers: [kafka], topic, createTopics, format };
    },
  });
  const missing = [];
  if (kafka === undefined) missing.push(missingTable("Kafka", "There is no broker on this machine."));
  else jobs.push(broker("Kafka raw", "raw"), broker("Kafka OCSF", "ocsf"));
  if (s3 === undefined) missing.push(missingTable("S3", "There is no S3 gateway on this machine."));
  else jobs.push(...(isAll ? [s3Job(s3, "gzip")] : []), s3Job(s3, "zstd"));
  return { jobs, missing };
}

function s3Job({ url, bucket, accessKey, secretKey }, compress) {
  const place = { bucket, region: "us-east-1", endpoint: url, pathStyle: true };
  return {
    name: `S3 ${compress}`,
    sink: () => ({ name: "lake", type: "s3", ...place, prefix: `${randomUUID()}/`, compress }),
    env: { AWS_ACCESS_KEY_ID: accessKey, AWS_SECRET_ACCESS_KEY: secretKey },
  };
}

function resultsText(tables) {
  const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
  const [{ model }] = cpus();
  const machine = `${cpus().length} × ${model}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`;
  const head = `# Results of \`npm run bench\`\n\nCommit ${commit}; ${machine}. Events of about 1 KB, the default config. Speed and processor time per event are the slopes between the two sizes, so start-up does not count; "seconds" is the whole larger run, with start-up. Processor time is that of all threads, and "of JSON" is its ratio to JSON.parse and JSON.stringify of the same events. The whole run took ${minutes()} minutes.\n`;
  return `${head}${tables.map(({ title, rows }) => `\n## ${title}\n\n${markdownOf(rows)}\n`).join("")}`;
}

function markdownOf(rows) {
  const names = Object.keys(rows[0]);
  const lines = rows.map((row) => names.map((name) => row[name] ?? ""));
  const row = (cells) => `| ${cells.map((cell) => String(cell).replaceAll("|", "\\|")).join(" | ")} |`;
  return [names, names.map(() => "---"), ...lines].map(row).join("\n");
}

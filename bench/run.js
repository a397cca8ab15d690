import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { newSignerText } from "../dist/src/archive/log/note.js";
import { benchArchive } from "./archive.js";
import { startDestinations } from "./components.js";
import { benchExport } from "./export.js";
import { benchFormats, printFormats, simulatedEvents } from "./formats.js";
import { benchBackfill, benchQuiet } from "./polling.js";

/**
 * `npm run bench` measures the default config within 20 minutes and writes bench/RESULTS.md;
 * `npm run bench -- --all` measures the whole matrix; `npm run bench -- core formats` only those parts.
 * Compare ratios inside one run, and processor time per event: machines are noisy.
 * Sizes come from variables: BENCH_EVENTS, BENCH_ROUNDS, BENCH_BACKFILL, BENCH_ORGANIZATIONS.
 */
const events = Number(process.env.BENCH_EVENTS ?? 200_000);
const rounds = Number(process.env.BENCH_ROUNDS ?? 2);
const backfill = Number(process.env.BENCH_BACKFILL ?? 50_000);
const quietOrganizations = Number(process.env.BENCH_ORGANIZATIONS ?? 1000);
const chosen = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
const isAll = process.argv.includes("--all");

const file = (more) => ({ name: "disk", type: "file", directory: "events", ...more });
const FILES = {
  raw: { name: "raw files", sink: file({}) },
  zstd: { name: "zstd files", sink: file({ compress: "zstd" }) },
  gzip: { name: "gzip files", sink: file({ gzip: true }) },
  ocsf: { name: "OCSF files", sink: file({ format: "ocsf" }) },
};

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
  async destinations() {
    const destinations = await startDestinations();
    try {
      return [await exportTable({ organizations: 1, jobs: [FILES.raw, ...remoteJobs(destinations)] })];
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
  async archive() {
    const tables = [];
    for (const organizations of [1, 300]) {
      const rows = await benchArchive({ events, organizations, rounds });
      tables.push({
        title: `Archive: ${events} events of ${organizations} organization(s) in ten days`,
        rows,
      });
    }
    return tables;
  },
  async formats() {
    console.log("\nFormats, on one core, beside JSON.parse and JSON.stringify");
    printFormats(benchFormats(await simulatedEvents(10_000)));
    return [];
  },
  async quiet() {
    return [{ title: "Quiet organizations, read in groups", rows: [await benchQuiet(quietOrganizations)] }];
  },
  async backfill() {
    const { rows, ratio } = await benchBackfill(backfill);
    const title = `Backfill of ${backfill} events over 90 days at 500 ms a request, 1,000 events a page: many requests at once are ${ratio} times as fast as one`;
    return [{ title, rows }];
  },
};

const results = [];
for (const [name, part] of Object.entries(parts)) {
  const isWanted = chosen.length > 0 ? chosen.includes(name) : name !== "core";
  if (!isWanted) continue;
  for (const table of await part()) {
    console.log(`\n${table.title}`);
    console.table(table.rows);
    results.push(table);
  }
}
if (chosen.length === 0) writeFileSync(new URL("RESULTS.md", import.meta.url), resultsText(results));

async function exportTable({ organizations, pageSize = 10_000, jobs }) {
  const rows = await benchExport({ events, organizations, pageSize, rounds, jobs });
  const title = `Export by \`run --once\`: ${organizations} organization(s), pages of ${pageSize}, ${events} and ${3 * events} events`;
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
  if (kafka === undefined) console.log("SKIPPED: there is no Kafka broker.");
  else jobs.push(broker("Kafka raw", "raw"), broker("Kafka OCSF", "ocsf"));
  if (s3 === undefined) console.log("SKIPPED: there is no S3 gateway.");
  else jobs.push(s3Job(s3));
  return jobs;
}

function s3Job({ url, bucket, accessKey, secretKey }) {
  return {
    name: "S3",
    sink: { name: "lake", type: "s3", bucket, region: "us-east-1", endpoint: url, pathStyle: true },
    env: { AWS_ACCESS_KEY_ID: accessKey, AWS_SECRET_ACCESS_KEY: secretKey },
  };
}

function resultsText(tables) {
  const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
  const [{ model }] = cpus();
  const machine = `${cpus().length} × ${model}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`;
  const head = `# Results of \`npm run bench\`\n\nCommit ${commit}; ${machine}. Events of about 1 KB, the default config. Processor time per event is the slope between the two sizes, and "of JSON" is its ratio to JSON.parse and JSON.stringify of the same events.\n`;
  return `${head}${tables.map(({ title, rows }) => `\n## ${title}\n\n${markdownOf(rows)}\n`).join("")}`;
}

function markdownOf(rows) {
  const names = Object.keys(rows[0]);
  const lines = rows.map((row) => names.map((name) => row[name]));
  return [names, names.map(() => "---"), ...lines].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

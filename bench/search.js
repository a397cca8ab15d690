// Search against DuckDB called directly on the same index files:
//   node bench/search.js FOLDER [EVENTS] [DAYS] [ORGANIZATIONS]        after `npm run build`; prints one JSON line
// Each figure also goes to stderr as soon as it is known.
// The archive is made in FOLDER by bench/search-archive.js and stays there; so does the index.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { DuckDBInstance } from "@duckdb/node-api";
import { openStoreSearch } from "../dist/src/app/search.js";
import { findQueryOf } from "../dist/src/search/engine/search.js";
import { countRows, topValues } from "../dist/src/search/find/counts.js";
import { makeArchive } from "./search-archive.js";

const [folder, events = "1000000", days = "400", organizations = "50"] = process.argv.slice(2);
const place = await makeArchive(folder, {
  events: Number(events),
  days: Number(days),
  organizations: Number(organizations),
});
const signal = new AbortController().signal;
const cache = join(folder, "cache");
const { search, close } = await openStoreSearch(place, cache);
const ns = (day) => BigInt(Date.parse(day)) * 1_000_000n;
const week = { fromNs: ns("2025-06-02"), toNs: ns("2025-06-09") };
const month = { fromNs: ns("2025-06-01"), toNs: ns("2025-07-01") };

const indexing = await measured("indexing", () => search.sync(signal), 1);
const { parts } = await search.sync(signal);
const files = parts.map(({ path }) => `'${path}'`).join(", ");
const bare = await (await DuckDBInstance.create(":memory:", { threads: "1" })).connect();
const [[user]] = (
  await bare.runAndReadAll(
    `SELECT actor FROM read_parquet([${files}]) WHERE actor IS NOT NULL GROUP BY 1 ORDER BY count(*) DESC LIMIT 1`,
  )
).getRows();

const lookup = await measured("look-up by user and week", () =>
  collect(search.find(findQueryOf({ users: [user], ...week }), signal)),
);
const bareLookup = await measured("the same with DuckDB alone", () =>
  bare.runAndReadAll(
    `SELECT * FROM read_parquet([${files}]) WHERE actor = '${user.replaceAll("'", "''")}' AND time_ns >= ${week.fromNs} AND time_ns < ${week.toNs} ORDER BY time_ns`,
  ),
);
const byType = await measured("count by event type", () =>
  search.query(signal, (connection, snapshot) =>
    topValues(connection, snapshot, findQueryOf({}), "event_type", 1000),
  ),
);
const bareByType = await measured("the same with DuckDB alone", () =>
  bare.runAndReadAll(`SELECT event_type, count(*) FROM read_parquet([${files}]) GROUP BY 1 ORDER BY 2 DESC`),
);
const text = await measured(
  "text over a month",
  () => collect(search.find(findQueryOf({ text: "a needle nowhere", ...month }), signal)),
  1,
);
const total = await search.query(signal, (connection, snapshot) =>
  countRows(connection, snapshot, findQueryOf({})),
);
let paged = 0;
const seen = new Set();
const paging = await measured(
  "paging through all",
  async () => {
    for (let after = null; ; ) {
      const page = await collect(search.find({ ...findQueryOf({}), after, limit: 10_000 }, signal));
      for (const { identity, bytesHash } of page) seen.add(identity + bytesHash);
      paged += page.length;
      if (page.length < 10_000) return;
      after = page.at(-1);
    }
  },
  1,
);
if (paged !== total || seen.size !== total)
  throw new Error(`Paging saw ${paged} events, ${seen.size} different, of ${total}.`);
process.stdout.write(
  `${JSON.stringify({
    events: total,
    indexFiles: readdirSync(cache, { recursive: true }).filter((name) => String(name).endsWith(".parquet"))
      .length,
    indexing,
    lookupByUserAndWeek: { ...lookup, ratioToDuckDb: ratio(lookup, bareLookup) },
    countByEventType: { ...byType, ratioToDuckDb: ratio(byType, bareByType) },
    textOverMonth: text,
    pagingThroughAll: paging,
    peakRssBytes: process.resourceUsage().maxRSS * 1024,
  })}\n`,
);
await close();

async function collect(found) {
  const hits = [];
  for await (const some of found) hits.push(...some);
  return hits;
}

/** The fastest of several: other work on the machine only makes it slower. */
async function measured(name, work, times = 5) {
  let best = { ms: Number.POSITIVE_INFINITY, cpuMs: 0 };
  for (let at = 0; at < times; at++) {
    const [start, cpu] = [performance.now(), process.cpuUsage()];
    await work();
    const ms = performance.now() - start;
    const { user, system } = process.cpuUsage(cpu);
    if (ms < best.ms) best = { ms: Math.round(ms), cpuMs: Math.round((user + system) / 1000) };
  }
  process.stderr.write(`${name}: ${best.ms} ms, ${best.cpuMs} ms of processor time\n`);
  return best;
}

function ratio(own, other) {
  return Number((own.cpuMs / Math.max(1, other.cpuMs)).toFixed(2));
}

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
import { createSearchService } from "../dist/src/search/service/service.js";
import { makeArchive } from "./search-archive.js";

const [folder, events = "1000000", days = "400", organizations = "50"] = process.argv.slice(2);
const place = await makeArchive(folder, {
  events: Number(events),
  days: Number(days),
  organizations: Number(organizations),
});
const PAGE = 10_000;
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
const dataFiles = (await search.sync(signal)).snapshot.parts
  .filter(({ day }) => day >= "2025-06-01" && day < "2025-07-01")
  .map(({ data }) => `'${join(place, data)}'`)
  .join(", ");
const text = {};
for (const [name, wanted] of [
  ["nowhere", "a needle nowhere"],
  ["in some events", "users without mfa"],
]) {
  let found = 0;
  const own = await measured(
    `text over a month, ${name}`,
    async () => {
      found = (await collect(search.find(findQueryOf({ text: wanted, ...month }), signal))).length;
    },
    2,
  );
  const other = await measured(
    "the same with DuckDB alone over the data files",
    () =>
      bare.runAndReadAll(
        `SELECT line FROM read_csv([${dataFiles}], columns = {'line': 'VARCHAR'}, auto_detect = false, delim = '\x01', quote = '', escape = '', header = false, compression = 'zstd', max_line_size = 16000000) WHERE contains(lower(line), '${wanted}')`,
      ),
    1,
  );
  text[name] = { ...own, found, ratioToDuckDb: ratio(own, other) };
}
const total = await search.query(signal, (connection, snapshot) =>
  countRows(connection, snapshot, findQueryOf({})),
);
const paging = await measured("paging through all", pageThroughAll, 1);
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

/** By search_after of the Insights interface. The events' ids are numbers, and each must come exactly once. */
async function pageThroughAll() {
  const service = createSearchService({ search, scanMax: 0, cursorSecret: "bench", nowMs: Date.now });
  const { body } = await service.answer({ kind: "owners" }, signal);
  const owners = JSON.parse(body.toString());
  const seen = new Uint8Array(total);
  let count = 0;
  let search_after;
  for (;;) {
    const question = { service: ["all"], start_time: "2025-01-01T00:00:00Z", limit: PAGE, search_after };
    const answer = await service.answer(
      { kind: "insights", operation: "page", owners, body: question },
      signal,
    );
    if (answer.status !== 200) throw new Error(answer.body.toString());
    for (const [, id] of answer.body.toString("latin1").matchAll(/"id":"0{16}([0-9a-f]{8})"/g))
      seen[Number.parseInt(id, 16)]++;
    count += answer.events;
    if (answer.events < PAGE) break;
    search_after = JSON.parse(answer.headers["X-Search_after"]);
    if (count % 1_000_000 === 0) process.stderr.write(`paging: ${count} events\n`);
  }
  if (count !== total || !seen.every((times) => times === 1))
    throw new Error(`Paging saw ${count} of ${total} events, or one of them not exactly once.`);
}

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

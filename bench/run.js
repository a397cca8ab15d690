import { benchCore } from "./core.js";
import { benchFormats, printFormats, simulatedEvents } from "./formats.js";
import { benchKafka, printKafka, withBroker } from "./kafka.js";
import { benchBackfill, benchQuiet } from "./polling.js";

/**
 * Figures are ratios inside one run: machines are noisy. `npm run bench -- core formats` runs only those.
 * The sizes come from variables: a tenth and a multiple of BENCH_EVENTS show that memory does not grow with the
 * events, BENCH_BACKFILL=1000000 and BENCH_ORGANIZATIONS=10000 are the long campaigns.
 */
const events = Number(process.env.BENCH_EVENTS ?? 1_000_000);
const backfill = Number(process.env.BENCH_BACKFILL ?? 50_000);
const organizations = Number(process.env.BENCH_ORGANIZATIONS ?? 1000);
const parts = {
  async core() {
    console.log(
      `\nExport of ${events} events by \`run --once\`, beside a bare loop that throws the pages away`,
    );
    console.table(await benchCore(events, ["raw files"], 3));
    console.table(await benchCore(Math.ceil(events / 5), ["gzip files", "OCSF files", "bulk receiver"]));
  },
  async formats() {
    console.log("\nFormats, on one core, beside JSON.parse and JSON.stringify");
    printFormats(benchFormats(await simulatedEvents(10_000)));
  },
  async kafka() {
    console.log("\nKafka: a bare producer in transactions, and the sink");
    const kafkaEvents = await simulatedEvents(50_000);
    const results = await withBroker((brokers) => benchKafka({ brokers, events: kafkaEvents }));
    if (results === undefined) console.log("SKIPPED: there is no broker; KAFKA_BROKERS names one.");
    else printKafka(results);
  },
  async quiet() {
    console.log("\nQuiet organizations, read in groups");
    console.table([await benchQuiet(organizations)]);
  },
  async backfill() {
    console.log(`\nBackfill of ${backfill} events over 90 days at 500 ms a request, 1,000 events a page`);
    const { rows, ratio } = await benchBackfill(backfill);
    console.table(rows);
    console.log(`many requests at once are ${ratio} times as fast as one at a time`);
  },
};

const chosen = process.argv.slice(2);
for (const [name, part] of Object.entries(parts)) {
  if (chosen.length === 0 || chosen.includes(name)) await part();
}

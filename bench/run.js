import { benchCore } from "./core.js";
import { benchFormats, printFormats, simulatedEvents } from "./formats.js";

/**
 * Figures are ratios inside one run: machines are noisy. `npm run bench -- core formats` runs only those;
 * BENCH_EVENTS sets the number of events of the export (1,000,000 shows that memory does not grow).
 */
const events = Number(process.env.BENCH_EVENTS ?? 300_000);
const chosen = process.argv.slice(2);
const parts = {
  async core() {
    console.log(
      `\nExport of ${events} events by \`run --once\`, beside a bare loop that throws the pages away`,
    );
    console.table(await benchCore(events));
  },
  async formats() {
    console.log("\nFormats, on one core");
    printFormats(benchFormats(await simulatedEvents(10_000)));
  },
};

for (const [name, part] of Object.entries(parts)) {
  if (chosen.length === 0 || chosen.includes(name)) await part();
}

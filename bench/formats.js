// Events per second and core, for each format, for parsing alone, and for drift.
// `npm run build`, then `node bench/formats.js`.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { FIELD, fieldText, scanPage } from "../dist/core/scanner.js";
import { formats } from "../dist/formats/index.js";
import { createDrift } from "../dist/services/drift.js";
import { describe } from "../dist/services/index.js";

const ROUNDS = 5;
const decoder = new TextDecoder();

/**
 * @param {readonly import("../src/core/event.ts").JournalEvent[]} events
 * @returns {Record<string, number>} events per second of one core; `json` is JSON.parse and JSON.stringify.
 */
export function benchFormats(events) {
  const drift = createDrift();
  const contenders = {
    json: (event) => JSON.stringify(JSON.parse(decoder.decode(event.bytes))),
    describe: (event) => describe(event),
    drift: (event) => drift.observe(event),
  };
  for (const definition of formats) {
    const format = definition.create(definition.options.parse({}), { describe });
    contenders[definition.name] = (event) => format.encode(event);
  }
  const results = Object.fromEntries(Object.keys(contenders).map((name) => [name, 0]));
  // In turns, the best of each: a busy moment then costs one round of one contender.
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, run] of Object.entries(contenders)) {
      const started = process.hrtime.bigint();
      for (const event of events) run(event);
      const seconds = Number(process.hrtime.bigint() - started) / 1e9;
      results[name] = Math.max(results[name], Math.round(events.length / seconds));
    }
  }
  return results;
}

/** Prints a table of what `benchFormats` gives. */
export function printFormats(results) {
  for (const [name, perSecond] of Object.entries(results)) {
    const share = (perSecond / results.json).toFixed(2);
    console.log(`${name.padEnd(10)} ${String(perSecond).padStart(10)} events/s a core   ${share} of json`);
  }
}

/** The inputs of the tests' fixtures, over and over: every service, in the sizes that events have. */
export function fixtureEvents(count) {
  const folder = fileURLToPath(new URL("../test/fixtures/services", import.meta.url));
  const inputs = readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith(".in.json"))
    .map((name) => JSON.stringify(JSON.parse(readFileSync(join(folder, name), "utf8"))));
  const page = scanPage(Buffer.from(`[${inputs.join(",")}]`));
  return Array.from({ length: count }, (_, at) => {
    const index = at % page.count;
    return {
      bytes: Buffer.from(inputs[index]),
      account: "bench",
      organization: fieldText(page, index, FIELD.organization) ?? null,
      provider: null,
      service: fieldText(page, index, FIELD.service) ?? "",
      eventType: fieldText(page, index, FIELD.eventType) ?? "",
      timestamp: fieldText(page, index, FIELD.timestamp) ?? "",
      timestampMs: 1_700_000_000_000 + at,
      id: fieldText(page, index, FIELD.id),
      correlationId: undefined,
      identity: at.toString(16).padStart(32, "0"),
      fetchedAtMs: 1_700_000_000_000 + at,
      page: 1,
      index: at,
    };
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) printFormats(benchFormats(fixtureEvents(20_000)));

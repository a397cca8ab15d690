// Events per second and core, for each format, for parsing alone, and for scanning with drift.
// `npm run build`, then `node bench/formats.js`.
import { fileURLToPath } from "node:url";
import { startSimulator } from "../dist/simulator/index.js";
import { eventBytes, eventTimeMs, FIELD, fieldText, scanPage } from "../dist/src/core/scanner.js";
import { formats } from "../dist/src/formats/index.js";
import { lostClass } from "../dist/src/formats/ocsf.js";
import { createDrift } from "../dist/src/services/count-drift.js";
import { describe } from "../dist/src/services/index.js";
import { reads } from "../dist/src/services/read/read-paths.js";

const ROUNDS = 40;
const BATCH = 1000;
const decoder = new TextDecoder();

/**
 * @param {readonly import("../src/core/event.ts").JournalEvent[]} events
 * @returns {Record<string, number>} events per second of one core; `json` is JSON.parse and JSON.stringify.
 */
export function benchFormats(events) {
  const drift = createDrift(undefined, lostClass);
  const contenders = {
    json: (event) => JSON.stringify(JSON.parse(decoder.decode(event.bytes))),
    describe: (event) => describe(event),
    "scan and drift": (event) => drift.observe(event),
  };
  for (const definition of formats) {
    const converter = definition.create(definition.options.parse({}), { describe });
    contenders[definition.name] = (event) => converter.encode(event);
    if (definition.name !== "ocsf" && definition.name !== "ecs") continue;
    // As a running exporter has it, with the recipes that it learned from these events.
    const withRecipes = definition.create(definition.options.parse({}), { describe, reads });
    for (let time = 0; time < 2; time++) for (const event of events) withRecipes.encode(event);
    contenders[`${definition.name} by recipes`] = (event) => withRecipes.encode(event);
  }
  for (const event of events) drift.observe(event);
  const results = Object.fromEntries(Object.keys(contenders).map((name) => [name, 0]));
  // In turns and in short batches, the best of each: what else runs on the machine then disturbs a few of them.
  for (let round = 0; round < ROUNDS; round++) {
    const from = (round * BATCH) % Math.max(1, events.length - BATCH);
    const batch = events.slice(from, from + BATCH);
    for (const [name, run] of Object.entries(contenders)) {
      const started = process.hrtime.bigint();
      for (const event of batch) run(event);
      const seconds = Number(process.hrtime.bigint() - started) / 1e9;
      results[name] = Math.max(results[name], Math.round(batch.length / seconds));
    }
  }
  return results;
}

/** Prints a table of what `benchFormats` gives. */
export function printFormats(results) {
  for (const [name, perSecond] of Object.entries(results)) {
    const share = (perSecond / results.json).toFixed(2);
    console.log(`${name.padEnd(16)} ${String(perSecond).padStart(10)} events/s a core   ${share} of json`);
  }
}

/**
 * Events of the simulator, as the journal hands them out.
 * @param {number} count
 */
export async function simulatedEvents(count) {
  const simulator = await startSimulator({ events: count, seed: 1, clock: { speed: 0 } });
  try {
    return [...simulator.control.allEvents({ pending: true })].map((bytes, index) => {
      const page = scanPage(Buffer.concat([Buffer.from("["), bytes, Buffer.from("]")]));
      const timestampMs = eventTimeMs(page, 0) ?? 0;
      return {
        bytes: eventBytes(page, 0),
        account: "bench",
        organization: fieldText(page, 0, FIELD.organization) ?? null,
        provider: null,
        service: fieldText(page, 0, FIELD.service) ?? "",
        eventType: fieldText(page, 0, FIELD.eventType) ?? "",
        timestamp: fieldText(page, 0, FIELD.timestamp) ?? "",
        timestampMs,
        id: fieldText(page, 0, FIELD.id),
        correlationId: fieldText(page, 0, FIELD.correlationId),
        identity: index.toString(16).padStart(32, "0"),
        fetchedAtMs: timestampMs,
        page: 1,
        index,
      };
    });
  } finally {
    await simulator.close();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  printFormats(benchFormats(await simulatedEvents(10_000)));

// A process that delivers a fixed sequence of events through the Kafka sink, as delivery does it, to be
// killed at any moment: node kafka-driver.js SETTINGS, with { config, name, events, batchEventsMax, committed }.
// `committed` is a file in the journal's place: the position as it was last committed here.
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "../../dist/src/core/clock.js";
import { silentLog } from "../../dist/src/core/log.js";
import { kafka } from "../../dist/src/sinks/kafka/sink.js";

const settings = JSON.parse(process.argv[2]);
const JOURNAL = "0b5e7a52-9c1d-4a6e-8f30-1d2c3b4a5f60";
const signal = new AbortController().signal;

function positionAt(number) {
  return { journal: JOURNAL, page: number, event: 0, hash: number.toString(16) };
}

function recordAt(number) {
  const organization = `org-${number % 7}`;
  const body = Buffer.from(JSON.stringify({ number, organization, text: "x".repeat(number % 500) }));
  const event = {
    bytes: body,
    account: "acme",
    organization,
    provider: null,
    service: "directory",
    eventType: "user_update",
    timestamp: "2026-03-14T15:09:26Z",
    timestampMs: Date.parse("2026-03-14T15:09:26Z"),
    id: String(number),
    correlationId: undefined,
    identity: number.toString(16).padStart(32, "0"),
    fetchedAtMs: 0,
    page: number,
    index: 0,
  };
  return { event, body, size: body.length };
}

function committed() {
  return existsSync(settings.committed) ? Number(readFileSync(settings.committed, "utf8")) : 0;
}

function commit(number) {
  writeFileSync(`${settings.committed}.new`, String(number));
  renameSync(`${settings.committed}.new`, settings.committed);
}

/** The destination's position wins over the committed one, which may be one batch behind. */
async function open() {
  const sink = await kafka.open({
    name: settings.name,
    config: kafka.config.parse(settings.config),
    format: { name: "raw", mediaType: "application/json", encode: (event) => event.bytes },
    journal: JOURNAL,
    position: positionAt(committed()),
    state: undefined,
    clock: systemClock,
    log: silentLog,
    signal,
  });
  return { sink, next: sink.position ? sink.position.page : committed() };
}

async function deliver() {
  let { sink, next } = await open();
  console.log(`opened ${next}`);
  if (next < committed()) throw new Error(`the destination is behind: ${next}, committed ${committed()}`);
  try {
    while (next < settings.events) {
      const count = 1 + Math.floor(Math.random() * settings.batchEventsMax);
      const to = Math.min(next + count, settings.events);
      const records = Array.from({ length: to - next }, (_, at) => recordAt(next + at));
      await sink.write({ records, from: positionAt(next), to: positionAt(to) }, signal);
      commit(to);
      next = to;
      console.log(`wrote ${next}`);
    }
  } finally {
    await sink.close();
  }
}

for (;;) {
  try {
    await deliver();
    break;
  } catch (error) {
    if (error.name !== "RetryableError") throw error;
    console.log("again");
    await sleep(100);
  }
}
console.log("finished");
process.exit(0);

/**
 * Feeds the built file sink as delivery does: writes a batch, then commits position and state in SQLite.
 * The events follow from their numbers. Prints a line after every commit. Runs until it is killed, or until event number `until`.
 *
 *     node file-driver.js DIRECTORY DATABASE UNTIL SETTINGS ORGANIZATIONS [EVENTS-PER-BATCH]
 */

import { systemClock } from "../../dist/src/core/clock.js";
import { silentLog } from "../../dist/src/core/log.js";
import { Sqlite } from "../../dist/src/core/sqlite.js";
import { file } from "../../dist/src/sinks/file/sink.js";

const [directory, database, until, settings, organizations, perBatch = "60"] = process.argv.slice(2);
const JOURNAL = "0b5e7a52-9c1d-4a6e-8f30-1d2c3b4a5f60";
const db = new Sqlite(database);
db.pragma("journal_mode = WAL");
db.pragma("synchronous = FULL");
db.exec(
  "CREATE TABLE IF NOT EXISTS reader (id INTEGER PRIMARY KEY CHECK (id = 1), event INTEGER, state TEXT)",
);

const at = (event) => ({ journal: JOURNAL, page: event, event: 0, hash: "ab" });
const row = db.prepare("SELECT event, state FROM reader").get();
const commit = db.prepare("INSERT OR REPLACE INTO reader VALUES (1, ?, ?)");

const sink = await file.open({
  name: "disk",
  config: file.config.parse({
    directory,
    path: "{organization}",
    rotateSize: "20KB",
    ...JSON.parse(settings),
  }),
  format: { name: "raw", mediaType: "application/json" },
  journal: JOURNAL,
  position: at(row?.event ?? 0),
  state: row === undefined ? undefined : JSON.parse(row.state),
  clock: systemClock,
  log: silentLog,
  signal: new AbortController().signal,
});
const signal = new AbortController().signal;
for (let next = sink.position?.page ?? row?.event ?? 0; next < Number(until); ) {
  const count = Math.min(1 + Math.floor(Math.random() * Number(perBatch)), Number(until) - next);
  const records = Array.from({ length: count }, (_, index) => recordOf(next + index));
  const state = await sink.write({ records, from: at(next), to: at(next + count) }, signal);
  next += count;
  commit.run(next, JSON.stringify(state));
  process.stdout.write("committed\n");
}
await sink.close();
db.close();

function recordOf(number) {
  const body = Buffer.from(JSON.stringify({ number, padding: "é".repeat((number * 37) % 400) }));
  const event = {
    bytes: body,
    account: "a",
    organization: `org${number % Number(organizations)}`,
    timestampMs: 1.7e12,
  };
  return { event: { ...event, provider: null, service: "sso", eventType: "login" }, body, size: body.length };
}

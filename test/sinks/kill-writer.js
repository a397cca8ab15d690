/**
 * A writer for the kill campaigns: delivers the events of a file through one sink, batch by batch, with a
 * durable position, and expects to be killed at any moment. Batches have random sizes, so that one formed
 * anew after a kill differs from the one before, unless the sink wants its bounds first (R19).
 *
 *   node kill-writer.js SETTINGS.json      { module, name, config, secrets, events, state }
 *
 * Prints a line when it begins a batch. Ends with 0 when everything is delivered.
 */
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "../../dist/src/core/clock.js";
import { silentLog } from "../../dist/src/core/log.js";
import { Secret } from "../../dist/src/core/secret.js";

const settings = JSON.parse(readFileSync(process.argv[2], "utf8"));
const { [settings.name]: definition } = await import(settings.module);

const events = readFileSync(settings.events, "utf8")
  .trimEnd()
  .split("\n")
  .map((line) => {
    const event = JSON.parse(line);
    return { ...event, bytes: Buffer.from(event.text) };
  });
const config = definition.config.parse(settings.config);
resolveSecrets(config);

let state = existsSync(settings.state) ? JSON.parse(readFileSync(settings.state, "utf8")) : { done: 0 };
let sink;
while (state.done < events.length) {
  const end = state.end ?? Math.min(state.done + 20 + Math.floor(Math.random() * 180), events.length);
  if (definition.boundsFirst && state.end === undefined) save({ done: state.done, end });
  try {
    sink ??= await open();
    const batch = batchOf(state.done, end);
    writeSync(1, `batch ${state.done} ${end}\n`);
    await sink.write(batch, new AbortController().signal);
    save({ done: end });
  } catch (error) {
    if (error.name !== "RetryableError" && error.name !== "PausedError") throw error;
    writeSync(2, `${error.message}\n`);
    await sink?.close();
    sink = undefined;
    await sleep(100);
  }
}
await sink?.close();

function open() {
  const position = positionAt(state.done);
  return definition.open({
    name: "campaign",
    config,
    format: { name: "raw", mediaType: "application/json", encode: (event) => event.bytes },
    journal: settings.journal,
    position,
    state: undefined,
    clock: systemClock,
    log: silentLog,
    signal: new AbortController().signal,
  });
}

function batchOf(start, end) {
  const records = events.slice(start, end).map((event) => {
    const body = sink.encode ? sink.encode(event) : event.bytes;
    // A copy: the next event may overwrite the memory of this one.
    const bytes = Buffer.from(body);
    return { event, body: bytes, size: bytes.length };
  });
  return { records, from: positionAt(start), to: positionAt(end) };
}

/** One page holds a hundred events. */
function positionAt(number) {
  return { journal: settings.journal, page: 1 + Math.floor(number / 100), event: number % 100, hash: "ab" };
}

/** All or nothing, whenever this process ends. */
function save(next) {
  const temporary = `${settings.state}.tmp`;
  const file = openSync(temporary, "w");
  writeSync(file, JSON.stringify(next));
  fsyncSync(file);
  closeSync(file);
  renameSync(temporary, settings.state);
  state = next;
}

function resolveSecrets(value) {
  if (value instanceof Secret) value.resolve(settings.secrets[value.source.env]);
  else if (typeof value === "object" && value !== null) Object.values(value).forEach(resolveSecrets);
}

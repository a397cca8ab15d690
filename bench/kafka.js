// Draining events to a real Kafka broker through the sink, as raw and as OCSF, beside a bare kafkajs loop.
// `npm run build`, then `node bench/kafka.js [EVENTS]`. KAFKA_BROKERS uses an existing broker; else the one
// that the tests have fetched (TIDEMARK_REQUIRE=kafka npm test) is started.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import kafkajs from "kafkajs";
import { systemClock } from "../dist/src/core/clock.js";
import { silentLog } from "../dist/src/core/log.js";
import { formats } from "../dist/src/formats/index.js";
import { describe } from "../dist/src/services/index.js";
import { kafka } from "../dist/src/sinks/kafka/sink.js";
import { simulatedEvents } from "./formats.js";

const JOURNAL = "be4c0000-0000-4000-8000-000000000000";
const signal = new AbortController().signal;

/**
 * Encoding is part of the drain, as it is of delivery. `ratio` is to the bare loop: raw bodies made
 * beforehand, sent by kafkajs in transactions of the same size, with no position and no headers.
 *
 * @param {{ brokers: string, events: readonly import("../src/core/event.ts").JournalEvent[], batchEvents?: number }} options
 * @returns {Promise<Record<string, { eventsPerSecond: number, rssMb: number, ratio: number }>>}
 */
export async function benchKafka({ brokers, events, batchEvents = 10_000 }) {
  const results = {};
  // The first one also warms the broker up and is not counted.
  for (const name of ["warm-up", "bare", "raw", "ocsf"]) {
    const part = name === "warm-up" ? events.slice(0, batchEvents) : events;
    const drain =
      name === "bare" ? bareLoop : (options) => drainAs(name === "warm-up" ? "raw" : name, options);
    const seconds = await drain({ brokers, events: part, batchEvents });
    const rssMb = Math.round(process.memoryUsage.rss() / 1e6);
    if (name !== "warm-up") results[name] = { eventsPerSecond: Math.round(part.length / seconds), rssMb };
  }
  for (const result of Object.values(results)) {
    result.ratio = Number((result.eventsPerSecond / results.bare.eventsPerSecond).toFixed(2));
  }
  return results;
}

async function drainAs(formatName, { brokers, events, batchEvents }) {
  const name = `bench-${randomBytes(4).toString("hex")}`;
  const definition = formats.find((format) => format.name === formatName);
  const format = definition.create(definition.options.parse({}), { describe });
  const sink = await kafka.open({
    name,
    config: kafka.config.parse({
      brokers: brokers.split(","),
      topic: name,
      positionsTopic: `${name}-positions`,
      createTopics: { partitions: 6, replication: 1 },
      batchBytesMax: "64MB",
    }),
    format,
    journal: JOURNAL,
    position: positionAt(0),
    state: undefined,
    clock: systemClock,
    log: silentLog,
    signal,
  });
  try {
    return await timed(events, batchEvents, async (batch, at) => {
      const records = batch.map((event) => {
        const body = format.encode(event);
        return { event, body: typeof body === "string" ? Buffer.from(body) : body };
      });
      await sink.write({ records, from: positionAt(at), to: positionAt(at + batch.length) }, signal);
    });
  } finally {
    await sink.close();
  }
}

async function bareLoop({ brokers, events, batchEvents }) {
  const topic = `bench-${randomBytes(4).toString("hex")}`;
  const client = new kafkajs.Kafka({
    brokers: brokers.split(","),
    logLevel: kafkajs.logLevel.NOTHING,
    retry: { initialRetryTime: 10, retries: 20 },
  });
  const admin = client.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 6, replicationFactor: 1 }] });
  await admin.disconnect();
  const producer = client.producer({ transactionalId: topic, maxInFlightRequests: 1 });
  await producer.connect();
  try {
    return await timed(events, batchEvents, async (batch) => {
      const transaction = await producer.transaction();
      for (let at = 0; at < batch.length; at += 1_000) {
        const part = batch.slice(at, at + 1_000);
        const messages = part.map(({ organization: key, bytes: value }) => ({ key, value }));
        await transaction.send({ topic, messages, acks: -1, compression: kafkajs.CompressionTypes.GZIP });
      }
      await transaction.commit();
    });
  } finally {
    await producer.disconnect();
  }
}

async function timed(events, batchEvents, write) {
  const started = process.hrtime.bigint();
  for (let at = 0; at < events.length; at += batchEvents) {
    await write(events.slice(at, at + batchEvents), at);
  }
  return Number(process.hrtime.bigint() - started) / 1e9;
}

function positionAt(page) {
  return { journal: JOURNAL, page, event: 0, hash: "be" };
}

/** Prints a table of what `benchKafka` gives. */
export function printKafka(results) {
  for (const [name, { eventsPerSecond, rssMb, ratio }] of Object.entries(results)) {
    console.log(
      `kafka ${name.padEnd(5)} ${String(eventsPerSecond).padStart(9)} events/s   ${String(rssMb).padStart(5)} MB   ${ratio} of bare`,
    );
  }
}

/** Calls `use` with the brokers' addresses; undefined where there is neither a broker nor one to start. */
export async function withBroker(use) {
  if (process.env.KAFKA_BROKERS) return use(process.env.KAFKA_BROKERS);
  const folder = mkdtempSync(join(tmpdir(), "tidemark-bench-"));
  try {
    const { findKafka, startBroker } = await import(pathToFileURL(buildSupport(folder)).href);
    const jars = await findKafka();
    if (jars === undefined) return undefined;
    const broker = await startBroker(jars);
    try {
      return await use(broker.address);
    } finally {
      await broker.remove();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The tests' support starts the broker; it is TypeScript, which Node 20 does not run. */
function buildSupport(folder) {
  const root = fileURLToPath(new URL("..", import.meta.url));
  const options = "--ignoreConfig --module nodenext --target es2023 --types node --skipLibCheck".split(" ");
  const paths = ["--rewriteRelativeImportExtensions", "--rootDir", "test/support", "--outDir", folder];
  execFileSync("npx", ["tsc", ...options, ...paths, "test/support/kafka.ts"], {
    cwd: root,
    stdio: "inherit",
  });
  symlinkSync(join(root, "test", "support", "maven"), join(folder, "maven"));
  return join(folder, "kafka.js");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const events = await simulatedEvents(Number(process.argv[2] ?? 200_000));
  const results = await withBroker((brokers) => benchKafka({ brokers, events }));
  if (results) printKafka(results);
  else console.log("kafka: no broker: set KAFKA_BROKERS, or fetch one by TIDEMARK_REQUIRE=kafka npm test");
}

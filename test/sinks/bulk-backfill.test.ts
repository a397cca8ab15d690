import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { RetryableError } from "../../src/core/errors.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import type { Sink } from "../../src/core/sink.ts";
import { ecs } from "../../src/formats/ecs.ts";
import { describe as describeEvent } from "../../src/services/index.ts";
import { opensearch } from "../../src/sinks/bulk/opensearch.ts";
import { openSink } from "../contract/drive.ts";
import { skipUnless } from "../support/components.ts";
import { makeBatch, makeEvents } from "../support/events.ts";
import { findOpenSearch, startOpenSearch } from "../support/opensearch.ts";

/** A first backfill; TIDEMARK_BACKFILL_EVENTS=1000000 for the size that docs/elasticsearch.md names. */
const EVENTS = Number(process.env.TIDEMARK_BACKFILL_EVENTS ?? 6000);
const DAYS = 90;
const BATCH_EVENTS = Math.min(10_000, EVENTS / 2);

const folder = await findOpenSearch();
const skip = skipUnless("opensearch", folder, "run once with TIDEMARK_REQUIRE=opensearch (Java, Maven)");
const format = ecs.create(ecs.options.parse({}), { describe: describeEvent });

/** Neighbours in the journal are days apart, so every batch goes to many indexes. */
function eventsFrom(start: number, count: number): JournalEvent[] {
  return makeEvents(count, start).map((event, at) => {
    const day = (start + at) % DAYS;
    const timestampMs =
      Date.parse("2026-08-01T00:00:00Z") + day * 86_400_000 + ((start + at) % 86_400) * 1000;
    const timestamp = new Date(timestampMs).toISOString();
    const bytes = Buffer.from(Buffer.from(event.bytes).toString().replace(event.timestamp, timestamp));
    return { ...event, timestampMs, timestamp, bytes, size: bytes.length };
  });
}

describe.skipIf(skip)("a first backfill into OpenSearch", () => {
  test.each([
    ["monthly indexes, the default", undefined],
    ["daily indexes", "tidemark-{date}"],
  ])(
    "arrives whole and without a time-out: %s",
    async (name, index) => {
      const server = await startOpenSearch(folder!);
      const config = { url: server.url, ...(index !== undefined && { index }) };
      const memory = new Map<string, unknown>();
      const target = { definition: opensearch, config, format, memory };
      let sink: Sink | undefined;
      let retries = 0;
      const startedMs = Date.now();
      try {
        for (let at = 0; at < EVENTS; at += BATCH_EVENTS) {
          const events = eventsFrom(at, Math.min(BATCH_EVENTS, EVENTS - at));
          for (let isDone = false; !isDone; ) {
            sink ??= await openSink(target);
            try {
              await sink.write(makeBatch(sink, events, undefined, format), new AbortController().signal);
              isDone = true;
            } catch (error) {
              if (!(error instanceof RetryableError)) throw error;
              retries++;
              await sink.close();
              sink = undefined;
              await sleep(1000);
            }
          }
        }
        const seconds = (Date.now() - startedMs) / 1000;
        await server.request("POST", "/tidemark-*/_refresh");
        const { body } = await server.request("GET", "/tidemark-*/_count");
        expect((body as { count: number }).count).toBe(EVENTS);
        const indexes = await server.request("GET", "/_cat/indices/tidemark-*?format=json");
        const figures = {
          name,
          events: EVENTS,
          indexes: (indexes.body as unknown[]).length,
          seconds: Math.round(seconds),
          eventsPerSecond: Math.round(EVENTS / seconds),
          retries,
        };
        process.stderr.write(`Backfill of OpenSearch: ${JSON.stringify(figures)}\n`);
      } finally {
        await sink?.close();
        await server.close();
      }
    },
    Math.max(180_000, EVENTS * 10),
  );
});

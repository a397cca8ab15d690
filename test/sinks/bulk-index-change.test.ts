import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createAlarms } from "../../src/core/alarms.ts";
import { silentLog } from "../../src/core/log.ts";
import { silentMetrics } from "../../src/core/metrics.ts";
import { createWake } from "../../src/core/wake.ts";
import { createDelivery, type Delivery } from "../../src/delivery/deliver.ts";
import { resolutionOf } from "../../src/delivery/position.ts";
import { elasticsearch } from "../../src/sinks/bulk/elasticsearch.ts";
import { indexTemplateOf } from "../../src/sinks/bulk/indexes.ts";
import { opensearch } from "../../src/sinks/bulk/opensearch.ts";
import { parseConfig } from "../contract/drive.ts";
import { never } from "../delivery/support.ts";
import { openFixture } from "../journal/support.ts";
import { createFakeClock } from "../support/clock.ts";
import { rawFormat } from "../support/events.ts";
import { eventTexts, FETCHED_MS, pageOf } from "../support/pages.ts";
import { runs } from "../support/runs.ts";

const EVENTS = 300;
const DEFINITIONS = [opensearch, elasticsearch];

/** A cluster that keeps each _id of an index once, and a program whose config changes when it is killed. */
async function makeWorld(definition: (typeof DEFINITIONS)[number]) {
  const clock = createFakeClock(FETCHED_MS);
  const fixture = openFixture(clock);
  for (let from = 0; from < EVENTS; from += 60) await fixture.journal.append(pageOf(eventTexts(from, 60)));
  /** The indexes of each _id. */
  const held = new Map<string, Set<string>>();
  const templates: string[][] = [];
  const state = { index: "one", killed: false, requests: 0, requestsMax: 0, dies: (_: number) => false };
  let open = 0;

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const text = Buffer.concat(parts).toString();
    if (request.url!.startsWith("/_index_template")) templates.push(JSON.parse(text).index_patterns);
    response.setHeader("content-type", "application/json");
    response.setHeader("x-elastic-product", "Elasticsearch");
    if (!request.url!.startsWith("/_bulk")) return void response.end('{"version":{"number":"9.0.0"}}');
    const items = text.split("\n").flatMap((line, at) => {
      if (at % 2 === 1 || line === "") return [];
      const { _index, _id } = JSON.parse(line).create as { _index: string; _id: string };
      const indexes = held.get(_id) ?? new Set();
      held.set(_id, indexes);
      const status = indexes.has(_index) ? 409 : 201;
      indexes.add(_index);
      return [{ create: { status } }];
    });
    state.requestsMax = Math.max(state.requestsMax, ++open);
    if (state.dies(state.requests++)) {
      fixture.reopen();
      state.killed = true;
    }
    await sleep(5);
    open--;
    if (state.killed) return void request.socket.destroy();
    const errors = items.some(({ create }) => create.status !== 201);
    response.end(JSON.stringify({ took: 1, errors, items }));
  }

  const server = createServer((request, response) => void answer(request, response).catch(() => {}));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  async function start(more: Record<string, unknown> = {}): Promise<Delivery> {
    const { journal } = fixture;
    const config = { url, index: state.index, gzip: false, batchBytesMax: 10_000, ...more };
    return createDelivery({
      ...{ name: "sink", definition, config: parseConfig({ definition, config }), format: rawFormat },
      ...{ clock, log: silentLog, journal: journal.id, wants: () => true, draining: () => true },
      ...{ reader: await journal.reader("sink"), end: () => journal.end(), stdout: new PassThrough() },
      ...{ alarms: createAlarms(clock, silentLog), metrics: silentMetrics, wake: createWake(clock) },
    });
  }

  return {
    ...{ state, templates, start },
    /** As a program leaves it that was killed while a sink of that type had a batch begun. */
    async beginAs(type: string, layout: Record<string, unknown>): Promise<void> {
      const reader = await fixture.journal.reader("sink");
      const page = (await reader.read(reader.position))!;
      const to = page.after(page.first + 9);
      page.lease.release();
      await reader.setBounds([to], { layout, begun: { type, route: {} } });
    },
    /** How many events are in each index; those of several are named by all. */
    counts(): Record<string, number> {
      const counts: Record<string, number> = {};
      for (const indexes of held.values()) {
        const name = [...indexes].join(" and ");
        counts[name] = (counts[name] ?? 0) + 1;
      }
      return counts;
    },
    /** Until everything is delivered; gives how often it was killed, with the config of `next` from then on. */
    async deliverAll(next: (kill: number) => string): Promise<number> {
      let kills = 0;
      let delivery = await start();
      for (let step = 0; step < 2000; step++) {
        const end = await delivery.step(never).catch(() => "again");
        if (state.killed) {
          await delivery.close().catch(() => {});
          state.killed = false;
          state.index = next(++kills);
          delivery = await start();
        } else if (end === "idle") {
          const { position } = delivery.status();
          const last = fixture.journal.end();
          if (position.page === last.page && position.event === last.event) {
            await delivery.close();
            return kills;
          }
          clock.advance(60_000);
        }
      }
      throw new Error(`It does not come to an end: ${JSON.stringify(delivery.status())}`);
    },
    async close(): Promise<void> {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      fixture.close();
    },
  };
}

test.each([
  ["custom-{date}", "tidemark-{month}"],
  ["tidemark", "tidemark-{month}"],
  ["tidemark-{date}", "tidemark-{date}"],
  ["tidemark-{month}", "tidemark-{month}"],
])("without an index in the config, a sink that wrote to %s goes on with %s", async (index, expected) => {
  const config = parseConfig({ definition: opensearch, config: { url: "http://127.0.0.1:1" } });
  const position = { journal: "j", page: 3, event: 0, hash: "h" };
  const context = { config, state: { index }, position } as unknown as Parameters<typeof indexTemplateOf>[0];
  expect(await indexTemplateOf(context, undefined!)).toBe(expected);
});

describe.each(DEFINITIONS)("$type: the index is changed while batches are stored and not committed", (of) => {
  let world: Awaited<ReturnType<typeof makeWorld>>;
  beforeEach(async () => {
    world = await makeWorld(of);
  });
  afterEach(() => world.close());

  test("R19 a batch that a sink of another type has begun has the index of now, and keeps it after a kill", async () => {
    await world.beginAs("s3", { prefix: "audit" });
    world.state.dies = (request) => request === 0;
    const kills = await world.deliverAll(() => "two");
    expect(kills).toBe(1);
    expect(Object.keys(world.counts()).filter((name) => name.includes(" and "))).toEqual([]);
    expect(Object.values(world.counts()).reduce((sum, count) => sum + count, 0)).toBe(EVENTS);
    expect(world.counts()).toHaveProperty("one");
  });

  test("R19 all writes in flight are completed in the indexes of before, and the next ones get the new", async () => {
    world.state.dies = (request) => request === 3;
    expect(await world.deliverAll(() => "two")).toBe(1);
    expect(world.state.requestsMax).toBeGreaterThan(1);
    const counts = world.counts();
    expect(Object.keys(counts)).toEqual(["one", "two"]);
    expect(counts.one! + counts.two!).toBe(EVENTS);
    // While both are written the template is for both.
    expect(world.templates.at(-1)).toEqual(["two", "one"]);
  });

  test("R19 every event is in one index, however often it is killed and the config changed", async () => {
    const gaps = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(gaps, async (between) => {
        const tried = await makeWorld(of);
        try {
          const at = new Set(between.map((_, kill) => between.slice(0, kill + 1).reduce((a, b) => a + b)));
          tried.state.dies = (request) => at.has(request);
          await tried.deliverAll((kill) => `index${kill % 3}`);
          const counts = tried.counts();
          expect(Object.keys(counts).filter((name) => name.includes(" and "))).toEqual([]);
          expect(Object.values(counts).reduce((a, b) => a + b)).toBe(EVENTS);
        } finally {
          await tried.close();
        }
      }),
      { numRuns: runs(10) },
    );
  });

  test("the operator's choice counts for the index too", async () => {
    world.state.dies = (request) => request === 0;
    let delivery = await world.start();
    for (let step = 0; step < 5 && !world.state.killed; step++) await delivery.step(never).catch(() => {});
    await delivery.close().catch(() => {});
    Object.assign(world.state, { killed: false, index: "two" });
    delivery = await world.start();
    await delivery.resolve(resolutionOf("state"), never);
    await delivery.close();
    await world.deliverAll(() => "two");
    const counts = world.counts();
    expect(counts.one).toBeUndefined();
    expect(counts["one and two"]! + counts.two!).toBe(EVENTS);
  });
});

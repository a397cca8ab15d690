import { PassThrough } from "node:stream";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createAlarms } from "../../src/core/alarms.ts";
import type { Format, FormatSettings } from "../../src/core/format.ts";
import { silentLog } from "../../src/core/log.ts";
import { silentMetrics } from "../../src/core/metrics.ts";
import { createWake } from "../../src/core/wake.ts";
import { createDelivery, type Delivery } from "../../src/delivery/deliver.ts";
import { opensearch } from "../../src/sinks/bulk/opensearch.ts";
import { parseConfig } from "../contract/drive.ts";
import { stepUntilIdle } from "../delivery/support.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { createFakeClock, type FakeClock } from "../support/clock.ts";
import { skipUnless } from "../support/components.ts";
import { rawFormat } from "../support/events.ts";
import { type HttpProxy, startHttpProxy } from "../support/http-proxy.ts";
import { findOpenSearch, type OpenSearch, startOpenSearch } from "../support/opensearch.ts";
import { eventTexts, FETCHED_MS, pageOf } from "../support/pages.ts";

const folder = await findOpenSearch();
const skip = skipUnless("opensearch", folder, "run once with TIDEMARK_REQUIRE=opensearch (Java, Maven)");
const EVENTS = 30;

/** Two formats in which the same member is an object and a text: an index takes only one of them. */
function formatOf({ type }: FormatSettings): Format {
  const event = type === "objects" ? { action: "x" } : "x";
  return { ...rawFormat, name: type, keepsBytes: false, encode: () => JSON.stringify({ event }) };
}

describe.skipIf(skip)("OpenSearch: the format is changed while a batch is stored and not committed", () => {
  let server: OpenSearch;
  let proxy: HttpProxy;
  let clock: FakeClock;
  let fixture: JournalFixture;
  let index = "";
  let indexNumber = 0;

  beforeAll(async () => {
    server = await startOpenSearch(folder!);
  }, 180_000);
  afterAll(() => server?.close());
  beforeEach(async () => {
    index = `change-${++indexNumber}`;
    proxy = await startHttpProxy(server.url);
    clock = createFakeClock(FETCHED_MS);
    fixture = openFixture(clock);
    await fixture.journal.append(pageOf(eventTexts(0, EVENTS)));
  });
  afterEach(async () => {
    fixture.close();
    await proxy.close();
  });

  /** A process of its own. */
  async function start(type: string): Promise<Delivery> {
    const config = { url: proxy.url, index, template: false, timeout: "20s" };
    const journal = fixture.reopen();
    const settings = { type, options: {} };
    return createDelivery({
      ...{ name: "search", definition: opensearch, config: parseConfig({ definition: opensearch, config }) },
      ...{ format: formatOf(settings), formatting: { settings, formatOf }, clock, log: silentLog },
      ...{ reader: await journal.reader("search"), journal: journal.id, wants: () => true },
      ...{ alarms: createAlarms(clock, silentLog), metrics: silentMetrics, stdout: new PassThrough() },
      ...{ wake: createWake(clock), end: () => journal.end(), draining: () => true },
    });
  }

  async function storeAndDie(type: string): Promise<void> {
    proxy.decide(({ path }) => (path.startsWith("/_bulk") ? "cut" : "pass"));
    const delivery = await start(type);
    await stepUntilIdle(delivery);
    expect(delivery.status()).toMatchObject({ state: "retrying", sentEvents: 0 });
    await delivery.close();
    proxy.decide(() => "pass");
    await server.request("POST", `/${index}/_refresh`);
    expect(await count()).toBe(EVENTS);
  }

  async function count(): Promise<number> {
    const { body } = await server.request("GET", `/${index}/_count`);
    return (body as { count: number }).count;
  }

  async function expectDelivered(delivery: Delivery): Promise<void> {
    await stepUntilIdle(delivery);
    expect(delivery.status()).toMatchObject({ state: "running", sentEvents: EVENTS, deadLetters: 0 });
    await delivery.close();
  }

  test("R19 it is completed in the format of before, and no event becomes a dead letter", async () => {
    await storeAndDie("objects");
    await expectDelivered(await start("texts"));
    expect(await count()).toBe(EVENTS);
    // Nothing was refused.
    expect(proxy.seen.some(({ path }) => path.startsWith("/_mget"))).toBe(false);
  });

  test("what the cluster refuses although it is stored is no dead letter: a state that does not know the format", async () => {
    await storeAndDie("objects");
    const reader = await fixture.reopen().reader("search");
    const { begun } = reader.state as unknown as { begun: { layout: object }[] };
    await reader.setBounds(reader.bounds, { layout: begun[0]!.layout, begun: { type: "opensearch" } });
    await expectDelivered(await start("texts"));
    expect(await count()).toBe(EVENTS);
  });

  test("what it refuses and does not have is a dead letter, in a batch that was begun too", async () => {
    await server.request("PUT", `/${index}`, { mappings: { properties: { event: { type: "object" } } } });
    proxy.decide(({ path }) => (path.startsWith("/_bulk") ? "cut" : "pass"));
    const first = await start("texts");
    await stepUntilIdle(first);
    await first.close();
    proxy.decide(() => "pass");
    const delivery = await start("texts");
    await stepUntilIdle(delivery);
    expect(delivery.status()).toMatchObject({ sentEvents: 0, deadLetters: EVENTS });
    await delivery.close();
  });
});

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { PausedError, RejectedEventsError, RetryableError, TooLargeError } from "../../src/core/errors.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import type { Sink } from "../../src/core/sink.ts";
import { elasticsearch } from "../../src/sinks/bulk/elasticsearch.ts";
import { opensearch } from "../../src/sinks/bulk/opensearch.ts";
import { attempt, drive, openSink, probeSink, type Target } from "../contract/drive.ts";
import { type Destination, testSink } from "../contract/sink.ts";
import { runGuide } from "../docs/guide.ts";
import { elementSlices, memberSlices } from "../stand-ins/json-slices.ts";
import { type Reply, type StandInServer, startServer } from "../stand-ins/server.ts";
import { skipUnless } from "../support/components.ts";
import { cefFormat, makeBatch, makeEvent, makeEvents } from "../support/events.ts";
import { findOpenSearch, type OpenSearch, startOpenSearch } from "../support/opensearch.ts";
import { openWorld } from "../support/world.ts";
import { eventsOfSize, measured } from "./limits.ts";

const folder = await findOpenSearch();
const skip = skipUnless(
  "opensearch",
  folder,
  "run once with TIDEMARK_REQUIRE=opensearch to fetch it (Java, Maven)",
);

/** http.max_content_length of the real server, so that its limit can be met with few events. */
const CONTENT_BYTES_MAX = 2 ** 20;

let real: OpenSearch;
/** In front of the real server: passes requests on, can refuse, hang and cut. */
let proxy: StandInServer;
let indexNumber = 0;

beforeAll(async () => {
  if (skip) return;
  real = await startOpenSearch(folder!, [`http.max_content_length=${CONTENT_BYTES_MAX}b`]);
});

afterAll(() => real?.close());

async function startProxy(): Promise<StandInServer> {
  return startServer(async (received): Promise<Reply> => {
    const query = received.query.size > 0 ? `?${received.query}` : "";
    const answer = await fetch(`${real.url}${received.path}${query}`, {
      method: received.method,
      headers: { "content-type": received.headers["content-type"] ?? "application/json" },
      ...(received.body.length > 0 && { body: new Uint8Array(received.body) }),
    });
    return { status: answer.status, body: await answer.text() };
  });
}

interface Document {
  readonly _index: string;
  readonly _id: string;
  readonly _source: unknown;
  /** The stored bytes of the source. */
  readonly source: string;
}

/** The documents of the indexes with this prefix, in the order of their time and of being stored. */
async function documents(pattern: string): Promise<Document[]> {
  await real.request("POST", `/${pattern}/_refresh`);
  const answer = await fetch(`${real.url}/${pattern}/_search`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ size: 10_000, sort: [{ "@timestamp": "asc" }, { _seq_no: "asc" }] }),
  });
  const hits = memberSlices(memberSlices(await answer.text()).get("hits")!).get("hits")!;
  return elementSlices(hits).map((hit) => ({
    ...JSON.parse(hit),
    source: memberSlices(hit).get("_source")!,
  }));
}

async function startDestination(
  config: Record<string, unknown> = {},
): Promise<Destination & { prefix: string }> {
  proxy = await startProxy();
  const prefix = `test${++indexNumber}`;
  const served = proxy;
  return {
    definition: opensearch,
    config: {
      url: served.url,
      username: "writer",
      password: { env: "PASSWORD" },
      index: `${prefix}-{date}`,
      ...config,
    },
    secrets: { PASSWORD: "p4ssw0rd-of-the-test" },
    prefix,
    expected: (event) => `{"@timestamp":"${event.timestamp}",${Buffer.from(event.bytes).toString().slice(1)}`,
    read: async () => (await documents(`${prefix}*`)).map(({ source }) => source),
    unavailable: () => served.answerAll({ status: 503 }),
    unauthorized: () => served.answerAll({ status: 401, body: { error: "Unauthorized" } }),
    hangs: () => served.hang(),
    storesAndCuts: () => served.cutNext(),
    normal: () => served.normal(),
    close: () => served.close(),
  };
}

const ABILITIES = ["unavailable", "unauthorized", "hangs", "storesAndCuts", "dated"] as const;
testSink("opensearch, an index per day, against the real server", {
  skip,
  can: ABILITIES,
  start: startDestination,
});
testSink("opensearch, a data stream, against the real server", {
  skip,
  can: ABILITIES,
  async start() {
    const destination = await startDestination({ dataStream: true, template: true });
    return {
      ...destination,
      name: destination.prefix,
      config: { ...destination.config, index: destination.prefix },
    };
  },
});

describe.skipIf(skip)("the opensearch sink, against the real server", () => {
  let sink: Sink | undefined;
  const signal = new AbortController().signal;

  function target(config: Record<string, unknown> = {}): Target & { prefix: string } {
    const prefix = `case${++indexNumber}`;
    return {
      definition: opensearch,
      config: { url: real.url, index: `${prefix}-{date}`, ...config },
      prefix,
    };
  }

  async function open(to: Target): Promise<Sink> {
    sink = await openSink(to);
    return sink;
  }

  afterEach(async () => {
    await sink?.close();
    sink = undefined;
  });

  test("the index is the day of the event's own timestamp and the _id its identity", async () => {
    const to = target();
    const events = [
      makeEvent({ id: "a", timestamp: "2026-03-14T23:59:59.999999Z" }),
      makeEvent({ id: "b", timestamp: "2026-03-15T00:00:00.000000Z", index: 1 }),
    ];
    const opened = await open(to);
    await opened.write(makeBatch(opened, events), signal);
    const held = await documents(`${to.prefix}*`);
    expect(held.map(({ _index, _id }) => [_index, _id])).toEqual([
      [`${to.prefix}-2026-03-14`, events[0]!.identity],
      [`${to.prefix}-2026-03-15`, events[1]!.identity],
    ]);
    expect(held[0]!._source).toMatchObject({ "@timestamp": "2026-03-14T23:59:59.999999Z" });
  });

  test("R22 two tenants never share an index", async () => {
    const to = target();
    const names = { ...to, config: { ...to.config, index: `${to.prefix}-{organization}-{service}` } };
    const opened = await open(names);
    const events = ["A/b", "a_b", "a*b", "", "x".repeat(300)].map((organization, index) =>
      makeEvent({ organization, service: "", id: String(index), index }),
    );
    await opened.write(makeBatch(opened, events), signal);
    const held = await documents(`${to.prefix}*`);
    expect(new Set(held.map(({ _index }) => _index)).size).toBe(5);
  });

  test("an event that is there already counts as done, also amid new ones", async () => {
    const to = target();
    const opened = await open(to);
    const events = makeEvents(10);
    await opened.write(makeBatch(opened, events.slice(2, 5)), signal);
    await opened.write(makeBatch(opened, events), signal);
    await opened.write(makeBatch(opened, events), signal);
    expect(await documents(`${to.prefix}*`)).toHaveLength(10);
  });

  test("a document that does not fit the mapping is rejected, and its neighbours are stored", async () => {
    const to = target({ template: false });
    const opened = await open(to);
    const events = makeEvents(4, 0, {
      timestamp: "2026-03-14T01:00:00Z",
      timestampMs: Date.parse("2026-03-14T01:00:00Z"),
    });
    const odd: JournalEvent = { ...events[2]!, bytes: Buffer.from('{"serial":{"confidential":"value"}}') };
    await opened.write(makeBatch(opened, [events[0]!]), signal);
    const error = (await attempt(
      opened,
      makeBatch(opened, [events[1]!, odd, events[3]!]),
    )) as RejectedEventsError;
    expect(error).toBeInstanceOf(RejectedEventsError);
    expect(error.rejected.map(({ index }) => index)).toEqual([1]);
    expect(error.remaining).toEqual([]);
    expect(error.rejected[0]!.reason).toMatch(/400.*mapper_parsing_exception.*serial/);
    expect(error.rejected[0]!.reason).not.toContain("confidential");
    expect(await documents(`${to.prefix}*`)).toHaveLength(3);
  });

  test("a write block pauses, and after it is lifted the rest goes on", async () => {
    const to = target();
    const opened = await open(to);
    const events = makeEvents(6, 0, {
      timestamp: "2026-03-14T01:00:00Z",
      timestampMs: Date.parse("2026-03-14T01:00:00Z"),
    });
    await opened.write(makeBatch(opened, events.slice(0, 3)), signal);
    await real.request("PUT", `/${to.prefix}-2026-03-14/_settings`, { "index.blocks.write": true });
    const error = await attempt(opened, makeBatch(opened, events));
    expect(error).toBeInstanceOf(PausedError);
    expect((error as Error).message).toContain("cluster_block_exception");
    await real.request("PUT", `/${to.prefix}-2026-03-14/_settings`, { "index.blocks.write": false });
    await opened.write(makeBatch(opened, events), signal);
    expect(await documents(`${to.prefix}*`)).toHaveLength(6);
  });

  test.each([true, false])(
    "a bulk of exactly the server's limit is taken, and a larger batch becomes several requests",
    async (gzip) => {
      const to = target({ gzip, batchBytesMax: CONTENT_BYTES_MAX });
      const opened = await open(to);
      const fitting = makeBatch(opened, eventsOfSize(opened, 40, CONTENT_BYTES_MAX));
      expect(
        measured(
          opened.limits,
          fitting.records.map((record) => record.body),
        ),
      ).toBe(CONTENT_BYTES_MAX);
      expect(await attempt(opened, fitting)).toBeUndefined();
      const larger = makeBatch(opened, eventsOfSize(opened, 40, 3 * CONTENT_BYTES_MAX));
      expect(await attempt(opened, larger)).toBeUndefined();
      expect(await documents(`${to.prefix}*`)).toHaveLength(40);
    },
  );

  test("the halves of a bulk that is too large arrive", async () => {
    const to = target({ gzip: false, batchBytesMax: 4 * CONTENT_BYTES_MAX });
    const opened = await open(to);
    const events = eventsOfSize(opened, 30, 3 * CONTENT_BYTES_MAX);
    const driven = await drive(to, events, { batchEvents: 30 });
    expect(driven.errors.some((error) => error instanceof TooLargeError)).toBe(true);
    expect(driven.deadLetters.size).toBe(0);
    expect(await documents(`${to.prefix}*`)).toHaveLength(30);
  });

  test("a data stream takes the same event again after a rollover, as the promise says", async () => {
    const to = target({ dataStream: true, template: true });
    const stream = { ...to, name: to.prefix, config: { ...to.config, index: to.prefix } };
    const events = makeEvents(3);
    await drive(stream, events);
    await drive(stream, events);
    expect(await documents(to.prefix)).toHaveLength(3);
    await real.request("POST", `/${to.prefix}/_rollover`);
    await drive(stream, events);
    expect(await documents(to.prefix)).toHaveLength(6);
  });

  test("a text format becomes the message of a document", async () => {
    const to = target();
    const events = makeEvents(1);
    await drive({ ...to, format: cefFormat }, events);
    const [document] = await documents(`${to.prefix}*`);
    expect(document!._source).toEqual({
      "@timestamp": events[0]!.timestamp,
      message: cefFormat.encode(events[0]!),
    });
  });

  test("an @timestamp that the format wrote is not changed", async () => {
    const to = target();
    const opened = await open(to);
    const bodies = [
      '{"a":1,"@timestamp":"2026-01-01T00:00:00Z"}',
      '{"\\u0040timestamp":"2026-01-02T00:00:00Z"}',
      '{"b":"@timestamp"}',
    ];
    const events = bodies.map((body, index) =>
      makeEvent({ id: String(index), index, bytes: Buffer.from(body) }),
    );
    await opened.write(makeBatch(opened, events), signal);
    const held = (await documents(`${to.prefix}*`)).map(({ _source }) => (_source as never)["@timestamp"]);
    expect(held).toEqual(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-03-14T15:09:26.535897Z"]);
  });
});

describe("the bulk API as it answers in trouble", () => {
  let server: StandInServer;
  let sink: Sink;
  let items: readonly object[] = [];

  async function open(definition = elasticsearch, config: Record<string, unknown> = {}): Promise<Sink> {
    server = await startServer((received) =>
      received.path === "/_bulk" ? { status: 200, body: { errors: true, items } } : { status: 200 },
    );
    sink = await openSink({
      definition,
      config: { url: server.url, ...config },
      secrets: { KEY: "ZXM6c2VjcmV0LWtleQ==", PASSWORD: "open-sesame" },
    });
    return sink;
  }

  afterEach(async () => {
    await sink.close();
    await server.close();
  });

  const item = (status: number, type = "", reason = "") => ({ create: { status, error: { type, reason } } });

  test("only the items that were throttled are retried", async () => {
    const opened = await open();
    items = [item(201), item(429, "es_rejected_execution_exception"), item(409), item(503)];
    const error = (await attempt(opened, makeBatch(opened, makeEvents(4)))) as RetryableError;
    expect(error).toBeInstanceOf(RetryableError);
    expect(error.remaining).toEqual([1, 3]);
  });

  test("rejections are reported first, with everything that is still to be written", async () => {
    const opened = await open();
    items = [
      item(400, "mapper_parsing_exception", "failed. Preview of field's value: 'private'"),
      item(429),
      item(403),
      item(201),
    ];
    const error = (await attempt(opened, makeBatch(opened, makeEvents(4)))) as RejectedEventsError;
    expect(error).toBeInstanceOf(RejectedEventsError);
    expect(error.rejected).toEqual([
      { index: 0, reason: "Elasticsearch answered 400: mapper_parsing_exception: failed." },
    ]);
    expect(error.remaining).toEqual([1, 2]);
  });

  test.each([
    [403, "security_exception"],
    [401, ""],
    [404, "index_not_found_exception"],
    [400, "index_closed_exception"],
    [400, "validation_exception"],
  ])("R27 an item's %i %s pauses", async (status, type) => {
    const opened = await open();
    items = [item(201), item(status, type)];
    expect(await attempt(opened, makeBatch(opened, makeEvents(2)))).toBeInstanceOf(PausedError);
  });

  test("an answer with too few items is not taken for success", async () => {
    const opened = await open();
    items = [item(201)];
    expect(await attempt(opened, makeBatch(opened, makeEvents(2)))).toBeInstanceOf(RetryableError);
  });

  test.each([
    [429, RetryableError],
    [502, RetryableError],
    [413, TooLargeError],
    [401, PausedError],
    [403, PausedError],
    [400, RejectedEventsError],
  ])("an answer of %i to the whole request has its one consequence", async (status, kind) => {
    const opened = await open();
    server.answerAll({ status });
    expect(await attempt(opened, makeBatch(opened, makeEvents(2)))).toBeInstanceOf(kind);
  });

  test("sends an API key, or user and password", async () => {
    await open(elasticsearch, { apiKey: { env: "KEY" } });
    expect(server.received[0]!.headers.authorization).toBe("ApiKey ZXM6c2VjcmV0LWtleQ==");
    await sink.close();
    await server.close();
    await open(opensearch, { username: "u", password: { env: "PASSWORD" } });
    expect(server.received[0]!.headers.authorization).toBe(`Basic ${btoa("u:open-sesame")}`);
  });

  test.each([
    ["a data stream with a {date}", { index: "a-{date}", dataStream: true }],
    ["a user without a password", { username: "u" }],
    ["a password without a user", { password: { env: "PASSWORD" } }],
  ])("%s is reported at open, with a remedy", async (_, config) => {
    const opened = await open();
    await opened.close();
    const target = {
      definition: opensearch,
      config: { url: server.url, ...config },
      secrets: { PASSWORD: "p" },
    };
    await expect(openSink(target)).rejects.toMatchObject({ name: "PausedError" });
  });

  test.each([
    ["{date}"],
    ["-x-{date}"],
    ["Upper-{date}"],
    ["a-{event_type}"],
    ["a b"],
    ["x{organization}{service}{account}"],
  ])("the index %s is refused in the config", async (index) => {
    await open();
    expect(elasticsearch.config.safeParse({ url: "http://x", index }).success).toBe(false);
    expect(
      elasticsearch.config.safeParse({ url: "http://x", index: "a-{organization}-{service}-{date}" }).success,
    ).toBe(true);
  });
});

describe.skipIf(skip)("a probe of opensearch", () => {
  let destination: Awaited<ReturnType<typeof startDestination>>;
  afterEach(() => destination.close());

  test("creates no index and no template", async () => {
    destination = await startDestination({ index: `probe${++indexNumber}-{month}` });
    expect(await probeSink(destination)).toEqual([]);
    const { body } = await real.request("GET", "/_cat/indices/probe*?format=json");
    expect(body).toEqual([]);
    const templates = await real.request("GET", "/_index_template/tidemark-test");
    expect(JSON.stringify(templates.body)).not.toContain(`probe${indexNumber}`);
  });

  test("finds an index that takes no writes", async () => {
    const index = `blocked${++indexNumber}`;
    await real.request("PUT", `/${index}`, { settings: { "index.blocks.write": true } });
    destination = await startDestination({ index });
    const error = await probeSink(destination).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(PausedError);
    expect(error.message).toContain("index.blocks.write");
    await real.request("DELETE", `/${index}`);
  });
});

test.skipIf(skip)("the commands of docs/elasticsearch.md run with its configs", async () => {
  const world = await openWorld({ organizations: 1, events: 20, days: 1 });
  const front = await startProxy();
  try {
    const sinks = { elastic: { url: front.url }, search: { url: front.url } };
    await runGuide(world, "docs/elasticsearch.md", { sinks });
  } finally {
    await front.close();
    await world.close();
  }
});

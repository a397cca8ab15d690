import { readdirSync, readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { PausedError, RetryableError } from "../../src/core/errors.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import type { Format } from "../../src/core/format.ts";
import type { Sink } from "../../src/core/sink.ts";
import { ecs } from "../../src/formats/ecs.ts";
import { envelope } from "../../src/formats/envelope.ts";
import { ocsf } from "../../src/formats/ocsf.ts";
import { raw } from "../../src/formats/raw.ts";
import { describe as describeEvent, services } from "../../src/services/index.ts";
import { elasticsearch } from "../../src/sinks/bulk/elasticsearch.ts";
import { opensearch } from "../../src/sinks/bulk/opensearch.ts";
import { attempt, openSink } from "../contract/drive.ts";
import { fixturesOf } from "../contract/service.ts";
import { journalEvent } from "../formats/event.ts";
import { damaged, documentedTypes, seeded, syntheticEvent } from "../services/synthetic.ts";
import { type Reply, type StandInServer, startServer } from "../stand-ins/server.ts";
import { skipUnless } from "../support/components.ts";
import { makeBatch } from "../support/events.ts";
import { findOpenSearch, type OpenSearch, startOpenSearch } from "../support/opensearch.ts";

const folder = await findOpenSearch();
const skip = skipUnless(
  "opensearch",
  folder,
  "run once with TIDEMARK_REQUIRE=opensearch to fetch it (Java, Maven)",
);

const context = { describe: describeEvent };
const formats: readonly (readonly [string, Format])[] = [
  ["ecs", ecs.create({ namespace: "tidemark", original: false }, context)],
  ["ocsf", ocsf.create({ schemaVersion: "1.8.0", rawData: false }, context)],
  ["envelope", envelope.create({}, context)],
  ["raw", raw.create({}, context)],
];

/** Events of the field, all of one day, so that they meet in one index; then events with retyped fields. */
function events(): JournalEvent[] {
  const folderOfEvents = new URL("../fixtures/detections/", import.meta.url);
  const texts = services.flatMap((service) => fixturesOf(service.name).map(({ text }) => text));
  for (const name of readdirSync(folderOfEvents)) {
    const cases = JSON.parse(readFileSync(new URL(name, folderOfEvents), "utf8")) as Record<
      string,
      object[][]
    >;
    for (const event of Object.values(cases).flat(2)) texts.push(JSON.stringify(event));
  }
  const random = seeded(31);
  for (let round = 0; round < 400; round++) {
    const { service, eventType } = documentedTypes[(round * 11) % documentedTypes.length]!;
    const whole = syntheticEvent(service, eventType, random);
    const event = round % 2 === 0 ? whole : (damaged(whole, random, 5) as object);
    texts.push(
      JSON.stringify({ ...event, id: `synthetic-${round}`, new_field: round % 3 ? "text" : { a: round } }),
    );
  }
  const day = Date.parse("2026-11-14T00:00:00Z");
  return texts.map((text, index) => journalEvent(text, { timestampMs: day + index, index }));
}

describe.skipIf(skip)("the default mappings on a real OpenSearch", () => {
  let real: OpenSearch;
  let sink: Sink | undefined;

  beforeAll(async () => {
    real = await startOpenSearch(folder!, []);
  });

  afterAll(() => real?.close());

  afterEach(async () => {
    await sink?.close();
    sink = undefined;
  });

  async function open(index: string, format: Format): Promise<Sink> {
    const config = { url: real.url, index: `${index}-{date}` };
    let problem: unknown;
    sink = await openSink({
      definition: opensearch,
      name: index,
      config,
      format,
      limited: (found) => {
        problem = found;
      },
    });
    expect(problem).toBeUndefined();
    return sink;
  }

  /** A busy machine answers late; that is tried again, and nothing else is. */
  async function deliver(opened: Sink, batch: readonly JournalEvent[]): Promise<void> {
    for (let tries = 0; tries < 20; tries++) {
      const error = await attempt(opened, makeBatch(opened, batch));
      if (error === undefined) return;
      if (!(error instanceof RetryableError)) throw error;
    }
    throw new Error("The cluster did not take a batch within 20 tries.");
  }

  async function count(index: string, query: object): Promise<number> {
    await real.request("POST", `/${index}-*/_refresh`);
    const { body } = await real.request("POST", `/${index}-*/_count`, { query });
    return (body as { count: number }).count;
  }

  test.each(formats)(
    "%s: every event is taken, whatever types its fields have",
    async (name, format) => {
      const opened = await open(name, format);
      const all = events();
      for (let from = 0; from < all.length; from += 200) await deliver(opened, all.slice(from, from + 200));
      expect(await count(name, { match_all: {} })).toBe(new Set(all.map((event) => event.identity)).size);
    },
    300_000,
  );

  test("values of the original event can be searched for", async () => {
    for (const [index, format, field] of [
      ["find-ecs", formats[0]![1], "tidemark.event.changes.field"],
      ["find-ocsf", formats[1]![1], "unmapped.changes.field"],
      ["find-raw", formats[3]![1], "changes.field"],
    ] as const) {
      const opened = await open(index, format);
      const changed = (id: string, from: unknown, to: unknown) =>
        journalEvent({
          id,
          event_type: "user_update",
          service: "directory",
          timestamp: "2026-11-14T10:00:00Z",
          resource: { id: "r", type: "user" },
          changes: [{ field: "suspended", from, to }],
        });
      const all = [changed("1", false, true), changed("2", { a: 1 }, [1]), changed("3", "x", null)];
      await deliver(opened, all);
      expect(await count(index, { term: { [field]: "suspended" } })).toBe(3);
      await opened.close();
    }
    sink = undefined;
  });

  test("values that are too long for the index are cut there and kept whole beside it", async () => {
    const format = formats[0]![1];
    const opened = await open("long", format);
    const certificate = "é".repeat(40_000);
    const event = journalEvent({
      id: "long",
      event_type: "mdm_command_result",
      service: "mdm",
      timestamp: "2026-11-14T10:00:00Z",
      mdm_device_id: "d",
      profile_list: [{ signer_certificates: ["short", certificate] }],
      ["k".repeat(40_000)]: "under a long name",
    });
    await deliver(opened, [event]);
    await real.request("POST", "/long-*/_refresh");
    const { body } = await real.request("POST", "/long-*/_search", {
      query: { term: { "tidemark.event.mdm_device_id": "d" } },
    });
    const [hit] = (body as { hits: { hits: { _source: Record<string, never> }[] } }).hits.hits;
    const source = hit!._source as unknown as {
      tidemark: { event: { profile_list: { signer_certificates: string[] }[] } };
      long_values: { path: string; value: string }[];
    };
    expect(source.tidemark.event.profile_list[0]!.signer_certificates).toEqual([
      "short",
      `${certificate.slice(0, 1024)}…`,
    ]);
    expect(source.long_values.map(({ value }) => value).sort()).toEqual(
      ["under a long name", certificate].sort(),
    );
  });

  test("a value that just fits is left alone, and one byte more is cut", async () => {
    const format = formats[1]![1];
    const opened = await open("edge", format);
    // The term is `unmapped.blob=` and the value.
    for (const length of [32_600, 32_689, 32_690, 32_752, 32_753, 32_766, 33_000]) {
      const event = journalEvent({
        id: `edge-${length}`,
        event_type: "x",
        service: "directory",
        timestamp: "2026-11-14T10:00:00Z",
        blob: "x".repeat(length),
      });
      await deliver(opened, [event]);
    }
    expect(await count("edge", { match_all: {} })).toBe(7);
    expect(await count("edge", { term: { "unmapped.blob": "x".repeat(32_600) } })).toBe(1);
  });
});

describe("a cluster that does not take the template", () => {
  let server: StandInServer;
  let sink: Sink | undefined;
  const problems: unknown[] = [];

  async function open(refusal: Reply): Promise<Sink> {
    problems.length = 0;
    server = await startServer((received) => {
      if (received.path.startsWith("/_index_template/")) return refusal;
      const documents = received.body.toString().split("\n").length >> 1;
      const items = Array.from({ length: documents }, () => ({ create: { status: 201 } }));
      return { status: 200, body: received.path === "/_bulk" ? { errors: false, items } : {} };
    });
    sink = await openSink({
      definition: elasticsearch,
      config: { url: server.url },
      limited: (problem) => problems.push(problem),
    });
    return sink;
  }

  afterEach(async () => {
    await sink?.close();
    await server.close();
  });

  test.each([
    [403, { error: { type: "security_exception", reason: "no permissions for [indices:admin/template]" } }],
    [403, { error: "no permissions" }],
    [403, { Message: "User is not authorized to perform es:ESHttpPut" }],
    [403, "Forbidden"],
    [401, { message: "Unauthorized" }],
    [404, "<html><body>Not Found</body></html>"],
    [
      400,
      { error: { type: "illegal_argument_exception", reason: "multiple index templates may not match" } },
    ],
    [405, ""],
  ])("%i %j raises an alarm, and events are written all the same", async (status, body) => {
    const opened = await open({ status, body });
    expect(problems).toEqual([
      {
        message: expect.stringContaining(`refused the index template (${status}): `) as string,
        remedy: expect.stringContaining("template: false") as string,
      },
    ]);
    const words = /no permissions|not authorized|Forbidden|Unauthorized|Not Found|multiple|no reason given/;
    expect((problems[0] as { message: string }).message).toMatch(words);
    expect(JSON.stringify(problems)).not.toContain("<html>");
    const event = journalEvent({ id: "a", event_type: "x", timestamp: "2026-11-14T10:00:00Z" });
    expect(await attempt(opened, makeBatch(opened, [event]))).toBeUndefined();
  });

  test("a cluster that is busy is asked again, and one that takes it ends the alarm", async () => {
    await expect(open({ status: 503, body: {} })).rejects.toMatchObject({ name: "RetryableError" });
    await server.close();
    await open({ status: 200, body: { acknowledged: true } });
    expect(problems).toEqual([undefined]);
  });

  test("wrong credentials still pause", async () => {
    server = await startServer(() => ({ status: 401, body: {} }));
    await expect(openSink({ definition: elasticsearch, config: { url: server.url } })).rejects.toBeInstanceOf(
      PausedError,
    );
  });

  test("Elasticsearch gets flattened fields with limits, for the format of the sink", async () => {
    await open({ status: 200, body: {} });
    await sink!.close();
    const bodies: Record<string, { mappings: Record<string, unknown> }> = {};
    for (const [name, format] of formats) {
      sink = await openSink({ definition: elasticsearch, config: { url: server.url }, name, format });
      const put = server.received.findLast((received) => received.path.startsWith("/_index_template/"));
      bodies[name] = (JSON.parse(put!.body.toString()) as { template: (typeof bodies)[string] }).template;
    }
    const flat = { type: "flattened", ignore_above: 1024, depth_limit: 512 };
    expect(bodies.ecs?.mappings).toMatchObject({
      dynamic: true,
      properties: {
        tidemark: { properties: { event: flat } },
        event: { properties: { created: { type: "date" } } },
      },
    });
    expect(bodies.ocsf?.mappings).toMatchObject({ properties: { unmapped: flat } });
    expect(bodies.envelope?.mappings).toMatchObject({ properties: { event: flat } });
    expect(bodies.raw?.mappings).toMatchObject({
      dynamic: false,
      properties: { changes: flat, useragent: { enabled: false } },
    });
  });
});

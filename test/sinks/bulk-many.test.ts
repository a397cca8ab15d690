import { afterAll, beforeAll, expect, test } from "vitest";
import { ecs } from "../../src/formats/ecs.ts";
import { ocsf } from "../../src/formats/ocsf.ts";
import { describe as describeEvent } from "../../src/services/index.ts";
import { reads } from "../../src/services/read/read-paths.ts";
import { elasticsearch } from "../../src/sinks/bulk/elasticsearch.ts";
import { opensearch } from "../../src/sinks/bulk/opensearch.ts";
import { openSink } from "../contract/drive.ts";
import { LOGIN, manyLines, pageOfTexts } from "../formats/recipes-support.ts";
import { type StandInServer, startServer } from "../stand-ins/server.ts";

let server: StandInServer;
beforeAll(async () => {
  server = await startServer(() => ({ status: 200, body: {} }));
});
afterAll(() => server.close());

const context = { describe: describeEvent, reads };
const formats = [
  ecs.create({ namespace: "tidemark", original: false }, context),
  ocsf.create({ schemaVersion: "1.8.0", rawData: false }, context),
];

test.each(
  [opensearch, elasticsearch].flatMap((definition) => formats.map((format) => ({ definition, format }))),
)(
  "events that are encoded together are those that are encoded alone: $definition.type, $format.name",
  async ({ definition, format }) => {
    const sink = await openSink({
      definition,
      format,
      config: { url: server.url, index: "events-{organization}-{date}" },
    });
    const texts = Array.from({ length: 120 }, (_, number) =>
      JSON.stringify({
        ...LOGIN,
        id: `id-${number}`,
        organization: `0ed99129c72ac75bace7678${number % 3}`,
        timestamp: `2026-10-${10 + (number % 15)}T20:35:34.936Z`,
        // Some have a value that is too long for an index, some are new to the recipes.
        ...(number % 40 === 39 && { more: "x".repeat(40_000) }),
        ...(number % 30 === 29 && { event_type: `never seen ${number}` }),
      }),
    );
    const page = pageOfTexts(texts);
    const alone = texts.map((_, index) => Buffer.from(sink.encode!(page.event(index))).toString());
    expect(new Set(alone.map((lines) => lines.split("\n")[0])).size).toBe(120);
    for (let round = 0; round < 3; round++)
      expect(manyLinesOf(sink, page)).toEqual(alone.map((lines) => lines.split("\n")));
    await sink.close();
  },
);

function manyLinesOf(sink: Awaited<ReturnType<typeof openSink>>, page: ReturnType<typeof pageOfTexts>) {
  return manyLines({ encodeMany: sink.encodeMany! }, page, 25).map((lines) => lines.split("\n"));
}

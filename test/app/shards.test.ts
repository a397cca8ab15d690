import { describe, expect, test } from "vitest";
import { importRefusal } from "../../src/app/shard.ts";
import { parseConfig } from "../../src/config/load.ts";
import { shareOf } from "../../src/core/shard.ts";
import { createImports } from "../../src/imports/create-imports.ts";
import {
  definitionOf,
  forever,
  handClock,
  heardLog,
  openState as openImportState,
  sourceOf,
} from "../imports/support.ts";

const SHARDS = [0, 1, 2];

describe("imports over shards", () => {
  test("C17 a schedule fires once over all shards, in the shard of its organization", async () => {
    const organizations = Array.from({ length: 12 }, (_, at) => `organization-${at}`);
    const definitions = [
      ...organizations.map((organization, at) =>
        definitionOf({ name: `import-${at}`, organization, application: `app-${at}` }),
      ),
      definitionOf({ name: "own", organization: undefined, application: "app-own" }),
    ];
    const started: string[][] = [];
    for (const index of SHARDS) {
      const clock = handClock("2026-01-01T00:00:00Z");
      const db = openImportState();
      const answers = definitions.map((_, at) => ({ kind: "started", serviceJob: `job-${at}` }) as const);
      const source = sourceOf([...answers]);
      const refusal = importRefusal({ shard: { index, count: 3 }, accounts: [] });
      const options = { db, definitions, source: () => source, accounts: ["acme"], clock, log: heardLog() };
      const imports = createImports({ ...options, refusal });
      await imports.step(forever);
      clock.set("2026-01-01T02:00:10Z");
      await imports.step(forever);
      await imports.step(forever);
      started.push(source.starts);
      db.close();
    }
    expect(started.flat().toSorted()).toEqual(definitions.map(({ application }) => application!).toSorted());
    for (const index of SHARDS)
      expect(started[index]!.toSorted()).toEqual(
        definitions
          .filter(({ organization }) => (organization === undefined ? 0 : shareOf(organization, 3)) === index)
          .map(({ application }) => application!)
          .toSorted(),
      );
  });

  test("an import without an organization belongs to the only one that its account names", () => {
    const id = ["a", "b", "c", "d", "e"].find((one) => shareOf(one, 3) === 2)!;
    const accounts = [{ name: "single", organizations: [id] }] as never;
    const owners = SHARDS.filter(
      (index) => importRefusal({ shard: { index, count: 3 }, accounts })("single", undefined) === undefined,
    );
    expect(owners).toEqual([2]);
  });
});

describe("the config of a shard", () => {
  const text = (shard: string) => `
accounts: [{ name: acme, region: us, apiKey: { env: KEY } }]
shard: ${shard}
sinks:
  - { name: disk, type: file, directory: /data/events }
  - { name: lake, type: kafka, brokers: [b:9092], topic: t }
  - { name: own, type: kafka, brokers: [b:9092], topic: t, transactionalId: mine }
  - { name: proof, type: archive, origin: example.com/a, key: { env: A }, store: { directory: /data/archive } }
  - { name: vault, type: archive, origin: example.com/b, key: { env: A }, store: { s3: { bucket: b, prefix: x/ } } }
`;

  test("gives names that two shards must not share the shard's label", () => {
    const { shard, sinks } = parseConfig(text("1/3"), "x");
    expect(shard).toEqual({ index: 1, count: 3 });
    expect(sinks).toMatchObject([
      { directory: "/data/events/shard-1-of-3" },
      { transactionalId: "tidemark-lake-shard-1-of-3" },
      { transactionalId: "mine-shard-1-of-3" },
      { origin: "example.com/a/shard-1-of-3", store: { directory: "/data/archive/shard-1-of-3" } },
      { store: { s3: { prefix: "x/shard-1-of-3/" } } },
    ]);
  });

  test("without a shard changes nothing", () => {
    const { shard, sinks } = parseConfig(text("1/3").replace("shard: 1/3", ""), "x");
    expect(shard).toBeUndefined();
    expect(sinks).toMatchObject([{ directory: "/data/events" }, {}, { transactionalId: "mine" }, {}, {}]);
    expect((sinks[1] as { transactionalId?: string }).transactionalId).toBeUndefined();
  });

  test("a wrong one is named with the remedy", () => {
    expect(() => parseConfig(text("3/3"), "x")).toThrow(/shard: is "3\/3"; write i\/n such as 0\/3/);
    expect(() => parseConfig(text("auto/3"), "x", { TIDEMARK_SHARD: "seven" })).toThrow(
      /shard: TIDEMARK_SHARD is "seven", which does not end with a number/,
    );
  });
});

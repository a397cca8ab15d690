import { describe, expect, test } from "vitest";
import { guardedImports, guardedSink } from "../../src/app/cluster/lane-parts.ts";
import { configDigest, configOfLane } from "../../src/config/cluster.ts";
import { parseConfig } from "../../src/config/load.ts";
import { RetryableError } from "../../src/core/errors.ts";
import type { Batch, Sink, SinkContext, SinkDefinition } from "../../src/core/sink.ts";
import type { ImportSource } from "../../src/imports/source.ts";

const never = new AbortController().signal;
const config = (sinks: readonly string[], more: readonly string[] = []) =>
  parseConfig(
    [
      "accounts: [{ name: acme, region: us, apiKey: { env: KEY }, organizations: all }]",
      "state: /var/lib/tidemark",
      "cluster: { name: prod, brokers: ['k:9092'] }",
      "sinks:",
      ...sinks.map((sink) => `  - ${sink}`),
      ...more,
    ].join("\n"),
    "tidemark.yaml",
  );
const KAFKA = "{ name: lake, type: kafka, brokers: ['k:9092'], topic: events }";

describe("C9 effects of a lane", () => {
  test("C9 a sink is neither opened nor written to while the lane is not confirmed", async () => {
    let isOpen = true;
    const written: unknown[] = [];
    const sink: Sink = {
      limits: { recordsMax: 1, bytesMax: 1, ageMsMax: 0 },
      async write(batch) {
        written.push(batch);
        return undefined;
      },
      async close() {},
    };
    const definition = { open: async () => sink } as unknown as SinkDefinition;
    const guarded = guardedSink(definition, () => {
      if (!isOpen) throw new RetryableError("not confirmed");
    });
    const opened = await guarded.open({} as SinkContext<unknown>);
    await opened.write({} as Batch, never);
    isOpen = false;
    await expect(opened.write({} as Batch, never)).rejects.toThrow("not confirmed");
    await expect(guarded.open({} as SinkContext<unknown>)).rejects.toThrow("not confirmed");
    expect(written).toHaveLength(1);
    expect(opened.limits).toBe(sink.limits);
  });

  test("C9 an import is not started while the lane is not confirmed, and is certainly not taken", async () => {
    let started = 0;
    const start = async () => {
      started++;
      return { kind: "started", serviceJob: "1" } as const;
    };
    const source = { start, startWorkday: start, activate: async () => {} } as unknown as ImportSource;
    const guarded = guardedImports(source, () => {
      throw new RetryableError("not confirmed");
    });
    expect(await guarded.start(undefined, "a", {} as never, never)).toMatchObject({ kind: "unavailable" });
    expect(await guarded.startWorkday(undefined, "w", [], never)).toMatchObject({ kind: "unavailable" });
    await expect(guarded.activate(undefined, "u", never)).rejects.toThrow("not confirmed");
    expect(started).toBe(0);
  });
});

describe("the config of a cluster", () => {
  test("C10 sinks' ids, files and shares are those of the lane", () => {
    const lane = configOfLane(config([KAFKA]), 3, 16);
    expect(lane).toMatchObject({
      state: "/var/lib/tidemark/lane-3.db",
      shard: { index: 3, count: 16 },
      sinks: [{ transactionalId: "prod.lake.3" }],
    });
    expect(lane.cluster).toBeUndefined();
    const named = KAFKA.replace("topic: events", "topic: events, transactionalId: mine");
    expect(configOfLane(config([named]), 0, 16).sinks[0]).toMatchObject({ transactionalId: "mine.0" });
  });

  test.each(["{ name: disk, type: file, directory: ./events }", "{ name: out, type: console }"])(
    "C11 a sink that keeps its files on one machine is refused: %s",
    (sink) => {
      expect(() => config([sink])).toThrow("use a sink that all machines reach");
    },
  );

  test.each([
    ["{ name: lane, type: kafka, brokers: ['k:9092'], topic: events }", "prod.lane.N"],
    [
      "{ name: a, type: kafka, brokers: ['k:9092'], topic: events, transactionalId: prod.lane }",
      "prod.lane.N",
    ],
    [
      "{ name: a, type: kafka, brokers: ['k:9092'], topic: prod.state }",
      "prod.state is a topic of the cluster",
    ],
  ])("C10 a sink with a name of the cluster's own is refused: %s", (sink, message) => {
    expect(() => config([sink])).toThrow(message);
  });

  test("C10 each lane has an archive of its own below the configured one, in a store that all machines reach", () => {
    const store = "s3: { bucket: b, prefix: audit/ }";
    const archive = `{ name: evidence, type: archive, origin: example.com/audit, key: { env: KEY }, store: { ${store} } }`;
    expect(configOfLane(config([archive]), 3, 16).sinks[0]).toMatchObject({
      origin: "example.com/audit/lane-3",
      store: { s3: { bucket: "b", prefix: "audit/lane-3/" } },
    });
    expect(() => config([archive.replace(store, "directory: /var/archive")])).toThrow(
      "keep the archive of a cluster in S3",
    );
  });

  test("a shard and a cluster exclude each other", () => {
    expect(() => config([KAFKA], ["shard: 0/2"])).toThrow("a cluster divides the work by itself");
  });

  test("C15 the digest changes with accounts, sinks and imports, and with nothing else", () => {
    const digest = configDigest(config([KAFKA]));
    expect(configDigest(config([KAFKA], ["log: { level: debug }"]))).toBe(digest);
    expect(configDigest(config([KAFKA.replace("events", "others")]))).not.toBe(digest);
  });
});

import { expect, test } from "vitest";
import { configOfLane } from "../../src/config/cluster.ts";
import { idOfRenamed } from "../../src/config/kafka-names.ts";
import { parseConfig } from "../../src/config/load.ts";
import type { Config } from "../../src/config/schema.ts";

const ACCOUNTS = "accounts: [{ name: acme, region: us, apiKey: { env: KEY }, organizations: all }]";
const SHARD = "shard: 0/3";
const CLUSTER = "state: /var/lib/tidemark\ncluster: { name: prod, brokers: ['k:9092'] }";

function configOf(sink: string, more = ""): Config {
  const sinks = `sinks: [{ name: new, type: kafka, brokers: ['k:9092'], topic: events${sink} }]`;
  return parseConfig([ACCOUNTS, more, sinks].join("\n"), "tidemark.yaml");
}

const idIn = (config: Config) =>
  (config.sinks as unknown as { transactionalId?: string }[])[0]!.transactionalId;

test.each([
  ["alone", "", "tidemark-old"],
  ["in a shard", SHARD, "tidemark-old"],
  ["in a cluster", CLUSTER, "prod.old"],
])("R20 a renamed Kafka sink keeps the transactional id of its position, %s", (_, more, id) => {
  expect(idOfRenamed(configOf("", more), "old", "new")).toBe(id);
  expect(idOfRenamed(configOf(`, transactionalId: ${id}`, more), "old", "new")).toBeUndefined();
  expect(idOfRenamed(configOf(`, transactionalId: own-id`, more), "old", "new")).toBeUndefined();
  expect(idOfRenamed(configOf(", delivery: at_least_once", more), "old", "new")).toBeUndefined();
  expect(idOfRenamed(configOf("", more), "old", "other")).toBeUndefined();
});

test("R20 a sink that gets its first name back keeps the id that it was given", () => {
  for (const more of ["", CLUSTER])
    expect(idOfRenamed(configOf(", transactionalId: tidemark-new", more), "old", "new")).toBeUndefined();
});

test("R20 the id that is named is the one that the old name had", () => {
  const renamed = (more: string, id: string) => configOf(`, transactionalId: ${id}`, more);
  expect(idIn(renamed(SHARD, "tidemark-old"))).toBe("tidemark-old-shard-0-of-3");
  expect(idIn(configOfLane(renamed(CLUSTER, "prod.old"), 2, 16))).toBe("prod.old.2");
});

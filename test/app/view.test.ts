import { expect, test } from "vitest";
import { viewOptions } from "../../src/app/view.ts";
import { parseConfig } from "../../src/config/load.ts";
import { systemClock } from "../../src/core/clock.ts";

test("the page promises what a sink's own config can hold, not the best that its type can", () => {
  const kafka = { type: "kafka", brokers: ["127.0.0.1:9092"] };
  const config = parseConfig(
    JSON.stringify({
      accounts: [{ name: "acme", region: "us", apiKey: { env: "KEY" } }],
      sinks: [
        { ...kafka, name: "once", topic: "a" },
        { ...kafka, name: "repeats", topic: "b", delivery: "at_least_once" },
      ],
    }),
    "test.yaml",
  );
  const shown = viewOptions(config, systemClock).sinks;
  expect(shown.map(({ name, guarantee }) => [name, guarantee])).toEqual([
    ["once", "exactly_once"],
    ["repeats", "at_least_once"],
  ]);
  expect(shown[1]!.promise).toContain("At least once");
});

test("an archive is a sink of the config", () => {
  const archive = { name: "evidence", type: "archive", origin: "example.com/a", key: { env: "KEY" } };
  const config = parseConfig(
    JSON.stringify({
      accounts: [{ name: "acme", region: "us", apiKey: { env: "KEY" } }],
      sinks: [{ ...archive, store: { directory: "/data/archive" } }],
    }),
    "test.yaml",
  );
  expect(viewOptions(config, systemClock).sinks).toMatchObject([
    { name: "evidence", type: "archive", guarantee: "exactly_once" },
  ]);
});

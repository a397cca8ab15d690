import { readdirSync, readFileSync } from "node:fs";
import { expect, describe as suite, test } from "vitest";
import type { Fields } from "../../src/core/meaning.ts";
import { ecs } from "../../src/formats/ecs.ts";
import { ocsf } from "../../src/formats/ocsf.ts";
import { describe } from "../../src/services/index.ts";
import { journalEvent } from "../formats/event.ts";
import { readPipeline } from "./pipeline.ts";
import { type Converted, fires, readDetection, valuesAt } from "./sigma.ts";

const DETECTIONS = new URL("../../detections/", import.meta.url);
const EVENTS = new URL("../fixtures/detections/", import.meta.url);
const files = ["rules", "correlations"].flatMap((folder) =>
  readdirSync(new URL(`${folder}/`, DETECTIONS)).map((file) => `${folder}/${file}`),
);
const nameOf = (file: string) => file.replace(/^.*\/|\.yml$/g, "");
const names = files.map(nameOf);
const detections = new Map(
  files.map((file) => [nameOf(file), readDetection(readFileSync(new URL(file, DETECTIONS), "utf8"))]),
);

/** Fields with words of ours as values. Backends that compare with case have to find them too. */
const EXACT = new Set([
  ...["event_type", "service", "outcome", "effects", "privileges", "target_kind", "mfa_type", "mdm_request"],
  "auth_method",
]);

const outputs = [
  {
    name: "ocsf",
    format: ocsf.create({ schemaVersion: "1.8.0", rawData: false }, { describe }),
    pipeline: readPipeline(new URL("pipelines/ocsf.yml", DETECTIONS)),
  },
  {
    name: "ecs",
    format: ecs.create({ namespace: "tidemark", original: false }, { describe }),
    pipeline: readPipeline(new URL("pipelines/ecs.yml", DETECTIONS)),
  },
] as const;

interface Cases {
  readonly positive: readonly (readonly object[])[];
  readonly negative: readonly (readonly object[])[];
}

function casesOf(name: string): Cases {
  return JSON.parse(readFileSync(new URL(`${name}.json`, EVENTS), "utf8")) as Cases;
}

test("there are at least 40 detections, each with titles and ids of its own", () => {
  const documents = [...detections.values()].flatMap(({ rule, correlation }) =>
    correlation ? [rule, correlation] : [rule],
  );
  expect(names.length).toBeGreaterThanOrEqual(40);
  expect(new Set(documents.map((document) => document.id)).size).toBe(documents.length);
  expect(new Set(documents.map((document) => document.title)).size).toBe(documents.length);
});

test("rules for one event and correlations are in folders of their own, for backends without correlations", () => {
  for (const file of files)
    expect(detections.get(nameOf(file))?.correlation !== undefined, file).toBe(
      file.startsWith("correlations/"),
    );
});

test("both pipelines map the same fields, and every one of them is used", () => {
  const [first, second] = outputs.map(({ pipeline }) => [...pipeline.fields.keys()].sort());
  expect(first).toEqual(second);
  const used = new Set([...detections.values()].flatMap((detection) => [...detection.fields]));
  expect([...used].sort()).toEqual(first);
});

test("the README of the detections names every rule and every field", () => {
  const readme = readFileSync(new URL("README.md", DETECTIONS), "utf8");
  for (const file of files) expect(readme, file).toContain(`(${file})`);
  for (const { pipeline } of outputs)
    for (const [field, mapped] of pipeline.fields) {
      expect(readme).toContain(`| \`${field}\` |`);
      expect(readme).toContain(`\`${mapped}\``);
    }
});

for (const { name: formatName, format, pipeline } of outputs) {
  const converted = (events: readonly object[]): Converted[] =>
    events.map((event) => {
      const source = journalEvent(event);
      return {
        timestampMs: source.timestampMs,
        output: JSON.parse(format.encode(source) as string) as Fields,
      };
    });

  suite(`on ${formatName}`, () => {
    test.each(names)("%s fires on its events and not on others", (name) => {
      const detection = detections.get(name)!;
      const { positive, negative } = casesOf(name);
      expect(positive.length).toBeGreaterThan(0);
      expect(negative.length).toBeGreaterThan(0);
      for (const events of positive)
        expect(fires(detection, converted(events), pipeline, EXACT), JSON.stringify(events)).toBe(true);
      for (const events of negative)
        expect(fires(detection, converted(events), pipeline, EXACT), JSON.stringify(events)).toBe(false);
    });

    test("the fields that a rule shows are there on the events that it finds", () => {
      for (const name of names) {
        const { rule } = detections.get(name)!;
        const shown = casesOf(name)
          .positive.flat()
          .flatMap((event) => converted([event]));
        for (const field of rule.fields) {
          const path = pipeline.field(field).split(".");
          expect(
            shown.some(({ output }) => valuesAt(output, path).length > 0),
            `${name}: ${field}`,
          ).toBe(true);
        }
      }
    });
  });
}

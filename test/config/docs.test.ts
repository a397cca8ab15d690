import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { jsonSchemaOf, referenceText, schemaText, undescribed } from "../../src/config/docs.ts";
import { parseConfig } from "../../src/config/load.ts";
import { sinkCommon } from "../../src/config/schema.ts";
import { formats } from "../../src/formats/index.ts";
import { sinks } from "../../src/sinks/index.ts";

describe("the configuration's documentation", () => {
  test("every field has a description", () => {
    expect(undescribed()).toEqual([]);
  });

  test("REFERENCE.md and schema.json are current; else run `npm run docs`", () => {
    expect(readFileSync("config/REFERENCE.md", "utf8")).toBe(referenceText());
    expect(readFileSync("config/schema.json", "utf8")).toBe(schemaText());
  });

  test("every sink and format is in the reference, with its guarantee and all of its fields", () => {
    const text = referenceText();
    for (const { type, promise, config } of sinks) {
      const section = text.split(`\n### ${type}\n`)[1]!.split("\n## ")[0]!.split("\n### ")[0]!;
      expect(section).toContain(promise);
      for (const field of Object.keys(jsonSchemaOf(config).properties ?? {}))
        expect(section, `${type}.${field}`).toContain(`| \`${field}\` |`);
    }
    for (const { name } of formats) expect(text).toContain(`\n### ${name}\n`);
  });

  test("no sink has a field of its own with the name of a common one: it could never be set", () => {
    const common = new Set([...Object.keys(sinkCommon), "type"]);
    const hidden = sinks.flatMap(({ type, config }) =>
      Object.keys(config.shape)
        .filter((field) => common.has(field))
        .map((field) => `${type}.${field}`),
    );
    expect(hidden).toEqual([]);
  });
});

describe("the configs that come along", () => {
  const files = readdirSync("config").filter((name) => name.endsWith(".yaml"));

  test("there is a minimal one and an example", () => {
    expect(files).toEqual(["example.yaml", "minimal.yaml"]);
  });

  test.each(files)("%s is valid", (name) => {
    const text = readFileSync(`config/${name}`, "utf8");
    expect(text.startsWith("# yaml-language-server: $schema=./schema.json\n")).toBe(true);
    parseConfig(text, name);
  });

  test("the example shows every sink once, and every section", () => {
    const text = readFileSync("config/example.yaml", "utf8");
    const config = parseConfig(text, "example.yaml");
    const types = (config.sinks as unknown as { type: string }[]).map(({ type }) => type);
    expect(types.toSorted()).toEqual(sinks.map(({ type }) => type).toSorted());
    for (const section of ["accounts", "state", "journal", "polling", "server", "log", "sinks", "imports"])
      expect(text).toMatch(new RegExp(`^${section}:`, "m"));
  });
});

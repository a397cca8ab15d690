import { expect, test } from "vitest";
import { z } from "zod";
import { sinks } from "../../src/sinks/index.ts";

type JsonSchema = { readonly [key: string]: unknown };

test("every type of sink is listed once, says what it is, and what it promises", () => {
  const types = sinks.map((sink) => sink.type);
  expect(new Set(types).size).toBe(types.length);
  for (const sink of sinks) {
    expect(sink.type).toMatch(/^[a-z][a-z0-9_]*$/);
    expect(sink.summary).toMatch(/\.$/);
    expect(sink.probe).toBeTypeOf("function");
    expect(sink.promise).toMatch(/^(Exactly|At least) once.*\.$/s);
  }
});

test.each(sinks.map((sink) => [sink.type, sink] as const))(
  "every field of %s has a description",
  (_, sink) => {
    const missing: string[] = [];
    collect(z.toJSONSchema(sink.config, { io: "input" }) as JsonSchema, "", missing);
    expect(missing).toEqual([]);
  },
);

test("a default is written as a person would write it in a config file", () => {
  for (const sink of sinks) {
    const { properties } = z.toJSONSchema(sink.config, { io: "input" }) as { properties: object };
    const { timeout } = properties as { timeout?: JsonSchema };
    if (timeout) expect(timeout.default).toMatch(/^(60s|5m)$/);
  }
});

function collect(schema: JsonSchema, path: string, missing: string[]): void {
  for (const [name, field] of Object.entries((schema.properties ?? {}) as Record<string, JsonSchema>)) {
    if (typeof field.description !== "string") missing.push(`${path}${name}`);
    collect(field, `${path}${name}.`, missing);
  }
  for (const branch of (schema.anyOf ?? []) as JsonSchema[]) collect(branch, path, missing);
  if (typeof schema.items === "object") collect(schema.items as JsonSchema, `${path}[].`, missing);
}

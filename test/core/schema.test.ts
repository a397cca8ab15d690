import { describe, expect, test } from "vitest";
import { z } from "zod";
import { durationSchema, sizeSchema, tlsSchema } from "../../src/core/schema.ts";

function faults(schema: z.ZodType, value: unknown): string[] {
  return schema.safeParse(value).error?.issues.map((issue) => issue.message) ?? [];
}

describe("a duration in a config file", () => {
  const schema = durationSchema("How long.", { minMs: 1000, maxMs: 3_600_000 });

  test("is parsed to milliseconds", () => {
    expect(schema.parse("1m30s")).toBe(90_000);
    expect(schema.parse("1s")).toBe(1000);
    expect(schema.parse("1h")).toBe(3_600_000);
  });

  test.each([
    ["soon", "write a duration such as 30s, 10m, 24h or 90d"],
    ["", "write a duration such as 30s, 10m, 24h or 90d"],
    ["999ms", "at least 1s"],
    ["61m", "at most 1h"],
  ])("%j is refused with one remedy", (value, message) => {
    expect(faults(schema, value)).toEqual([message]);
  });

  test("has a limit even where none is given", () => {
    expect(faults(durationSchema("x"), `${"9".repeat(30)}d`)).toHaveLength(1);
  });
});

describe("a size in a config file", () => {
  const schema = sizeSchema("How large.", { min: 1000, max: 5e9 });

  test.each([
    ["1KB", 1000],
    ["1KiB", 1024],
    ["64MB", 64e6],
    ["1.5 GiB", 1.5 * 2 ** 30],
    ["2000B", 2000],
    [4096, 4096],
  ])("%j is %d bytes", (value, bytes) => {
    expect(schema.parse(value)).toBe(bytes);
  });

  test.each([
    ["1", "write a size such as 500KB, 64MB or 1GiB"],
    ["1kb", "write a size such as 500KB, 64MB or 1GiB"],
    [1.5, "write a size such as 500KB, 64MB or 1GiB"],
    [-1, "write a size such as 500KB, 64MB or 1GiB"],
    [`${"9".repeat(400)}TB`, "write a size such as 500KB, 64MB or 1GiB"],
    ["999B", "at least 1000 bytes"],
    ["6GB", "at most 5000000000 bytes"],
  ])("%j is refused with one remedy", (value, message) => {
    expect(faults(schema, value)).toEqual([message]);
  });
});

test("descriptions and defaults reach the JSON schema as a person writes them", () => {
  const schema = z.strictObject({
    wait: durationSchema("How long.").prefault("10s"),
    size: sizeSchema("How large.").prefault("64MB"),
    tls: tlsSchema.optional(),
  });
  const { properties } = z.toJSONSchema(schema, { io: "input" });
  expect(properties).toMatchObject({
    wait: { type: "string", description: "How long.", default: "10s" },
    size: { description: "How large.", default: "64MB" },
  });
  expect(schema.parse({})).toMatchObject({ wait: 10_000, size: 64e6 });
});

import { format, inspect } from "node:util";
import { pino } from "pino";
import { describe, expect, test } from "vitest";
import { Secret, secretOf, secretSchema } from "../../src/core/secret.ts";

const VALUE = "hunter2-hunter2";

describe("a secret", () => {
  test("prints as [secret] in strings, JSON, inspect, format and logs", () => {
    const secret = secretOf(VALUE);
    const lines: string[] = [];
    const log = pino({ base: null }, { write: (line: string) => void lines.push(line) });
    log.info({ secret, inner: { secret } }, "A sentence.");
    log.error({ err: new Error(`refused ${secret}`, { cause: secret }) }, "Another.");
    const printed = [
      String(secret),
      `${secret}`,
      `a${secret as unknown as string}`,
      JSON.stringify({ secret, list: [secret] }),
      inspect(secret),
      inspect({ deep: { secret } }, { depth: 9, showHidden: true }),
      format("%s %o %O %j", secret, secret, secret, secret),
      JSON.stringify(Object.entries(secret)),
      JSON.stringify({ ...secret }),
      ...lines,
    ];
    for (const text of printed) expect(text).not.toContain(VALUE);
    expect(printed[0]).toBe("[secret]");
    expect(printed[3]).toBe('{"secret":"[secret]","list":["[secret]"]}');
    expect(lines[0]).toContain("[secret]");
  });

  test("gives its value to a caller that asks by name", () => {
    expect(secretOf(VALUE).reveal()).toBe(VALUE);
    const secret = new Secret({ env: "KEY" });
    secret.resolve(VALUE);
    expect(secret.reveal()).toBe(VALUE);
  });

  test("that was not loaded is an error, not an empty value", () => {
    expect(() => new Secret({ env: "KEY" }).reveal()).toThrow("before it was loaded");
  });
});

describe("a secret in a config", () => {
  const schema = secretSchema("A key.");

  test("is a variable or a file", () => {
    expect(schema.parse({ env: "KEY" }).source).toEqual({ env: "KEY" });
    expect(schema.parse({ file: "/run/key" }).source).toEqual({ file: "/run/key" });
  });

  test.each([VALUE, 12345, null, [], {}, { value: VALUE }])(
    "is refused as %j, with the remedy and without the value",
    (value) => {
      const result = schema.safeParse(value);
      expect(result.success).toBe(false);
      expect(result.error?.issues[0]?.message).toContain("{ env: NAME }");
      expect(JSON.stringify(result.error?.issues)).not.toContain(VALUE);
    },
  );

  test.each([{ env: "" }, { file: "" }, { env: "KEY", value: VALUE }, { env: "KEY", file: "/run/key" }])(
    "is refused as %j, without the value",
    (value) => {
      const result = schema.safeParse(value, { reportInput: false });
      expect(result.success).toBe(false);
      expect(JSON.stringify(result.error?.issues)).not.toContain(VALUE);
    },
  );
});

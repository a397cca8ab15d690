import fc from "fast-check";
import { expect, test } from "vitest";
import { withoutLongValues } from "../../src/sinks/bulk/long-values.ts";

const LONG = "x".repeat(40_000);

function cut(document: string, members: readonly string[] = [""]): string {
  return Buffer.from(withoutLongValues(Buffer.from(document), members)).toString();
}

test("keeps every byte but those of the long value: numbers beyond 2^53, duplicate names, escapes, spaces", () => {
  const head = `{ "n": 12345678901234567890, "n":1e400, "e":"\\u00e9\\/" ,\t"deep":{"v":`;
  const tail = `,"m":0.10000000000000000555},"z":[1 ,2] }`;
  const start = `"${"x".repeat(1024)}…"`;
  expect(cut(`${head}"${LONG}"${tail}`)).toBe(
    `${head}${start}${tail.slice(0, -1)},"long_values":[{"path":"deep.v","value":"${LONG}"}]}`,
  );
});

test("gives the same bytes where nothing is too long", () => {
  const document = Buffer.from(`{"a":[${'"y",'.repeat(20_000)}"y"]}`);
  expect(withoutLongValues(document, [""])).toBe(document);
});

test("only the named members are looked at", () => {
  const document = `{"a":{"b":{"v":"${LONG}"},"c":"${LONG}"},"d":"${LONG}"}`;
  expect(JSON.parse(cut(document, ["a.b"]))).toEqual({
    a: { b: { v: `${"x".repeat(1024)}…` }, c: LONG },
    d: LONG,
    long_values: [{ path: "a.b.v", value: LONG }],
  });
});

test.each([
  ["first", (name: string) => `{"${name}":1,"a":2,"b":3}`, { a: 2, b: 3 }],
  ["middle", (name: string) => `{"a":2,"${name}":1,"b":3}`, { a: 2, b: 3 }],
  ["last", (name: string) => `{"a":2,"b":3,"${name}":1}`, { a: 2, b: 3 }],
  ["all the last ones", (name: string) => `{"a":2,"${name}1":1,"${name}2":[1]}`, { a: 2 }],
  ["all of an inner object", (name: string) => `{"a":{"${name}1":1,"${name}2":[1]}}`, { a: {} }],
])("a name that is too long is left out with its value: %s", (_, make, rest) => {
  const document = make(LONG);
  const { long_values: kept, ...held } = JSON.parse(cut(document)) as Record<string, unknown>;
  expect(held).toEqual(rest);
  expect((kept as unknown[]).length).toBe(document.split(LONG).length - 1);
});

test("the cut never splits a character, and the value can be put back", () => {
  const value = `${"é".repeat(1023)}🦊${"ü".repeat(30_000)}`;
  const { v, long_values } = JSON.parse(cut(JSON.stringify({ v: value }))) as {
    v: string;
    long_values: { value: string }[];
  };
  expect(v).toBe(`${"é".repeat(1023)}…`);
  expect(long_values[0]!.value).toBe(value);
});

test("any JSON stays the same JSON once the values are put back", () => {
  const leaf = fc.oneof(fc.string(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.constant(LONG));
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { depthSize: "small" },
      leaf,
      fc.array(tie("tree"), { maxLength: 3 }),
      fc.dictionary(fc.string({ maxLength: 5 }), tie("tree"), { maxKeys: 3 }),
    ),
  }));
  fc.assert(
    fc.property(tree, fc.nat(2), (value, indent) => {
      const document = { value, more: LONG };
      const result = cut(JSON.stringify(document, null, indent));
      const shortened = `${"x".repeat(1024)}…`;
      const { long_values, ...held } = JSON.parse(result, (_, inner: unknown) =>
        inner === shortened ? LONG : inner,
      ) as Record<string, unknown>;
      expect(held).toEqual(JSON.parse(JSON.stringify(document)));
      for (const { value: kept } of long_values as { value: string }[]) expect(kept).toBe(LONG);
    }),
    { numRuns: 100 },
  );
});

import fc from "fast-check";
import { expect, test } from "vitest";
import { holdsInexact } from "../../src/core/inexact.ts";
import { runs } from "../support/runs.ts";

const number = fc.oneof(
  fc.bigInt({ min: -(10n ** 20n), max: 10n ** 20n }).map(String),
  fc.bigInt({ min: 2n ** 53n - 3n, max: 2n ** 53n + 3n }).map(String),
  fc.double({ noNaN: true }).map((value) => (Number.isFinite(value) ? String(value) : "1e400")),
  fc.constantFrom("0", "-0", "1e3", "1E15", "-2e+16", "1.5e300", "9007199254740993.0", "123456789012345.25"),
);
const blank = fc.constantFrom("", " ", "\n\t");

test("numbers that a double may not hold are found wherever they are, and others are none", () => {
  fc.assert(
    fc.property(fc.array(number, { minLength: 1 }), blank, (numbers, space) => {
      const isExpected = numbers.some((text) => !(Math.abs(Number(text)) <= Number.MAX_SAFE_INTEGER));
      const list = numbers.map((text) => `${space}${text}${space}`).join(",");
      const members = numbers.map((text, at) => `"k${at}"${space}:${space}${text}`).join(`${space},`);
      for (const source of [`{"a":[${list}]}`, `{${members}}`, `[{"b":{${members}}}]`])
        expect(holdsInexact(JSON.parse(source) as object, source), source).toBe(isExpected);
    }),
    { numRuns: runs(300) },
  );
});

test("digits in a text are no number", () => {
  const source = '{"id":"a:12345678901234567890","list":["1e9",",99999999999999999"]}';
  expect(holdsInexact(JSON.parse(source) as object, source)).toBe(false);
});

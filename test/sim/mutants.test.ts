import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { MUTANTS } from "../../sim/mutants.ts";

const NAMED = [...numbered(1, 12), ...numbered(29, 36)];

function numbered(first: number, last: number): string[] {
  return Array.from({ length: last - first + 1 }, (_, at) => `R${first + at}`);
}

test("every rule that lives can notice has a mutant", () => {
  expect([...new Set(MUTANTS.map(({ rule }) => rule))]).toEqual(NAMED);
});

test.each(MUTANTS.map((mutant) => [mutant.rule, mutant] as const))(
  "the mutant of %s still fits the sources: change it together with them",
  (_, { file, text, replacement }) => {
    expect(readFileSync(file, "utf8").split(text).length - 1).toBe(1);
    expect(replacement).not.toBe(text);
  },
);

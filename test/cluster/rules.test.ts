import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const RULES = 18;
const TESTS = join(import.meta.dirname, "..");

test("each rule of the cluster, C1 to C18, has a test whose name begins with it", () => {
  const texts = readdirSync(TESTS, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => readFileSync(join(TESTS, name), "utf8"));
  const named = new Set(
    texts.flatMap((text) =>
      [...text.matchAll(/\b(?:test|it)(?:\.each\([\s\S]{0,2000}?\))?\(\s*["'`]C(\d+) /g)].map(([, rule]) =>
        Number(rule),
      ),
    ),
  );
  const missing = Array.from({ length: RULES }, (_, at) => at + 1).filter((rule) => !named.has(rule));
  expect(missing).toEqual([]);
});

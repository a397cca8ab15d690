import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

/** Each rule of the archive in a few words; the tests whose names begin with its number show it. */
const RULES = {
  A1: "windows are cut at midnights",
  A2: "a day closes in parts",
  A3: "settle, and unread windows",
  A4: "the journal's budget",
  A5: "pages are a set, and sorting is bounded",
  A6: "undated events",
  A7: "one addition a day",
  A8: "no account in a path",
  A9: "further versions",
  A10: "complete needs a second look",
  A11: "identities have a public definition",
  A12: "plans are durable, names carry hashes",
  A13: "frames and seek table tile the file",
  A14: "slices are stored exactly",
  A15: "a proof goes through three trees",
  A16: "labels, and sizes from the parent",
  A17: "nonces from an erasable secret",
  A18: "salted hashes of cases and reasons",
  A19: "one history, one writer",
  A20: "pinned keys and rotation",
  A21: "age of the newest entry",
  A22: "retention classes and holds",
  A23: "erasure",
  A24: "object locks",
  A25: "the index is local and can be made again",
  A26: "one SELECT",
  A27: "the predicate decides",
  A28: "one order, one snapshot",
  A29: "quick and resumed verification",
};
const TESTS = join(import.meta.dirname, "..");

test("each rule of the archive, A1 to A29, has a test whose name begins with it", () => {
  expect(Object.keys(RULES)).toEqual(Array.from({ length: 29 }, (_, at) => `A${at + 1}`));
  const named = new Set(
    readdirSync(TESTS, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".test.ts"))
      .flatMap((name) => [
        // The first argument of test, describe, test.skipIf(…) or test.each(…).
        ...readFileSync(join(TESTS, name), "utf8").matchAll(/\(\s*["'`](A\d+) /g),
      ])
      .map(([, rule]) => rule!),
  );
  expect(Object.keys(RULES).filter((rule) => !named.has(rule))).toEqual([]);
});

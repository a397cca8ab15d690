import fc from "fast-check";
import { expect, test } from "vitest";
import {
  comparePositions,
  formatPosition,
  type Position,
  parsePosition,
  startOf,
} from "../../src/core/position.ts";

const JOURNAL = "0b5e7a52-9c1d-4a6e-8f30-1d2c3b4a5f60";
const position = fc.record({
  journal: fc.uuid(),
  page: fc.nat(2 ** 31),
  event: fc.nat(999_999_999),
  hash: fc.stringMatching(/^[0-9a-f]{32}$/),
});

test("a position that is written can be read again", () => {
  fc.assert(
    fc.property(position, (at) => {
      expect(parsePosition(formatPosition(at))).toEqual(at);
    }),
  );
  expect(parsePosition(formatPosition(startOf(JOURNAL)))).toEqual(startOf(JOURNAL));
});

test("positions are in the order of pages, and of events inside one", () => {
  const at = (page: number, event: number): Position => ({ journal: JOURNAL, page, event, hash: "" });
  const ordered = [startOf(JOURNAL), at(1, 0), at(1, 2), at(2, 0), at(2, 10), at(10, 1)];
  for (const [i, a] of ordered.entries())
    for (const [j, b] of ordered.entries()) expect(Math.sign(comparePositions(a, b))).toBe(Math.sign(i - j));
});

test.each([
  "",
  "x",
  `${JOURNAL}:1:2`,
  `${JOURNAL}:-1:2:ab`,
  `${JOURNAL}:1:2:xyz`,
  `${JOURNAL}:1:2:ab:`,
  ":1:2:ab",
  `${JOURNAL}:1e3:2:ab`,
  ` ${JOURNAL}:1:2:ab`,
])("%j is no position", (text) => {
  expect(parsePosition(text)).toBeUndefined();
});

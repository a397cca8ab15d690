import { expect, test } from "vitest";
import { countsFrom, heldQuery } from "../../src/polling/read/counts.ts";

const stream = { id: 1, account: "acme", provider: null, organizations: ["a"], services: ["all"] };

test("R36 an event that was passed over is in the service's count and not in ours", () => {
  expect(countsFrom(stream, { a: 3 }, new Map([["a", 3]]), 1)).toEqual({
    apiCount: 4,
    heldCount: 3,
    counts: null,
  });
});

test("R36 what is held is not derived from what the service showed", () => {
  expect(countsFrom(stream, { a: 3 }, new Map([["a", 2]]), 0)).toMatchObject({ apiCount: 3, heldCount: 2 });
});

test("R36 a query without organizations is counted for owners that it showed before, too", () => {
  const own = { ...stream, organizations: [] };
  const stretch = { fromMs: 0, toMs: 1 };
  expect(heldQuery(own, stretch, {}, { a: [3, 3] }).owners).toEqual(["a"]);
  expect(heldQuery(own, stretch, { b: 1 }, { a: [3, 3], b: [1, 1] }).owners).toEqual(["b", "a"]);
  expect(heldQuery(stream, stretch, {}, { b: [1, 1] }).owners).toEqual(["a"]);
});

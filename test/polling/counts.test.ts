import { expect, test } from "vitest";
import { countsFrom, heldQuery, largerCounts } from "../../src/polling/read/counts.ts";

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

test("R36 owners may have the names of what every object has", () => {
  const own = { ...stream, organizations: [] };
  const names = ["constructor", "__proto__", "toString"];
  const shown = Object.fromEntries(names.map((name) => [name, 2]));
  const held = new Map(names.map((name) => [name, 2]));
  const counted = countsFrom(own, shown, held, 0);
  expect(counted).toMatchObject({ apiCount: 6, heldCount: 6 });
  const stored = JSON.parse(JSON.stringify(counted)) as typeof counted;
  expect(largerCounts(stored, counted, 0)).toMatchObject({ apiCount: 6, heldCount: 6 });
  expect(largerCounts({ apiCount: 1, counts: { other: [1, 1] } }, counted, 0).apiCount).toBe(7);
  expect(heldQuery(own, { fromMs: 0, toMs: 1 }, shown).owners.toSorted()).toEqual(names.toSorted());
});

test("R36 a query without organizations is counted for owners that it showed before, too", () => {
  const own = { ...stream, organizations: [] };
  const stretch = { fromMs: 0, toMs: 1 };
  expect(heldQuery(own, stretch, {}, { a: [3, 3] }).owners).toEqual(["a"]);
  expect(heldQuery(own, stretch, { b: 1 }, { a: [3, 3], b: [1, 1] }).owners).toEqual(["b", "a"]);
  expect(heldQuery(stream, stretch, {}, { b: [1, 1] }).owners).toEqual(["a"]);
});

test("R36 when the service forgets events of one organization and shows more of another, the whole is its parts", () => {
  const group = { ...stream, organizations: ["a", "b"] };
  const held = new Map([
    ["a", 10],
    ["b", 7],
  ]);
  const before = { apiCount: 15, counts: { a: [10, 10], b: [5, 5] } as const };
  expect(largerCounts(before, countsFrom(group, { a: 8, b: 7 }, held, 0), 0)).toEqual({
    apiCount: 17,
    heldCount: 17,
    counts: { a: [10, 10], b: [7, 7] },
  });
  // One event was passed over, before and now.
  expect(
    largerCounts({ ...before, apiCount: 16 }, countsFrom(group, { a: 8, b: 7 }, held, 1), 0).apiCount,
  ).toBe(18);
  // The event that had no known owner has one by now: it is not counted twice.
  const owned = { apiCount: 16, counts: { a: [8, 8], b: [7, 7] } } as const;
  expect(largerCounts(owned, countsFrom(group, { a: 9, b: 7 }, held, 0), 0).apiCount).toBe(16);
  const alone = { apiCount: 10, counts: null };
  expect(largerCounts(alone, countsFrom(stream, { a: 8 }, new Map([["a", 10]]), 1), 0).apiCount).toBe(10);
});

test("R36 a look that finds a late event and is short of another has not shown fewer than are held", () => {
  const group = { ...stream, organizations: ["a", "b"] };
  const held = new Map([
    ["a", 11],
    ["b", 5],
  ]);
  const before = { apiCount: 15, counts: { a: [10, 10], b: [5, 5] } as const };
  expect(largerCounts(before, countsFrom(group, { a: 10, b: 5 }, held, 0), 1)).toEqual({
    apiCount: 16,
    heldCount: 16,
    counts: { a: [11, 11], b: [5, 5] },
  });
  const alone = { apiCount: 10, counts: null };
  expect(largerCounts(alone, countsFrom(stream, { a: 10 }, new Map([["a", 11]]), 0), 1).apiCount).toBe(11);
  // The found event was counted before, when an answer was short of it.
  const short = { apiCount: 11, counts: null };
  expect(largerCounts(short, countsFrom(stream, { a: 11 }, new Map([["a", 11]]), 0), 1).apiCount).toBe(11);
});

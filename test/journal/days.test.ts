import { describe, expect, test } from "vitest";
import { DAY_MS } from "../../src/core/time.ts";
import { createDays, type LedgerStretch, worstStates } from "../../src/journal/view/days.ts";

const HOUR_MS = 3_600_000;
const TODAY_MS = Date.parse("2026-03-14T00:00:00Z");

/** Hours count from the beginning of the day before. */
function window(fromHour: number, toHour: number, over: Partial<LedgerStretch> = {}): LedgerStretch {
  return {
    fromMs: TODAY_MS - DAY_MS + fromHour * HOUR_MS,
    toMs: TODAY_MS - DAY_MS + toHour * HOUR_MS,
    ...{ state: "sealed", apiCount: 10, heldCount: 10, late: 0, askedMs: TODAY_MS },
    ...over,
  };
}

function countsOf(...windows: readonly LedgerStretch[]) {
  const days = createDays(TODAY_MS + 12 * HOUR_MS);
  for (const one of windows) days.addCounts(one);
  return days
    .list()
    .slice(-2)
    .map(({ apiCount, heldCount }) => [apiCount, heldCount]);
}

describe("the counts of a day", () => {
  test("are those of all its windows", () => {
    expect(countsOf(window(0, 6), window(6, 24), window(24, 30, { heldCount: 9 }))).toEqual([
      [20, 20],
      [10, 9],
    ]);
  });

  test("are not shown where a window with counts goes beyond midnight: the rest would not be the day's", () => {
    expect(countsOf(window(0, 22), window(22, 26), window(26, 36))).toEqual([
      [null, null],
      [null, null],
    ]);
  });

  test("are shown beside a window without counts, or a live one, that goes beyond midnight", () => {
    const unread = window(22, 26, { state: "unread", apiCount: null, heldCount: null });
    expect(countsOf(window(0, 22), unread, window(20, 36, { state: "live" }))).toEqual([
      [10, 10],
      [null, null],
    ]);
  });
});

test("of windows that overlap, because services were added, the worst state of each moment counts once", () => {
  const days = createDays(TODAY_MS + 12 * HOUR_MS);
  const overlapping = [
    window(0, 30),
    window(12, 20, { state: "unread" }),
    window(18, 24, { state: "read" }),
    window(36, 36, { state: "live" }),
  ];
  for (const stretch of worstStates(overlapping)) days.addState(stretch, 1);
  const [yesterday, today] = days.list().slice(-2);
  expect(yesterday).toMatchObject({ sealed: 0.5, unread: 0.333333, read: 0.166667, live: 0 });
  expect(today).toMatchObject({ sealed: 0.25, unread: 0, read: 0 });
  expect(worstStates(overlapping).at(-1)).toMatchObject({ state: "live" });
});

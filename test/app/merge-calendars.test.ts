import { expect, test } from "vitest";
import { mergeCalendars } from "../../src/app/cluster/merge-lists.ts";
import { type CalendarDay, DAY_STATES } from "../../src/core/view/windows.ts";

const NONE = Object.fromEntries(DAY_STATES.map((state) => [state, 0]));
const day = (over: Partial<CalendarDay>): CalendarDay =>
  ({
    day: "2026-02-01",
    ...NONE,
    apiCount: null,
    heldCount: null,
    late: 0,
    askedMs: null,
    ...over,
  }) as CalendarDay;
const merged = (...days: readonly CalendarDay[]) =>
  mergeCalendars(
    days.map((one) => ({ madeMs: 1, days: [one] })),
    1,
  ).days[0];

test("the counts of a day are the sum over the lanes that have windows there", () => {
  const sealed = day({ sealed: 1, apiCount: 5, heldCount: 5 });
  expect(merged(day({}), sealed, day({ live: 1 }), sealed)).toMatchObject({ apiCount: 10, heldCount: 10 });
});

test("a lane whose sealed windows have no counts for the day leaves the day's counts blank, in any order", () => {
  const sealed = day({ sealed: 1, apiCount: 5, heldCount: 5 });
  const unknown = day({ sealed: 1 });
  for (const lanes of [
    [unknown, sealed, sealed],
    [sealed, unknown, sealed],
    [sealed, sealed, unknown],
  ])
    expect(merged(...lanes)).toMatchObject({ sealed: 3, apiCount: null, heldCount: null });
});

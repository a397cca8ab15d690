import { describe, expect, test } from "vitest";
import { matchPlaces } from "../../src/core/places.ts";

const at = (fromMs: number, toMs: number) => ({ fromMs, toMs });

describe("R32 places of unreadable events without a name", () => {
  test("neighbours have the readable event between them in common, and are two", () => {
    expect(matchPlaces([at(7, 12)], [[at(3, 8)]]).size).toBe(0);
    // A service may show whole seconds.
    expect(matchPlaces([at(2000, 5000)], [[at(0, 3000)]]).size).toBe(0);
  });

  test("an event of one millisecond is in each place around it", () => {
    expect(matchPlaces([at(5, 6)], [[at(0, 6)]]).size).toBe(1);
  });

  test("as many events as possible are known ones", () => {
    const [wide, narrow] = [at(0, 100), at(50, 60)];
    const events = [at(40, 70), at(10, 20)];
    const matched = matchPlaces(events, [[wide, narrow]]);
    expect([...matched].sort(([, a], [, b]) => a.fromMs - b.fromMs)).toEqual([
      [events[1], wide],
      [events[0], narrow],
    ]);
  });

  test("as few of a later rank as possible are taken", () => {
    const [first, second, last] = [at(0, 10), at(0, 30), at(20, 40)];
    const matched = matchPlaces([at(0, 25), at(22, 38), at(2, 8)], [[first, second], [last]]);
    expect([...matched.values()].filter((known) => known === last)).toHaveLength(1);
    expect(matchPlaces([at(0, 25), at(2, 8)], [[first, second], [last]]).size).toBe(2);
    expect([...matchPlaces([at(0, 25), at(2, 8)], [[first, second], [last]]).values()]).not.toContain(last);
  });

  test("thousands may be in one place", () => {
    const many = (count: number) => Array.from({ length: count }, () => at(0, 1000));
    expect(matchPlaces(many(3000), [many(1000), many(500)]).size).toBe(1500);
  });
});

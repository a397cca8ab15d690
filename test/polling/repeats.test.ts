import { expect, test } from "vitest";
import { createRepeats } from "../../src/polling/read/repeats.ts";

test("R10 a walk that restarts at a moment shows its events again, and one more with that identity is a twin", () => {
  const repeats = createRepeats();
  expect([repeats.look(1000, "a"), repeats.look(2000, "a")]).toEqual(["first", "first"]);
  repeats.beginAgain(2000);
  expect(repeats.look(2000, "a")).toBe("again");
  expect(repeats.look(2000, "a")).toBe("twin");
  repeats.beginAgain(2000);
  expect([repeats.look(2000, "a"), repeats.look(2000, "a"), repeats.look(2000, "b")]).toEqual([
    "again",
    "again",
    "first",
  ]);
});

test("R10 without a restart the same identity at the same moment is a twin, and at another moment it is not", () => {
  const repeats = createRepeats();
  expect([repeats.look(5, "a"), repeats.look(5, "a")]).toEqual(["first", "twin"]);
  expect(repeats.look(1006, "a")).toBe("first");
  repeats.beginAgain(5);
  expect(repeats.look(1006, "a")).toBe("twin");
});

test("R36 a service that cuts the fraction off a walk's new start shows the events of that second again, which count once", () => {
  const repeats = createRepeats();
  expect([repeats.look(1200, "a"), repeats.look(1700, "b")]).toEqual(["first", "first"]);
  repeats.beginAgain(1700);
  expect([repeats.look(1200, "a"), repeats.look(1700, "b"), repeats.look(1800, "c")]).toEqual([
    "again",
    "again",
    "first",
  ]);
});

import { expect, test } from "vitest";
import { createRepeats } from "../../src/polling/read/repeats.ts";

test("R10 a walk that restarts at a moment shows its events again, and one more with that identity is a twin", () => {
  const repeats = createRepeats();
  expect([repeats.look(1, "a"), repeats.look(2, "a")]).toEqual(["first", "first"]);
  repeats.beginAgain(2);
  expect(repeats.look(2, "a")).toBe("again");
  expect(repeats.look(2, "a")).toBe("twin");
  repeats.beginAgain(2);
  expect([repeats.look(2, "a"), repeats.look(2, "a"), repeats.look(2, "b")]).toEqual([
    "again",
    "again",
    "first",
  ]);
});

test("R10 without a restart the same identity at the same moment is a twin, and at another moment it is not", () => {
  const repeats = createRepeats();
  expect([repeats.look(5, "a"), repeats.look(5, "a")]).toEqual(["first", "twin"]);
  expect(repeats.look(6, "a")).toBe("first");
  repeats.beginAgain(5);
  expect(repeats.look(6, "a")).toBe("twin");
});

import { expect, test } from "vitest";
import { countsFrom } from "../../src/polling/read/counts.ts";

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

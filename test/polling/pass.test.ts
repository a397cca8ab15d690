import { expect, test } from "vitest";
import { preparePage } from "../../src/core/prepare-page.ts";
import type { Pass } from "../../src/core/window.ts";
import { beginPass, halved, movedBy, restarted } from "../../src/polling/read/pass.ts";

const ORGANIZATION = "a".repeat(24);
const START_MS = Date.UTC(2026, 0, 5);
const PAGE_SIZE = 1000;

function pageAt(...timesMs: readonly number[]) {
  const events = timesMs.map((timeMs, at) => ({
    id: `${timeMs}-${at}`,
    timestamp: new Date(timeMs).toISOString(),
    organization: ORGANIZATION,
  }));
  return preparePage(Buffer.from(JSON.stringify(events)), { organizations: [ORGANIZATION], provider: null });
}

/** A pass that looks for a bad event with single events, of which three are suspects. */
function searching(): Pass {
  const pass = { ...beginPass(START_MS, null, 3, { begunMs: START_MS + 60_000 }), suspects: 3 };
  return halved(pass)!;
}

test("R32 pages stay small while the time of the request is not passed: the larger page would fail again", () => {
  let pass = searching();
  for (let at = 0; at < 5; at++) pass = movedBy(pass, pageAt(START_MS), `token ${at}`, 0, PAGE_SIZE, true);
  expect(pass).toMatchObject({ limit: 1, cursor: "token 4" });
  const past = movedBy(pass, pageAt(START_MS + 1000), "token 5", 0, PAGE_SIZE, true);
  expect(past).toMatchObject({ limit: 2, cursor: null, startMs: START_MS + 1000 });
});

test("R8 the page size doubles after small pages alone, behind all suspects, up to its full size", () => {
  const pass = { ...searching(), suspects: 2 };
  const first = movedBy(pass, pageAt(START_MS + 1000), "token 1", 0, 3, true);
  expect(first).toMatchObject({ limit: 1, cursor: "token 1" });
  const large = movedBy(first, pageAt(START_MS + 2000), "token 2", 0, 3, false);
  expect(large).toMatchObject({ limit: 1, cursor: "token 2" });
  const small = movedBy(large, pageAt(START_MS + 3000), "token 3", 0, 3, true);
  expect(small).toMatchObject({ limit: 2, cursor: null, startMs: START_MS + 3000 });
  const full = movedBy(small, pageAt(START_MS + 3000, START_MS + 4000), "token 4", 1, 3, true);
  expect(full).toMatchObject({ limit: 3, cursor: null, startMs: START_MS + 4000 });
});

test("R32 a page that fails after all suspects were read has other suspects", () => {
  const pass = { ...beginPass(START_MS, null, 8, { begunMs: START_MS + 60_000 }), suspects: -2 };
  expect(halved(pass)).toMatchObject({ limit: 4, suspects: 8 });
  expect(halved({ ...pass, suspects: 3 })).toMatchObject({ limit: 4, suspects: 3 });
});

test("R6 events behind the end of the range do not move the pass behind it", () => {
  const endMs = START_MS + 60_500;
  const begun = { begunMs: START_MS + 3_600_000 };
  const inside = movedBy(beginPass(START_MS, endMs, 10, begun), pageAt(START_MS + 5000), "1", 0, PAGE_SIZE);
  expect(restarted(inside, 10).startMs).toBe(START_MS + 5000);
  // The end of a request is rounded up to a whole second, so events up to there are as asked for.
  const rounded = movedBy(inside, pageAt(START_MS + 60_900), "2", 0, PAGE_SIZE);
  expect(restarted(rounded, 10).startMs).toBe(START_MS + 60_900);
  for (const beyondMs of [61_000, 61_001, 90_000]) {
    const beyond = movedBy(inside, pageAt(START_MS + beyondMs), "3", 0, PAGE_SIZE);
    expect(restarted(beyond, 10).startMs).toBe(START_MS + 60_999);
  }
});

import { afterEach, expect, test } from "vitest";
import type { Journal } from "../../src/core/journal.ts";
import type { PollContext } from "../../src/polling/context.ts";
import { doubtfulAt, recheck } from "../../src/polling/read/missing-events.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { eventTexts, pageOf } from "../support/pages.ts";

const EVENTS = 3000;
const HOURS_6 = 21_600;

let fixture: JournalFixture | undefined;
afterEach(() => fixture?.close());

/** Looks again for events that a comparison listed, of which `held` are in the journal. */
async function recheckOf(texts: readonly string[], held: readonly string[]) {
  fixture = openFixture();
  const { journal } = fixture;
  await journal.append(pageOf(held));
  const { page } = pageOf(texts);
  const doubtful = texts.map((_, index) => doubtfulAt(page, index, page.timesMs[index]!));
  let lookups = 0;
  const counting: Journal = {
    ...journal,
    held: (...query) => {
      lookups++;
      return journal.held(...query);
    },
  };
  const clock = { now: () => 0, sleep: async () => {} };
  const context = { journal: counting, clock, settings: { sweepsMs: [1] } } as unknown as PollContext;
  const stream = { id: 1, account: "acme", provider: null, organizations: ["a"], services: ["all"] };
  const { missing } = await recheck(context, { stream } as never, doubtful, [], []);
  return { missing: missing.length, lookups };
}

test("R32 thousands of events that are not held are looked for together: one by one stopped the process for a minute", async () => {
  const texts = eventTexts(0, EVENTS);
  const held = texts.filter((_, at) => at % 3 === 0);
  expect(await recheckOf(texts, held)).toEqual({ missing: EVENTS - EVENTS / 3, lookups: 3 });
});

test("R32 events of days far apart are not looked for in all the time between", async () => {
  const texts = [0, 1, HOURS_6, HOURS_6 * 9, HOURS_6 * 9 + 1].flatMap((at) => eventTexts(at, 1));
  expect(await recheckOf(texts, texts.slice(1, 3))).toEqual({ missing: 3, lookups: 3 });
});

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { GapReason, NewGap } from "../../src/core/gap.ts";
import { DAY_MS } from "../../src/core/time.ts";
import { newWindow, type Stream } from "../../src/core/window.ts";
import { openState, type State } from "../../src/journal/database.ts";
import { createJournal, type SqliteJournal } from "../../src/journal/journal.ts";

const HOUR = 3_600_000;
let folder: string;
let db: State;
let journal: SqliteJournal;
let group: Stream;
let nowMs: number;
const clock = { now: () => nowMs, sleep: async () => {} };

beforeEach(async () => {
  nowMs = 1000;
  folder = mkdtempSync(join(tmpdir(), "tidemark-gaps-"));
  reopen();
  group = await streamOf(["a", "b"]);
});
afterEach(() => {
  db.close();
  rmSync(folder, { recursive: true, force: true });
});

function reopen(): void {
  db?.close();
  db = openState(join(folder, "state.db"));
  journal = createJournal(db, clock);
}

function streamOf(organizations: readonly string[]): Promise<Stream> {
  return journal.stream({ account: "acme", provider: null, organizations, services: ["all"] });
}

function gap(stream: Stream, from: number, to: number, more: Partial<NewGap> = {}): NewGap {
  const reason: GapReason = "expired";
  return { stream, fromMs: from * HOUR, toMs: to * HOUR, reason, detail: "forgotten", events: null, ...more };
}

async function hours(owner: string): Promise<string[]> {
  return (await journal.gaps({ owner })).map((found) => `${found.fromMs / HOUR}-${found.toMs / HOUR}`);
}

test("a gap of a group is one of each of its organizations, and is remembered by the next process", async () => {
  await journal.changeWindows({ gaps: [gap(group, 1, 3)] });
  reopen();
  expect(await journal.gaps()).toMatchObject([
    { organization: "a", fromMs: HOUR, toMs: 3 * HOUR, reason: "expired", foundMs: 1000, open: false },
    { organization: "b", fromMs: HOUR, toMs: 3 * HOUR },
  ]);
  expect(await journal.gapTotals()).toMatchObject({ gaps: 2, organizations: 2, durationMs: 4 * HOUR });
});

test("R36 an event that two accounts lack is one missing event, also of a portal; that of two own organizations is two", async () => {
  const missing = { reason: "unreadable", detail: "the service listed x", events: 1 } as const;
  const add = async (account: string, provider: string | null, organizations: string[]) => {
    const stream = await journal.stream({ account, provider, organizations, services: ["all"] });
    await journal.changeWindows({ gaps: [gap(stream, 1, 2, missing)] });
    return (await journal.gapTotals()).events;
  };
  expect(await add("acme", null, ["a"])).toBe(1);
  expect(await add("second", null, ["a"])).toBe(1);
  expect(await add("second", null, ["b"])).toBe(2);
  expect(await add("acme", "9d9d", [])).toBe(3);
  expect(await add("second", "9d9d", [])).toBe(3);
  expect(await add("acme", null, [])).toBe(4);
  expect(await add("second", null, [])).toBe(5);
});

test("R40 a gap that grows counts as found when it last grew, and one that does not keeps its time", async () => {
  await journal.changeWindows({ gaps: [gap(group, 1, 2), gap(group, 5, 6)] });
  nowMs += 8 * DAY_MS;
  const recent = () => journal.gapTotals({ foundSinceMs: nowMs - 7 * DAY_MS });
  expect(await recent()).toMatchObject({ gaps: 0 });
  await journal.changeWindows({ gaps: [gap(group, 2, 3), gap(group, 5, 6)] });
  expect(await recent()).toMatchObject({ gaps: 2, durationMs: 4 * HOUR });
});

test("neighbours of one cause are one gap, and the same one again is not recorded twice", async () => {
  await journal.changeWindows({ gaps: [gap(group, 1, 2)] });
  await journal.changeWindows({ gaps: [gap(group, 2, 3)] });
  await journal.changeWindows({ gaps: [gap(group, 1, 2), gap(group, 5, 6)] });
  expect(await hours("a")).toEqual(["1-3", "5-6"]);
});

test("a stretch that is read after all ends the gap inside it, for the organizations that were read", async () => {
  await journal.changeWindows({ gaps: [gap(group, 1, 6)] });
  const stream = await streamOf(["a"]);
  await journal.changeWindows({
    filled: [{ stream, fromMs: 2 * HOUR, toMs: 3 * HOUR, reasons: ["expired"] }],
  });
  expect(await hours("a")).toEqual(["1-2", "3-6"]);
  expect(await hours("b")).toEqual(["1-6"]);
});

test("R40 time that is missing for two reasons counts once for each organization", async () => {
  await journal.changeWindows({
    gaps: [
      gap(group, 1, 9),
      gap(group, 2, 4, { reason: "unchecked", detail: "not compared" }),
      gap(group, 8, 10, { reason: "unchecked", detail: "the plan keeps less" }),
    ],
  });
  expect(await journal.gapTotals()).toMatchObject({ gaps: 6, organizations: 2, durationMs: 18 * HOUR });
});

test("an unreadable event is counted once however often it is found", async () => {
  const one = gap(group, 1, 2, { reason: "unreadable", detail: "bytes kept as 12ab", events: 1 });
  for (let time = 0; time < 3; time++) await journal.changeWindows({ gaps: [one] });
  expect(await journal.gapTotals({ owner: "a" })).toMatchObject({ gaps: 1, events: 1 });
});

test("R32 events without a name are as many gaps as are added, also where they look the same", async () => {
  const stream = await streamOf(["a"]);
  const one = gap(stream, 1, 2, { reason: "unreadable", detail: "one event is not readable: x", events: 1 });
  await journal.changeWindows({ gaps: [one, one] });
  await journal.changeWindows({ gaps: [one] });
  expect(await journal.gapTotals()).toMatchObject({ gaps: 3, events: 3, durationMs: HOUR });
  // Another account lacks two of them.
  const second = await journal.stream({
    account: "second",
    provider: null,
    organizations: ["a"],
    services: ["all"],
  });
  await journal.changeWindows({ gaps: [one, one].map((found) => ({ ...found, stream: second })) });
  expect(await journal.gapTotals()).toMatchObject({ gaps: 5, events: 3 });
});

test("a refused window is an open gap with its reason and its next try", async () => {
  const window = newWindow(group, HOUR, 2 * HOUR, { state: "refused", reason: "402", nextMs: 5 * HOUR });
  await journal.changeWindows({ add: [window] });
  expect(await journal.gaps({ owner: "B" })).toMatchObject([
    { organization: "b", open: true, detail: "402", nextMs: 5 * HOUR, reason: "refused" },
  ]);
  expect(await journal.gapTotals()).toMatchObject({ gaps: 0, open: 2, openMs: 2 * HOUR });
});

test("all or nothing: a change that fails leaves no gap", async () => {
  await expect(journal.changeWindows({ gaps: [gap(group, 1, 2)], remove: [99] })).rejects.toThrow();
  await expect(journal.changeWindows({ remove: [99], gaps: [gap(group, 1, 2)] })).rejects.toThrow("replaced");
  expect(await journal.gaps()).toEqual([]);
});

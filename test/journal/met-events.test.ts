import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { gapKey, type MetEvents, type NewGap } from "../../src/core/gap.ts";
import type { Stream } from "../../src/core/window.ts";
import { openState, type State } from "../../src/journal/database.ts";
import { createJournal, type SqliteJournal } from "../../src/journal/journal.ts";

const WHOLE = { fromMs: 0, toMs: 100_000 };
let folder: string;
let db: State;
let journal: SqliteJournal;
let stream: Stream;
let nowMs: number;

beforeEach(async () => {
  nowMs = 1000;
  folder = mkdtempSync(join(tmpdir(), "tidemark-met-"));
  const clock = { now: () => nowMs, sleep: async () => {} };
  db = openState(join(folder, "state.db"));
  journal = createJournal(db, clock);
  stream = await journal.stream({ account: "acme", provider: null, organizations: ["a"], services: ["all"] });
});
afterEach(async () => {
  await journal.close();
  rmSync(folder, { recursive: true, force: true });
});

const one = (fromMs: number, toMs: number, detail = "one event is not readable"): NewGap => ({
  ...{ stream, fromMs, toMs, detail, reason: "unreadable", events: 1 },
});
const named = (ms: number, name: string) => one(ms, ms + 1, `the event ${name} is not readable`);

async function meet(gaps: readonly NewGap[], more: Partial<MetEvents> = {}, fresh: readonly NewGap[] = []) {
  await journal.changeWindows({
    gaps: fresh,
    met: { stream, gaps, named: fresh.map(gapKey), begunMs: nowMs, ...more },
  });
}

const places = async () => (await journal.gaps()).map(({ fromMs, toMs }) => [fromMs, toMs]);
/** As when an event has come into the place of a gap. */
const come = (fromMs: number) =>
  db.exec(
    `UPDATE gaps SET came_ms = ${nowMs} WHERE id = (SELECT MIN(id) FROM gaps WHERE from_ms = ${fromMs})`,
  );

describe("R32 the gaps of events without a name", () => {
  test("are as many as one reading has met at most, whatever their bytes are", async () => {
    await meet([one(10, 20, "one event is not readable; its bytes are kept apart as aa")]);
    await meet([one(10, 20, "one event is not readable; its bytes are kept apart as bb")]);
    expect(await places()).toEqual([[10, 20]]);
    await meet([one(10, 20), one(10, 20)]);
    await meet([one(12, 20)]);
    expect(await places()).toEqual([
      [10, 20],
      [10, 20],
    ]);
  });

  test("are at the place of the new event, also between two that are known", async () => {
    await meet([one(0, 11), one(40, 51)]);
    await meet([one(0, 11), one(20, 31), one(40, 51)]);
    expect(await places()).toEqual([
      [0, 11],
      [20, 31],
      [40, 51],
    ]);
  });

  test("end with a whole reading that met fewer, as many as have come", async () => {
    await meet([one(10, 20), one(10, 20), one(10, 20)]);
    come(10);
    await meet([one(10, 20)]);
    expect(await places()).toHaveLength(3);
    await meet([one(10, 20)], { whole: WHOLE });
    expect(await places()).toHaveLength(2);
    await meet([], { whole: WHOLE });
    expect(await places()).toHaveLength(2);
  });

  test("stay where what came was another event, also if the service deletes theirs later", async () => {
    await meet([one(10, 20)]);
    come(10);
    await meet([one(10, 20)], { whole: WHOLE });
    await meet([], { whole: WHOLE });
    expect(await places()).toHaveLength(1);
  });

  test("end with the next reading where their event came while one was under way", async () => {
    await meet([one(10, 20)]);
    const begunMs = nowMs;
    nowMs += 10;
    come(10);
    await meet([one(10, 20)], { whole: WHOLE, begunMs });
    expect(await places()).toHaveLength(1);
    await meet([], { whole: WHOLE });
    expect(await places()).toEqual([]);
  });

  test("stay where they reach beyond the reading, unless they are readable there", async () => {
    await meet([one(1000, 9000)]);
    come(1000);
    await meet([], { whole: { fromMs: 0, toMs: 5000 } });
    const [gap] = await journal.gaps();
    expect(gap).toMatchObject({ fromMs: 1000, toMs: 9000 });
    await meet([], { whole: { fromMs: 0, toMs: 5000 }, readable: [gap!.id!] });
    expect(await places()).toEqual([]);
  });

  test("end when one with a name is found in their place, once for each", async () => {
    await meet([one(10, 20), one(10, 20)]);
    await meet([], { whole: WHOLE }, [named(15, "x")]);
    expect((await journal.gaps()).map(({ detail }) => detail).sort()).toEqual([
      "one event is not readable",
      "the event x is not readable",
    ]);
    // The name is an older one now.
    await meet([], { whole: WHOLE }, [named(15, "x")]);
    expect(await places()).toHaveLength(2);
  });

  test("stay where the same reading has met them beside the one with a name", async () => {
    await meet([one(10, 20)]);
    await meet([one(10, 20)], {}, [named(15, "x")]);
    await meet([], { whole: WHOLE });
    expect(await places()).toHaveLength(2);
  });

  test("are not made for an event whose name was told before, and is not told now", async () => {
    await meet([], {}, [named(15, "x")]);
    await meet([one(10, 20)], { whole: WHOLE });
    expect(await places()).toEqual([[15, 16]]);
    await meet([one(10, 20)], { named: [gapKey(named(15, "x"))], whole: WHOLE });
    expect(await places()).toEqual([
      [10, 20],
      [15, 16],
    ]);
  });

  test("are made beside an event that the service lists and does not return", async () => {
    const listed = one(15, 16, "the service listed the event x, and reading that time did not return it");
    await meet([], {}, [listed]);
    await meet([one(10, 20)], { whole: WHOLE });
    expect(await places()).toHaveLength(2);
  });

  test("of other organizations, accounts and services are left alone", async () => {
    const other = await journal.stream({ ...stream, organizations: ["b"] });
    await meet([{ ...one(10, 20), stream: other }], { stream: other });
    come(10);
    await meet([one(10, 20)], { whole: WHOLE });
    expect(await places()).toHaveLength(2);
  });
});

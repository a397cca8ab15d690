import { afterEach, describe, expect, test } from "vitest";
import { ordinaryMemory } from "../../src/core/buffer-pool.ts";
import { preparePage } from "../../src/core/prepare-page.ts";
import { newWindow, StaleWindowError } from "../../src/core/window.ts";
import { mergedRuns } from "../../src/polling/plan/merge-windows.ts";
import { missingStretches, piecesOf, settledAfter, uncovered } from "../../src/polling/plan/sweep-times.ts";
import { beginPass } from "../../src/polling/read/pass.ts";
import { COMPLETE, DAY, HOUR, MINUTE, openWorld, SECOND, START_MS, type World } from "./support.ts";

const times = { sweepsMs: [10 * MINUTE, HOUR, DAY], lastSweepMs: 12 * HOUR, retentionMs: 90 * DAY };
const stream = { id: 1, account: "acme", provider: null, organizations: ["a"], services: ["all"] };

let world: World | undefined;
afterEach(async () => {
  await world?.close();
  world = undefined;
});

describe("R1 a window that was replaced while it was read", () => {
  test("R1 a page of it is not committed, not even its events", async () => {
    world = await openWorld({ simulator: { organizations: 1, events: 0 } });
    const { journal, organizations } = world;
    const own = await journal.stream({ ...stream, organizations: [organizations[0]!] });
    await journal.changeWindows({ add: [newWindow(own, 0, 1000)] });
    const [window] = await journal.windows();
    await journal.changeWindows({ remove: [window!.id] });
    const page = preparePage(Buffer.from('[{"id":"1","timestamp":"2025-01-01T00:00:00Z"}]'), {
      organizations: own.organizations,
      provider: null,
    });
    const commit = journal.append({
      account: "acme",
      provider: null,
      organization: organizations[0]!,
      page,
      lease: ordinaryMemory.adopt(page.scanned.bytes),
      fetchedAtMs: START_MS,
      edge: [],
      lateBeforeMs: 0,
      reader: null,
      change: () => ({ put: [{ ...window!, state: "read" }] }),
    });
    await expect(commit).rejects.toThrow(StaleWindowError);
    expect(await world.held()).toEqual([]);
    expect(await journal.windows()).toEqual([]);
  });

  test("R1 the read ends quietly, and what replaced it is read", async () => {
    world = await openWorld({ simulator: { organizations: 2, events: 400, gzip: false } });
    const it = world;
    await it.account.poller.step(it.signal);
    it.simulator.control.faults.add({ kind: "drip", bytesPerSecond: 400_000 });
    const reading = it.account.poller.step(it.signal);
    const [window] = (await it.windows()).filter(({ live }) => !live);
    const halves = await Promise.all(
      window!.stream.organizations.map((id) => it.journal.stream({ ...window!.stream, organizations: [id] })),
    );
    await it.journal.changeWindows({
      remove: [window!.id],
      add: halves.map((half) => newWindow(half, window!.fromMs, window!.toMs)),
    });
    expect(await reading).toBe("again");
    it.simulator.control.faults.clear();
    await it.drain();
    expect(await it.compare()).toMatchObject(COMPLETE);
    expect(it.alarms()).toEqual([]);
  });
});

describe("the ledger's cover", () => {
  test("neighbours and overlaps are one stretch, a live window has no end, and windows for one reader do not count", async () => {
    world = await openWorld({ simulator: { organizations: 1, events: 0 } });
    const { journal } = world;
    const own = await journal.stream(stream);
    await journal.changeWindows({
      add: [
        newWindow(own, 0, 10),
        newWindow(own, 10, 20, { state: "sealed" }),
        newWindow(own, 15, 30, { state: "refused" }),
        newWindow(own, 40, 50, { live: true }),
        newWindow(own, 30, 40, { reader: "out" }),
      ],
    });
    expect(await journal.covered("acme")).toEqual([
      {
        stream: own,
        covered: [
          { fromMs: 0, toMs: 30 },
          { fromMs: 40, toMs: Number.POSITIVE_INFINITY },
        ],
      },
    ]);
    expect(await journal.covered("other")).toEqual([]);
  });

  test("R2 what is missing is organizations × services × time, less what any stream covers", () => {
    const cover = [
      { stream: { ...stream, organizations: ["a", "b"] }, covered: [{ fromMs: 0, toMs: 50 }] },
      { stream: { ...stream, id: 2, organizations: ["b"] }, covered: [{ fromMs: 50, toMs: 100 }] },
    ];
    expect(missingStretches(["a", "b", "c"], ["all"], () => ({ fromMs: 0, toMs: 100 }), cover)).toEqual([
      { organizations: ["a"], services: ["all"], stretches: [{ fromMs: 50, toMs: 100 }] },
      { organizations: ["c"], services: ["all"], stretches: [{ fromMs: 0, toMs: 100 }] },
    ]);
    expect(missingStretches(["b"], ["all", "sso"], () => ({ fromMs: 0, toMs: 100 }), cover)).toEqual([
      { organizations: ["b"], services: ["sso"], stretches: [{ fromMs: 0, toMs: 100 }] },
    ]);
    expect(
      uncovered({ fromMs: 0, toMs: 10 }, [
        { fromMs: 3, toMs: 4 },
        { fromMs: 2, toMs: 5 },
      ]),
    ).toEqual([
      { fromMs: 0, toMs: 2 },
      { fromMs: 5, toMs: 10 },
    ]);
  });

  test("the pieces of a dense window cover what is left of it, without gap or overlap", () => {
    for (const left of [5_000, 17_001, 1_000_999, 86_400_000]) {
      const pieces = piecesOf({ fromMs: 0, toMs: 1 + left }, 1)!;
      expect(pieces[0]!.fromMs).toBe(1);
      expect(pieces.at(-1)!.toMs).toBe(1 + left);
      for (const [at, { fromMs, toMs }] of pieces.entries()) {
        expect(toMs).toBeGreaterThan(fromMs);
        if (at > 0) expect(fromMs).toBe(pieces[at - 1]!.toMs);
        if (at > 0) expect(fromMs % 1000).toBe(0);
      }
      expect(pieces.length).toBeLessThanOrEqual(48);
    }
    expect(piecesOf({ fromMs: 0, toMs: 100 }, 60)).toBeNull();
    expect(piecesOf({ fromMs: 0, toMs: 1999 }, 1)).toBeNull();
  });
});

describe("sealing", () => {
  const window = newWindow(stream, 0, HOUR);

  test("R3 a pass counts as every sweep that was due when it began", () => {
    expect(settledAfter(window, { begunMs: HOUR + SECOND }, 0, times)).toMatchObject({
      state: "read",
      sweeps: 0,
      nextMs: HOUR + 10 * MINUTE,
    });
    expect(settledAfter(window, { begunMs: 3 * HOUR }, 0, times)).toMatchObject({
      state: "read",
      sweeps: 2,
      nextMs: HOUR + DAY,
    });
    expect(settledAfter(window, { begunMs: 2 * DAY }, 0, times)).toMatchObject({
      state: "sealed",
      sweeps: 3,
      nextMs: 90 * DAY - 12 * HOUR,
    });
    expect(settledAfter(window, { begunMs: 90 * DAY }, 0, times)).toMatchObject({
      state: "sealed",
      sweeps: 4,
      nextMs: null,
    });
  });

  test("R4 a find by the last due sweep schedules another instead of sealing", () => {
    expect(settledAfter({ ...window, sweeps: 2 }, { begunMs: 2 * DAY }, 1, times)).toMatchObject({
      state: "read",
      sweeps: 2,
      nextMs: 2 * DAY + 10 * MINUTE,
    });
  });

  test("R2 sealed neighbours merge into one row, up to a day and never beyond a day that a sweep compares in one request", () => {
    const sealed = (hour: number, apiCount = 10) => ({
      ...newWindow(stream, hour * HOUR, (hour + 1) * HOUR, {
        state: "sealed",
        sweeps: 3,
        nextMs: 1,
        apiCount,
        heldCount: apiCount,
        askedMs: hour,
      }),
      id: hour,
    });
    const day = mergedRuns(
      Array.from({ length: 30 }, (_, hour) => sealed(hour)),
      times,
      3 * DAY,
    );
    expect(day.put.map(({ fromMs, toMs, apiCount }) => [fromMs, toMs, apiCount])).toEqual([
      [0, DAY, 240],
      [DAY, 30 * HOUR, 60],
    ]);
    expect(day.remove).toHaveLength(28);
    expect(mergedRuns([sealed(0, 60_000), sealed(1, 60_000)], times, 3 * DAY).put).toEqual([]);
    const apart = mergedRuns([sealed(0), sealed(2)], times, 3 * DAY);
    expect(apart).toEqual({ put: [], remove: [] });
  });

  test("R4 a window that is being read again keeps its length: the pass would not read the rest", () => {
    const sealed = (hour: number, isReading: boolean) => ({
      ...newWindow(stream, hour * HOUR, (hour + 1) * HOUR, { state: "sealed", sweeps: 2, askedMs: DAY }),
      id: hour,
      pass: isReading ? beginPass(hour * HOUR, (hour + 1) * HOUR, 1000, { begunMs: 2 * DAY }) : null,
    });
    const reading = [sealed(0, true), sealed(1, false), sealed(2, false)];
    expect(mergedRuns(reading, times, 3 * DAY)).toMatchObject({
      put: [{ id: 1, fromMs: HOUR, toMs: 3 * HOUR }],
      remove: [2],
    });
  });
});

import { setMaxListeners } from "node:events";
import { beforeEach, describe, expect, test } from "vitest";
import { createBufferPool } from "../../src/core/buffer-pool.ts";
import { type PageGate, type PagePriority, PlaceTakenError } from "../../src/core/page-gate.ts";
import { createPageGate } from "../../src/journal/page-gate.ts";
import { createFakeClock, type FakeClock } from "../support/clock.ts";

const [LIVE, SWEEP, BACKFILL] = [0, 1, 2] as const;
const MEGABYTE = 1_000_000;
const forever = new AbortController().signal;
setMaxListeners(0, forever);

describe("the gate for pages", () => {
  let clock: FakeClock;
  let isDiskFull: boolean;
  let freeDisk: () => void;
  let pool: ReturnType<typeof createBufferPool>;
  let decoded: (() => void)[];
  let isBehind: boolean;
  let hasMore: boolean;
  let goOn: () => void;
  let gate: PageGate;

  beforeEach(() => {
    clock = createFakeClock();
    isDiskFull = false;
    pool = createBufferPool();
    decoded = [];
    const disk = {
      hasRoom: () => !isDiskFull,
      room: () =>
        new Promise<void>((resolve) => {
          freeDisk = resolve;
        }),
    };
    const dropOldest = () => {
      const drop = decoded.shift();
      drop?.();
      return drop !== undefined;
    };
    isBehind = false;
    hasMore = false;
    const readers = {
      isBehind: () => isBehind,
      hasMore: () => hasMore,
      giveUp() {
        isBehind = false;
      },
      onMove(listener: () => void) {
        goOn = listener;
      },
    };
    gate = createPageGate({ pagesInFlight: 1, disk, memory: { ...pool, dropOldest }, readers, clock });
  });

  /** Whether a promise has resolved by now. */
  async function isDone(promise: Promise<unknown>): Promise<boolean> {
    let done = false;
    void promise.then(() => {
      done = true;
    });
    await clock.settle();
    return done;
  }

  test("ten small pages count as much as one large page, and no more enter", async () => {
    const entered = await Promise.all(Array.from({ length: 10 }, () => gate.enter(1000, BACKFILL, forever)));
    expect(gate.tryEnter(1)).toBeUndefined();
    entered[0]!();
    entered[0]!();
    expect(gate.tryEnter(1001)).toBeUndefined();
    expect(gate.tryEnter(1000)).toBeDefined();
  });

  test("a page ahead enters only where memory has room for all of it", () => {
    const { lease } = pool.take(8 * MEGABYTE);
    expect(gate.tryEnter(10_000)).toBeUndefined();
    expect(gate.tryEnter(1000)).toBeDefined();
    lease.release();
  });

  test("live pages come before others that have waited longer, and none passes a large one that waits", async () => {
    const leave = await gate.enter(10_000, BACKFILL, forever);
    const order: string[] = [];
    const wait = (name: string, events: number, priority: PagePriority) =>
      gate.enter(events, priority, forever).then((left) => {
        order.push(name);
        left();
      });
    const all = [wait("backfill", 10_000, BACKFILL), wait("sweep", 10, SWEEP), wait("live", 10_000, LIVE)];
    expect(gate.tryEnter(1)).toBeUndefined();
    leave();
    await Promise.all(all);
    expect(order).toEqual(["live", "sweep", "backfill"]);
  });

  test("polls that wait for a slow service leave every fourth place to history", async () => {
    const order: string[] = [];
    let leave = await gate.enter(10_000, LIVE, forever);
    const enter = async (name: string, priority: PagePriority) => {
      const left = await gate.enter(10_000, priority, forever);
      order.push(name);
      leave = left;
    };
    const entering = [enter("history", BACKFILL), ...Array.from({ length: 6 }, () => enter("live", LIVE))];
    for (const _ of entering) {
      leave();
      await clock.settle();
    }
    expect(order.indexOf("history")).toBe(3);
    await Promise.all(entering);
  });

  test("R32 pages of troubled streams take one place together, in turn, and leave the others to live pages", async () => {
    const leave = await gate.enter(1000, LIVE, forever, "a");
    await expect(gate.enter(1000, LIVE, forever, "b")).rejects.toThrow(PlaceTakenError);
    await expect(gate.enter(1000, LIVE, forever, "c")).rejects.toThrow(PlaceTakenError);
    const good = await gate.enter(9000, LIVE, forever);
    good();
    leave();
    // The others have waited for longer than the one that was served.
    await expect(gate.enter(1000, LIVE, forever, "a")).rejects.toThrow(PlaceTakenError);
    (await gate.enter(1000, LIVE, forever, "b"))();
    // One that asks no more is not waited for.
    await clock.advance(11_000);
    (await gate.enter(1000, LIVE, forever, "a"))();
  });

  test("R32 a troubled page that is given up while it waits frees the place of all troubled pages", async () => {
    const leave = await gate.enter(10_000, LIVE, forever);
    const giving = new AbortController();
    const entering = gate.enter(1000, LIVE, giving.signal, "a");
    giving.abort(new Error("given up"));
    await expect(entering).rejects.toThrow("given up");
    leave();
    (await gate.enter(1000, LIVE, forever, "b"))();
  });

  test("R13 at the disk budget a page waits until there is room, and none is read ahead", async () => {
    isDiskFull = true;
    expect(gate.tryEnter(10)).toBeUndefined();
    const entering = gate.enter(10, LIVE, forever);
    expect(await isDone(entering)).toBe(false);
    isDiskFull = false;
    freeDisk();
    expect(await isDone(entering)).toBe(true);
  });

  test("a page waits for the readers that keep up while memory is full, and enters as soon as they free some", async () => {
    const { lease } = pool.take(20 * MEGABYTE);
    decoded.push(() => lease.release());
    expect(gate.tryEnter(10)).toBeUndefined();
    const entering = gate.enter(10, LIVE, forever);
    expect(await isDone(entering)).toBe(false);
    decoded.shift()!();
    expect(await isDone(entering)).toBe(true);
    (await entering)();
  });

  test("a slow reader is not waited for longer than a page should take: its decoded pages are dropped", async () => {
    for (let page = 0; page < 3; page++) {
      const { lease } = pool.take(10 * MEGABYTE);
      decoded.push(() => lease.release());
    }
    const entering = gate.enter(10, LIVE, forever);
    for (let turn = 0; turn < 2; turn++) {
      expect(await isDone(entering)).toBe(false);
      clock.advance(1000);
    }
    expect(await isDone(entering)).toBe(true);
    expect(decoded).toHaveLength(1);
  });

  test("memory that only sinks hold in the middle of a write stops no page", async () => {
    pool.take(30 * MEGABYTE);
    const entering = gate.enter(10, LIVE, forever);
    expect(await isDone(entering)).toBe(false);
    clock.advance(1000);
    expect(await isDone(entering)).toBe(true);
  });

  test("a wait ends with its signal, and leaves the way free", async () => {
    pool.take(30 * MEGABYTE);
    const stop = new AbortController();
    const entering = gate.enter(10_000, LIVE, stop.signal);
    await clock.settle();
    stop.abort(new Error("enough"));
    await expect(entering).rejects.toThrow("enough");
    const next = gate.enter(10_000, LIVE, forever);
    await clock.settle();
    clock.advance(1000);
    expect(await isDone(next)).toBe(true);
  });

  describe("commits", () => {
    const committed: string[] = [];
    const commit = (name: string, priority: PagePriority, signal = forever) =>
      gate.commit(priority, signal, async () => {
        committed.push(name);
        return name;
      });

    beforeEach(() => {
      committed.length = 0;
    });

    test("a live page is committed at once, another waits for the readers that keep up", async () => {
      isBehind = true;
      const backfill = commit("backfill", BACKFILL);
      expect(await commit("live", LIVE)).toBe("live");
      expect(await isDone(backfill)).toBe(false);
      isBehind = false;
      goOn();
      expect(await backfill).toBe("backfill");
      expect(committed).toEqual(["live", "backfill"]);
    });

    test("one page is let through at a time: the next waits for the readers again", async () => {
      const first = gate.commit(SWEEP, forever, async () => {
        isBehind = true;
      });
      const second = commit("second", BACKFILL);
      await first;
      expect(await isDone(second)).toBe(false);
      isBehind = false;
      goOn();
      await second;
    });

    test("a reader that takes too long for a page delays it no further", async () => {
      isBehind = true;
      const backfill = commit("backfill", BACKFILL);
      await clock.settle();
      clock.advance(999);
      expect(await isDone(backfill)).toBe(false);
      clock.advance(1);
      expect(await isDone(backfill)).toBe(true);
      expect(await isDone(commit("next", BACKFILL))).toBe(true);
    });

    test("a page waits for a live page on its way, until that is committed or too slow", async () => {
      const leave = await gate.enter(10, LIVE, forever);
      const first = commit("first", BACKFILL);
      expect(await isDone(first)).toBe(false);
      leave();
      leave();
      expect(await isDone(first)).toBe(true);
      await gate.enter(10, LIVE, forever);
      const second = commit("second", BACKFILL);
      expect(await isDone(second)).toBe(false);
      clock.advance(200);
      expect(await isDone(second)).toBe(true);
    });

    test("a page waits until the last live page is taken, and no longer than a moment", async () => {
      hasMore = true;
      expect(await isDone(commit("no live page", BACKFILL))).toBe(true);
      await commit("live", LIVE);
      const first = commit("first", BACKFILL);
      expect(await isDone(first)).toBe(false);
      hasMore = false;
      goOn();
      expect(await isDone(first)).toBe(true);
      hasMore = true;
      await commit("live", LIVE);
      const second = commit("second", BACKFILL);
      expect(await isDone(second)).toBe(false);
      clock.advance(60);
      expect(await isDone(second)).toBe(true);
      // The live page was committed long ago.
      expect(await isDone(commit("third", BACKFILL))).toBe(true);
    });

    test("a wait that is aborted, or a commit that fails, leaves the way free", async () => {
      isBehind = true;
      const stop = new AbortController();
      const aborted = commit("aborted", BACKFILL, stop.signal);
      await clock.settle();
      stop.abort(new Error("enough"));
      await expect(aborted).rejects.toThrow("enough");
      isBehind = false;
      const failing = gate.commit(BACKFILL, forever, () => Promise.reject(new Error("disk full")));
      await expect(failing).rejects.toThrow("disk full");
      await commit("next", BACKFILL);
      expect(committed).toEqual(["next"]);
    });
  });
});

test("one body at a time may exceed the memory budget", async () => {
  const pool = createBufferPool({ bytesMax: 100 });
  expect(pool.hasRoom(100)).toBe(true);
  const { lease } = pool.take(60);
  expect(pool.hasRoom(41)).toBe(false);
  const leave = await pool.alone(forever);
  const stop = new AbortController();
  const stopped = pool.alone(stop.signal);
  const second = pool.alone(forever);
  stop.abort(new Error("enough"));
  let isIn = false;
  void second.then(() => {
    isIn = true;
  });
  await Promise.resolve();
  expect(isIn).toBe(false);
  leave();
  await expect(stopped).rejects.toThrow("enough");
  await second;
  lease.release();
  expect(pool.hasRoom(100)).toBe(true);
});

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Position } from "../../src/core/position.ts";
import { createFollower, type Following } from "../../src/delivery/follow.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { createFakeClock, type FakeClock } from "../support/clock.ts";
import { eventTexts, pageOf } from "../support/pages.ts";
import { never } from "./support.ts";

describe("a follower of the journal", () => {
  let fixture: JournalFixture;
  let clock: FakeClock;
  let seen: number[];
  let commits: Position[];

  beforeEach(() => {
    clock = createFakeClock();
    fixture = openFixture(clock);
    seen = [];
    commits = [];
  });
  afterEach(() => fixture.close());

  async function follow(over: Partial<Following> = {}) {
    const reader = await fixture.journal.reader("~follower");
    const { step } = createFollower({
      reader,
      clock,
      apply: (page, from, to) => {
        for (let index = from; index < to; index++) seen.push(Number.parseInt(page.event(index).id!, 16));
      },
      commit: async (to) => {
        commits.push(to);
        await reader.commit(to, undefined);
      },
      draining: () => true,
      ...over,
    });
    return async () => {
      while ((await step(never)) === "again");
    };
  }

  const append = (from: number, count: number) => fixture.journal.append(pageOf(eventTexts(from, count)));
  const numbers = (count: number) => Array.from({ length: count }, (_, at) => at);

  test("gets every event once, in order, and goes on from its position after a restart", async () => {
    await append(0, 5);
    await append(5, 15_000);
    await (await follow())();
    expect(seen).toEqual(numbers(15_005));
    await append(15_005, 5);
    await (await follow())();
    expect(seen).toEqual(numbers(15_010));
    expect(commits.at(-1)).toEqual(fixture.journal.end());
  });

  test("a step ends when its time is over, and the next one goes on behind it", async () => {
    await append(0, 2000);
    const sizes: number[] = [];
    const reader = await fixture.journal.reader("~follower");
    const { step } = createFollower({
      reader,
      clock,
      apply(page, from, to) {
        sizes.push(to - from);
        for (let index = from; index < to; index++) seen.push(Number.parseInt(page.event(index).id!, 16));
        clock.advance(5);
      },
      commit: (to) => reader.commit(to, undefined),
      draining: () => false,
    });
    await step(never);
    expect(sizes).toEqual([100, 100]);
    while ((await step(never)) === "again");
    expect(seen).toEqual(numbers(2000));
  });

  test("commits at intervals, not after every page", async () => {
    const drain = await follow({ draining: () => false });
    for (let page = 0; page < 10; page++) {
      await append(page * 2, 2);
      await drain();
    }
    expect(commits).toHaveLength(0);
    clock.advance(1001);
    await drain();
    expect(commits).toEqual([fixture.journal.end()]);
    expect(seen).toEqual(numbers(20));
  });

  test("when nothing more will come, the position is committed at once", async () => {
    await append(0, 3);
    let draining = false;
    const drain = await follow({ draining: () => draining });
    await drain();
    expect(commits).toHaveLength(0);
    draining = true;
    await drain();
    expect(commits).toEqual([fixture.journal.end()]);
  });

  test("an event that could not be applied comes again with the next step; nothing is skipped", async () => {
    await append(0, 3);
    let failing = true;
    const drain = await follow({
      apply(page, from, to) {
        if (failing) throw new Error("not now");
        for (let index = from; index < to; index++) seen.push(page.event(index).index);
      },
    });
    await expect(drain()).rejects.toThrow("not now");
    failing = false;
    await drain();
    expect(seen).toEqual([0, 1, 2]);
  });

  test("a commit that failed is made good with the next step", async () => {
    await append(0, 3);
    let failing = true;
    const drain = await follow({
      async commit(to) {
        if (failing) throw new Error("no room");
        commits.push(to);
      },
    });
    await expect(drain()).rejects.toThrow("no room");
    failing = false;
    await drain();
    expect(commits).toEqual([fixture.journal.end()]);
    expect(seen).toEqual([0, 1, 2]);
  });
});

import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Alarms, createAlarms } from "../../src/core/alarms.ts";
import type { Log } from "../../src/core/log.ts";
import { createSpaceKeeper } from "../../src/journal/disk-budget.ts";
import { createSpace } from "../../src/journal/space.ts";
import { createFakeClock, type FakeClock } from "../support/clock.ts";
import { eventText, pageOf } from "../support/pages.ts";
import { type JournalFixture, openFixture } from "./support.ts";

const BUDGET = 10_000_000;
const PAGE = 1_000_000;
const HOUR_MS = 3_600_000;

describe("R13 the journal's budget", () => {
  let fixture: JournalFixture;
  let clock: FakeClock;
  let alarms: Alarms;
  let logged: number;
  let keeper: ReturnType<typeof createSpaceKeeper>;
  let pages: number;

  beforeEach(async () => {
    clock = createFakeClock();
    fixture = openFixture(clock);
    logged = 0;
    pages = 0;
    const count = () => void logged++;
    const log: Log = { error: count, warn: count, info() {}, debug() {}, child: () => log };
    alarms = createAlarms(clock, log);
    await fixture.journal.reader("slow");
    keeper = createSpaceKeeper(
      createSpace(fixture.db, fixture.file, BUDGET),
      clock,
      alarms,
      90 * 24 * HOUR_MS,
    );
  });
  afterEach(() => fixture.close());

  /** A megabyte each that does not compress. */
  async function fill(count: number): Promise<void> {
    for (let page = 0; page < count; page++) {
      const noise = randomBytes(PAGE).toString("base64");
      await fixture.journal.append(pageOf([eventText(pages++, { noise })]));
    }
  }

  async function turn(passedMs = 1000): Promise<void> {
    clock.advance(passedMs);
    await keeper.turn();
  }

  async function pass(): Promise<void> {
    await (await fixture.journal.reader("slow")).commit(fixture.journal.end(), undefined);
  }

  const filling = () => alarms.list().find(({ kind }) => kind === "journal_filling");

  test("R13 a clock that is set back by days does not stop the freeing of space", async () => {
    await turn();
    await fill(4);
    await pass();
    clock.set(clock.now() - 3 * 24 * HOUR_MS);
    const usedBytes = () => createSpace(fixture.db, fixture.file, BUDGET).usedBytes();
    const before = usedBytes();
    await turn();
    await turn();
    expect(usedBytes()).toBeLessThan(before / 2);
  });

  test("R12 a short retention forgets no identities that a longer one needs again", async () => {
    await fixture.journal.append(pageOf([eventText(0)]));
    await pass();
    const space = createSpace(fixture.db, fixture.file, BUDGET);
    keeper = createSpaceKeeper(space, clock, alarms, 15 * 24 * HOUR_MS);
    await turn(89 * 24 * HOUR_MS);
    await turn();
    expect(await fixture.journal.append(pageOf([eventText(0)]))).toMatchObject({ fresh: 0, known: 1 });
    await turn(9 * 24 * HOUR_MS);
    await turn();
    expect(await fixture.journal.append(pageOf([eventText(0)]))).toMatchObject({ fresh: 1 });
  });

  test("R13 at half and at 80 percent an alarm names the reader that holds it up; it ends with the trouble", async () => {
    await fill(3);
    await turn();
    expect(filling()).toBeUndefined();
    await fill(3);
    await turn();
    expect(filling()).toMatchObject({
      severity: "warning",
      message: expect.stringMatching(/more than half .*the sink "slow"/),
    });
    await fill(2);
    await turn();
    expect(filling()).toMatchObject({
      severity: "critical",
      message: expect.stringContaining("more than 80%"),
    });
    await pass();
    await turn();
    expect(filling()).toBeUndefined();
  });

  test("R13 the alarm says in how many hours the journal is full, and is quiet while it stands", async () => {
    await fill(4);
    await turn();
    for (let hour = 0; hour < 2; hour++) {
      await turn(HOUR_MS / 2);
      await fill(1);
      await turn(HOUR_MS / 2);
    }
    expect(filling()!.message).toMatch(/full in about [24]h/);
    const before = logged;
    for (let second = 0; second < 100; second++) await turn();
    expect(logged - before).toBeLessThanOrEqual(1);
  });

  test("R13 polling waits at the budget, and goes on when the reader has passed; nothing is dropped", async () => {
    await fill(12);
    await turn();
    expect(filling()!.message).toContain("uses all of its budget");
    let hasRoom = false;
    const waiting = keeper.room(new AbortController().signal).then(() => {
      hasRoom = true;
    });
    for (let second = 0; second < 10; second++) {
      clock.advance(1000);
      await clock.settle();
    }
    expect(hasRoom).toBe(false);
    expect(fixture.db.prepare("SELECT COUNT(*) FROM bodies").pluck().get()).toBe(12);
    await pass();
    for (let second = 0; second < 3; second++) {
      clock.advance(1000);
      await clock.settle();
    }
    await waiting;
    expect(hasRoom).toBe(true);
  });

  test("R13 the log of writes alone does not keep polling waiting for ever", async () => {
    for (let round = 0; round < 4; round++) {
      await fill(5);
      await pass();
      await turn();
    }
    await keeper.room(new AbortController().signal);
    expect(filling()).toBeUndefined();
  });

  test("R13 a wait for room ends with its signal", async () => {
    await fill(12);
    await turn();
    const stop = new AbortController();
    const waiting = keeper.room(stop.signal);
    stop.abort(new Error("stopped"));
    await expect(waiting).rejects.toThrow("stopped");
  });

  test("a disk that takes nothing more is an alarm, and no end", async () => {
    await fill(1);
    await pass();
    const full = Object.assign(new Error("database or disk is full"), { code: "SQLITE_FULL" });
    const space = createSpace(fixture.db, fixture.file, BUDGET);
    let broken = true;
    const failing = {
      ...space,
      async trim(): Promise<boolean> {
        if (broken) throw full;
        return space.trim();
      },
    };
    const other = createSpaceKeeper(failing, clock, alarms, HOUR_MS);
    clock.advance(1000);
    await other.turn();
    expect(alarms.list()).toMatchObject([
      { kind: "state_unwritable", severity: "critical", message: expect.stringContaining("disk is full") },
    ]);
    broken = false;
    clock.advance(1000);
    await other.turn();
    expect(alarms.list()).toEqual([]);
  });
});

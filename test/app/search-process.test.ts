import { describe, expect, test } from "vitest";
import { createIndexStep } from "../../src/app/search-process.ts";
import { createAlarms } from "../../src/core/alarms.ts";
import { silentLog } from "../../src/core/log.ts";
import { startOf } from "../../src/core/position.ts";

const MINUTE_MS = 60_000;
const never = new AbortController().signal;

function open() {
  let nowMs = Date.parse("2026-03-14T10:00:00Z");
  const clock = { now: () => nowMs, sleep: async () => {} };
  const alarms = createAlarms(clock, silentLog);
  const world = { size: 0, page: 0, syncs: 0, failure: undefined as Error | undefined };
  const step = createIndexStep(
    "evidence",
    {
      async answer() {
        world.syncs++;
        if (world.failure !== undefined) throw world.failure;
        return { status: 200, headers: {}, body: Buffer.alloc(0), events: 0 };
      },
    },
    {
      clock,
      alarms,
      log: silentLog,
      archives: [{ name: "evidence", state: { head: () => ({ size: world.size }) } as never }],
      journal: { end: () => ({ ...startOf("j"), page: world.page }) },
    },
  );
  return {
    world,
    alarms: () => alarms.list().map(({ kind, message }) => `${kind}: ${message}`),
    async looks(minutes: number) {
      nowMs += minutes * MINUTE_MS;
      await step(never);
      return world.syncs;
    },
  };
}

describe("the index beside the exporter", () => {
  test("is brought up to date at the start, after a closing, and every ten minutes while events arrive", async () => {
    const { world, looks } = open();
    expect(await looks(0)).toBe(1);
    expect(await looks(60)).toBe(1);
    world.size = 3;
    expect(await looks(0)).toBe(2);
    world.page = 7;
    expect(await looks(1)).toBe(2);
    expect(await looks(9)).toBe(3);
    expect(await looks(60)).toBe(3);
  });

  test("a failure is an alarm until it works again, and is tried again after ten minutes", async () => {
    const { world, looks, alarms } = open();
    world.failure = new Error("ENOSPC: no space left on device");
    expect(await looks(0)).toBe(1);
    expect(alarms()).toEqual([expect.stringMatching(/^index_failing: .*ENOSPC/)]);
    world.size = 9;
    expect(await looks(1)).toBe(1);
    expect(await looks(9)).toBe(2);
    world.failure = undefined;
    expect(await looks(10)).toBe(3);
    expect(alarms()).toEqual([]);
  });
});

import { expect, test } from "vitest";
import { createAlarms } from "../../src/core/alarms.ts";
import { silentLog } from "../../src/core/log.ts";
import type { PollContext } from "../../src/polling/context.ts";
import { createPause } from "../../src/polling/pause.ts";
import type { SourceFault } from "../../src/polling/read/source.ts";

const refused = { message: "401" } as SourceFault;

function open() {
  let nowMs = 1_000_000;
  const clock = { now: () => nowMs, sleep: async () => {} };
  const pause = createPause({
    account: "acme",
    clock,
    alarms: createAlarms(clock, silentLog),
  } as unknown as PollContext);
  return {
    pause,
    refuse: () => pause.forAccount(refused, "read"),
    leftMs: () => (pause.untilMs ?? nowMs) - nowMs,
    pass(ms: number) {
      nowMs += ms;
    },
  };
}

test("many requests that are refused at once pause the account as one does", () => {
  const { refuse, leftMs, pass } = open();
  for (let request = 0; request < 24; request++) {
    refuse();
    pass(100);
  }
  expect(leftMs()).toBeLessThanOrEqual(15_000);
});

test("each refusal after a pause doubles the wait, up to ten minutes", () => {
  const { refuse, leftMs, pass } = open();
  const waits = Array.from({ length: 8 }, () => {
    refuse();
    refuse();
    const waitMs = leftMs();
    pass(waitMs);
    return waitMs / 1000;
  });
  expect(waits).toEqual([15, 30, 60, 120, 240, 480, 600, 600]);
});

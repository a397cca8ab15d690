import { describe, expect, test } from "vitest";
import { type PollState, turnOf } from "../../src/polling/turn.ts";

const MINUTE = 60_000;
const PLAN_EVERY = 15 * MINUTE;
const NOW = 1_000 * MINUTE;
const rested: PollState = { pausedUntilMs: null, planDueMs: NOW + MINUTE, hasPlan: true, upkeptMs: NOW };

describe("the next turn of a poller", () => {
  test.each<[string, Partial<PollState>, string]>([
    ["works when nothing else is due", {}, "work"],
    ["plans when the plan is due", { planDueMs: NOW }, "plan"],
    ["plans when the clock was set back behind a far due time", { planDueMs: NOW + 2 * PLAN_EVERY }, "plan"],
    ["keeps up once a minute", { upkeptMs: NOW - MINUTE }, "upkeep"],
    ["keeps up when the clock was set back", { upkeptMs: NOW + 2 * MINUTE }, "upkeep"],
    ["does no upkeep without a plan", { upkeptMs: NOW - MINUTE, hasPlan: false }, "work"],
    ["does nothing while it is paused", { pausedUntilMs: NOW + 1, planDueMs: 0 }, "paused"],
    ["goes on with the plan when the pause is over", { pausedUntilMs: NOW, planDueMs: 0 }, "plan"],
  ])("%s", (_, change, turn) => {
    expect(turnOf({ ...rested, ...change }, NOW, PLAN_EVERY)).toBe(turn);
  });
});

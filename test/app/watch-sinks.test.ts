import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createSinkWatch } from "../../src/app/watch-sinks.ts";
import { createAlarms } from "../../src/core/alarms.ts";
import { silentLog } from "../../src/core/log.ts";
import type { View } from "../../src/core/view.ts";
import { createView } from "../../src/journal/view/view.ts";
import { fillSmall, liveOf, makeState, type TestState } from "../server/state.ts";

describe("R40 the watch over sinks", () => {
  let state: TestState;
  let view: View;
  beforeAll(async () => {
    state = makeState();
    await fillSmall(state);
    view = createView(state.db, liveOf(state.clock), state.options);
  });
  afterAll(() => state.close());

  test("raises sink_behind and dead_letters from the journal, and clears them when they are over", async () => {
    const alarms = createAlarms(state.clock, silentLog);
    await createSinkWatch(view, alarms, 60_000)();
    expect(alarms.list().map(({ kind, subject }) => [kind, subject])).toEqual([
      ["sink_behind", "siem"],
      ["dead_letters", "siem"],
    ]);
    expect(alarms.list()[1]!.message).toContain("siem refused 2 events. Most frequent reason: 400");
    await createSinkWatch(view, alarms, 10 * 86_400_000)();
    expect(alarms.list().map(({ kind }) => kind)).toEqual(["dead_letters"]);
    state.db.exec("DELETE FROM dead_letters");
    await createSinkWatch(view, alarms, 10 * 86_400_000)();
    expect(alarms.list()).toEqual([]);
  });

  test("raises the alarm again only when the lag has doubled", async () => {
    const messages = new Set<string>();
    let lagMs = 60_000;
    const one = (await view.sinks()).sinks.find(({ name }) => name === "siem")!;
    const moving = { ...view, sinks: async () => ({ sinks: [{ ...one, lagMs, deadLetters: 0 }] }) };
    const alarms = createAlarms(state.clock, silentLog);
    for (; lagMs < 600_000; lagMs += 5000) {
      await createSinkWatch(moving, alarms, 60_000)();
      messages.add(alarms.list()[0]!.message);
    }
    expect(messages.size).toBe(4);
  });
});

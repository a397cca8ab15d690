import { describe, expect, test } from "vitest";
import { showFailing } from "../../src/app/cluster/machine.ts";
import { watchConfig, watchName } from "../../src/app/cluster/report.ts";
import type { LaneSummary, MachineSummary } from "../../src/cluster/machines.ts";
import { createAlarms } from "../../src/core/alarms.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLog } from "../../src/core/log.ts";

const newAlarms = () => createAlarms(systemClock, silentLog);
const kindsOf = (alarms: ReturnType<typeof newAlarms>) =>
  alarms.list().map(({ kind, subject }) => `${kind} ${subject}`);

describe("the alarms of a machine in a cluster", () => {
  test("C13 a lane that was lost within seconds three times fails, until it runs well", () => {
    const alarms = newAlarms();
    const status = { lane: 3, reason: "the disk is full" };
    showFailing({ ...status, failures: 2 }, alarms);
    expect(kindsOf(alarms)).toEqual([]);
    showFailing({ ...status, failures: 3 }, alarms);
    expect(kindsOf(alarms)).toEqual(["lane_failing 3"]);
    expect(alarms.list()[0]!.message).toContain("the disk is full");
    // Once more without a reason, as while it is opened: the alarm stays.
    showFailing({ lane: 3, reason: undefined, failures: 3 }, alarms);
    expect(kindsOf(alarms)).toEqual(["lane_failing 3"]);
    showFailing({ lane: 3, reason: undefined, failures: 0 }, alarms);
    expect(kindsOf(alarms)).toEqual([]);
  });

  test("a name that another process reports under too is an alarm as long as it does", () => {
    const alarms = newAlarms();
    let hasRival = true;
    const machine = { name: "one", alarms, board: { hasRival: () => hasRival } };
    watchName(machine);
    expect(kindsOf(alarms)).toEqual(["machine_name_taken one"]);
    hasRival = false;
    watchName(machine);
    expect(kindsOf(alarms)).toEqual([]);
  });

  describe("C15 a machine without lanes whose config is another one than that of all machines with lanes", () => {
    const lane = { lane: 0, state: "running" } as Partial<LaneSummary> as LaneSummary;
    const machine = (name: string, config: string | undefined, lanes: readonly LaneSummary[]) =>
      ({ machine: name, config, lanes }) as Partial<MachineSummary> as MachineSummary;

    function kindsWith(others: readonly MachineSummary[], ownLanes = 0) {
      const alarms = newAlarms();
      const own = { name: "one", config: "a", alarms, statuses: () => Array(ownLanes).fill({}) };
      watchConfig({ ...own, board: { list: () => [machine("one", "a", []), ...others] } });
      return kindsOf(alarms);
    }

    test("C15 raises an alarm", () => {
      expect(kindsWith([machine("two", "b", [lane]), machine("three", "c", [lane])])).toEqual([
        "config_differs one",
      ]);
    });

    test.each([
      [
        "another machine with lanes has its config",
        [machine("two", "b", [lane]), machine("three", "a", [lane])],
        0,
      ],
      ["it has lanes itself", [machine("two", "b", [lane])], 1],
      ["no machine runs a lane", [machine("two", "b", [])], 0],
      ["the others are of a version that does not say", [machine("two", undefined, [lane])], 0],
    ])("C15 raises none where %s", (_, others, ownLanes) => {
      expect(kindsWith(others, ownLanes)).toEqual([]);
    });

    test("C15 the alarm ends when the others have its config", () => {
      const alarms = newAlarms();
      let config = "b";
      const own = { name: "one", config: "a", alarms, statuses: () => [] };
      const watch = () => watchConfig({ ...own, board: { list: () => [machine("two", config, [lane])] } });
      watch();
      expect(kindsOf(alarms)).toEqual(["config_differs one"]);
      config = "a";
      watch();
      expect(kindsOf(alarms)).toEqual([]);
    });
  });
});

import { describe, expect, test } from "vitest";
import { type Facts, statementOf } from "../../src/core/statement.ts";

const sink = {
  name: "siem",
  type: "splunk_hec",
  guarantee: "at_least_once" as const,
  promise: "",
  state: "running" as Facts["sinks"][number]["state"],
  sinceMs: 0,
  reason: null,
  remedy: null,
  position: "j:1:0:h",
  lagEvents: 0,
  isFiltered: false,
  lagMs: 0,
  sentEvents: 0,
  committedMs: 0,
  lastWriteMs: null,
  deadLetters: 0,
};
const account = {
  name: "acme",
  state: "reading" as const,
  pausedUntilMs: null,
  clockOffsetMs: 0,
  polledMs: 1,
  overdueMs: 0,
  pace: null,
  organizations: { active: 1, vanished: 0, refused: 0 },
  windows: { unread: 0, read: 0, sealed: 0, expired: 0, refused: 0, live: 1 },
  liveLagMs: 1000,
  unreadFromMs: null,
  lossInMs: null,
};
const fine: Facts = {
  startedMs: 1,
  alarms: [],
  accounts: [account],
  sinks: [sink],
  gaps: { gaps: 0, organizations: 0, durationMs: 0, events: 0, open: 0, openMs: 0, aside: 0, asideMs: 0 },
  unreadWindows: 0,
  sinkBehindMs: 300_000,
};
const headline = (change: Partial<Facts>) => statementOf({ ...fine, ...change }).headline;
const health = (change: Partial<Facts>) => statementOf({ ...fine, ...change }).health;

describe("R40 the statement of health", () => {
  test("says that all is well only when reading and delivery are", () => {
    expect(statementOf(fine)).toEqual({
      health: "good",
      headline: "Everything is arriving and being delivered.",
    });
  });

  test("names first what the numbers are without, and is not good then", () => {
    const missing = "No machine answers for lane 2";
    expect(statementOf({ ...fine, missing })).toEqual({ health: "degraded", headline: `${missing}.` });
    const stopped = { ...sink, state: "stopped" as const };
    expect(statementOf({ ...fine, missing, sinks: Array(4).fill(stopped) })).toMatchObject({
      health: "bad",
      headline: expect.stringMatching(/^No machine answers for lane 2\./),
    });
  });

  test("says nothing about accounts that are not read yet, and sinks that are not open yet", () => {
    const unread = { accounts: [{ ...account, polledMs: null }] };
    expect(statementOf({ ...fine, ...unread })).toEqual({
      health: "degraded",
      headline: "Starting: the first events are being read.",
    });
    const alarm = { kind: "window_failing" as const, subject: "x", message: "", remedy: "", sinceMs: 0 };
    expect(headline({ ...unread, alarms: [{ ...alarm, severity: "warning" }] })).toBe(
      "Starting: the first events are being read, with 1 warning.",
    );
    const opening = { sinks: [{ ...sink, state: "opening" as const }] };
    expect(statementOf({ ...fine, ...opening })).toEqual({
      health: "degraded",
      headline: "Connecting to siem.",
    });
  });

  test("does not say that everything is arriving while time ranges are refused", () => {
    const said = headline({ gaps: { ...fine.gaps, open: 2, openMs: 7_200_000 } });
    expect(said).toBe(
      "New events are arriving and being delivered. The service refused 2 time ranges when it was last asked.",
    );
  });

  test("names a sink that is behind, by age and events", () => {
    const behind = { sinks: [{ ...sink, lagEvents: 55_804, lagMs: 360_000 }] };
    expect(headline(behind)).toBe("siem is 6m behind (55,804 events).");
    expect(health(behind)).toBe("degraded");
    expect(headline({ sinks: [{ ...behind.sinks[0]!, isFiltered: true }] })).toBe(
      "siem is 6m behind (up to 55,804 events, before its filter).",
    );
    expect(health({ sinks: [{ ...sink, lagEvents: 55_804, lagMs: 299_000 }] })).toBe("good");
  });

  test("names a sink that waits for its destination, open or not", () => {
    for (const state of ["running", "opening"] as const) {
      const waiting = { sinks: [{ ...sink, state, reason: "It has been writing for more than 30s." }] };
      expect(statementOf({ ...fine, ...waiting })).toEqual({
        health: "degraded",
        headline: "siem waits for its destination.",
      });
    }
  });

  test("names refused events, a paused sink and a refused account", () => {
    const facts = {
      sinks: [
        { ...sink, deadLetters: 4 },
        { ...sink, name: "lake", state: "paused" as const },
      ],
      accounts: [{ ...account, state: "paused" as const }],
    };
    expect(headline(facts)).toBe(
      "lake is paused. The service refuses the account acme. siem refused 4 events.",
    );
    expect(health(facts)).toBe("bad");
  });

  test("names an account whose poll for new events has been due for minutes", () => {
    const overdue = { accounts: [{ ...account, overdueMs: 180_000 }] };
    expect(headline(overdue)).toBe("Some new events of acme have not been read for 3m.");
    expect(health(overdue)).toBe("degraded");
    expect(health({ accounts: [{ ...account, overdueMs: 59_000 }] })).toBe("good");
  });

  test("names reading that is behind, lost time, and a process that is not running", () => {
    expect(headline({ accounts: [{ ...account, liveLagMs: 7_200_000 }] })).toBe(
      "Reading of acme is 2h behind.",
    );
    const gaps = { ...fine.gaps, gaps: 2, organizations: 1, durationMs: 7_200_000 };
    expect(headline({ gaps })).toBe(
      "Everything is arriving and being delivered. 2h of 1 organization cannot be read or compared any more.",
    );
    expect(statementOf({ ...fine, startedMs: null })).toEqual({
      health: "degraded",
      headline: "Tidemark is not running.",
    });
  });

  test("a process that runs and does not report is not called stopped, nor well", () => {
    const { health: silent, headline: said } = statementOf({ ...fine, startedMs: null, silentMs: 110_000 });
    expect(silent).toBe("bad");
    expect(said).toMatch(
      /^Tidemark is running, but its last report is 1m 50s old: .* cannot write its state file/,
    );
    expect(statementOf({ ...fine, startedMs: null, silentMs: Number.POSITIVE_INFINITY }).headline).toContain(
      "it has never reported",
    );
  });

  test("is never good while an alarm is raised", () => {
    const alarm = { kind: "window_failing" as const, subject: "x", message: "", remedy: "", sinceMs: 0 };
    expect(health({ alarms: [{ ...alarm, severity: "warning" }] })).toBe("degraded");
    expect(health({ alarms: [{ ...alarm, severity: "critical" }] })).toBe("bad");
    expect(headline({ alarms: [{ ...alarm, severity: "critical" }] })).toBe(
      "1 critical alarm (window_failing).",
    );
  });

  const alarmOf = (kind: Facts["alarms"][number]["kind"], subject: string) => ({
    ...{ kind, subject, message: "", remedy: "", sinceMs: 0, severity: "critical" as const },
  });

  test("does not call an account refused that waits because the state file cannot be written", () => {
    const paused = { accounts: [{ ...account, state: "paused" as const }] };
    const unwritable = [alarmOf("state_unwritable", "acme"), alarmOf("state_unwritable", "state")];
    expect(headline({ ...paused, alarms: unwritable, sinks: [{ ...sink, deadLetters: 600 }] })).toBe(
      "acme is not read because the state file cannot be written. siem refused 600 events.",
    );
    const both = [alarmOf("state_unwritable", "state"), alarmOf("account_refused", "acme")];
    expect(headline({ ...paused, alarms: both })).toBe(
      "1 critical alarm (state_unwritable). The service refuses the account acme.",
    );
  });

  test("names a critical alarm first, however many other problems there are, and none twice", () => {
    const stopped = ["a", "b", "c", "d"].map((name) => ({ ...sink, name, state: "stopped" as const }));
    const alarms = [
      alarmOf("expired", "acme"),
      alarmOf("journal_filling", "journal"),
      ...stopped.map(({ name }) => alarmOf("sink_stopped", name)),
    ];
    expect(headline({ sinks: stopped, alarms })).toBe(
      "2 critical alarms (expired, journal_filling). a is stopped. b is stopped. 2 more problems.",
    );
    expect(headline({ sinks: stopped.slice(3), alarms: alarms.slice(-1) })).toBe("d is stopped.");
  });
});

import { beforeEach, describe, expect, test } from "vitest";
import { type Alarms, createAlarms } from "../../src/core/alarms.ts";
import type { Log } from "../../src/core/log.ts";
import { createFakeClock, type FakeClock } from "../support/clock.ts";

const alarm = {
  kind: "sink_paused",
  subject: "siem",
  message: "It refuses us.",
  remedy: "Set the token again.",
  severity: "critical",
} as const;

describe("alarms", () => {
  let clock: FakeClock;
  let alarms: Alarms;
  let lines: { level: string; fields: object; sentence: string }[];

  beforeEach(() => {
    clock = createFakeClock(1000);
    lines = [];
    const line = (level: string) => (fields: object, sentence: string) =>
      void lines.push({ level, fields, sentence });
    const log: Log = {
      error: line("error"),
      warn: line("warn"),
      info: line("info"),
      debug: line("debug"),
      child: () => log,
    };
    alarms = createAlarms(clock, log);
  });

  test("an alarm is logged when it is raised, and quiet while it stands", () => {
    alarms.raise(alarm);
    clock.advance(5000);
    alarms.raise(alarm);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({ level: "error", fields: { kind: "sink_paused", subject: "siem" } });
    expect(alarms.list()).toEqual([{ ...alarm, sinceMs: 1000 }]);
  });

  test("another message or severity is logged again and keeps the time since when it stands", () => {
    alarms.raise({ ...alarm, severity: "warning" });
    clock.advance(5000);
    alarms.raise(alarm);
    alarms.raise({ ...alarm, message: "Still." });
    expect(lines.map(({ level }) => level)).toEqual(["warn", "error", "error"]);
    expect(alarms.list()).toEqual([{ ...alarm, message: "Still.", sinceMs: 1000 }]);
  });

  test("clearing says how long it stood; clearing what does not stand says nothing", () => {
    alarms.raise(alarm);
    clock.advance(7000);
    alarms.clear("sink_paused", "other");
    alarms.clear("sink_paused", "siem");
    alarms.clear("sink_paused", "siem");
    expect(lines.slice(1)).toEqual([
      {
        level: "info",
        fields: { kind: "sink_paused", subject: "siem", stoodMs: 7000 },
        sentence: "Alarm cleared.",
      },
    ]);
    expect(alarms.list()).toEqual([]);
  });

  test("alarms of one kind about two subjects stand side by side", () => {
    alarms.raise(alarm);
    alarms.raise({ ...alarm, subject: "lake" });
    alarms.clear("sink_paused", "siem");
    expect(alarms.list().map(({ subject }) => subject)).toEqual(["lake"]);
  });
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { durationMsOf, formatDuration, timestampMsOf } from "../../src/core/time.ts";

describe("timestamps", () => {
  test("are read as JavaScript reads them, whatever the precision", () => {
    const dates = fc.date({
      min: new Date("0000-01-01T00:00:00Z"),
      max: new Date("9999-12-31T23:59:59Z"),
      noInvalidDate: true,
    });
    fc.assert(
      fc.property(dates, fc.stringMatching(/^\d{0,12}$/), (date, digits) => {
        const text = date.toISOString().replace("Z", `${digits}Z`);
        expect(timestampMsOf(text)).toBe(date.getTime());
      }),
    );
  });

  test.each([
    ["2026-03-14T15:09:26.535897Z", "2026-03-14T15:09:26.535Z"],
    ["2026-03-14T15:09:26.9999Z", "2026-03-14T15:09:26.999Z"],
    ["2026-03-14T15:09:26.5Z", "2026-03-14T15:09:26.500Z"],
    ["2026-03-14T15:09:26Z", "2026-03-14T15:09:26.000Z"],
    ["2026-03-14t15:09:26z", "2026-03-14T15:09:26.000Z"],
    ["2026-03-14 15:09:26+02:00", "2026-03-14T13:09:26.000Z"],
    ["2026-03-14T15:09:26.1-0730", "2026-03-14T22:39:26.100Z"],
    ["2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000Z"],
    ["2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000Z"],
    ["0050-01-01T00:00:00Z", "0050-01-01T00:00:00.000Z"],
    ["1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"],
  ])("%s is %s", (text, expected) => {
    expect(new Date(timestampMsOf(text)!).toISOString()).toBe(expected);
  });

  test.each([
    "",
    "now",
    "2026-03-14",
    "2026-03-14T15:09:26",
    "2026-3-14T15:09:26Z",
    "2026-13-01T00:00:00Z",
    "2026-00-01T00:00:00Z",
    "2026-02-29T00:00:00Z",
    "2026-04-31T00:00:00Z",
    "2026-04-00T00:00:00Z",
    "2026-04-01T24:00:00Z",
    "2026-04-01T23:60:00Z",
    "2026-04-01T23:59:61Z",
    "2026-04-01T23:59:00+24:00",
    "2026-04-01T23:59:00+01:60",
    "2026-04-01T23:59:00.Z",
    " 2026-03-14T15:09:26Z",
    "2026-03-14T15:09:26Z\n",
    "+12026-03-14T15:09:26Z",
  ])("%j is none", (text) => {
    expect(timestampMsOf(text)).toBeUndefined();
  });
});

describe("durations", () => {
  test.each([
    ["0s", 0],
    ["250ms", 250],
    ["30s", 30_000],
    ["10m", 600_000],
    ["1h30m", 5_400_000],
    ["90d", 7_776_000_000],
    ["2w", 1_209_600_000],
    ["1.5h", 5_400_000],
    ["0.0004s", 0],
    ["1m1ms", 60_001],
  ])("%s is %d ms", (text, ms) => {
    expect(durationMsOf(text)).toBe(ms);
  });

  test.each([
    "",
    "10",
    "s",
    "-1s",
    "1 h",
    "1y",
    "1h ",
    "1.h",
    ".5h",
    "1H",
    `${"9".repeat(400)}d`,
    "9007199254740993ms",
  ])("%j is none", (text) => {
    expect(durationMsOf(text)).toBeUndefined();
  });

  test.each([
    [0, "0ms"],
    [999, "999ms"],
    [999.6, "1s"],
    [8_000, "8s"],
    [61_000, "1m 1s"],
    [3_600_000, "1h"],
    [7_776_000_000, "90d"],
    [273_600_000, "3d 4h"],
    [86_400_000 + 59_000, "1d"],
  ])("%d ms is written %s", (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });

  test("what is written can be read, and is never more than was meant", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1e12 }), (ms) => {
        const read = durationMsOf(formatDuration(ms).replaceAll(" ", ""))!;
        expect(read).toBeLessThanOrEqual(ms);
        expect(ms - read).toBeLessThan(Math.max(1000, ms / 20));
      }),
    );
  });
});

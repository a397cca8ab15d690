import fc from "fast-check";
import { expect, it } from "vitest";
import { dueRuns, nextRun, scheduleProblem, timeZoneProblem } from "../../src/imports/schedule.ts";

const at = (time: string) => Date.parse(time);
const runs = (expression: string, zone: string, after: string, until: string) =>
  dueRuns(expression, zone, at(after), at(until)).map(
    ({ local, ms }) => `${local} ${new Date(ms).toISOString()}`,
  );

it("gives every run after one time up to and with another, in UTC", () => {
  expect(runs("0 2 * * *", "UTC", "2026-01-01T02:00:00Z", "2026-01-03T02:00:00Z")).toEqual([
    "2026-01-02T02:00 2026-01-02T02:00:00.000Z",
    "2026-01-03T02:00 2026-01-03T02:00:00.000Z",
  ]);
});

it("reads the expression on the wall clock of its time zone, summer and winter", () => {
  expect(runs("30 9 * * 1-5", "America/New_York", "2026-01-02T00:00:00Z", "2026-01-06T00:00:00Z")).toEqual([
    "2026-01-02T09:30 2026-01-02T14:30:00.000Z",
    "2026-01-05T09:30 2026-01-05T14:30:00.000Z",
  ]);
  expect(runs("30 9 * * *", "America/New_York", "2026-07-01T00:00:00Z", "2026-07-02T00:00:00Z")).toEqual([
    "2026-07-01T09:30 2026-07-01T13:30:00.000Z",
  ]);
});

it("R28 runs at the jump what falls into an hour that does not exist", () => {
  expect(runs("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z")).toEqual([
    "2026-03-29T02:30 2026-03-29T01:00:00.000Z",
    "2026-03-30T02:30 2026-03-30T00:30:00.000Z",
  ]);
});

it("R28 runs once, at the first, what an hour that comes twice shows twice", () => {
  expect(runs("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z")).toEqual([
    "2026-10-25T02:30 2026-10-25T00:30:00.000Z",
    "2026-10-26T02:30 2026-10-26T01:30:00.000Z",
  ]);
});

it("R28 never gives one instant or one local time twice, and misses no local day, in any zone", () => {
  const zones = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "America/St_Johns",
    "Asia/Kolkata",
    "UTC",
  ];
  fc.assert(
    fc.property(
      fc.constantFrom(...zones),
      fc.integer({ min: 0, max: 23 }),
      fc.integer({ min: 0, max: 59 }),
      fc.integer({ min: 0, max: 700 }),
      (zone, hour, minute, day) => {
        const fromMs = at("2025-01-01T00:00:00Z") + day * 86_400_000;
        const found = dueRuns(`${minute} ${hour} * * *`, zone, fromMs, fromMs + 10 * 86_400_000);
        expect(new Set(found.map(({ ms }) => ms)).size).toBe(found.length);
        expect(new Set(found.map(({ local }) => local)).size).toBe(found.length);
        for (const [index, run] of found.slice(1).entries()) {
          const apartMs = at(`${run.local}Z`) - at(`${found[index]!.local}Z`);
          expect(apartMs).toBe(86_400_000);
        }
        expect(found.length).toBeGreaterThanOrEqual(9);
      },
    ),
    { numRuns: 60 },
  );
});

it("finds the next run, a year ahead if need be", () => {
  expect(nextRun("0 0 29 2 *", "UTC", at("2027-03-01T00:00:00Z"))?.local).toBe("2028-02-29T00:00");
  expect(nextRun("0 0 29 2 *", "UTC", at("2025-01-01T00:00:00Z"))).toBeUndefined();
  expect(scheduleProblem("0 0 30 2 *")).toMatch(/impossible day/);
});

it("says what is wrong with a schedule or a time zone", () => {
  expect(scheduleProblem("0 2 * * *")).toBeUndefined();
  expect(scheduleProblem("@daily")).toBeUndefined();
  expect(scheduleProblem("99 2 * * *")).toMatch(/99 is a invalid expression for minute/);
  expect(scheduleProblem("*/5 * * * * *")).toMatch(/whole minutes/);
  expect(timeZoneProblem("Europe/Berlin")).toBeUndefined();
  expect(timeZoneProblem("Mars/Olympus")).toMatch(/is no time zone/);
});

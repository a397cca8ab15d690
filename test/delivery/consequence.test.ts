import { expect, test } from "vitest";
import {
  DecisionNeededError,
  PausedError,
  RejectedEventsError,
  RetryableError,
  TooLargeError,
  UsageError,
} from "../../src/core/errors.ts";
import { consequenceOf, createRefusals } from "../../src/delivery/consequence.ts";

const few = { areMost: () => false };

test("each error has one consequence", () => {
  const retryable = new RetryableError("away");
  expect(consequenceOf(retryable, 5, few)).toEqual({ kind: "retry", error: retryable, isUnexpected: false });
  expect(consequenceOf(new TooLargeError("large"), 5, few)).toEqual({ kind: "halve", recordsMax: 3 });
  expect(consequenceOf(new TooLargeError("large"), 1, few)).toEqual({
    kind: "bury",
    rejected: [{ index: 0, reason: "large" }],
    again: [],
  });
  expect(consequenceOf(new PausedError("no", "Do."), 5, few)).toEqual({
    kind: "pause",
    reason: "no",
    remedy: "Do.",
  });
  expect(consequenceOf(new UsageError("wrong"), 5, few)).toMatchObject({ kind: "stop", reason: "wrong" });
  expect(consequenceOf(new DecisionNeededError("odd", ["a", "b"]), 5, few)).toEqual({
    kind: "stop",
    reason: "odd",
    remedy: "Choose: a; or b.",
  });
});

test("rejected records are buried, and those that are neither rejected nor written are sent again", () => {
  const rejected = [{ index: 1, reason: "mapping" }];
  const error = new RejectedEventsError("some", rejected, { remaining: [1, 2, 4] });
  expect(consequenceOf(error, 5, few)).toEqual({ kind: "bury", rejected, again: [2, 4] });
  expect(consequenceOf(error, 5, { areMost: () => true })).toMatchObject({ kind: "pause" });
});

test("R27 records of which some were refused, without names, are halved until one is alone", () => {
  const refused = [0, 1, 2].map((index) => ({ index, reason: "422" }));
  const of = (count: number) => new RejectedEventsError("422", refused.slice(0, count), { isUnnamed: true });
  expect(consequenceOf(of(3), 3, { areMost: () => true })).toEqual({ kind: "halve", recordsMax: 2 });
  expect(consequenceOf(of(1), 1, few)).toEqual({ kind: "bury", rejected: [refused[0]], again: [] });
  expect(consequenceOf(of(1), 1, { areMost: () => true })).toMatchObject({ kind: "pause" });
});

test("events that are too old are buried, however many they are", () => {
  const old = Array.from({ length: 500 }, (_, index) => ({ index, reason: "too old", isOld: true }));
  const error = new RejectedEventsError("old", old, { remaining: [500] });
  expect(consequenceOf(error, 501, createRefusals())).toMatchObject({ kind: "bury", again: [500] });
  const mixed = [...old, { index: 500, reason: "mapping" }];
  const most = consequenceOf(new RejectedEventsError("mixed", mixed), 501, { areMost: (few) => few === 1 });
  expect(most).toMatchObject({ kind: "pause", reason: expect.stringContaining("mapping") });
});

test("R38 an unknown error is retried as unexpected; a full disk is retried and expected", () => {
  expect(consequenceOf(new TypeError("x"), 5, few)).toMatchObject({ kind: "retry", isUnexpected: true });
  expect(consequenceOf("text", undefined, few)).toMatchObject({ kind: "retry", isUnexpected: true });
  const full = Object.assign(new Error("full"), { code: "SQLITE_FULL" });
  expect(consequenceOf(full, 5, few)).toMatchObject({ kind: "retry", isUnexpected: false });
});

test("most events are refused when it is more than half of at least 200", () => {
  const refusals = createRefusals();
  expect(refusals.areMost(199, 199)).toBe(false);
  expect(refusals.areMost(200, 200)).toBe(true);
  refusals.took(1000);
  expect(refusals.areMost(500, 500)).toBe(false);
  refusals.refused(1500);
  expect(refusals.areMost(1, 1)).toBe(true);
});

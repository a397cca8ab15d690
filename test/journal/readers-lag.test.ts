import { beforeEach, expect, test } from "vitest";
import type { Position } from "../../src/core/position.ts";
import { createReadersLag } from "../../src/journal/readers-lag.ts";

let positions: Map<string, Position>;
let lag: ReturnType<typeof createReadersLag>;

beforeEach(() => {
  positions = new Map();
  lag = createReadersLag(positions);
});

function place(reader: string, page: number, event: number): void {
  positions.set(reader, { journal: "j", page, event, hash: "" });
}

test("a reader is behind with a tenth of a full page before it, in one page or in many", () => {
  lag.appended(1, 100);
  place("disk", 1, 100);
  expect(lag.isBehind()).toBe(false);
  for (let page = 2; page <= 10; page++) lag.appended(page, 100);
  expect(lag.isBehind()).toBe(false);
  lag.appended(11, 100);
  expect(lag.isBehind()).toBe(true);
  place("disk", 2, 50);
  expect(lag.isBehind()).toBe(false);
  lag.appended(12, 10_000);
  expect(lag.isBehind()).toBe(true);
});

test("events before its place inside a page do not count", () => {
  lag.appended(1, 10_000);
  place("disk", 1, 5000);
  expect(lag.isBehind()).toBe(true);
  place("disk", 1, 9001);
  expect(lag.isBehind()).toBe(false);
});

test("a reader that is far behind, or has read nothing since the start, is not waited for", () => {
  place("new", 7, 3);
  lag.appended(8, 10_000);
  expect(lag.isBehind()).toBe(false);
  place("slow", 8, 0);
  expect(lag.isBehind()).toBe(true);
  for (let page = 9; page <= 12; page++) lag.appended(page, 10_000);
  expect(lag.isBehind()).toBe(false);
  place("slow", 9, 0);
  expect(lag.isBehind()).toBe(true);
});

test("a reader that was waited for in vain is not waited for again until it goes on", () => {
  lag.appended(1, 10_000);
  place("down", 1, 0);
  lag.giveUp();
  expect(lag.isBehind()).toBe(false);
  // It is tried again from the same place.
  place("down", 1, 0);
  lag.appended(2, 10);
  expect(lag.isBehind()).toBe(false);
  place("down", 1, 1);
  expect(lag.isBehind()).toBe(true);
});

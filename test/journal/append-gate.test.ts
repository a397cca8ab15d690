import { expect, test } from "vitest";
import { createTurns } from "../../src/journal/append-gate.ts";

const at = (page: number, event = 0) => ({ journal: "j", page, event, hash: "" });
const soon = Symbol("not yet");
const within = (promise: Promise<void>, ms: number) =>
  Promise.race([promise, new Promise((resolve) => setTimeout(resolve, ms, soon))]);

const nothing = () => {};

test("a page waits until the readers that keep up have been given the one before", async () => {
  const turns = createTurns();
  turns.gave("a", 0, at(0));
  turns.gave("b", 0, at(0));
  turns.appended(1, 1_000_000, null);
  const next = turns.take(nothing);
  expect(await within(next, 20)).toBe(soon);
  turns.gave("a", 1, at(1));
  expect(await within(next, 20)).toBe(soon);
  turns.gave("b", 1, at(1));
  await next;
});

test("those that wait are let in one by one, in their order, also behind one that fails", async () => {
  const turns = createTurns();
  turns.gave("a", 0, at(0));
  turns.appended(1, 1_000_000, null);
  const order: number[] = [];
  const append = (page: number) =>
    turns.take(() => {
      turns.appended(page, 1_000_000, null);
      order.push(page);
    });
  const failing = turns.take(() => {
    throw new Error("full");
  });
  const second = append(2);
  const third = append(3);
  turns.gave("a", 1, at(1));
  await expect(failing).rejects.toThrow("full");
  await second;
  expect(await within(third, 20)).toBe(soon);
  expect(order).toEqual([2]);
  turns.gave("a", 2, at(2));
  await third;
  expect(order).toEqual([2, 3]);
});

test("nobody waits without readers, for one far behind, for another's page, or for long", async () => {
  const turns = createTurns();
  turns.appended(1, 1_000_000, null);
  await turns.take(nothing);
  turns.gave("behind", 1, at(1));
  turns.appended(100, 1_000_000, null);
  await turns.take(nothing);
  turns.gave("near", 100, at(100));
  turns.appended(101, 1_000_000, "other");
  await turns.take(nothing);
  turns.appended(102, 400, null);
  await turns.take(nothing);
  turns.gave("near", 103, at(103));
  turns.gave("gone", 102, at(102));
  turns.forget("gone");
  turns.appended(103, 1_000_000, null);
  await turns.take(nothing);
});

test("a page is wanted until every reader that keeps up has read past it", () => {
  const turns = createTurns();
  expect(turns.isWanted(5, 10)).toBe(false);
  turns.gave("a", 5, at(4, 3));
  expect(turns.isWanted(5, 10)).toBe(true);
  turns.gave("a", 5, at(5, 9));
  expect(turns.isWanted(5, 10)).toBe(true);
  turns.gave("a", 5, at(5, 10));
  expect(turns.isWanted(5, 10)).toBe(false);
  turns.gave("near", 4, at(4));
  expect(turns.isWanted(5, 10)).toBe(true);
  turns.gave("near", 6, at(6));
  expect(turns.isWanted(5, 10)).toBe(false);
});

import { expect, test } from "vitest";
import { ordersOfFiles } from "../../src/sinks/file/crew.ts";

test("an order to a thread has 24 small files, or a megabyte of large ones", () => {
  const small = Array.from({ length: 50 }, () => 1000);
  const size = (bytes: number) => bytes;
  expect(ordersOfFiles(small, size).map(({ length }) => length)).toEqual([24, 24, 2]);
  expect(ordersOfFiles([600_000, 400_000, 100_000, 3_000_000, 1], size)).toEqual([
    [600_000, 400_000],
    [100_000],
    [3_000_000],
    [1],
  ]);
  expect(ordersOfFiles([], size)).toEqual([]);
});

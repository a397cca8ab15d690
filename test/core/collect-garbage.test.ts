import { constants, type PerformanceEntry, PerformanceObserver } from "node:perf_hooks";
import { setImmediate as turn } from "node:timers/promises";
import { expect, it } from "vitest";
import { collectDropped, collectShortLived } from "../../src/core/collect-garbage.ts";

/** How many collections of this kind the work causes. */
async function collections(kind: number, work: () => void): Promise<number> {
  const entries: PerformanceEntry[] = [];
  const observer = new PerformanceObserver((list) => entries.push(...list.getEntries()));
  observer.observe({ entryTypes: ["gc"] });
  work();
  for (let turns = 0; turns < 5; turns++) await turn();
  entries.push(...observer.takeRecords());
  observer.disconnect();
  return entries.filter((entry) => (entry as unknown as { detail: { kind: number } }).detail.kind === kind)
    .length;
}

it("short-lived buffers are collected by young collections, one for each 16 MB", async () => {
  const { NODE_PERFORMANCE_GC_MINOR } = constants;
  const many = await collections(NODE_PERFORMANCE_GC_MINOR, () => {
    for (let piece = 0; piece < 20; piece++) collectShortLived(8_000_000);
  });
  expect(many).toBeGreaterThanOrEqual(10);
});

it("large buffers that are dropped instead of reused are collected", async () => {
  const { NODE_PERFORMANCE_GC_MAJOR } = constants;
  expect(await collections(NODE_PERFORMANCE_GC_MAJOR, () => collectDropped(30_000_000))).toBeGreaterThan(0);
});

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { mergeRuns } from "../../src/archive/close/merge-runs.ts";
import { createSpool } from "../../src/archive/close/spool.ts";
import { nanosecondsOf } from "../../src/archive/close/spool-columns.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import { runs } from "../support/runs.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tidemark-spool-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function event(text: string, timestamp: string, identity: number): JournalEvent {
  const bytes = Buffer.from(text);
  return {
    bytes,
    size: bytes.length,
    timestamp,
    timestampMs: Date.parse(timestamp),
    identity: identity.toString(16).padStart(32, "0"),
  } as unknown as JournalEvent;
}

function read(spool: ReturnType<typeof createSpool>) {
  const found: [number, string, string, boolean][] = [];
  for (const { group, events } of spool.groups())
    for (const { slice, timestamp, isChanged } of events)
      found.push([group, slice.toString(), timestamp.toString(), isChanged]);
  return found;
}

test("merged runs are in order, empty ones and equal rows among them", () => {
  fc.assert(
    fc.property(fc.array(fc.array(fc.nat(20))), (lists) => {
      const sorted = lists.map((list) => Uint32Array.from(list).sort());
      expect([...mergeRuns(sorted, (a, b) => a - b)]).toEqual(lists.flat().sort((a, b) => a - b));
    }),
    { numRuns: runs(100) },
  );
});

describe("A5 sorting in bounded memory", () => {
  test("merges many runs into the order of group, nanoseconds, identity and arrival", () => {
    // Runs of 1 KB: one event in the list is larger than a run, and is a run of its own.
    const spool = createSpool(join(folder, "spool"), 1000);
    const wanted: [number, string, string, boolean][] = [];
    for (let at = 0; at < 500; at++) {
      const group = (at * 7) % 5;
      const time = `2026-03-10T00:00:${String((at * 13) % 60).padStart(2, "0")}.123${String((at * 31) % 7).padStart(6, "0")}Z`;
      const text = `${at} ${"x".repeat(at === 250 ? 5000 : (at * 17) % 90)}`;
      spool.add(group, event(text, time, at % 3), at % 10 === 0);
      wanted.push([group, text, time, at % 10 === 0]);
    }
    expect(spool.count).toBe(500);
    const identity = ([, text]: (typeof wanted)[number]) => Number.parseInt(text, 10) % 3;
    wanted.sort(
      (a, b) =>
        a[0] - b[0] ||
        (a[2] < b[2] ? -1 : a[2] > b[2] ? 1 : 0) ||
        identity(a) - identity(b) ||
        Number.parseInt(a[1], 10) - Number.parseInt(b[1], 10),
    );
    expect(read(spool)).toEqual(wanted);
    spool.close();
  });

  test("a group whose events were not taken, or not all of them, ends with the next one", () => {
    const spool = createSpool(join(folder, "spool"), 1000);
    for (let at = 0; at < 300; at++) spool.add(at % 3, event(`${at}`, "2026-03-10T00:00:00Z", at), false);
    const first: [number, string | undefined][] = [];
    for (const { group, events } of spool.groups()) {
      if (group === 1) continue;
      for (const { slice } of events) {
        first.push([group, slice.toString()]);
        break;
      }
    }
    expect(first).toEqual([
      [0, "0"],
      [2, "2"],
    ]);
    spool.close();
  });

  test("large events of many runs are read one at a time: no run keeps memory for its largest one", () => {
    const size = 1_000_000;
    const spool = createSpool(join(folder, "spool"), size);
    // The small ones come last in their group, so that all runs are open until then.
    for (let at = 0; at < 80; at++) spool.add(0, event("x".repeat(size), "2026-03-10T00:00:00Z", at), false);
    for (let at = 0; at < 80; at++) spool.add(0, event("small", "2026-03-11T00:00:00Z", at), false);
    const before = process.memoryUsage().arrayBuffers;
    let most = 0;
    let count = 0;
    for (const { events } of spool.groups())
      for (const { slice } of events) {
        expect(slice.length).toBe(count++ < 80 ? size : 5);
        most = Math.max(most, process.memoryUsage().arrayBuffers - before);
      }
    expect(count).toBe(160);
    expect(most).toBeLessThan(30_000_000);
    spool.close();
  });

  test("keeps a timestamp as served, whatever it contains", () => {
    const spool = createSpool(join(folder, "spool"), 1000);
    spool.add(0, event("a", "２０２６", 1), false);
    spool.add(0, event("b", "", 2), false);
    expect(read(spool)).toEqual([
      [0, "a", "２０２６", false],
      [0, "b", "", false],
    ]);
    spool.close();
  });

  test("nanoseconds are the digits behind the milliseconds", () => {
    expect(nanosecondsOf("2026-03-10T00:00:00.123456789Z")).toBe(456_789);
    expect(nanosecondsOf("2026-03-10T00:00:00.1234Z")).toBe(400_000);
    expect(nanosecondsOf("2026-03-10T00:00:00.123Z")).toBe(0);
    expect(nanosecondsOf("2026-03-10T00:00:00.1Z")).toBe(0);
    expect(nanosecondsOf("2026-03-10T00:00:00Z")).toBe(0);
  });
});

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { buildParts } from "../../src/archive/close/build.ts";
import type { ArchivePage, Plan } from "../../src/core/archive.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import { A, DAY, never } from "./world.ts";

const EVENTS = 5000;
/** Between two turns of others. */
const EVENTS_MAX = 500;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tidemark-build-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function eventAt(index: number): JournalEvent {
  const bytes = Buffer.from(`{"id":"${index}"}`);
  const timestampMs = Date.parse(DAY) + index;
  return {
    ...{ bytes, size: bytes.length, organization: A, provider: null, account: "acme" },
    ...{ timestamp: new Date(timestampMs).toISOString(), timestampMs },
    identity: index.toString(16).padStart(32, "0"),
  } as unknown as JournalEvent;
}

const PLAN = {
  ...{ id: 1, kind: "day", day: DAY, part: "001", class: "standard", seed: Buffer.alloc(32) },
  organizations: [
    { organization: A, accounts: ["acme"], events: EVENTS, missing: [], matches: true, askedMs: null },
  ],
} as unknown as Plan;

test("polling and delivery have their turns while a large part is sorted and written", async () => {
  let [turns, isDone, sinceTurn, most, turnsBeforeWriting] = [0, false, 0, 0, 0];
  const others = () => {
    turns++;
    sinceTurn = 0;
    if (!isDone) setImmediate(others);
  };
  const page = {
    ...{ count: EVENTS, isChanged: false, planOf: () => 1, erasedBy: () => undefined },
    event(index: number) {
      most = Math.max(most, ++sinceTurn);
      return eventAt(index);
    },
    release() {
      turnsBeforeWriting = turns;
    },
  } as unknown as ArchivePage;
  setImmediate(others);
  const source = { pagesOf: () => [1], page: async () => page, erasureRules: () => "" };
  const built = await buildParts([PLAN], source, folder, never);
  isDone = true;
  expect(built.get(1)!.files.events).toBe(EVENTS);
  expect(most).toBeLessThanOrEqual(EVENTS_MAX);
  expect(turns - turnsBeforeWriting).toBeGreaterThanOrEqual(EVENTS / EVENTS_MAX);
});

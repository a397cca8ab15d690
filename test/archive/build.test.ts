import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { buildParts } from "../../src/archive/close/build.ts";
import type { ArchivePage, Plan } from "../../src/core/archive.ts";
import type { JournalEvent } from "../../src/core/event.ts";
import { A, DAY, never } from "./world.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tidemark-build-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function eventAt(index: number, size: number): JournalEvent {
  const bytes = Buffer.from(`{"id":"${index}"}`.padEnd(size));
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
    { organization: A, accounts: ["acme"], events: null, missing: [], matches: false, askedMs: null },
  ],
} as unknown as Plan;

test.each([
  [5000, 0, 500],
  [200, 100_000, 10],
])(
  "polling and delivery have their turns while %i events of %i bytes are sorted and written",
  async (count, size, eventsMax) => {
    let [turns, isDone, sinceTurn, most, turnsBeforeWriting] = [0, false, 0, 0, 0];
    const others = () => {
      turns++;
      sinceTurn = 0;
      if (!isDone) setImmediate(others);
    };
    const page = {
      ...{ count, isChanged: false, planOf: () => 1, erasedBy: () => undefined },
      event(index: number) {
        most = Math.max(most, ++sinceTurn);
        return eventAt(index, size);
      },
      release() {
        turnsBeforeWriting = turns;
      },
    } as unknown as ArchivePage;
    setImmediate(others);
    const source = { pagesOf: () => [1], page: async () => page, erasureRules: () => "" };
    const built = await buildParts([PLAN], source, folder, never);
    isDone = true;
    expect(built.get(1)!.files.events).toBe(count);
    expect(most).toBeLessThanOrEqual(eventsMax);
    expect(turns - turnsBeforeWriting).toBeGreaterThanOrEqual(count / eventsMax);
  },
);

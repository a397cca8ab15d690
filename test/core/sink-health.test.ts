import { expect, test } from "vitest";
import { sinkHealth } from "../../src/core/sink-health.ts";
import type { SinkView } from "../../src/core/view/sinks.ts";

const NOW_MS = 1_000_000_000;
const healthy: SinkView = {
  name: "lake",
  type: "kafka",
  guarantee: "exactly_once",
  promise: "Exactly once.",
  state: "running",
  sinceMs: null,
  reason: null,
  remedy: null,
  position: "j:1:1:ab",
  lagEvents: 0,
  isFiltered: false,
  lagMs: 0,
  sentEvents: 10,
  committedMs: NOW_MS,
  lastWriteMs: NOW_MS - 3_000,
  deadLetters: 0,
};

test.each<[string, Partial<SinkView>, string, string]>([
  ["up to date", {}, "good", "delivering; up to date; last write 3s ago."],
  [
    "an archive",
    { type: "archive" },
    "good",
    "delivering; up to date; an event is archived when its day is closed;",
  ],
  [
    "R40 behind by time",
    { lagEvents: 55_804, lagMs: 372_000 },
    "degraded",
    "delivering; behind by 6m 12s (55,804 events); last write 3s ago.",
  ],
  [
    "behind, counted before its filter",
    { lagEvents: 300, lagMs: 372_000, isFiltered: true },
    "degraded",
    "delivering; behind by 6m 12s (up to 300 events, before its filter); last write 3s ago.",
  ],
  ["a moment behind", { lagEvents: 1, lagMs: 900 }, "good", "behind by 900ms (1 event)"],
  [
    "paused",
    { state: "paused", sinceMs: NOW_MS - 7_200_000, lagEvents: 2, lagMs: 7_100_000 },
    "bad",
    "paused for 2h; behind by 1h 58m (2 events)",
  ],
  ["retrying", { state: "retrying", sinceMs: NOW_MS - 5_000 }, "degraded", "retrying for 5s; up to date"],
  [
    "a write that takes long",
    { reason: "It has been writing for more than 30s." },
    "degraded",
    "waiting for the destination; up to date",
  ],
  ["with dead letters", { deadLetters: 3 }, "degraded", "3 dead letters"],
  [
    "without a process",
    { state: "unknown", lastWriteMs: null },
    "degraded",
    "no running process reports on it; up to date.",
  ],
])("a sink's health line: %s", (_, change, health, words) => {
  const said = sinkHealth({ ...healthy, ...change }, NOW_MS);
  expect(said.health).toBe(health);
  expect(said.line).toContain(words);
});

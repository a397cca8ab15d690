import { expect, test } from "vitest";
import { newWindow } from "../../src/core/window.ts";
import type { PollContext } from "../../src/polling/context.ts";
import { closedWindow, endedWindow } from "../../src/polling/read/commit-page.ts";

const HOUR_MS = 3_600_000;
const MIDNIGHT_MS = Date.UTC(2026, 0, 6);
const settings = {
  sweepsMs: [HOUR_MS],
  lastSweepMs: 12 * HOUR_MS,
  retentionMs: 90 * 24 * HOUR_MS,
  overlapMs: 300_000,
};
const stream = { id: 1, account: "acme", provider: null, organizations: ["a"], services: ["all"] };

test("R3 the part of a live window before midnight is still due to be swept: the last pass read only the end", () => {
  const askedMs = MIDNIGHT_MS + 15 * HOUR_MS;
  const live = {
    ...newWindow(stream, MIDNIGHT_MS - 9 * HOUR_MS, askedMs, { live: true }),
    id: 1,
    askedMs,
  };
  const parts = closedWindow({ settings } as unknown as PollContext, live);
  expect(parts.map(({ fromMs, toMs, state, nextMs }) => ({ fromMs, toMs, state, nextMs }))).toEqual([
    { fromMs: live.fromMs, toMs: MIDNIGHT_MS, state: "read", nextMs: MIDNIGHT_MS + HOUR_MS },
    { fromMs: MIDNIGHT_MS, toMs: askedMs, state: "read", nextMs: askedMs + HOUR_MS },
  ]);
});

test("R36 a live window that ends is cut where its end is read once more: no two windows share a time", () => {
  const toMs = MIDNIGHT_MS + HOUR_MS;
  const live = { ...newWindow(stream, MIDNIGHT_MS, toMs, { live: true }), id: 1, askedMs: toMs };
  const parts = endedWindow({ settings } as unknown as PollContext, live, toMs + 1000);
  expect(parts.map(({ fromMs, toMs, state }) => ({ fromMs, toMs, state }))).toEqual([
    { fromMs: MIDNIGHT_MS, toMs: toMs - settings.overlapMs, state: "read" },
    { fromMs: toMs - settings.overlapMs, toMs: toMs + 1000, state: "unread" },
  ]);
});

test("R29 a live window that ends before it was read leaves its place in the ledger", () => {
  const live = { ...newWindow(stream, MIDNIGHT_MS, MIDNIGHT_MS, { live: true }), id: 1 };
  const parts = endedWindow({ settings } as unknown as PollContext, live, MIDNIGHT_MS);
  expect(parts).toMatchObject([{ fromMs: MIDNIGHT_MS, toMs: MIDNIGHT_MS + 1, state: "unread" }]);
});

import { expect, test } from "vitest";
import { retryAfterMsOf } from "../../../src/core/http/retry-after.ts";

const NOW = Date.parse("2026-03-14T15:00:00Z");

test.each([
  [undefined, undefined],
  ["", undefined],
  ["soon", undefined],
  ["-5", undefined],
  ["7", 7000],
  [" 7 ", 7000],
  ["0", 0],
  ["1.5", 1500],
  ["99999999", 60_000],
  ["Sat, 14 Mar 2026 15:00:30 GMT", 30_000],
  ["Sat, 14 Mar 2026 14:00:30 GMT", 0],
  ["Sun, 15 Mar 2026 15:00:30 GMT", 60_000],
])("Retry-After %j is a wait of %j ms", (header, waitMs) => {
  expect(retryAfterMsOf(header, NOW, 60_000)).toBe(waitMs);
});

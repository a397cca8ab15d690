import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type AccessLog, openAccessLog } from "../../src/search/access/access-log.ts";
import { temporaryFolder } from "../journal/support.ts";

const A = "aaaaaaaaaaaaaaaaaaaaaaaa";
const B = "bbbbbbbbbbbbbbbbbbbbbbbb";
let folder: ReturnType<typeof temporaryFolder>;
let nowMs = Date.parse("2026-03-31T23:59:00Z");
let log: AccessLog;
beforeEach(() => {
  folder = temporaryFolder();
  log = openAccessLog(`${folder.path}/access`, () => nowMs);
});
afterEach(() => folder.remove());

function asked(organizations: readonly string[] | null, query: unknown): void {
  log.append({
    who: "elastic",
    address: null,
    operation: "search",
    organizations,
    query,
    status: 200,
    events: 1,
  });
}

describe("the access log", () => {
  test("A23 an erasure removes an organization or an event from entries of all months, and keeps who asked and when", () => {
    asked([A, B], { service: ["all"] });
    nowMs += 3_600_000;
    asked([A], { search_term: { and: [{ id: "event-1" }] } });
    asked(null, { text: A.toUpperCase() });
    asked([B], { service: ["sso"] });
    expect(readdirSync(`${folder.path}/access`)).toEqual(["2026-03.jsonl", "2026-04.jsonl"]);
    expect(log.erase(A, "event-1")).toBe(1);
    expect(log.list(10)[1]).toMatchObject({ organizations: [A], query: "[erased]" });
    expect(log.erase(A, null)).toBe(3);
    expect(log.erase(A, null)).toBe(0);
    expect(log.list(10).map(({ who, organizations, query }) => [who, organizations, query])).toEqual([
      ["elastic", ["[erased]", B], { service: ["all"] }],
      ["elastic", ["[erased]"], "[erased]"],
      ["elastic", null, "[erased]"],
      ["elastic", [B], { service: ["sso"] }],
    ]);
    expect(log.list(10).map(({ time }) => time.slice(0, 13))).toEqual([
      "2026-03-31T23",
      ...Array(3).fill("2026-04-01T00"),
    ]);
  });
});

test("strangers cannot fill the disk: refusals of unknown callers are short, bounded and counted", () => {
  let nowMs = Date.parse("2026-11-15T12:00:00Z");
  const log = openAccessLog(folder.path, () => nowMs);
  const entry = { address: "192.0.2.1", operation: "page events", organizations: [], status: 401, events: 0 };
  const ask = (who: string) => log.append({ ...entry, who, query: { text: "x".repeat(1900) } });
  for (let count = 0; count < 500; count++) ask("unknown");
  ask("elastic");
  nowMs += 60_000;
  ask("unknown");
  const [file] = readdirSync(folder.path);
  expect(readFileSync(join(folder.path, file!)).length).toBeLessThan(20_000);
  const entries = log.list(1000);
  expect(entries).toHaveLength(62);
  expect(entries.at(-2)).toMatchObject({ who: "elastic", query: { text: "x".repeat(1900) } });
  expect(entries.at(-1)).toMatchObject({ who: "unknown", query: null, omitted: 440 });
});

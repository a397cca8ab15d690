import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openAccessLog } from "../../src/search/access/access-log.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tidemark-access-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

test("strangers cannot fill the disk: refusals of unknown callers are short, bounded and counted", () => {
  let nowMs = Date.parse("2026-11-15T12:00:00Z");
  const log = openAccessLog(folder, () => nowMs);
  const entry = { address: "192.0.2.1", operation: "page events", organizations: [], status: 401, events: 0 };
  const ask = (who: string) => log.append({ ...entry, who, query: { text: "x".repeat(1900) } });
  for (let count = 0; count < 500; count++) ask("unknown");
  ask("elastic");
  nowMs += 60_000;
  ask("unknown");
  const [file] = readdirSync(folder);
  expect(readFileSync(join(folder, file!)).length).toBeLessThan(20_000);
  const entries = log.list(1000);
  expect(entries).toHaveLength(62);
  expect(entries.at(-2)).toMatchObject({ who: "elastic", query: { text: "x".repeat(1900) } });
  expect(entries.at(-1)).toMatchObject({ who: "unknown", query: null, omitted: 440 });
});

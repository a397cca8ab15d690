import { cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Sqlite } from "../../src/core/sqlite.ts";
import { migrations } from "../../src/journal/migrations.ts";
import { startReceiver } from "./receiver.ts";
import { openScene, type Scene } from "./scene.ts";

let scene: Scene;

beforeEach(async () => {
  scene = await openScene();
  scene.configure([{ name: "disk", type: "file", directory: scene.path("events") }]);
});
afterEach(() => scene.close());

function change(file: string, sql: string): void {
  const db = new Sqlite(file);
  db.exec(sql);
  db.pragma("wal_checkpoint(TRUNCATE)");
  db.close();
}

const NEWEST = migrations().at(-1)!.number;

const FIXTURE = join(import.meta.dirname, "../fixtures/first-build");

test("a state file of the first build is brought forward by the first run, with a copy that can be restored", async () => {
  writeFileSync(scene.state, gunzipSync(readFileSync(join(FIXTURE, "state.db.gz"))));
  cpSync(join(FIXTURE, "disk"), scene.path("events"), { recursive: true });
  const receiver = await startReceiver();
  const hook = { name: "hook", type: "http", url: receiver.url, format: "raw", body: "ndjson" };
  scene.configure([{ name: "disk", type: "file", directory: scene.path("events") }, hook]);
  const looking = await scene.command("dead-letters", "list");
  expect(looking).toMatchObject({ code: 2 });
  expect(looking.stderr).toContain('start "tidemark run" once');

  await scene.command("run", "--once");
  const known = new Set(readFileSync(join(FIXTURE, "events.jsonl"), "utf8").trimEnd().split("\n"));
  expect(receiver.lines.filter((line) => known.has(line)).length).toBe(298);
  expect((await scene.done("dead-letters", "list")).match(/hook/g)!.length).toBeGreaterThan(0);
  const copies = readdirSync(scene.folder).filter((name) => name.includes(".before-"));
  expect(copies).toEqual([expect.stringMatching(/^state\.db\.before-\d{4}$/)]);

  await scene.done("restore", scene.path(copies[0]!));
  const again = await scene.command("run", "--once");
  expect(again.stdout + again.stderr).toContain("The state file is older than the directory");
  await receiver.close();
});

test("a state file of a newer program is refused by every command with the same clear word, and is not changed", async () => {
  await scene.done("run", "--once");
  await scene.done("backup", scene.path("copy.db"));
  const newer = "INSERT INTO migrations VALUES (9000, '9000-later', 0); PRAGMA user_version = 9000";
  change(scene.state, newer);
  change(scene.path("copy.db"), newer);
  const before = readFileSync(scene.state);
  const commands = [
    ["run", "--once"],
    ["dead-letters", "list"],
    ["sinks", "resume", "disk", "--from", "state"],
    ["backup", scene.path("other.db")],
    ["restore", scene.path("copy.db")],
  ];
  for (const args of commands) {
    const { code, stderr } = await scene.command(...args);
    expect({ args, code }).toEqual({ args, code: 2 });
    expect(stderr).toContain(
      `was written by a newer Tidemark (schema 9000, this one knows ${NEWEST}): update the program`,
    );
    expect(readFileSync(scene.state).equals(before)).toBe(true);
  }
  const examined = await scene.command("doctor", "--offline");
  expect(examined.code).toBe(1);
  expect(examined.stdout).toMatch(/^FAILED {2}state: .*newer Tidemark/m);
});

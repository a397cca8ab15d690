import { readdirSync, readFileSync } from "node:fs";
import type Database from "better-sqlite3";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Sqlite } from "../../src/core/sqlite.ts";
import { migrations } from "../../src/journal/migrations.ts";
import { compare, linesBelow, openScene, type Scene } from "./scene.ts";

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

function append(count: number): void {
  const { organizations, control } = scene.simulator;
  for (let at = 0; at < count; at++)
    control.append(organizations[0]!.id, [{ event_type: "user_create", number: at }]);
}

const NEWEST = migrations().at(-1)!.number;

/** As the program was when it knew the first migration alone. */
function makeOlder(file: string): void {
  const [first] = migrations();
  const old = new Sqlite(":memory:");
  old.exec(first!.sql);
  const names = (db: Database.Database) =>
    db.prepare("SELECT type, name FROM sqlite_master WHERE sql IS NOT NULL").all() as {
      type: string;
      name: string;
    }[];
  const kept = new Set(["migrations", ...names(old).map(({ name }) => name)]);
  old.close();
  const db = new Sqlite(file);
  const later = names(db).filter(({ name }) => !kept.has(name));
  db.pragma("foreign_keys = OFF");
  for (const { type, name } of later) db.exec(`DROP ${type} IF EXISTS "${name}"`);
  db.close();
  expect(later.length).toBeGreaterThan(0);
  change(file, "DELETE FROM migrations WHERE number > 1; PRAGMA user_version = 1");
}

test("a state file of an older program is brought forward by the first run, with a copy, and goes on where it was", {
  timeout: 120_000,
}, async () => {
  await scene.done("run", "--once");
  makeOlder(scene.state);
  append(50);
  const looking = await scene.command("dead-letters", "list");
  expect(looking).toMatchObject({ code: 2 });
  expect(looking.stderr).toContain(
    'is of an older Tidemark (it lacks 0010-imports): start "tidemark run" once',
  );
  await scene.done("run", "--once");
  expect(compare(scene.served(), linesBelow(scene.path("events")))).toEqual({ lost: 0, surplus: 0 });
  expect(readdirSync(scene.folder).filter((name) => name.includes(".before-"))).toEqual([
    "state.db.before-0010",
  ]);

  // The way back: the copy that was set aside is a state file as any other.
  await scene.done("restore", scene.path("state.db.before-0010"));
  append(50);
  const again = await scene.command("run", "--once");
  expect(again.stdout + again.stderr).toContain("the state file was restored from an older copy");
  await scene.done("sinks", "resume", "disk", "--from", "state");
  await scene.done("run", "--once");
  expect(compare(scene.served(), linesBelow(scene.path("events"))).lost).toBe(0);
});

test("a state file of a newer program is refused by every command with the same clear word, and is not changed", {
  timeout: 120_000,
}, async () => {
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

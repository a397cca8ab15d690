import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Sqlite } from "../../src/core/sqlite.ts";
import { migrations } from "../../src/journal/migrations.ts";
import { temporaryFolder } from "./support.ts";

const PROCESSES = 6;

let folder: ReturnType<typeof temporaryFolder>;
let file: string;

beforeEach(() => {
  folder = temporaryFolder();
  file = join(folder.path, "state.db");
});
afterEach(() => folder.remove());

async function openAtOnce(): Promise<string[]> {
  const startMs = Date.now() + 2000;
  return Promise.all(
    Array.from({ length: PROCESSES }, async () => {
      const child = spawn(process.execPath, ["test/journal/open-driver.js", file, String(startMs)]);
      let errors = "";
      child.stderr.on("data", (chunk: Buffer) => {
        errors += chunk.toString();
      });
      const [code] = (await once(child, "exit")) as [number];
      return `${code}${errors}`;
    }),
  );
}

function expectMigrated(): void {
  const db = new Sqlite(file, { readonly: true });
  expect(db.prepare("SELECT number FROM migrations").pluck().all()).toEqual(
    migrations().map(({ number }) => number),
  );
  expect(db.pragma("integrity_check", { simple: true })).toBe("ok");
  db.close();
}

test("processes that open a new state file at once all get one that is migrated once", async () => {
  expect(await openAtOnce()).toEqual(Array(PROCESSES).fill("0"));
  expectMigrated();
});

test("processes that open an older state file at once migrate it once, and one whole copy is set aside", async () => {
  const old = new Sqlite(file);
  old.exec(readFileSync("src/journal/migrations/0001-journal.sql", "utf8"));
  old.pragma("user_version = 1");
  old.close();
  expect(await openAtOnce()).toEqual(Array(PROCESSES).fill("0"));
  expectMigrated();
  expect(readdirSync(folder.path).filter((name) => name.includes("before"))).toEqual([
    "state.db.before-0010",
  ]);
  const copy = new Sqlite(`${file}.before-0010`, { readonly: true });
  expect(copy.pragma("user_version", { simple: true })).toBe(1);
  expect(copy.pragma("integrity_check", { simple: true })).toBe("ok");
  copy.close();
});

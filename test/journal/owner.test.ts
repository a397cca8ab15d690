import { rmSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openState } from "../../src/journal/database.ts";
import { takeLock } from "../../src/journal/lock.ts";
import { claimState } from "../../src/journal/owner.ts";
import { type JournalFixture, openFixture } from "./support.ts";

let fixture: JournalFixture;
beforeEach(() => {
  fixture = openFixture();
});
afterEach(() => fixture.close());

test("R15 a process whose lock file was removed changes nothing once another one has started", async () => {
  const first = { lock: takeLock(fixture.file), db: openState(fixture.file) };
  await claimState(first.db);
  const note = (db: typeof first.db, value: string) =>
    db.change(() => db.prepare("INSERT OR REPLACE INTO meta (key, value) VALUES ('note', ?)").run(value));
  await note(first.db, "first");
  expect(() => takeLock(fixture.file)).toThrow("only one may write");
  rmSync(`${fixture.file}.lock`);
  const second = { lock: takeLock(fixture.file), db: openState(fixture.file) };
  await claimState(second.db);
  await note(second.db, "second");
  await expect(note(first.db, "first again")).rejects.toThrow(/Another Tidemark has started to work with/);
  const kept = fixture.db.prepare("SELECT value FROM meta WHERE key = 'note'").pluck().get();
  expect(kept).toBe("second");
  for (const { lock, db } of [first, second]) {
    db.close();
    lock.release();
  }
});

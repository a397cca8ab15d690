import { randomBytes } from "node:crypto";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { silentLog } from "../../src/core/log.ts";
import type { Checkpoints, createCheckpoints, lengthOf } from "../../src/journal/checkpoints.ts";
import { openState, type State } from "../../src/journal/database.ts";
import { temporaryFolder } from "./support.ts";

/** From dist, since a thread cannot be started from sources. */
const built: { createCheckpoints: typeof createCheckpoints; lengthOf: typeof lengthOf } = await import(
  join(import.meta.dirname, "../../dist/src/journal/checkpoints.js")
);
const LIMITS = { waiting: 100, whole: 200 };
/** A row with its tree takes about so many frames. */
const ROW_FRAMES = 8;

let folder: ReturnType<typeof temporaryFolder>;
let file: string;
let db: State;
let checkpoints: Checkpoints;

beforeEach(() => {
  folder = temporaryFolder();
  file = join(folder.path, "state.db");
  db = openState(file);
  db.exec("CREATE TABLE rows (number INTEGER PRIMARY KEY, bytes BLOB) STRICT");
  checkpoints = built.createCheckpoints(db, file, silentLog, LIMITS);
});
afterEach(async () => {
  await checkpoints.close();
  db.close();
  folder.remove();
});

function insert(): void {
  db.prepare("INSERT INTO rows (bytes) VALUES (?)").run(randomBytes(16_384 * (ROW_FRAMES - 2)));
}

const waiting = () => {
  const { log, checkpointed } = built.lengthOf(db, "NOOP");
  return log - checkpointed;
};

test("a thread copies the log into the file, and the log begins anew although commits go on", async () => {
  // Without it no commit copies anything: whatever is copied was copied because of `look`.
  db.pragma("wal_autocheckpoint = 0");
  let begunAnew = 0;
  for (let frames = 0; begunAnew < 3; ) {
    insert();
    checkpoints.look();
    const { log } = built.lengthOf(db, "NOOP");
    if (log < frames) begunAnew++;
    frames = log;
    await turn();
  }
  const rows = db.prepare("SELECT COUNT(*) FROM rows").pluck().get() as number;
  expect(statSync(file).size).toBeGreaterThan((rows - LIMITS.whole) * 16_384);
  expect(db.pragma("integrity_check", { simple: true })).toBe("ok");
});

test("a short log is left to the commits", async () => {
  for (let row = 0; row < 5; row++) insert();
  const before = waiting();
  for (let look = 0; look < 100; look++) {
    checkpoints.look();
    await turn();
  }
  expect(before).toBeLessThan(LIMITS.waiting);
  expect(waiting()).toBe(before);
});

test("after it is closed the state file closes as the last one does: without a log", async () => {
  while (waiting() < LIMITS.waiting) insert();
  checkpoints.look();
  await checkpoints.close();
  db.close();
  expect(existsSync(`${file}-wal`)).toBe(false);
});

test("where the thread cannot open the file, commits copy the log as they do without it", async () => {
  const elsewhere = join(folder.path, "elsewhere.db");
  while (waiting() < LIMITS.waiting) insert();
  const lost = built.createCheckpoints(db, elsewhere, silentLog, LIMITS);
  for (let look = 0; look < 20; look++) {
    lost.look();
    await turn();
  }
  await lost.close();
  expect(waiting()).toBeGreaterThanOrEqual(LIMITS.waiting);
  expect(db.pragma("wal_autocheckpoint", { simple: true })).toBeGreaterThan(0);
  db.pragma("wal_autocheckpoint = 100");
  insert();
  expect(waiting()).toBe(0);
});

import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Sqlite } from "../../src/core/sqlite.ts";
import { checkLog } from "../../src/journal/write-ahead-log.ts";
import { temporaryFolder } from "./support.ts";

const PAGE_BYTES = 4096;
const FRAME_BYTES = 24 + PAGE_BYTES;
/** A power of two: one wrong bit of it gives zero, as in a frame that ends no transaction. */
const PAGES = 128;
/** The long campaign (bit-flips.test.ts) tries every bit. */
const STEP = process.env.TIDEMARK_FLIPS === undefined ? 23 : 1;

describe("R37 the log of a state with 128 pages", () => {
  let folder: ReturnType<typeof temporaryFolder>;
  let db: InstanceType<typeof Sqlite>;
  let copy: string;

  beforeEach(() => {
    folder = temporaryFolder();
    copy = `${folder.path}/copy.db-wal`;
    db = new Sqlite(`${folder.path}/state.db`);
    db.pragma(`page_size = ${PAGE_BYTES}`);
    db.pragma("journal_mode = WAL");
    db.pragma("wal_autocheckpoint = 0");
    db.exec("CREATE TABLE notes (id INTEGER PRIMARY KEY, body BLOB)");
    while (Number(db.pragma("page_count", { simple: true })) < PAGES)
      db.prepare("INSERT INTO notes (body) VALUES (?)").run(Buffer.alloc(3000, 7));
    db.pragma("wal_checkpoint(TRUNCATE)");
    // The log is read again after a while where it looks damaged: nobody writes here.
    vi.spyOn(Atomics, "wait").mockReturnValue("timed-out");
  });
  afterEach(() => {
    vi.restoreAllMocks();
    db.close();
    folder.remove();
  });

  /** One transaction that changes so many pages. */
  function change(pages: number, from = 1): void {
    db.prepare("UPDATE notes SET body = randomblob(3000) WHERE id >= ? AND id < ?").run(from, from + pages);
  }

  function log(): Buffer {
    copyFileSync(`${folder.path}/state.db-wal`, copy);
    return readFileSync(copy);
  }

  const frameAt = (frame: number) => 32 + (frame - 1) * FRAME_BYTES;

  function commitsOf(bytes: Buffer): number[] {
    const commits: number[] = [];
    for (let frame = 1; frameAt(frame) < bytes.length; frame++)
      if (bytes.readUInt32BE(frameAt(frame) + 4) === PAGES) commits.push(frame);
    return commits;
  }

  function problemOf(bytes: Buffer): string | null {
    writeFileSync(copy, bytes);
    return checkLog(copy).problem;
  }

  test.each([1, 3])(
    "every wrong bit of the frames' headers is named, with %i in the last transaction",
    (last) => {
      for (const pages of [1, 4, 1, 6, 2, 5, 1, 1]) change(pages);
      change(last);
      const bytes = log();
      const [before, end] = commitsOf(bytes).slice(-2) as [number, number];
      expect([end - before, end > 20, problemOf(bytes)]).toEqual([last, true, null]);
      const silent: string[] = [];
      let flips = 0;
      for (let frame = before; frame > before - 20; frame--) {
        for (let bit = frame % STEP; bit < 24 * 8; bit += STEP, flips++) {
          const at = frameAt(frame) + (bit >> 3);
          bytes[at]! ^= 1 << (bit & 7);
          const problem = problemOf(bytes);
          if (!problem?.startsWith(`frame ${frame} is damaged`))
            silent.push(`frame ${frame}, bit ${bit}: ${problem}`);
          bytes[at]! ^= 1 << (bit & 7);
        }
      }
      expect([flips > 160, silent]).toEqual([true, []]);
    },
  );

  test("a size that became another one or zero, in any way, is named", () => {
    for (let time = 0; time < 3; time++) change(2);
    const bytes = log();
    const before = commitsOf(bytes).at(-2)!;
    const bits = Array.from({ length: 32 }, (_, bit) => (PAGES ^ (1 << bit)) >>> 0);
    expect(bits).toContain(0);
    for (const size of [...bits, 1, 0xffffffff]) {
      const damaged = Buffer.from(bytes);
      damaged.writeUInt32BE(size, frameAt(before) + 4);
      expect(problemOf(damaged), `${size}`).toBe(
        `frame ${before} is damaged, so 2 later frames do not count`,
      );
    }
  });

  test("a page that a power failure kept from the last transaction is no damage", () => {
    change(2);
    change(5);
    const bytes = log();
    const [before, end] = commitsOf(bytes).slice(-2) as [number, number];
    for (let frame = before + 1; frame <= end; frame++) {
      const torn = Buffer.from(bytes);
      torn.fill(0, frameAt(frame) + 1024, frameAt(frame) + 24 + PAGE_BYTES);
      expect(problemOf(torn), `the page of frame ${frame}`).toBe(null);
      torn.fill(0, frameAt(frame), frameAt(frame) + 1024);
      expect(problemOf(torn), `frame ${frame}`).toBe(null);
    }
  });

  test("nor is a frame of an earlier use of the log in its place, be it the end of a transaction there", () => {
    for (let time = 0; time < 12; time++) change(1);
    const old = log();
    db.pragma("wal_checkpoint(RESTART)");
    change(1);
    change(5);
    const bytes = log();
    const [before, end] = [1, 6];
    expect(commitsOf(bytes).slice(0, 2)).toEqual([before, end]);
    for (let frame = before + 1; frame <= end; frame++) {
      const torn = Buffer.from(bytes);
      old.copy(torn, frameAt(frame), frameAt(frame), frameAt(frame + 1));
      expect(problemOf(torn), `frame ${frame}`).toBe(null);
    }
  });
});

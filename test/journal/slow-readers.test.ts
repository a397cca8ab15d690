import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { type BufferPool, createBufferPool } from "../../src/core/buffer-pool.ts";
import { systemClock } from "../../src/core/clock.ts";
import { inlineDecoder, type PageDecoder } from "../../src/core/page-decoder.ts";
import { openState, type State } from "../../src/journal/database.ts";
import { createJournal, type SqliteJournal } from "../../src/journal/journal.ts";
import { eventTexts, pageOf, readTexts } from "../support/pages.ts";
import { temporaryFolder } from "./support.ts";

const PAGES = 4;
const EVENTS = 5;

/* A reader whose page is no longer decoded gets it from a decoder, which works beside the main thread. */
describe("slow readers", () => {
  const folder = temporaryFolder();
  let memory: BufferPool;
  let db: State;
  let journal: SqliteJournal;
  let decoded: number;
  let files = 0;

  const decoder: PageDecoder = {
    async decode(stored, room) {
      decoded++;
      await new Promise((resolve) => setImmediate(resolve));
      return inlineDecoder.decode(stored, room);
    },
  };

  beforeEach(async () => {
    decoded = 0;
    memory = createBufferPool({ poison: true });
    db = openState(`${folder.path}/${files++}.db`);
    journal = createJournal(db, systemClock, memory, decoder);
    for (let page = 0; page < PAGES; page++) await journal.append(pageOf(eventTexts(page * EVENTS, EVENTS)));
    while (journal.pages.dropOldest());
  });
  afterEach(() => db.close());
  afterAll(() => folder.remove());

  test("get every event, and each page is decoded once", async () => {
    const reader = await journal.reader("slow");
    expect(await readTexts(reader)).toEqual(eventTexts(0, PAGES * EVENTS));
    expect(decoded).toBe(PAGES);
  });

  test("that read one page together have it decoded once", async () => {
    const readers = await Promise.all(["a", "b", "c"].map((name) => journal.reader(name)));
    const pages = await Promise.all(readers.map((reader) => reader.read(reader.position)));
    expect(decoded).toBe(1);
    for (const page of pages) {
      expect(Buffer.from(page!.event(0).bytes).toString()).toBe(eventTexts(0, 1)[0]);
      page!.lease.release();
    }
  });

  test("keep the page that they are in the middle of while memory is short", async () => {
    const reader = await journal.reader("slow");
    const page = (await reader.read(reader.position))!;
    page.lease.release();
    const middle = page.after(1);
    (await reader.read(middle))!.lease.release();
    while (journal.pages.dropOldest());
    (await reader.read(middle))!.lease.release();
    expect(decoded).toBe(1);
  });

  test("R16 each learn that a page is damaged, also when they read it together", async () => {
    db.exec("UPDATE bodies SET body = (SELECT body FROM bodies WHERE page = 2) WHERE page = 1");
    const readers = await Promise.all(["a", "b"].map((name) => journal.reader(name)));
    const results = await Promise.allSettled(readers.map((reader) => reader.read(reader.position)));
    expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(memory.heldBytes()).toBe(0);
  });

  test("R16 a damaged page that declares an enormous size is named, and no memory is taken for it", async () => {
    // A zstd frame with an eight-byte content size of a terabyte.
    const header = Buffer.from("28b52ffde00000000000010000010000", "hex");
    db.prepare("UPDATE bodies SET body = ? WHERE page = 1").run(header);
    const reader = await journal.reader("a");
    await expect(reader.read(reader.position)).rejects.toThrow("does not give its checksum");
    expect(decoded).toBe(0);
    expect(memory.heldBytes()).toBe(0);
  });
});

import { randomBytes } from "node:crypto";
import { statSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { BUSY_MS, openStateForReading } from "../../src/journal/database.ts";
import { createSpace } from "../../src/journal/space.ts";
import { verifyState } from "../../src/journal/verify.ts";
import {
  eventText,
  eventTexts,
  FETCHED_MS,
  ORGANIZATION,
  pageOf,
  readTexts,
  textsOf,
  timeMs,
} from "../support/pages.ts";
import { type JournalFixture, openFixture } from "./support.ts";

const DAY_MS = 86_400_000;
const RETENTION_MS = 90 * DAY_MS;

describe("room on disk", () => {
  let fixture: JournalFixture;
  let space: ReturnType<typeof createSpace>;

  beforeEach(() => {
    fixture = openFixture();
    space = createSpace(fixture.db, fixture.file, 1_000_000_000);
  });
  afterEach(() => fixture.close());

  const append = (...args: Parameters<typeof pageOf>) => fixture.journal.append(pageOf(...args));
  const bodies = () => fixture.db.prepare("SELECT page FROM bodies ORDER BY page").pluck().all();

  async function passAll(name: string): Promise<void> {
    const reader = await fixture.journal.reader(name);
    await reader.commit(fixture.journal.end(), undefined);
  }

  /** Events that do not compress. */
  function large(from: number, count: number): string[] {
    return Array.from({ length: count }, (_, at) =>
      eventText(from + at, { noise: randomBytes(75_000).toString("base64") }),
    );
  }

  describe("R12 trimming", () => {
    test("R12 drops the bytes that every reader has passed, and no others", async () => {
      for (let page = 0; page < 3; page++) await append(eventTexts(page * 10, 10));
      await passAll("fast");
      const slow = await fixture.journal.reader("slow");
      const first = (await slow.read(slow.position))!;
      await slow.commit(first.after(8), undefined);
      await space.trim();
      expect(bodies()).toEqual([1, 2, 3]);
      await slow.commit(first.after(9), undefined);
      await space.trim();
      expect(bodies()).toEqual([2, 3]);
      expect(await readTexts(slow)).toEqual(eventTexts(10, 20));
    });

    test("R12 without any reader nothing is dropped", async () => {
      await append(eventTexts(0, 5));
      await space.trim();
      expect(bodies()).toEqual([1]);
    });

    test("R12 events that two sources showed: of forgotten identities a sum for each day remains", async () => {
      await fixture.journal.stream({
        account: "acme",
        provider: "9d9d",
        organizations: [],
        services: ["all"],
      });
      await append(eventTexts(0, 10));
      const portal = { organizations: [], provider: "9d9d" };
      for (let at = 0; at < 6; at++) await append(eventTexts(at, 1), portal);
      const later = eventTexts(9 * 86_400, 1);
      await append(later);
      await append(later, portal);
      const rows = () =>
        fixture.db
          .prepare(
            "SELECT owner, provider, events, entries IS NULL AS isForgotten FROM also_seen ORDER BY last_ms, id",
          )
          .all();
      expect(rows()).toHaveLength(7);
      const forgetAt = (ms: number) => space.expire(ms + RETENTION_MS + 7 * DAY_MS, RETENTION_MS);
      await forgetAt(timeMs(3));
      const sum = (events: number) => ({ owner: ORGANIZATION, provider: "9d9d", events, isForgotten: 1 });
      const known = { owner: ORGANIZATION, provider: "9d9d", events: 1, isForgotten: 0 };
      expect(rows()).toEqual([sum(3), known, known, known, known]);
      await forgetAt(timeMs(100));
      expect(rows()).toEqual([sum(6), known]);
      expect(await space.expire(timeMs(100), RETENTION_MS)).toBe(false);
      expect(rows()).toEqual([sum(6), known]);
      expect(verifyState(fixture.db).problems).toEqual([]);
    });

    test("R12 identities stay: what was trimmed is still known, and positions still hold", async () => {
      await append(eventTexts(0, 10));
      await passAll("r");
      const position = fixture.journal.end();
      await space.trim();
      expect(bodies()).toEqual([]);
      expect(await append(eventTexts(0, 10))).toMatchObject({ fresh: 0, known: 10 });
      fixture.reopen();
      expect(await append(eventTexts(0, 11))).toMatchObject({ fresh: 1, known: 10 });
      expect(await (await fixture.journal.reader("r")).holds(position)).toBe(true);
    });

    test("R12 identities go only when the newest event of their page is older than retention and a week", async () => {
      await append([eventText(0), eventText(5)]);
      await passAll("r");
      await space.trim();
      await append(eventTexts(10, 1));
      const limitMs = timeMs(5) + RETENTION_MS + 7 * DAY_MS;
      await space.expire(limitMs, RETENTION_MS);
      expect((await append([eventText(0)])).known).toBe(1);
      await space.expire(limitMs + 1, RETENTION_MS);
      expect((await append([eventText(0)])).fresh).toBe(1);
      expect((await append(eventTexts(10, 1))).known).toBe(1);
    });

    test("the last page's row stays, so that numbers and hashes go on", async () => {
      await append(eventTexts(0, 1));
      await append(eventTexts(1, 1));
      await passAll("r");
      await space.trim();
      await space.expire(FETCHED_MS + 1000 * DAY_MS, RETENTION_MS);
      const before = fixture.journal.end();
      expect(before.page).toBe(2);
      fixture.reopen();
      expect((await append(eventTexts(2, 1))).page).toBe(3);
      expect(await readTexts(await fixture.journal.reader("r"))).toEqual(eventTexts(2, 1));
    });

    test("a reader that is new after trimming gets all that is still there", async () => {
      await append(eventTexts(0, 3));
      await passAll("old");
      await space.trim();
      await append(eventTexts(3, 3));
      expect(await textsOf(fixture.journal, "new")).toEqual(eventTexts(3, 3));
      await passAll("old");
      await passAll("new");
      await space.trim();
      expect(await textsOf(fixture.journal, "newest")).toEqual([]);
    });

    test("R21 pages for one reader alone hold up no other, and are trimmed when that one has passed them", async () => {
      await append(eventTexts(0, 3));
      await passAll("other");
      for (let page = 0; page < 3; page++) await append(eventTexts(0, 3), { reader: "one" });
      await passAll("one");
      expect(space.usage()).toMatchObject({ heldUpBy: null, backlogEvents: 0 });
      await space.trim();
      expect(bodies()).toEqual([]);
    });

    test("R21 such pages wait for their own reader", async () => {
      const one = await fixture.journal.reader("one");
      await append(eventTexts(0, 3), { reader: "one" });
      await passAll("other");
      await space.trim();
      expect(bodies()).toEqual([1]);
      expect(space.usage()).toMatchObject({ heldUpBy: "one", backlogEvents: 3 });
      expect(await readTexts(one)).toEqual(eventTexts(0, 3));
    });

    test("a sink that is forgotten takes its own pages along, and a later one of that name does not miss them", async () => {
      await append(eventTexts(0, 2), { reader: "gone" });
      await append(eventTexts(2, 2));
      await fixture.journal.reader("gone");
      await fixture.journal.readers.forget("gone");
      expect(await textsOf(fixture.journal, "gone")).toEqual(eventTexts(2, 2));
    });
  });

  describe("R13 the budget", () => {
    test("R13 counts used pages and the log, not the file's size", async () => {
      await append(eventTexts(0, 1));
      const empty = space.usedBytes();
      for (let page = 0; page < 5; page++) await append(large(page * 20 + 10, 20));
      expect(space.usedBytes() - empty).toBeGreaterThan(7_000_000);
      await passAll("r");
      await space.trim();
      space.truncateLog();
      expect(statSync(fixture.file).size).toBeGreaterThan(7_000_000);
      expect(space.usedBytes()).toBeLessThan(empty + 500_000);
    });

    test("R13 the log is counted while it is there, and can be cut back", async () => {
      const empty = space.usedBytes();
      await append(large(0, 20));
      const log = statSync(`${fixture.file}-wal`).size;
      expect(log).toBeGreaterThan(1_000_000);
      expect(space.usedBytes()).toBeGreaterThan(2 * 1_000_000);
      space.truncateLog();
      expect(statSync(`${fixture.file}-wal`).size).toBe(0);
      expect(space.usedBytes()).toBeLessThan(empty + log + 200_000);
    });

    test("R13 cutting back the log does not wait for another process that reads", async () => {
      await append(large(0, 5));
      const reading = openStateForReading(fixture.file);
      reading.exec("BEGIN");
      reading.prepare("SELECT COUNT(*) FROM pages").get();
      await append(large(5, 5));
      const startedMs = Date.now();
      space.truncateLog();
      expect(Date.now() - startedMs).toBeLessThan(BUSY_MS - 1000);
      reading.close();
      space.truncateLog();
      expect(statSync(`${fixture.file}-wal`).size).toBe(0);
    });

    test("R13 names the reader that is furthest behind, with what is kept for it", async () => {
      await append(eventTexts(0, 4));
      await append(eventTexts(4, 4));
      await passAll("fast");
      const middle = await fixture.journal.reader("middle");
      await middle.commit((await middle.read(middle.position))!.after(3), undefined);
      expect(space.usage()).toMatchObject({ heldUpBy: "middle", backlogEvents: 4 });
      await fixture.journal.reader("a-new-one");
      expect(space.usage()).toMatchObject({ heldUpBy: "a-new-one", backlogEvents: 8 });
      expect(space.usage().backlogBytes).toBeGreaterThan(4 * eventText(0).length);
    });
  });
});

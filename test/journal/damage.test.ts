import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DecisionNeededError } from "../../src/core/errors.ts";
import { DamagedStateError } from "../../src/journal/database.ts";
import { verifyState } from "../../src/journal/verify.ts";
import { eventTexts, ORGANIZATION, pageOf, readTexts, timeMs } from "../support/pages.ts";
import { type JournalFixture, openFixture } from "./support.ts";

describe("R16 pages carry a checksum", () => {
  let fixture: JournalFixture;

  beforeEach(async () => {
    fixture = openFixture();
    for (let page = 0; page < 3; page++) await fixture.journal.append(pageOf(eventTexts(page * 5, 5)));
  });
  afterEach(() => fixture.close());

  function flip(page: number, at: number): void {
    const body = fixture.db.prepare("SELECT body FROM bodies WHERE page = ?").pluck().get(page) as Buffer;
    body[at]! ^= 1;
    fixture.db.prepare("UPDATE bodies SET body = ? WHERE page = ?").run(body, page);
  }

  test("R16 any flipped byte of a stored page is an error that says what to do; nothing is skipped", async () => {
    const length = fixture.db
      .prepare("SELECT length(body) FROM bodies WHERE page = 2")
      .pluck()
      .get() as number;
    for (const at of [0, 4, 20, Math.floor(length / 2), length - 1]) {
      flip(2, at);
      fixture.reopen();
      const reader = await fixture.journal.reader("r");
      const first = (await reader.read(reader.position))!;
      const error = await reader.read(first.after(4)).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(DecisionNeededError);
      expect((error as Error).message).toMatch(/^Page 2 of the journal .* does not give its checksum/);
      expect((error as DecisionNeededError).choices.join()).toContain("backfill --account acme --sink r");
      await expect(reader.read({ ...first.after(4), page: 1 })).rejects.toThrow("Page 2");
      flip(2, at);
    }
    fixture.reopen();
    expect(await readTexts(await fixture.journal.reader("r"))).toEqual(eventTexts(0, 15));
  });

  test("R16 a page whose bytes are gone before a reader passed it is an error, not a gap", async () => {
    fixture.db.exec("DELETE FROM bodies WHERE page = 2");
    fixture.reopen();
    const reader = await fixture.journal.reader("r");
    const first = (await reader.read(reader.position))!;
    await expect(reader.read(first.after(4))).rejects.toThrow("Page 2 of the journal");
  });

  test("R16 the pages before and after a damaged one can be read", async () => {
    flip(2, 7);
    fixture.reopen();
    const reader = await fixture.journal.reader("r");
    const first = (await reader.read(reader.position))!;
    expect(first.count).toBe(5);
    expect(await readTexts(reader, { ...first.after(4), page: 3, event: 0 })).toEqual(eventTexts(10, 5));
  });

  test("R16 compressed bytes of another page do not pass for this one", async () => {
    fixture.db.exec("UPDATE bodies SET body = (SELECT body FROM bodies WHERE page = 1) WHERE page = 3");
    fixture.reopen();
    const reader = await fixture.journal.reader("r");
    await expect(readTexts(reader)).rejects.toThrow("Page 3");
  });
});

describe("R37 identities that do not fit their checksum", () => {
  let fixture: JournalFixture;
  beforeEach(async () => {
    fixture = openFixture();
    await fixture.journal.append(pageOf(eventTexts(0, 5)));
  });
  afterEach(() => fixture.close());

  const entries = () => fixture.db.prepare("SELECT entries FROM identities").pluck().get() as Buffer;
  function flip(...places: number[]): void {
    const bytes = entries();
    for (const at of places) bytes[at]! ^= 4;
    fixture.db.prepare("UPDATE identities SET entries = ?").run(bytes);
  }
  const again = () => fixture.journal.append(pageOf(eventTexts(0, 5)));

  test("R37 with one wrong bit are as before, so no event is taken for a new one", async () => {
    const before = entries();
    flip(25);
    expect(verifyState(fixture.db).problems).toEqual(["identities 1: the row does not match its checksum"]);
    expect(await again()).toMatchObject({ fresh: 0, known: 5 });
    expect(entries().equals(before)).toBe(true);
    expect(verifyState(fixture.db).problems).toEqual([]);
  });

  test("R37 with several wrong bits stop the reading, and nothing is stored twice", async () => {
    flip(25, 50, 51);
    await expect(again()).rejects.toThrow(DamagedStateError);
    await expect(fixture.journal.held([ORGANIZATION], timeMs(0), timeMs(5))).rejects.toThrow(
      "the row 1 of identities does not fit its checksum",
    );
    expect(fixture.journal.end().page).toBe(1);
  });
});

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { JournalEvent } from "../../src/core/event.ts";
import { createDeadLetters, keepUnattributed } from "../../src/journal/dead-letters.ts";
import { verifyState } from "../../src/journal/verify.ts";
import {
  eventText,
  eventTexts,
  FETCHED_MS,
  ORGANIZATION,
  pageOf,
  readEvents,
  textsOf,
} from "../support/pages.ts";
import { type JournalFixture, openFixture } from "./support.ts";

describe("dead letters", () => {
  let fixture: JournalFixture;
  let letters: ReturnType<typeof createDeadLetters>;

  beforeEach(() => {
    fixture = openFixture();
    letters = createDeadLetters(fixture.db);
  });
  afterEach(() => fixture.close());

  const append = (...args: Parameters<typeof pageOf>) => fixture.journal.append(pageOf(...args));

  async function bury(name: string, reason: string, which: (event: JournalEvent) => boolean = () => true) {
    const reader = await fixture.journal.reader(name);
    const events = (await readEvents(reader)).filter(which);
    await reader.addDeadLetters(events.map((event) => ({ event, reason })));
    return events;
  }

  const replayed = async (name: string) => {
    const reader = await fixture.journal.reader(name);
    return readEvents(reader, reader.position);
  };

  async function passAll(name: string): Promise<void> {
    await (await fixture.journal.reader(name)).commit(fixture.journal.end(), undefined);
  }

  test("come with their checksum: the trigger that makes one would copy a large event several times", async () => {
    await append(eventTexts(0, 2));
    const reader = await fixture.journal.reader("siem");
    const events = await readEvents(reader);
    fixture.db.function("tidemark_row_checksum", { varargs: true, deterministic: true }, () => {
      throw new Error("computed by a trigger");
    });
    await reader.addDeadLetters(events.map((event) => ({ event, reason: "mapping" })));
    letters.refuseDamaged({});
    expect(letters.counts()).toEqual([{ sink: "siem", count: 2 }]);
  });

  test("R18 are kept with the event's bytes and the reason; the same one again is ignored", async () => {
    await append(eventTexts(0, 2));
    await bury("siem", "mapping");
    await bury("siem", "another reason");
    await bury("lake", "mapping");
    expect(letters.counts()).toEqual([
      { sink: "lake", count: 2 },
      { sink: "siem", count: 2 },
    ]);
    const [first] = letters.list({ sink: "siem" }, 10);
    expect(first).toMatchObject({
      sink: "siem",
      reason: "mapping",
      account: "acme",
      organization: ORGANIZATION,
      service: "sso",
      eventType: "login",
    });
    expect(letters.bytesOf(first!.id)!.toString()).toBe(eventText(0));
    expect(letters.bytesOf(999)).toBeUndefined();
  });

  test("R18 outlive the trimming of their page", async () => {
    await append(eventTexts(0, 1));
    await bury("siem", "no");
    fixture.db.exec("DELETE FROM bodies");
    expect(letters.bytesOf(1)!.toString()).toBe(eventText(0));
  });

  test("R21 replay gives them back to their own sink alone, as they were", async () => {
    await append(eventTexts(0, 3), { account: "acme" });
    await append([eventText(5, { organization: null })]);
    await append([eventText(6, { organization: null })], { organizations: [], provider: "9d9d" });
    const before = await bury("siem", "no");
    await passAll("siem");
    await passAll("lake");
    expect(await letters.replay({ sink: "siem" }, fixture.journal.pages)).toBe(5);
    expect(await replayed("lake")).toEqual([]);
    const after = await replayed("siem");
    const facts = (events: readonly JournalEvent[]) =>
      events.map((event) => ({
        text: Buffer.from(event.bytes).toString(),
        account: event.account,
        organization: event.organization,
        provider: event.provider,
        identity: event.identity,
        fetchedAtMs: event.fetchedAtMs,
      }));
    expect(facts(after)).toEqual(facts(before));
    expect(letters.counts()).toEqual([]);
  });

  test("R21 a twin keeps its own identity, so that a destination does not take it for the other", async () => {
    await append([eventText(0, { note: "a" }), eventText(0, { note: "b" })]);
    const [buried] = await bury("siem", "no", (event) => event.index === 1);
    await passAll("siem");
    await letters.replay({}, fixture.journal.pages);
    const [again] = await replayed("siem");
    expect(again!.identity).toBe(buried!.identity);
  });

  test("R21 an event without a time keeps the time of its own fetching", async () => {
    const without = (number: number) => eventText(number, { timestamp: undefined as never });
    await append([without(0)], { fetchedAtMs: FETCHED_MS });
    await append([without(1)], { fetchedAtMs: FETCHED_MS + 86_400_000 });
    await bury("siem", "no");
    await passAll("siem");
    await letters.replay({}, fixture.journal.pages);
    expect((await replayed("siem")).map(({ timestampMs }) => timestampMs)).toEqual([
      FETCHED_MS,
      FETCHED_MS + 86_400_000,
    ]);
  });

  test("R21 what is given back can be refused again, and given back again", async () => {
    await append(eventTexts(0, 1));
    await bury("siem", "no");
    await passAll("siem");
    for (let round = 0; round < 3; round++) {
      expect(await letters.replay({}, fixture.journal.pages)).toBe(1);
      await bury("siem", "still no");
      await passAll("siem");
    }
    expect(letters.counts()).toEqual([{ sink: "siem", count: 1 }]);
  });

  test("R21 replay is all or nothing", async () => {
    await append(eventTexts(0, 2));
    await append([eventText(7)], { account: "other" });
    await bury("siem", "no");
    await passAll("siem");
    const broken = Object.assign({}, fixture.journal.pages, {
      insert(...args: Parameters<typeof fixture.journal.pages.insert>) {
        if (args[0].account === "other") throw new Error("no room");
        return fixture.journal.pages.insert(...args);
      },
    });
    await expect(letters.replay({}, broken)).rejects.toThrow("no room");
    expect(letters.counts()).toEqual([{ sink: "siem", count: 3 }]);
    expect(await replayed("siem")).toEqual([]);
    await append(eventTexts(20, 2));
    expect((await textsOf(fixture.journal, "look")).slice(-2)).toEqual(eventTexts(20, 2));
  });

  test("are chosen by sink, part of the reason and number, in replay and drop alike", async () => {
    await append(eventTexts(0, 4));
    await bury("siem", "mapping: 100%_", ({ index }) => index < 2);
    await bury("siem", "too large", ({ index }) => index === 2);
    await bury("lake", "mapping");
    await passAll("siem");
    await passAll("lake");
    expect(letters.list({ sink: "siem", reason: "%_" }, 10).map(({ id }) => id)).toEqual([1, 2]);
    expect(letters.list({ reason: "mapping" }, 3)).toHaveLength(3);
    expect(await letters.drop({ ids: [2] })).toBe(1);
    expect(await letters.drop({ sink: "siem", reason: "mapping" })).toBe(1);
    expect(await letters.drop({ sink: "nobody" })).toBe(0);
    expect(letters.counts()).toEqual([
      { sink: "lake", count: 4 },
      { sink: "siem", count: 1 },
    ]);
  });

  test("R21 those in front of their reader's position wait: their batch is not delivered yet", async () => {
    await append(eventTexts(0, 4));
    const [, , third] = await bury("siem", "no");
    const reader = await fixture.journal.reader("siem");
    const { page, index } = third!;
    await reader.commit({ ...fixture.journal.end(), page, event: index }, undefined);
    expect(letters.waiting({})).toBe(2);
    expect(letters.waiting({ ids: [1, 3] })).toBe(1);
    expect(await letters.drop({ ids: [2, 3] })).toBe(1);
    expect(await letters.replay({}, fixture.journal.pages)).toBe(1);
    expect(letters.list({}, 9).map(({ id }) => id)).toEqual([3, 4]);
    await passAll("siem");
    expect(letters.waiting({})).toBe(0);
    expect(await letters.drop({})).toBe(2);
  });

  test("R21 those of a sink that has no position can be deleted", async () => {
    await append(eventTexts(0, 1));
    await bury("siem", "no");
    fixture.db.exec("DELETE FROM readers");
    expect(await letters.drop({})).toBe(1);
  });

  test("R14 go with a sink's new name, and go with a sink that is forgotten", async () => {
    await append(eventTexts(0, 2));
    await bury("old", "no");
    await fixture.journal.readers.rename("old", "new");
    expect(letters.counts()).toEqual([{ sink: "new", count: 2 }]);
    await fixture.journal.readers.forget("new");
    expect(letters.counts()).toEqual([]);
  });

  test("R37 a changed bit in the bytes of an unattributed event is named", async () => {
    const bytes = Buffer.from('{"id":"1"}');
    await keepUnattributed(fixture.db, "main", 1, bytes, null, 0);
    expect(verifyState(fixture.db).problems).toEqual([]);
    bytes[2]! ^= 1;
    fixture.db.prepare("UPDATE unattributed SET bytes = ?").run(bytes);
    expect(verifyState(fixture.db).problems).toEqual([expect.stringContaining("kept apart (")]);
  });

  test("R7 an unattributed event is kept once, with its bytes", async () => {
    for (let round = 0; round < 2; round++)
      await keepUnattributed(fixture.db, "acme", 1, Buffer.from(eventText(0)), null, FETCHED_MS + round);
    const rows = fixture.db.prepare("SELECT account, seen_ms, bytes FROM unattributed").all();
    expect(rows).toEqual([{ account: "acme", seen_ms: FETCHED_MS, bytes: Buffer.from(eventText(0)) }]);
  });
});

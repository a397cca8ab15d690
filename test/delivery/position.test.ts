import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DecisionNeededError } from "../../src/core/errors.ts";
import type { JournalReader } from "../../src/core/journal.ts";
import { formatPosition, type Position, startOf } from "../../src/core/position.ts";
import type { Sink } from "../../src/core/sink.ts";
import { judgePosition, type ReaderState, resolutionOf, resolved } from "../../src/delivery/position.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { eventTexts, pageOf } from "../support/pages.ts";

describe("R20 where a sink goes on", () => {
  let fixture: JournalFixture;
  let reader: JournalReader;
  let at: (page: number, event: number) => Position;

  beforeEach(async () => {
    fixture = openFixture();
    for (let page = 0; page < 4; page++) await fixture.journal.append(pageOf(eventTexts(page * 5, 5)));
    reader = await fixture.journal.reader("lake");
    const hashes: string[] = [];
    for (
      let page = await reader.read(reader.position);
      page !== null;
      page = await reader.read(page.after(4))
    )
      hashes[page.number] = page.after(0).hash;
    at = (page, event) => ({ journal: fixture.journal.id, page, event, hash: hashes[page]! });
  });
  afterEach(() => fixture.close());

  const sinkAt = (position: Position | undefined): Sink => ({ ...stub, position });

  /** The journal says `position`, its last write ended at `written`, and the destination holds `there`. */
  async function judge(position: Position, written: Position | undefined, there: Position | undefined) {
    const held: ReaderState = written === undefined ? {} : (resolved(written, undefined) as ReaderState);
    await reader.commit(position, held as Record<string, unknown>);
    return judgePosition("lake", sinkAt(there), reader, held);
  }

  async function decision(...args: Parameters<typeof judge>): Promise<DecisionNeededError> {
    const error = await judge(...args).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(DecisionNeededError);
    return error as DecisionNeededError;
  }

  test("R20 a destination that keeps no position goes on where the journal says", async () => {
    await reader.commit(at(2, 3), undefined);
    expect(await judgePosition("lake", stub, reader, {})).toEqual(at(2, 3));
  });

  test("R20 nothing was written anywhere: the journal's position", async () => {
    expect(await judge(startOf(fixture.journal.id), undefined, undefined)).toEqual(
      startOf(fixture.journal.id),
    );
    expect(await judge(at(2, 1), undefined, undefined)).toEqual(at(2, 1));
  });

  test("R20 both say the same", async () => {
    expect(await judge(at(2, 3), at(2, 3), at(2, 3))).toEqual(at(2, 3));
  });

  test("R20 a filter moved the journal's position on: that one counts", async () => {
    expect(await judge(at(4, 5), at(2, 3), at(2, 3))).toEqual(at(4, 5));
  });

  test("R20 a destination one batch ahead is the normal crash: on from there", async () => {
    expect(await judge(at(2, 3), at(2, 3), at(3, 1))).toEqual(at(3, 1));
    expect(await judge(startOf(fixture.journal.id), undefined, at(1, 2))).toEqual(at(1, 2));
  });

  test("R20 ahead of the last write but behind the journal's position: nothing is sent again", async () => {
    expect(await judge(at(4, 0), at(2, 3), at(3, 1))).toEqual(at(4, 0));
  });

  test("R20 the page of the last write is long gone, and both agree: no decision is needed", async () => {
    await reader.commit(at(4, 5), undefined);
    fixture.db.exec("DELETE FROM bodies WHERE page < 3; DELETE FROM pages WHERE number < 3");
    expect(await judge(at(4, 5), at(2, 3), at(2, 3))).toEqual(at(4, 5));
  });

  test("R20 a destination that holds nothing although it was written: a person decides", async () => {
    const { message, choices } = await decision(at(2, 3), at(2, 3), undefined);
    expect(message).toContain('The destination of "lake" holds no position');
    expect(choices.join("\n")).toMatch(
      /restore the destination[\s\S]*resume lake --from state[\s\S]*--from beginning/,
    );
  });

  test("R20 a destination written from another journal: the state was lost", async () => {
    const { message, choices } = await decision(at(1, 0), undefined, { ...at(2, 3), journal: "11111111" });
    expect(message).toContain("another journal (11111111)");
    expect(choices.join("\n")).toMatch(
      /restore the newest state file[\s\S]*--from beginning[\s\S]*--from now/,
    );
  });

  test.each([
    ["a page that is not there yet", { page: 9 }],
    ["a page with another hash", { hash: "00" }],
  ])("R20 %s: the state was restored from an older copy", async (_, change) => {
    const { message } = await decision(at(2, 3), at(2, 3), { ...at(3, 1), ...change });
    expect(message).toContain("restored from an older copy");
  });

  test("R20 a destination behind the state: it was restored from an older copy", async () => {
    const { message, choices } = await decision(at(3, 3), at(3, 3), at(2, 1));
    expect(message).toContain("is behind the state");
    expect(choices.join("\n")).toMatch(/--from destination[\s\S]*--from state/);
  });

  test("R20 a destination behind the state whose events have left the journal: they are not promised", async () => {
    fixture.db.exec("DELETE FROM bodies WHERE page < 3");
    const { message, choices } = await decision(at(4, 5), at(4, 5), at(1, 2));
    expect(message).toContain("no longer has all events after that page");
    expect(choices.join("\n")).not.toContain("--from destination");
    expect(choices.join("\n")).toMatch(/--from state[\s\S]*backfill --sink lake/);
    const facts = { sink: sinkAt(at(1, 2)), reader, end: () => fixture.journal.end() };
    await expect(resolutionOf("destination")(facts)).rejects.toThrow(/no longer has all events/);
    await expect(resolutionOf("destination")({ ...facts, sink: sinkAt(at(2, 5)) })).resolves.toEqual(
      at(2, 5),
    );
  });

  test("R20 a sink that wrote without positions needs no decision where the destination holds none", async () => {
    const held = resolved(undefined, undefined) as ReaderState;
    await reader.commit(at(4, 5), held as Record<string, unknown>);
    expect(await judgePosition("lake", sinkAt(undefined), reader, held)).toEqual(at(4, 5));
  });

  test("R20 writes without positions of a sink of the same type are in its destination: no decision is needed", async () => {
    const held = resolved(undefined, undefined, {}, "kafka") as ReaderState;
    await reader.commit(at(4, 5), held as Record<string, unknown>);
    const judged = (type: string) => judgePosition("lake", sinkAt(at(2, 1)), reader, held, { type });
    expect(await judged("kafka")).toEqual(at(4, 5));
    await expect(judged("file")).rejects.toThrow("is behind the state");
  });

  test("R20 a destination that is behind because the sink was of another type meanwhile: a person decides", async () => {
    const { message, choices } = await decision(at(4, 5), undefined, at(2, 1));
    expect(message).toContain("it holds page 2, the state says 4");
    expect(message).toContain("written without a position");
    expect(choices.join("\n")).toMatch(/--from destination[\s\S]*--from state/);
    fixture.db.exec("DELETE FROM bodies WHERE page < 3");
    const late = await decision(at(4, 5), undefined, at(2, 1));
    expect(late.choices.join("\n")).not.toContain("--from destination");
    expect(late.choices.join("\n")).toMatch(/--from state[\s\S]*backfill --sink lake/);
  });

  test("R20 a sink that begins now in a destination it had before goes on: its start says so", async () => {
    await reader.commit(at(4, 5), undefined);
    expect(await judgePosition("lake", sinkAt(at(2, 1)), reader, {})).toEqual(at(4, 5));
  });

  test("R20 after a decision to send again, a crash between the first write and its commit is a normal one", async () => {
    // The decision leaves the journal's position behind what the destination last held.
    expect(await judge(at(1, 2), at(4, 5), at(2, 1))).toEqual(at(2, 1));
    const gone = { ...at(3, 1), page: 9, hash: "00" };
    expect(await judge(at(2, 3), gone, at(3, 1))).toEqual(at(3, 1));
    expect(await judge(startOf(fixture.journal.id), { ...gone, journal: "11111111" }, at(1, 2))).toEqual(
      at(1, 2),
    );
    await decision(at(3, 3), at(4, 5), at(2, 1));
  });

  test("R20 a destination ahead of a copy that was restored: a person decides, even where its position is known", async () => {
    const held = resolved(at(2, 3), undefined) as ReaderState;
    await reader.commit(at(2, 3), held as Record<string, unknown>);
    const error = await judgePosition("lake", sinkAt(at(3, 1)), reader, held, { isAsRestored: true }).catch(
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(DecisionNeededError);
    const { message, choices } = error as DecisionNeededError;
    expect(message).toContain("restored from an older copy");
    expect(choices.join("\n")).toMatch(/--from destination[\s\S]*--from state/);
    expect(await judgePosition("lake", sinkAt(at(2, 3)), reader, held, { isAsRestored: true })).toEqual(
      at(2, 3),
    );
  });

  test("R20 a destination at the end of a journal that this one continues: on from here, until something is written", async () => {
    const there = { ...at(2, 3), journal: "11111111" };
    const facts = { earlierJournals: new Set(["11111111"]) };
    await reader.commit(at(1, 2), undefined);
    expect(await judgePosition("lake", sinkAt(there), reader, {}, facts)).toEqual(at(1, 2));
    const held = resolved(at(1, 2), undefined) as ReaderState;
    await expect(judgePosition("lake", sinkAt(there), reader, held, facts)).rejects.toThrow(
      "another journal",
    );
  });

  test("R20 what is offered after a restored copy loses nothing", async () => {
    const { choices } = await decision(at(2, 3), at(2, 3), { ...at(3, 1), page: 9 });
    expect(choices.join("\n")).toMatch(/resume lake --from state[\s\S]*--from now.*backfill --sink lake/);
  });

  test("R20 every choice leads where it says, and the destination's is refused where it holds none", async () => {
    await reader.commit(at(2, 3), undefined);
    const end = () => fixture.journal.end();
    const choose = (choice: Parameters<typeof resolutionOf>[0], there: Position | undefined) =>
      resolutionOf(choice)({ sink: sinkAt(there), reader, end });
    expect(await choose("state", at(1, 1))).toEqual(at(2, 3));
    expect(await choose("beginning", at(1, 1))).toEqual(startOf(fixture.journal.id));
    expect(await choose("now", at(1, 1))).toEqual(at(4, 5));
    expect(await choose("destination", at(1, 1))).toEqual(at(1, 1));
    // The error names the commands that are possible instead.
    for (const foreign of [undefined, { ...at(1, 1), journal: "other" }, { ...at(1, 1), hash: "00" }]) {
      const error = await choose("destination", foreign).then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      expect(error).toBeInstanceOf(DecisionNeededError);
      const { choices } = error as DecisionNeededError;
      expect(choices.join("\n")).toMatch(/sinks resume lake --from (state|beginning)/);
      expect(choices.join("\n")).not.toContain("--from destination");
    }
  });

  test("the last write is kept beside the sink's own state", () => {
    expect(resolved(at(1, 1), { files: 3 })).toEqual({
      sink: { files: 3 },
      written: formatPosition(at(1, 1)),
    });
  });
});

const stub: Sink = {
  limits: { recordsMax: 1, bytesMax: 1, ageMsMax: 0 },
  write: async () => undefined,
  close: async () => {},
};

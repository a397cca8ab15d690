import { mkdirSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Account } from "../../src/app/account.ts";
import { createActions } from "../../src/app/actions.ts";
import { createClusterActions } from "../../src/app/cluster/actions.ts";
import type { Config } from "../../src/config/schema.ts";
import { type ActionResult, UnknownNameError } from "../../src/core/actions.ts";
import { systemClock } from "../../src/core/clock.ts";
import { UsageError } from "../../src/core/errors.ts";
import { numberInAll } from "../../src/core/shard.ts";
import { createDeadLetters } from "../../src/journal/dead-letters.ts";
import { verifyState } from "../../src/journal/verify.ts";
import { createDeadLettersView } from "../../src/journal/view/dead-letters.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { eventTexts, pageOf, readEvents } from "../support/pages.ts";

describe("the actions", () => {
  let fixture: JournalFixture;
  const polled: string[] = [];
  const { signal } = new AbortController();
  beforeEach(() => {
    fixture = openFixture();
    polled.splice(0);
  });
  afterEach(() => fixture.close());

  function actions({ db, journal }: Pick<JournalFixture, "db" | "journal"> = fixture, lane?: number) {
    const account = (name: string) =>
      ({ name, poller: { planNow: () => polled.push(name) } }) as unknown as Account;
    return createActions({
      config: { sinks: [{ name: "siem" }], accounts: [], state: fixture.file } as unknown as Config,
      db,
      journal,
      accounts: [account("acme"), account("other")],
      deliveries: [],
      archives: [],
      clock: systemClock,
      lane,
    });
  }

  /** Dead letters of the first events of a page that the sink has passed, or has passed up to an event. */
  async function bury(count: number, reasonOf: (index: number) => string, passed = count): Promise<void> {
    await fixture.journal.append(pageOf(eventTexts(0, count)));
    const reader = await fixture.journal.reader("siem");
    const events = await readEvents(reader);
    await reader.addDeadLetters(
      events.map((event, index) => ({ event, reason: reasonOf(index), answer: `answer ${index}` })),
    );
    await reader.commit({ ...fixture.journal.end(), event: passed }, undefined);
  }

  test("poll looks at one account when it is named, and at all otherwise", async () => {
    await actions().poll({ account: "acme" }, signal);
    expect(polled).toEqual(["acme"]);
    await actions().poll({}, signal);
    expect(polled).toEqual(["acme", "acme", "other"]);
    await expect(actions().poll({ account: "nobody" }, signal)).rejects.toThrow(UnknownNameError);
  });

  test("replay returns all dead letters of a sink, also more than one transaction takes", async () => {
    await bury(12_000, () => "400: no");
    expect(await actions().replay({ sink: "siem" }, signal)).toMatchObject({ count: 12_000 });
    expect(createDeadLetters(fixture.db).counts()).toEqual([]);
  });

  test("R21 letters of a batch that is not delivered yet are left, and the answer says how many", async () => {
    await bury(5, () => "400: no", 3);
    expect(await actions().drop({ ids: [1] }, signal)).toEqual({
      count: 1,
      message: "1 dead letter was deleted.",
    });
    expect(await actions().replay({ sink: "siem" }, signal)).toEqual({
      count: 2,
      waiting: 2,
      message:
        "2 dead letters were returned to their sinks. 2 must wait: their batches are not delivered yet. Try again afterwards.",
    });
    expect(await actions().drop({ ids: [5] }, signal)).toEqual({
      count: 0,
      waiting: 1,
      message:
        "0 dead letters were deleted. 1 must wait: its batch is not delivered yet. Try again afterwards.",
    });
  });

  /** Changes letters as a disk does: their checksums stay. */
  function damage(from: number, to = from): void {
    const ids = `id BETWEEN ${from} AND ${to}`;
    fixture.db.exec(`CREATE TEMP TABLE sums AS SELECT id, row_checksum FROM dead_letters WHERE ${ids};
      UPDATE dead_letters SET bytes = replace(bytes, 'login', 'lozin') WHERE ${ids};
      UPDATE dead_letters SET row_checksum = sums.row_checksum FROM sums WHERE sums.id = dead_letters.id;
      DROP TABLE sums`);
  }

  test("R37 letters behind more damaged ones than one transaction takes are replayed, and the damaged ones named", async () => {
    await bury(10_003, () => "400: no");
    damage(1, 10_001);
    await expect(actions().replay({ sink: "siem" }, signal)).rejects.toThrow(
      "2 dead letters were returned to their sinks. The dead letters 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 9991 more cannot be used",
    );
    expect(createDeadLetters(fixture.db).counts()).toEqual([{ sink: "siem", count: 10_001 }]);
  });

  test("R37 a damaged letter of a lane is named by its number among all lanes", async () => {
    await bury(4, () => "400: no");
    damage(3);
    const number = numberInAll(1, 3);
    const named = new RegExp(`The dead letter ${number} cannot be used`);
    await expect(actions(fixture, 1).replay({ sink: "siem" }, signal)).rejects.toThrow(named);
    expect(() => createDeadLettersView(fixture.db, 1).one(3)).toThrow(named);
  });

  test("R37 a dead letter that does not fit its checksum is not used, and named; the others go on", async () => {
    await bury(4, () => "400: no");
    damage(3);
    const letters = createDeadLetters(fixture.db);
    const named = /^The dead letter 3 cannot be used: the state file is damaged there/;
    expect(() => letters.bytesOf(3)).toThrow(named);
    expect(() => createDeadLettersView(fixture.db).one(3)).toThrow(named);
    await expect(actions().replay({ sink: "siem" }, signal)).rejects.toThrow(
      "3 dead letters were returned to their sinks. The dead letter 3 cannot be used",
    );
    expect(letters.list({}, 10).map(({ id }) => id)).toEqual([3]);
    expect(verifyState(fixture.db).problems).toEqual(["dead_letters 3: the row does not match its checksum"]);
    expect(await actions().drop({ ids: [3] }, signal)).toMatchObject({ count: 1 });
    expect(verifyState(fixture.db).problems).toEqual([]);
  });

  test("R37 a rename gives no right checksum to a damaged dead letter", async () => {
    await bury(1, () => "400: no");
    damage(1);
    const { db, journal } = fixture;
    const config = { sinks: [], accounts: [], state: fixture.file } as unknown as Config;
    const parts = { config, db, journal, accounts: [], deliveries: [], archives: [], clock: systemClock };
    const renamed = createActions(parts).rename({ from: "siem", to: "other" }, signal);
    await expect(renamed).rejects.toThrow("Nothing was changed. The dead letter 1 cannot be used");
    expect(journal.readers.names()).toEqual(["siem"]);
  });

  test("R21 a cluster's answer counts the letters of all lanes", async () => {
    await bury(5, () => "400: no", 3);
    const other = openFixture();
    const lane = (number: number, of: JournalFixture) => ({
      lane: number,
      app: { actions: actions(of) },
    });
    const whole = createClusterActions({
      lanes: 2,
      messenger: { ask: () => Promise.reject(new Error("both lanes run here")) },
      providers: [],
      sinks: ["siem"],
      running: () => [lane(0, other), lane(1, fixture)],
    });
    try {
      expect(await whole.replay({ sink: "siem" }, signal)).toEqual({
        count: 3,
        waiting: 2,
        message:
          "3 dead letters were returned to their sinks. 2 must wait: their batches are not delivered yet. Try again afterwards.",
      });
      // Nothing was mistyped: they are there, and wait.
      const group = createDeadLetters(fixture.db).groups()[0]!.id;
      expect(await whole.drop({ group }, signal)).toMatchObject({ count: 0, waiting: 2 });
    } finally {
      other.close();
    }
  });

  test("C3 each lane says what a sink leaves out there, and one without a damaged page says nothing", async () => {
    const lane = (number: number, resume: () => Promise<ActionResult>) => ({
      lane: number,
      app: { actions: { ...actions(), resume } },
    });
    const left = (events: number) => async () => ({ count: 1, message: `It leaves out ${events} events.` });
    const whole = createClusterActions({
      lanes: 3,
      messenger: { ask: () => Promise.reject(new Error("all lanes run here")) },
      providers: [],
      sinks: ["siem"],
      running: () => [
        lane(0, left(5)),
        lane(1, () => Promise.reject(new UsageError("There is nothing to go behind."))),
        lane(2, left(7)),
      ],
    });
    expect(await whole.resume({ sink: "siem", from: "behind-damage" }, signal)).toEqual({
      count: 2,
      message: "Lane 0: It leaves out 5 events.\nLane 2: It leaves out 7 events.",
    });
  });

  test("R14 an archive keeps its name, under which its log and its holds are stored", async () => {
    await fixture.journal.reader("evidence");
    fixture.db.prepare("INSERT INTO archives (name, noted_page, start_page) VALUES ('evidence', 0, 0)").run();
    await expect(actions().rename({ from: "evidence", to: "vault" }, signal)).rejects.toThrow(
      'Call it "evidence" in the config again',
    );
    expect(fixture.journal.readers.names()).toEqual(["evidence"]);
  });

  test("R14 a forgotten archive keeps its place, and its holds and erasures are named", async () => {
    const folder = join(dirname(fixture.file), "evidence.archive");
    for (const part of ["pages", "work", "log", "events"]) mkdirSync(join(folder, part), { recursive: true });
    await fixture.journal.reader("evidence");
    fixture.db.exec(`INSERT INTO archives (name, noted_page, start_page) VALUES ('evidence', 0, 0);
      INSERT INTO archive_facts (archive, key, value) VALUES ('evidence', 'holds', '[{"id":"hold-1"},{"id":"hold-2"}]')`);
    const { message } = await actions().forget({ sink: "evidence" }, signal);
    expect(message).toContain("2 holds and 0 erasures of it are not known here any more");
    // The archive's own place may be this very folder.
    expect(readdirSync(folder).toSorted()).toEqual(["events", "log"]);
    expect(fixture.journal.readers.names()).toEqual([]);
  });

  test("R14 staged pages of a forgotten archive that are in a bucket are named, since nothing here can delete them", async () => {
    const forgotten = async () => {
      await fixture.journal.reader("evidence");
      fixture.db.exec(`INSERT INTO archives (name, noted_page, start_page) VALUES ('evidence', 0, 0);
        INSERT INTO archive_staged (archive, page, bytes) VALUES ('evidence', 1, 100)`);
      return (await actions().forget({ sink: "evidence" }, signal)).message;
    };
    expect(await forgotten()).toMatch(/1 pages .* are given up: .*\.staging\/: delete them there\./);
    mkdirSync(join(dirname(fixture.file), "evidence.archive", "pages"), { recursive: true });
    expect(await forgotten()).not.toContain(".staging");
  });

  test("one group takes refusals that differ only in values, ids and numbers", async () => {
    await bury(6, (index) =>
      index < 4 ? `answered 400: value "x${index}" at offset 1${index}0` : "answered 413",
    );
    const [first, second] = createDeadLetters(fixture.db).groups();
    expect([first!.count, second!.count]).toEqual([4, 2]);
    expect(first!.reason).toBe('answered 400: value "…" at offset …');
    expect(first!.example).toMatchObject({
      reason: 'answered 400: value "x3" at offset 130',
      answer: "answer 3",
    });
    expect(await actions().drop({ group: second!.id }, signal)).toMatchObject({ count: 2 });
    expect(await actions().replay({ ids: [1, 2], group: first!.id }, signal)).toMatchObject({ count: 2 });
    expect(await actions().replay({ group: "none" }, signal)).toMatchObject({ count: 0 });
    expect(
      createDeadLetters(fixture.db)
        .list({}, 10)
        .map(({ id }) => id),
    ).toEqual([3, 4]);
  });
});

// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { copyFileSync, existsSync, rmSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FencedError, LostLogError } from "../../../src/core/changelog.ts";
import { Sqlite } from "../../../src/core/sqlite.ts";
import { openState } from "../../../src/journal/database.ts";
import { migrations } from "../../../src/journal/migrations.ts";
import { createRoster } from "../../../src/journal/roster.ts";
import { createSpace } from "../../../src/journal/space.ts";
import { eventTexts, pageOf, textsOf } from "../../support/pages.ts";
import { contentOf, type LaneFixture, laneFixture } from "./support.ts";

let fixture: LaneFixture;
beforeEach(() => {
  fixture = laneFixture();
});
afterEach(() => fixture.close());

type Lane = Awaited<ReturnType<LaneFixture["open"]>>;
const put = (lane: Lane, key: string, value = "") =>
  lane.state.change(() =>
    lane.state.prepare("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)").run(key, value),
  );
const metaOf = (lane: Lane, key: string) =>
  lane.state.prepare("SELECT value FROM meta WHERE key = ?").pluck().get(key);

/** Changes of every kind that a lane makes. */
async function work(lane: Lane): Promise<void> {
  const { journal, state } = lane;
  await journal.append(pageOf(eventTexts(0, 50)));
  await journal.append(pageOf(eventTexts(50, 50)));
  const reader = await journal.reader("sink");
  await reader.commit(journal.end(), { some: "state" });
  await createSpace(state, fixture.fileOf("one"), 1e9).trim();
  await journal.append(pageOf(eventTexts(100, 50)));
  await createRoster(state).seen("acme", [{ id: "A1", name: "One" }], 1);
  await state.change(() =>
    state.exec(`INSERT INTO archive_plans (archive, kind, day, part, class, claims, seed) VALUES ('a', 'day', 'd', 'p', 'c', '{}', x'0102');
      DELETE FROM archive_plans;
      INSERT INTO jobs (id, account, kind, request, origin, requested_by, requested_ms, answer_by_ms, state, state_ms, quiet_after_ms, finish_after_ms, active_ms)
        VALUES (1, 'acme', 'workday', '{}', 'api', 'me', 1, 1, 'running', 1, 1, 1, 1);
      INSERT INTO job_users (job, outcome, told_by) VALUES (1, 'created', 'events');
      DELETE FROM jobs`),
  );
}

describe("C1 one door", () => {
  test("C1 while a change waits for the log, nothing that it has written is read", async () => {
    const lane = await fixture.open();
    await put(lane, "k", "before");
    let release = () => {};
    fixture.changelog.delay = () => new Promise((resolve) => (release = resolve));
    const changing = put(lane, "k", "after");
    await new Promise((resolve) => setImmediate(resolve));
    expect(metaOf(lane, "k")).toBe("before");
    release();
    await changing;
    expect(metaOf(lane, "k")).toBe("after");
  });

  test("C1 a statement outside a change cannot write", async () => {
    const lane = await fixture.open();
    expect(() => lane.state.prepare("DELETE FROM meta").run()).toThrow("readonly");
  });

  test("C1 changes that wait are grouped into one commit, and one that throws takes back only itself", async () => {
    const lane = await fixture.open();
    const before = fixture.changelog.commits;
    const results = await Promise.allSettled([
      put(lane, "a"),
      lane.state.change(() => {
        lane.state.prepare("INSERT INTO meta (key, value) VALUES ('b', '')").run();
        throw new Error("no");
      }),
      put(lane, "c"),
    ]);
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(fixture.changelog.commits).toBe(before + 1);
    const other = await fixture.open("two");
    expect(["a", "b", "c"].map((key) => metaOf(other, key))).toEqual(["", undefined, ""]);
  });

  test("C1 a change inside a group sees what the changes before it have written", async () => {
    const lane = await fixture.open();
    const [, seen] = await Promise.all([put(lane, "a", "1"), lane.state.change(() => metaOf(lane, "a"))]);
    expect(seen).toBe("1");
  });

  test.each(["before", "after"] as const)(
    "C1 a commit that fails %s its effect loses the lane, and the next opening has what the log has",
    async (when) => {
      const lost: unknown[] = [];
      const lane = await fixture.open("one", { lost: (error) => lost.push(error) });
      await put(lane, "k", "1");
      fixture.changelog.failNext(when);
      await expect(put(lane, "k", "2")).rejects.toThrow("lane was lost");
      await expect(put(lane, "k", "3")).rejects.toThrow("lane was lost");
      expect(lost).toHaveLength(1);
      expect(metaOf(lane, "k")).toBe("1");
      await lane.close();
      expect(metaOf(await fixture.open(), "k")).toBe(when === "before" ? "1" : "2");
    },
  );

  test("C1 what concerns the running process alone is not committed in the log", async () => {
    const lane = await fixture.open();
    const before = fixture.changelog.commits;
    await put(lane, "live", "now");
    expect(fixture.changelog.commits).toBe(before);
    expect(metaOf(lane, "live")).toBe("now");
  });
});

describe("C2 capture", () => {
  test("C2 a rebuilt file equals its owner's, row by row", async () => {
    const lane = await fixture.open();
    await work(lane);
    await fixture.open("two");
    expect(contentOf(fixture.fileOf("two"))).toEqual(contentOf(fixture.fileOf("one")));
  });

  test("C2 so does one that is built from the compacted log", async () => {
    const lane = await fixture.open();
    await work(lane);
    fixture.changelog.compact(0, { removals: "drop" });
    await fixture.open("two");
    expect(contentOf(fixture.fileOf("two"))).toEqual(contentOf(fixture.fileOf("one")));
  });

  test("C2 a table that a later version adds is replicated", async () => {
    const later = [
      ...migrations(),
      {
        number: 9001,
        name: "9001-later",
        sql: "CREATE TABLE later (a TEXT, b INTEGER, c BLOB, PRIMARY KEY (a, b)) WITHOUT ROWID",
      },
    ];
    const lane = await fixture.open("one", { migrations: later });
    await lane.state.change(() =>
      lane.state.exec(
        "INSERT INTO later VALUES ('x', 1, x'00ff'); INSERT INTO later VALUES ('y', 2, NULL); UPDATE later SET b = 3 WHERE a = 'y'",
      ),
    );
    const other = await fixture.open("two", { migrations: later });
    expect(other.state.prepare("SELECT a, b, hex(c) AS c FROM later").all()).toEqual([
      { a: "x", b: 1, c: "00FF" },
      { a: "y", b: 3, c: "" },
    ]);
  });

  test("C2 a table without a key, or made in a running lane, is refused", async () => {
    const keyless = [
      ...migrations(),
      { number: 9001, name: "9001-later", sql: "CREATE TABLE keyless (a TEXT)" },
    ];
    await expect(fixture.open("one", { migrations: keyless })).rejects.toThrow("no primary key");
    const lane = await fixture.open("two");
    const making = lane.state.change(() => lane.state.exec("CREATE TABLE more (a TEXT PRIMARY KEY)"));
    await expect(making).rejects.toThrow("would not be replicated");
  });

  test("C2 REPLACE removes the row that it displaces from the log too", async () => {
    const lane = await fixture.open();
    const { state } = lane;
    const insert =
      "INSERT OR REPLACE INTO streams (id, account, organizations, services, key) VALUES (?, 'a', '[]', '[]', 'same')";
    await state.change(() => state.prepare(insert).run(1));
    await state.change(() => state.prepare(insert).run(2));
    const other = await fixture.open("two");
    expect(other.state.prepare("SELECT id FROM streams").pluck().all()).toEqual([2]);
  });

  test("C18 that an organization was seen again is not committed in the log, its new name is", async () => {
    const lane = await fixture.open();
    const roster = createRoster(lane.state);
    await roster.seen("acme", [{ id: "a", name: "A" }], 1);
    const before = fixture.changelog.commits;
    await roster.seen("acme", [{ id: "a", name: "A" }], 2);
    expect(fixture.changelog.commits).toBe(before);
    await roster.seen("acme", [{ id: "a", name: "B" }], 3);
    expect(fixture.changelog.commits).toBe(before + 1);
  });
});

describe("opening", () => {
  test("C4 rows are applied as they were, without triggers and whatever their order", async () => {
    const lane = await fixture.open();
    await lane.state.change(() => {
      lane.state.exec("PRAGMA defer_foreign_keys = ON");
      lane.state.exec(
        "INSERT INTO also_seen (id, owner, account, first_ms, last_ms, events) VALUES (1, 'o', 'a', 1, 1, 1); UPDATE also_seen SET row_checksum = 7",
      );
    });
    const other = await fixture.open("two");
    const checksum = other.state.prepare("SELECT row_checksum FROM also_seen").pluck();
    expect(checksum.get()).toBe(7);
    await other.state.change(() => other.state.exec("UPDATE also_seen SET events = 2"));
    expect(checksum.get()).not.toBe(7);
  });

  test("C4 a file that is being applied is incomplete, and is built anew", async () => {
    await put(await fixture.open(), "k", "1");
    const stop = new AbortController();
    const second = fixture.open("two", {
      signal: stop.signal,
      progress: () => stop.abort(new Error("stopped")),
    });
    await expect(second).rejects.toThrow("stopped");
    expect(existsSync(fixture.fileOf("two"))).toBe(false);
    expect(metaOf(await fixture.open("two"), "k")).toBe("1");
  });

  test("C5 a new owner fences the old one, which can change nothing any more", async () => {
    const lost: unknown[] = [];
    const old = await fixture.open("one", { lost: (error) => lost.push(error) });
    await put(old, "k", "1");
    const owner = await fixture.open("two");
    await expect(put(old, "k", "zombie")).rejects.toThrow("lane was lost");
    expect(lost[0]).toBeInstanceOf(FencedError);
    await put(owner, "k", "2");
    const again = await fixture.open("one");
    expect(metaOf(again, "k")).toBe("2");
    expect(again.replay.kind).toBe("continued");
  });

  test("C6 a file whose tip is no longer among the newest is built anew, another is continued", async () => {
    const old = await fixture.open("one");
    await put(old, "k", "1");
    await old.close();
    const two = await fixture.open("two");
    for (let at = 0; at < 100; at++) await put(two, "k", `${at}`);
    fixture.changelog.compact(0);
    await two.close();
    const one = await fixture.open("one");
    expect(one.replay.kind).toBe("continued");
    await one.close();
    const three = await fixture.open("three");
    for (let at = 0; at < 300; at++) await put(three, "k", `again ${at}`);
    fixture.changelog.compact(0);
    await three.close();
    const last = await fixture.open("one");
    expect(last.replay.kind).toBe("rebuilt");
    expect(metaOf(last, "k")).toBe("again 299");
  });

  test("C6 a file that is ahead of the log stops the lane and is kept", async () => {
    const lane = await fixture.open();
    const { rowOffset } = lane.replica.tip;
    await put(lane, "k", "acknowledged");
    await lane.close();
    fixture.changelog.truncate(0, rowOffset + 1);
    await expect(fixture.open()).rejects.toThrow(LostLogError);
    expect(JSON.stringify(contentOf(fixture.fileOf("one")))).toContain("acknowledged");
  });

  test("C6 a file that has forked from the log stops the lane and is kept", async () => {
    const lane = await fixture.open();
    const { rowOffset } = lane.replica.tip;
    await put(lane, "k", "acknowledged");
    await lane.close();
    fixture.changelog.truncate(0, rowOffset + 1);
    const other = await fixture.open("two");
    for (let at = 0; at < 5; at++) await put(other, "k", `other ${at}`);
    await other.close();
    await expect(fixture.open()).rejects.toThrow("Kafka has lost data");
    expect(JSON.stringify(contentOf(fixture.fileOf("one")))).toContain("acknowledged");
  });

  test.each(["rows", "bodies"] as const)(
    "C6 a log of %s that was made again while the lane ran stops it, and the file keeps what it had",
    async (log) => {
      const lost: unknown[] = [];
      const lane = await fixture.open("one", { lost: (error) => lost.push(error) });
      await work(lane);
      fixture.changelog.replace(0, log);
      await expect(lane.journal.append(pageOf(eventTexts(150, 50)))).rejects.toThrow(
        "was replaced or cut off",
      );
      expect(lost[0]).toBeInstanceOf(LostLogError);
      await expect(put(lane, "k", "later")).rejects.toThrow();
      expect(JSON.stringify(contentOf(fixture.fileOf("one")))).not.toContain("later");
    },
  );

  test("C7 a lane is not run with another number of lanes than it was made with", async () => {
    const division = { lanes: 2, hash: "sha256-48" };
    await (await fixture.open("one", { division })).close();
    await expect(fixture.open("one", { division: { ...division, lanes: 4 } })).rejects.toThrow(
      "was made as one of 2 lanes",
    );
    await expect(fixture.open("one", { division: { ...division, hash: "other" } })).rejects.toThrow(
      LostLogError,
    );
  });

  test("C6 the copy of another cluster is kept aside: its topics may be lost", async () => {
    const lane = await fixture.open();
    await put(lane, "k", "of the first cluster");
    await lane.close();
    fixture.changelog.replace(0, "rows");
    fixture.changelog.replace(0, "bodies");
    fixture.changelog.create("c2", 1);
    const kept: string[] = [];
    const again = await fixture.open("one", { keptAside: (file) => kept.push(file) });
    expect(metaOf(again, "k")).toBeUndefined();
    expect(kept).toEqual([`${fixture.fileOf("one")}.of-c1`]);
    expect(JSON.stringify(contentOf(kept[0]!))).toContain("of the first cluster");
  });

  test("C7 a lane without a birth record is refused", async () => {
    await expect(fixture.open("one", { lane: 5 })).rejects.toThrow("no birth record");
    expect(existsSync(fixture.fileOf("one"))).toBe(false);
  });

  test("C8 the bytes of pages are dropped from the log behind the slowest reader, and the rest is rebuilt", async () => {
    const lane = await fixture.open();
    await work(lane);
    await lane.dropBodies();
    const other = await fixture.open("two");
    expect(await textsOf(other.journal, "other")).toEqual(eventTexts(100, 50));
    const seen: number[] = [];
    const log = await fixture.changelog.open(0, new AbortController().signal);
    for await (const slice of log.read("bodies", 0, new AbortController().signal))
      for (const { offset } of slice) seen.push(offset);
    expect(seen).toHaveLength(1);
  });

  test("C8 a row that is larger than a message goes through the log in chunks", async () => {
    const lane = await fixture.open();
    const large = "x".repeat(3_000_000);
    await put(lane, "large", large);
    expect(metaOf(await fixture.open("two"), "large")).toBe(large);
    const three = await fixture.open("three");
    await put(three, "large", "small");
    expect(metaOf(await fixture.open("two"), "large")).toBe("small");
  });

  test("C8 a file that is older than the log remembers removals is built anew", async () => {
    await put(await fixture.open(), "k", "1");
    const again = await fixture.open("one", { continueMs: -1 });
    expect(again.replay.kind).toBe("rebuilt");
  });

  test("a file of another lane, and a damaged one, are built anew; the state of a single Tidemark is refused", async () => {
    const other = await fixture.open("other", { lane: 1 });
    await put(other, "k", "of lane 1");
    await other.close();
    await put(await fixture.open("one"), "k", "of lane 0");
    copyFileSync(fixture.fileOf("other"), fixture.fileOf("swapped"));
    const swapped = await fixture.open("swapped");
    expect([swapped.replay.kind, metaOf(swapped, "k")]).toEqual(["rebuilt", "of lane 0"]);
    openState(fixture.fileOf("single")).close();
    await expect(fixture.open("single")).rejects.toThrow("cluster adopt");
  });

  test("a local file that was deleted is built anew", async () => {
    const lane = await fixture.open();
    await work(lane);
    const before = contentOf(fixture.fileOf("one"));
    await lane.close();
    for (const part of ["", "-wal", "-shm"]) rmSync(`${fixture.fileOf("one")}${part}`, { force: true });
    const again = await fixture.open();
    expect(again.replay.kind).toBe("rebuilt");
    expect(contentOf(fixture.fileOf("one"))).toEqual(before);
  });
});

describe("C14 upgrades", () => {
  const later = [
    ...migrations(),
    {
      number: 9001,
      name: "9001-later",
      sql: "ALTER TABLE meta ADD COLUMN more TEXT; UPDATE meta SET more = value || '!', row_checksum = NULL",
    },
  ];

  test("C14 a newer version migrates the rows through the log; the older one then refuses the lane", async () => {
    const old = await fixture.open("one");
    await put(old, "k", "1");
    const newer = await fixture.open("two", { migrations: later });
    const more = "SELECT more FROM meta WHERE key = 'k'";
    expect(newer.state.prepare(more).pluck().get()).toBe("1!");
    const third = await fixture.open("three", { migrations: later });
    expect(third.state.prepare(more).pluck().get()).toBe("1!");
    await expect(fixture.open("one")).rejects.toThrow("newer Tidemark");
  });

  test("C14 a file of the older version is continued by the newer one", async () => {
    const old = await fixture.open("one");
    await put(old, "k", "1");
    await old.close();
    const newer = await fixture.open("one", { migrations: later });
    expect(newer.state.prepare("SELECT more FROM meta WHERE key = 'k'").pluck().get()).toBe("1!");
    await newer.close();
    const db = new Sqlite(fixture.fileOf("one"), { readonly: true });
    expect(db.prepare("SELECT more FROM meta WHERE key = 'k'").pluck().get()).toBe("1!");
    db.close();
  });
});

import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { UsageError } from "../../src/core/errors.ts";
import { Sqlite } from "../../src/core/sqlite.ts";
import { openState, openStateForReading } from "../../src/journal/database.ts";
import { createJournal } from "../../src/journal/journal.ts";
import { type Migration, migrations } from "../../src/journal/migrations.ts";
import { damagedRows } from "../../src/journal/row-checksums.ts";
import { verifyState } from "../../src/journal/verify.ts";
import { eventTexts, pageOf, textsOf } from "../support/pages.ts";
import { temporaryFolder } from "./support.ts";

const MIGRATIONS = readdirSync("src/journal/migrations").sort();
const NEWEST = Number(MIGRATIONS.at(-1)!.slice(0, 4));

test("no two migrations have one number: the second would never run", () => {
  const numbers = migrations().map(({ number }) => number);
  expect(new Set(numbers).size).toBe(numbers.length);
});

describe("the state file", () => {
  let folder: ReturnType<typeof temporaryFolder>;
  let file: string;

  beforeEach(() => {
    folder = temporaryFolder();
    file = join(folder.path, "state.db");
  });
  afterEach(() => folder.remove());

  async function fill(events = 50): Promise<void> {
    const db = openState(file);
    const journal = createJournal(db, systemClock);
    for (let at = 0; at < events; at += 10) await journal.append(pageOf(eventTexts(at, 10)));
    db.pragma("wal_checkpoint(TRUNCATE)");
    db.close();
  }

  function refusal(open: () => unknown): UsageError {
    try {
      open();
    } catch (error) {
      expect(error).toBeInstanceOf(UsageError);
      return error as UsageError;
    }
    throw new Error("It was opened.");
  }

  test("is in WAL, and every commit is on disk before it returns", () => {
    const db = openState(file);
    expect(db.pragma("journal_mode", { simple: true })).toBe("wal");
    expect(db.pragma("synchronous", { simple: true })).toBe(2);
    expect(db.pragma("foreign_keys", { simple: true })).toBe(1);
    expect(db.pragma("user_version", { simple: true })).toBe(NEWEST);
    db.close();
  });

  test("of a newer program is refused, for writing and for reading, and not changed", async () => {
    await fill();
    const db = new Sqlite(file);
    db.prepare("INSERT INTO migrations (number, name, run_ms) VALUES (?, ?, 0)").run(
      NEWEST + 1,
      `${String(NEWEST + 1).padStart(4, "0")}-later`,
    );
    db.pragma(`user_version = ${NEWEST + 1}`);
    db.pragma("journal_mode = DELETE");
    db.close();
    const before = readFileSync(file);
    for (const open of [openState, openStateForReading]) {
      const { message } = refusal(() => open(file));
      expect(message).toContain(`newer Tidemark (schema ${NEWEST + 1}, this one knows ${NEWEST})`);
      expect(message).toContain("update the program");
    }
    expect(contentOf(file)).toEqual(contentOf(save(before)));
  });

  test("of an older program is brought forward after a copy was set aside; reading it says what to do", () => {
    const old = new Sqlite(file);
    old.exec(readFileSync(join("src/journal/migrations", MIGRATIONS[0]!), "utf8"));
    old.pragma("user_version = 1");
    old.exec("INSERT INTO meta (key, value) VALUES ('journal', 'kept')");
    old.close();
    expect(refusal(() => openStateForReading(file)).message).toContain('start "tidemark run" once');
    const db = openState(file);
    expect(db.pragma("user_version", { simple: true })).toBe(NEWEST);
    expect(db.prepare("SELECT value FROM meta").pluck().get()).toBe("kept");
    expect(db.prepare("SELECT COUNT(*) FROM jobs").pluck().get()).toBe(0);
    db.close();
    const copy = new Sqlite(`${file}.before-0010`, { readonly: true });
    expect(copy.pragma("user_version", { simple: true })).toBe(1);
    expect(copy.prepare("SELECT value FROM meta").pluck().get()).toBe("kept");
    copy.close();
    openState(file).close();
    expect(readdirSync(folder.path).filter((name) => name.includes("before"))).toEqual([
      "state.db.before-0010",
    ]);
  });

  test("of the version before has the first send of parts whose reason says that they were sent again", () => {
    const old = openState(
      file,
      migrations().filter(({ number }) => number < 28),
    );
    old.exec(`INSERT INTO jobs (id, account, kind, source, request, origin, requested_by, requested_ms, answer_by_ms,
        state, state_ms, quiet_after_ms, finish_after_ms, active_ms)
      VALUES (1, 'acme', 'workday', 'wd1', '{}', 'command', 'ada', 1000, 2000, 'uncertain', 3000, 1, 1, 3000);
      INSERT INTO job_parts (job, part, account, state, at_ms, reason) VALUES
        (1, 0, 'acme', 'planned', 5000, 'no event of its users was seen; sent again'),
        (1, 1, 'acme', 'uncertain', 6000, 'the first answer was lost; sent again, it was not taken: 429'),
        (1, 2, 'acme', 'uncertain', 4000, 'cut'),
        (1, 3, 'acme', 'planned', 4000, NULL)`);
    old.close();
    const db = openState(file);
    const firstSent = db.prepare("SELECT first_sent_ms FROM job_parts ORDER BY part").pluck().all();
    expect(firstSent).toEqual([1000, 1000, null, null]);
    db.close();
  });

  test("of the version before counts an event once that was a gap of each organization of a group", () => {
    const old = openState(
      file,
      migrations().filter(({ number }) => number < 29),
    );
    const add = old.prepare(
      `INSERT INTO gaps (account, organization, services, from_ms, to_ms, reason, detail, events, found_ms)
       VALUES ('acme', ?, '["all"]', 1, 5, 'unreadable', ?, 1, ?)`,
    );
    for (const organization of ["a", "b", "c"]) add.run(organization, "one event is not readable: x", 7);
    add.run("a", "one event is not readable: x", 8);
    for (const organization of ["a", "b"]) add.run(organization, "the event x is not readable: x", 7);
    old.close();
    const db = openState(file);
    expect(db.prepare("SELECT events FROM gaps ORDER BY id").pluck().all()).toEqual([1, 0, 0, 1, 1, 1]);
    expect([...damagedRows(db)]).toEqual([]);
    db.close();
  });

  test("a migration that fails leaves the file as it was", () => {
    const old = new Sqlite(file);
    old.exec(readFileSync(join("src/journal/migrations", MIGRATIONS[0]!), "utf8"));
    old.exec("CREATE TABLE import_runs (x)");
    old.pragma("user_version = 1");
    old.close();
    expect(() => openState(file)).toThrow("import_runs");
    const db = new Sqlite(file, { readonly: true });
    expect(db.pragma("user_version", { simple: true })).toBe(1);
    expect(db.prepare("SELECT COUNT(*) FROM sqlite_master WHERE name = 'jobs'").pluck().get()).toBe(0);
    db.close();
  });

  test("of every version since the list of migrations is whole as it is: backups of that time can be restored", () => {
    for (let number = NEWEST - 5; number <= NEWEST; number++) {
      const own = join(folder.path, `of-${number}.db`);
      openState(
        own,
        migrations().filter((migration) => migration.number <= number),
      ).close();
      const db = new Sqlite(own, { readonly: true });
      expect(verifyState(db).problems).toEqual([]);
      db.close();
    }
  });

  test("gets a migration that is added later between two others, and none twice", () => {
    openState(file).close();
    const later: Migration[] = [
      ...migrations(),
      { number: 2, name: "0002-late", sql: "CREATE TABLE late (x); INSERT INTO late VALUES (1)" },
    ].sort((a, b) => a.number - b.number);
    for (let opening = 0; opening < 2; opening++) openState(file, later).close();
    const db = new Sqlite(file, { readonly: true });
    expect(db.prepare("SELECT COUNT(*) FROM late").pluck().get()).toBe(1);
    expect(db.prepare("SELECT number FROM migrations").pluck().all()).toEqual(
      later.map(({ number }) => number),
    );
    expect(db.pragma("user_version", { simple: true })).toBe(NEWEST);
    db.close();
    // The program without it knows that it lacks something, although the highest number is its own.
    for (const open of [openState, openStateForReading])
      expect(refusal(() => open(file)).message).toContain("newer Tidemark (schema 2,");
  });

  test("that is set aside before a migration is whole: what a crash left half made does not count", () => {
    openState(file).close();
    const more = [
      ...migrations(),
      { number: NEWEST + 1, name: `00${NEWEST + 1}-more`, sql: "CREATE TABLE more (x)" },
    ];
    const aside = `${file}.before-${String(NEWEST + 1).padStart(4, "0")}`;
    writeFileSync(`${aside}.12345678.tmp`, "half");
    openState(file, more).close();
    const copy = new Sqlite(aside, { readonly: true });
    expect(copy.pragma("integrity_check", { simple: true })).toBe("ok");
    expect(copy.pragma("user_version", { simple: true })).toBe(NEWEST);
    copy.close();
    expect(statSync(aside).mode & 0o777).toBe(0o600);
  });

  test("can be read by its owner alone", () => {
    openState(file).close();
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  test("that is made new has no copy set aside", () => {
    openState(file).close();
    expect(readdirSync(folder.path).filter((name) => name.includes("before"))).toEqual([]);
  });

  test.each([
    ["whose header is overwritten", (bytes: Buffer) => bytes.fill(0x58, 0, 100)],
    ["that is no SQLite file", () => Buffer.from("this is a shopping list".repeat(100))],
    ["that is cut in the middle", (bytes: Buffer) => bytes.subarray(0, Math.floor(bytes.length / 2))],
    ["that is cut inside its first page", (bytes: Buffer) => bytes.subarray(0, 3000)],
  ])("%s is refused clearly, for writing and reading, and not changed", async (_, damage) => {
    await fill();
    writeFileSync(file, damage(readFileSync(file)));
    const before = readFileSync(file);
    for (const open of [openState, openStateForReading]) {
      const { message } = refusal(() => open(file));
      expect(message).toContain(`The state file ${file} is damaged`);
      expect(message).toContain("tidemark restore");
      expect(message).toContain("Nothing was changed");
      expect(readFileSync(file).equals(before)).toBe(true);
    }
  });

  test("in a folder that does not exist, or where a folder stands, is refused with words", () => {
    expect(refusal(() => openState(join(folder.path, "no", "state.db"))).message).toContain(
      "check that its folder exists",
    );
    mkdirSync(file);
    expect(refusal(() => openState(file)).message).toContain("cannot be opened");
  });

  test("that does not exist cannot be read, and reading does not make it", () => {
    expect(refusal(() => openStateForReading(file)).message).toContain("There is no state file");
    expect(existsSync(file)).toBe(false);
  });

  test("can be read beside a process that writes, and not be written through that", async () => {
    await fill(10);
    const db = openState(file);
    const journal = createJournal(db, systemClock);
    const reading = openStateForReading(file);
    await journal.append(pageOf(eventTexts(10, 5)));
    expect(reading.prepare("SELECT SUM(events) FROM pages").pluck().get()).toBe(15);
    expect(() => reading.exec("DELETE FROM pages")).toThrow("readonly");
    reading.close();
    db.close();
  });

  test("wherever a crash cut the log, the pages whose commit is whole are there, and nothing of the others", async () => {
    const db = openState(file);
    const journal = createJournal(db, systemClock);
    for (let page = 0; page < 4; page++) await journal.append(pageOf(eventTexts(page * 5, 5)));
    const log = readFileSync(`${file}-wal`);
    const copy = join(folder.path, "copy.db");
    const found = new Set<number>();
    for (let part = 0; part <= 40; part++) {
      copyFileSync(file, copy);
      writeFileSync(`${copy}-wal`, log.subarray(0, Math.floor((log.length * part) / 40)));
      const again = openState(copy);
      const texts = await textsOf(createJournal(again, systemClock));
      expect(texts).toEqual(eventTexts(0, texts.length));
      expect(texts.length % 5).toBe(0);
      found.add(texts.length);
      again.close();
    }
    db.close();
    expect(found.has(20)).toBe(true);
    expect(found.size).toBeGreaterThan(3);
  });

  function save(bytes: Buffer): string {
    const path = join(folder.path, "before.db");
    writeFileSync(path, bytes);
    return path;
  }
});

/** Everything but the counters of SQLite itself. */
function contentOf(file: string): unknown {
  const db = new Sqlite(file, { readonly: true });
  const tables = db.prepare("SELECT name, sql FROM sqlite_master ORDER BY name").all() as {
    name: string;
    sql: string;
  }[];
  const rows = tables
    .filter(({ sql }) => sql?.startsWith("CREATE TABLE"))
    .map(({ name }) => [name, db.prepare(`SELECT * FROM "${name}"`).all()]);
  const version = db.pragma("user_version", { simple: true });
  db.close();
  return { tables, rows, version };
}

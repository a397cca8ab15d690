import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Sqlite } from "../../src/core/sqlite.ts";
import { restore } from "../../src/journal/backup.ts";
import { openState } from "../../src/journal/database.ts";
import { openFixture } from "../journal/support.ts";
import { eventText, pageOf } from "../support/pages.ts";
import { openWorld, type World } from "../support/world.ts";

describe("a state file that lost its content", () => {
  let world: World;
  let config: string;
  const commands = [["run", "--once"], ["status"], ["coverage"], ["doctor", "--offline"]];

  beforeEach(async () => {
    world = await openWorld({ events: 60 });
    config = world.configure();
    expect((await world.run(["run", "--once", "-c", config])).code).toBe(0);
  });
  afterEach(() => world.close());

  async function expectRefused(words: RegExp): Promise<void> {
    for (const command of commands) {
      const { code, stdout, stderr } = await world.run([...command, "-c", config]);
      expect(code, command.join(" ")).not.toBe(0);
      expect(stdout + stderr).toMatch(words);
      expect(stdout + stderr).not.toMatch(/older Tidemark|brings the file forward|the first run makes it/);
    }
  }

  test("is damaged when it is empty, and no new journal takes its place", async () => {
    truncateSync(world.at("state.db"), 0);
    await expectRefused(/it is empty|has no header/);
    expect(statSync(world.at("state.db")).size).toBe(0);
  });

  test("is damaged when it has no tables", async () => {
    // As a new file was before its log was written back, when the log is gone.
    rmSync(world.at("state.db"));
    const db = new Sqlite(world.at("state.db"));
    db.pragma("page_size = 16384");
    db.pragma("journal_mode = WAL");
    db.close();
    expect(statSync(world.at("state.db")).size).toBe(16_384);
    await expectRefused(/damaged/);
  });

  test("is named as damaged by a run when SQLite finds a page that is none", async () => {
    const db = openState(world.at("state.db"));
    const root = db
      .prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'windows'")
      .pluck()
      .get() as number;
    db.close();
    const bytes = readFileSync(world.at("state.db"));
    bytes.fill(0xa5, (root - 1) * 16_384, root * 16_384);
    writeFileSync(world.at("state.db"), bytes);
    const { code, stderr } = await world.run(["run", "--once", "-c", config]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/The state file .*state\.db is damaged \(.*malformed\)/);
  });

  test("is examined by doctor also where the lock cannot be opened", async () => {
    rmSync(world.at("state.db.lock"), { force: true });
    mkdirSync(world.at("state.db.lock"));
    const { code, stdout } = await world.run(["doctor", "--offline", "-c", config]);
    expect(code).toBe(1);
    expect(stdout).toMatch(/FAILED +lock: .*may open the lock file/);
    expect(stdout).toContain("the state file is whole");
  });

  test("a sink is not said to be tried while no process runs", async () => {
    const { code, stdout } = await world.run(["sinks", "retry", "disk", "-c", config]);
    expect([code, stdout]).toEqual([0, expect.stringContaining("No process is running")]);
    expect((await world.run(["sinks", "retry", "nothing", "-c", config])).code).not.toBe(0);
  });

  test("is named when only its log is there, and the log stays", async () => {
    const db = openState(world.at("state.db"));
    db.prepare("INSERT INTO meta (key, value) VALUES ('note', 'x')").run();
    const log = readFileSync(world.at("state.db-wal"));
    expect(log.length).toBeGreaterThan(0);
    db.close();
    renameSync(world.at("state.db"), world.at("moved.db"));
    writeFileSync(world.at("state.db-wal"), log);
    await expectRefused(/it is not there, and its log .*state\.db-wal is/);
    expect(readFileSync(world.at("state.db-wal")).equals(log)).toBe(true);
  });
});

function onePage(number: number) {
  const organization = "a".repeat(24);
  return pageOf([eventText(number, { organization })], { organizations: [organization] });
}

test("a restore keeps the damaged log of the state that it replaces as it was", async () => {
  const fixture = openFixture();
  try {
    for (let page = 0; page < 5; page++) await fixture.journal.append(onePage(page));
    const copy = `${fixture.file}.copy`;
    fixture.db.prepare("VACUUM INTO ?").run(copy);
    for (let page = 5; page < 20; page++) await fixture.journal.append(onePage(page));
    const [main, log] = [readFileSync(fixture.file), readFileSync(`${fixture.file}-wal`)];
    fixture.db.close();
    // As after a kill, with a bit that is wrong in the middle of the log.
    writeFileSync(fixture.file, main);
    log[Math.floor(log.length / 2)]! ^= 1;
    writeFileSync(`${fixture.file}-wal`, log);
    rmSync(`${fixture.file}-shm`, { force: true });
    const { aside } = await restore(fixture.file, copy, Date.now());
    expect(readFileSync(`${aside}-wal`).equals(log)).toBe(true);
    expect(existsSync(`${fixture.file}-wal`)).toBe(false);
  } finally {
    fixture.close();
  }
});

test("a first start that was ended leaves no state file that a later one could take for damaged", async () => {
  const fixture = openFixture();
  try {
    const names = readdirSync(fixture.folder).filter((name) => !/^state\.db(-wal|-shm)?$/.test(name));
    expect(names).toEqual([]);
    expect(statSync(fixture.file).size).toBeGreaterThan(100_000);
  } finally {
    fixture.close();
  }
});

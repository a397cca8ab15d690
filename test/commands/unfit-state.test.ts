import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openState } from "../../src/journal/database.ts";
import { openWorld, type World } from "../support/world.ts";

describe("a state file with which no process goes on", () => {
  let world: World;
  let config: string;

  beforeEach(async () => {
    world = await openWorld({ events: 60 });
    config = world.configure();
    expect((await world.run(["run", "--once", "-c", config])).code).toBe(0);
  });
  afterEach(() => world.close());

  const command = (...args: string[]) => world.run([...args, "-c", config]);

  test("R20 is not called fine by doctor after backup --final, and status says that its work goes on elsewhere", async () => {
    expect((await command("status")).stdout).toContain("Tidemark is not running.");
    expect((await command("backup", "--final", world.at("final.db"))).code).toBe(0);
    const status = await command("status");
    expect(status.stdout).toMatch(/The state file .* was backed up with --final at .*goes on in other state/);
    const { code, stdout } = await command("doctor", "--offline");
    expect(stdout).toMatch(/FAILED {2}positions: .* was backed up with --final/);
    expect(code).toBe(1);
  });

  /** As after a kill, with a bit that is wrong in the middle of the log. */
  function damageLog(): void {
    const file = world.at("state.db");
    const db = openState(file);
    db.pragma("wal_autocheckpoint = 0");
    for (let at = 0; at < 20; at++) db.prepare("UPDATE streams SET account = account").run();
    const [main, log] = [readFileSync(file), readFileSync(`${file}-wal`)];
    db.close();
    writeFileSync(file, main);
    log[Math.floor(log.length / 2)]! ^= 1;
    writeFileSync(`${file}-wal`, log);
    rmSync(`${file}-shm`, { force: true });
  }

  test("R37 is not read as far as its damaged log goes, and no copy is made of that part", async () => {
    damageLog();
    const copy = world.at("copy.db");
    for (const args of [["status"], ["coverage"], ["check"], ["backup", copy]]) {
      const { code, stderr } = await command(...args);
      expect([args[0], code]).toEqual([args[0], 2]);
      expect(stderr).toMatch(/is damaged \(the log /);
    }
    expect(existsSync(copy)).toBe(false);
    const { stdout } = await command("doctor", "--offline");
    expect(stdout.match(/state file is damaged/g)).toHaveLength(1);
    expect(stdout).toContain("the state file is damaged: the log beside it");
  });

  test("backup succeeds with a whole copy where its time cannot be noted", async () => {
    const db = openState(world.at("state.db"));
    db.exec(`CREATE TRIGGER full BEFORE INSERT ON meta WHEN NEW.key = 'last_backup' BEGIN
      SELECT RAISE(ABORT, 'database or disk is full'); END`);
    db.close();
    const { code, stdout, stderr } = await command("backup", world.at("copy.db"));
    expect(stderr).toContain(
      "the copy is whole, but the state file could not be changed (database or disk is full)",
    );
    expect(stdout).toContain("is a copy of");
    expect(code).toBe(0);
  });
});

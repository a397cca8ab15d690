import { copyFileSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Sqlite } from "../../src/core/sqlite.ts";
import { migrations } from "../../src/journal/migrations.ts";
import { registerRowChecksum } from "../../src/journal/row-checksums.ts";
import { startProgram } from "../support/program.ts";
import { compare, invented, linesBelow, openScene, type Scene, type SceneSink } from "./scene.ts";

const TIMEOUT = { timeout: 180_000 };

let scene: Scene;

beforeEach(async () => {
  scene = await openScene();
});
afterEach(() => scene.close());

const disk = (more: Record<string, unknown> = {}): SceneSink => ({
  name: "disk",
  type: "file",
  directory: scene.path("events"),
  ...more,
});

/** More events, each visible at once, spread over the organizations. */
function more(count: number): void {
  const { organizations, control } = scene.simulator;
  for (let at = 0; at < count; at++)
    control.append(organizations[at % organizations.length]!.id, [{ event_type: "user_create", number: at }]);
}

async function stopped(program: ReturnType<Scene["run"]>): Promise<void> {
  program.child.kill("SIGTERM");
  expect(await program.ended()).toBe(0);
}

describe("a copy of the state file", () => {
  test(
    "is one moment of a state that a process is writing to, and says when it was made",
    TIMEOUT,
    async () => {
      scene.configure([disk()]);
      const program = scene.run();
      await scene.caughtUp("disk");
      scene.simulator.control.setLiveRate(200);
      for (let copy = 0; copy < 3; copy++) {
        const target = scene.path(`copy-${copy}.db`);
        const before = Date.now();
        const said = JSON.parse(await scene.done("backup", target, "--json"));
        expect(said).toMatchObject({ file: target, schema: migrations().at(-1)!.number });
        expect(statSync(target).mode & 0o777).toBe(0o600);
        const db = new Sqlite(target, { readonly: true });
        expect(db.pragma("integrity_check", { simple: true })).toBe("ok");
        expect(db.pragma("journal_mode", { simple: true })).toBe("delete");
        const madeMs = Number(db.prepare("SELECT value FROM meta WHERE key = 'backup'").pluck().get());
        expect(madeMs).toBeGreaterThanOrEqual(before);
        expect(madeMs).toBe(said.madeMs);
        // Events and identities of one page belong to one moment.
        const counts =
          "SELECT (SELECT SUM(events) FROM pages) AS events, (SELECT SUM(length(entries)) / 24 FROM identities) AS identities";
        const { events, identities } = db.prepare(counts).get() as { events: number; identities: number };
        expect(identities).toBe(events);
        db.close();
      }
      const again = await scene.command("backup", scene.path("copy-0.db"));
      expect(again).toMatchObject({ code: 2 });
      expect(again.stderr).toContain("is there already: nothing is overwritten");
      expect(readdirSync(scene.folder).filter((name) => name.endsWith(".tmp"))).toEqual([]);
      await stopped(program);
    },
  );

  test(
    "that is damaged, cut, newer or no state file at all is refused, and nothing is changed",
    TIMEOUT,
    async () => {
      scene.configure([disk()]);
      await scene.done("run", "--once");
      const copy = scene.path("copy.db");
      await scene.done("backup", copy);
      const whole = readFileSync(copy);
      const before = readFileSync(scene.state);
      const damages: [string, () => void, string][] = [
        ["cut", () => writeFileSync(copy, whole.subarray(0, whole.length >> 1)), "no whole copy"],
        ["text", () => writeFileSync(copy, "a shopping list"), "no whole copy"],
        ["empty", () => writeFileSync(copy, ""), "no whole copy"],
        ["page", () => damagePage(copy, whole), "the bytes do not match their checksum"],
        ["newer", () => changeCopy(copy, whole, makeNewer), "written by a newer Tidemark"],
        [
          "header",
          () => changeCopy(copy, whole, (db) => db.pragma("user_version = 9999")),
          "no whole copy of a state file (its list of migrations does not match its header)",
        ],
        [
          "chain",
          () => changeCopy(copy, whole, (db) => db.exec("UPDATE pages SET rolling = 'ab' WHERE number = 2")),
          "the hash does not follow from the page before",
        ],
      ];
      for (const [name, damage, words] of damages) {
        damage();
        const { code, stderr } = await scene.command("restore", copy);
        expect({ name, code }).toEqual({ name, code: 2 });
        expect(stderr).toContain(words);
        expect(readFileSync(scene.state).equals(before)).toBe(true);
      }
      expect(readdirSync(scene.folder).filter((name) => /replaced|tmp/.test(name))).toEqual([]);
      const missing = await scene.command("restore", scene.path("nothing.db"));
      expect(missing).toMatchObject({ code: 2 });
    },
  );

  test("is not restored under a running process", TIMEOUT, async () => {
    scene.configure([disk()]);
    const program = scene.run();
    await scene.caughtUp("disk");
    await scene.done("backup", scene.path("copy.db"));
    const { code, stderr } = await scene.command("restore", scene.path("copy.db"));
    expect(code).toBe(2);
    expect(stderr).toContain("Another Tidemark works with");
    await stopped(program);
  });

  test(
    "takes the place of a state file that is damaged; that one is kept, and every event is delivered",
    TIMEOUT,
    async () => {
      scene.configure([disk()]);
      await scene.done("run", "--once");
      await scene.done("backup", scene.path("copy.db"));
      writeFileSync(scene.state, "something else");
      more(300);
      expect((await scene.command("run", "--once")).stderr).toContain("is damaged");
      const said = await scene.done("restore", scene.path("copy.db"));
      expect(said).toContain("The state before it is kept as");
      const aside = readdirSync(scene.folder).find((name) => name.includes("replaced"))!;
      expect(readFileSync(scene.path(aside), "utf8")).toBe("something else");
      await scene.done("run", "--once");
      expect(compare(scene.served(), linesBelow(scene.path("events")))).toEqual({ lost: 0, surplus: 0 });
    },
  );

  test(
    "kill -9 while it is restored leaves the old state or the new one, never a mixture",
    TIMEOUT,
    async () => {
      scene.configure([disk()]);
      await scene.done("run", "--once");
      await scene.done("backup", scene.path("copy.db"));
      more(300);
      await scene.done("run", "--once");
      copyFileSync(scene.state, scene.path("newest.db"));
      for (let kill = 0; kill < 4; kill++) {
        copyFileSync(scene.path("newest.db"), scene.state);
        const restoring = startProgram(
          ["restore", scene.path("copy.db"), "--config", scene.path("tidemark.yaml")],
          scene.env,
        );
        await sleep(300 + kill * 150);
        await restoring.kill();
        const found = JSON.parse(
          (await scene.done("doctor", "--offline", "--json"))
            .split("\n")
            .find((line) => line.includes('"integrity"'))!,
        );
        expect(found.ok).toBe(true);
      }
    },
  );
});

describe("R20 an old copy is restored while the directory of a file sink is ahead", () => {
  /** Written, copied, written on; then the copy is put in place. */
  async function restoreOld(batches: number): Promise<void> {
    scene.configure([disk()]);
    await scene.done("run", "--once");
    await scene.done("backup", scene.path("old.db"));
    for (let batch = 0; batch < batches; batch++) {
      // A slow machine may write many events in two batches, a single one never.
      more(batches === 1 ? 1 : 250);
      await scene.done("run", "--once");
    }
    await scene.done("backup", scene.path("new.db"));
    const said = await scene.done("restore", scene.path("old.db"));
    expect(said).toContain("disk (file): the directory knows how far it was written");
    more(100);
  }

  async function runUntilStopped() {
    const program = scene.run();
    const view = await scene.becomes("disk", "stopped");
    await stopped(program);
    return view;
  }

  test("it stops, nothing is cut, and the newest copy brings it back, each event once", TIMEOUT, async () => {
    await restoreOld(3);
    const before = linesBelow(scene.path("events"));
    const { reason, remedy } = await runUntilStopped();
    expect(reason).toContain("The state file is older than the directory");
    expect(remedy).toContain("restore the newer copy of the state file");
    expect(linesBelow(scene.path("events"))).toEqual(before);
    await scene.done("restore", scene.path("new.db"));
    await scene.done("run", "--once");
    expect(compare(scene.served(), linesBelow(scene.path("events")))).toEqual({ lost: 0, surplus: 0 });
  });

  test(
    "a new name and directory as the message says, and the two directories hold every event",
    TIMEOUT,
    async () => {
      await restoreOld(3);
      const { remedy } = await runUntilStopped();
      expect(remedy).toContain('an empty directory and "start: beginning" in the config');
      expect(remedy).toContain("tidemark sinks forget disk");
      scene.configure([{ ...disk(), name: "disk-2", directory: scene.path("events-2"), start: "beginning" }]);
      expect(await scene.done("sinks", "forget", "disk")).toContain(
        'The position and the dead letters of "disk" were deleted',
      );
      await scene.done("run", "--once");
      const first = linesBelow(scene.path("events"));
      const second = linesBelow(scene.path("events-2"));
      expect(compare(scene.served(), [...first, ...second]).lost).toBe(0);
      expect(invented(scene.served(), [...first, ...second])).toBe(0);
      // Each alone has every event once.
      expect(new Set(second).size).toBe(second.length);
    },
  );

  test.each(["state", "now"] as const)(
    "one batch ahead is distinguished from a normal crash; --from %s loses nothing",
    TIMEOUT,
    async (choice) => {
      await restoreOld(1);
      const before = linesBelow(scene.path("events"));
      const { reason, remedy } = await runUntilStopped();
      expect(reason).toContain("the state file was restored from an older copy");
      expect(remedy).toContain(`tidemark sinks resume disk --from ${choice}`);
      expect(linesBelow(scene.path("events"))).toEqual(before);
      await scene.done("sinks", "resume", "disk", "--from", choice);
      if (choice === "now") await scene.done("backfill", "--sink", "disk", "--since", "30d");
      await scene.done("run", "--once");
      const after = linesBelow(scene.path("events"));
      expect(compare(scene.served(), after).lost).toBe(0);
      expect(invented(scene.served(), after)).toBe(0);
    },
  );
});

test(
  "a copy that is restored before anything new was delivered goes on as if nothing had happened",
  TIMEOUT,
  async () => {
    scene.configure([disk()]);
    await scene.done("run", "--once");
    await scene.done("backup", scene.path("copy.db"));
    await scene.done("restore", scene.path("copy.db"));
    more(100);
    await scene.done("run", "--once");
    expect(compare(scene.served(), linesBelow(scene.path("events")))).toEqual({ lost: 0, surplus: 0 });
    expect(existsSync(scene.state)).toBe(true);
  },
);

function changeCopy(copy: string, whole: Buffer, change: (db: Database.Database) => void): void {
  writeFileSync(copy, whole);
  const db = new Sqlite(copy);
  // The triggers of the state file call it.
  registerRowChecksum(db);
  change(db);
  db.close();
}

/** As a later program leaves it, which lists its migration and counts it in the header. */
function makeNewer(db: Database.Database): void {
  db.exec("INSERT INTO migrations VALUES (9999, '9999-later', 0); PRAGMA user_version = 9999");
}

/** One bit of one page's bytes, as a disk would turn it. */
function damagePage(copy: string, whole: Buffer): void {
  changeCopy(copy, whole, (db) => {
    db.exec("INSERT OR IGNORE INTO bodies (page, body) SELECT MAX(number), zeroblob(100) FROM pages");
    const { page, body } = db.prepare("SELECT page, body FROM bodies LIMIT 1").get() as {
      page: number;
      body: Buffer;
    };
    body[body.length >> 1]! ^= 1;
    db.prepare("UPDATE bodies SET body = ? WHERE page = ?").run(body, page);
  });
}

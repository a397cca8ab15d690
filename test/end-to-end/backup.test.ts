import {
  copyFileSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type Database from "better-sqlite3";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Sqlite } from "../../src/core/sqlite.ts";
import type { SinkView } from "../../src/core/view/sinks.ts";
import { migrations } from "../../src/journal/migrations.ts";
import { registerRowChecksum } from "../../src/journal/row-checksums.ts";
import { temporaryFolder } from "../journal/support.ts";
import { startProgram } from "../support/program.ts";
import { compare, invented, linesBelow, openScene, type Scene, type SceneSink } from "./scene.ts";

const TIMEOUT = { timeout: 600_000 };

let scene: Scene;

function eachInItsScene(): void {
  beforeEach(async () => {
    scene = await openScene();
  });
  afterEach(() => scene.close());
}

/** The tests begin where `prepare` ended, each with the files as they were then. */
function eachFromOneMoment(prepare: () => Promise<void>): void {
  const kept = temporaryFolder();
  beforeAll(async () => {
    scene = await openScene();
    await prepare();
    cpSync(scene.folder, kept.path, { recursive: true });
  });
  beforeEach(() => {
    for (const name of readdirSync(scene.folder)) rmSync(scene.path(name), { recursive: true });
    cpSync(kept.path, scene.folder, { recursive: true });
  });
  afterAll(async () => {
    kept.remove();
    await scene.close();
  });
}

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
  eachInItsScene();

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
  let view: SinkView;
  let before: string[];

  /** Written, copied, written on; then the copy is put in place, and a run stops. */
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
    before = linesBelow(scene.path("events"));
    const program = scene.run();
    view = await scene.becomes("disk", "stopped");
    await stopped(program);
  }

  describe("by several batches", () => {
    eachFromOneMoment(() => restoreOld(2));

    test(
      "it stops, nothing is cut, and the newest copy brings it back, each event once",
      TIMEOUT,
      async () => {
        expect(view.reason).toContain("The state file is older than the directory");
        expect(view.remedy).toContain("restore the newer copy of the state file");
        expect(linesBelow(scene.path("events"))).toEqual(before);
        await scene.done("restore", scene.path("new.db"));
        await scene.done("run", "--once");
        expect(compare(scene.served(), linesBelow(scene.path("events")))).toEqual({ lost: 0, surplus: 0 });
      },
    );

    test(
      "a new name and directory as the message says, and the two directories hold every event",
      TIMEOUT,
      async () => {
        expect(view.remedy).toContain('an empty directory and "start: beginning" in the config');
        expect(view.remedy).toContain("tidemark sinks forget disk");
        const other = { ...disk(), name: "disk-2", directory: scene.path("events-2"), start: "beginning" };
        scene.configure([other]);
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
  });

  describe("by one batch", () => {
    eachFromOneMoment(() => restoreOld(1));

    test.each(["state", "now"] as const)(
      "it is distinguished from a normal crash; --from %s loses nothing",
      TIMEOUT,
      async (choice) => {
        expect(view.reason).toContain("the state file was restored from an older copy");
        expect(view.remedy).toContain(`tidemark sinks resume disk --from ${choice}`);
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
});

describe("a copy that is restored before anything new was delivered", () => {
  eachInItsScene();

  test("goes on as if nothing had happened", TIMEOUT, async () => {
    scene.configure([disk()]);
    await scene.done("run", "--once");
    await scene.done("backup", scene.path("copy.db"));
    await scene.done("restore", scene.path("copy.db"));
    more(100);
    await scene.done("run", "--once");
    expect(compare(scene.served(), linesBelow(scene.path("events")))).toEqual({ lost: 0, surplus: 0 });
    expect(existsSync(scene.state)).toBe(true);
  });
});

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

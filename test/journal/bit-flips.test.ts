// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { examine } from "../../src/app/doctor.ts";
import { parseConfig } from "../../src/config/load.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLog } from "../../src/core/log.ts";
import { Sqlite } from "../../src/core/sqlite.ts";
import { newWindow } from "../../src/core/window.ts";
import { DamagedStateError, openState } from "../../src/journal/database.ts";
import { checkLog } from "../../src/journal/write-ahead-log.ts";
import { eventTexts, FETCHED_MS, ORGANIZATION, OTHER_ORGANIZATION, pageOf } from "../support/pages.ts";
import { type JournalFixture, openFixture, temporaryFolder } from "./support.ts";

/** TIDEMARK_FLIPS=1000 is the long campaign; each flip that changes something counts. */
const FLIPS = Number(process.env.TIDEMARK_FLIPS ?? 15);
/** Another number gives other flips, so that a long campaign can be run in parts. */
const SEED = Number(process.env.TIDEMARK_FLIPS_SEED ?? 7);
const TIMEOUT_MS = 600_000 + FLIPS * 10_000;
const TABLES = [
  ...["meta", "pages", "bodies", "identities", "also_seen", "streams", "windows", "readers", "gaps"],
];

/*
 * R37: a single flipped bit anywhere in the state file or its log, as long as it changes what a query returns or
 * which frames of the log count, is named by doctor. Doctor never takes the file for one of another version, and
 * never advises a step that would make a new journal.
 */
describe("R37 flipped bits", () => {
  let fixture: JournalFixture;
  let folder: ReturnType<typeof temporaryFolder>;
  let copy: string;

  beforeEach(async () => {
    folder = temporaryFolder();
    copy = `${folder.path}/state.db`;
    fixture = openFixture();
    await fill(fixture);
  });
  afterEach(() => {
    fixture.close();
    folder.remove();
  });

  async function fill({ journal }: JournalFixture): Promise<void> {
    const organizations = [ORGANIZATION, OTHER_ORGANIZATION];
    const stream = await journal.stream({
      account: "acme",
      provider: null,
      organizations,
      services: ["all"],
    });
    await journal.stream({ account: "acme", provider: "9d9d", organizations: [], services: ["all"] });
    const reader = await journal.reader("disk");
    for (let page = 0; page < 12; page++) {
      const note = "x".repeat(50 * page);
      await journal.append(pageOf(eventTexts(page * 40, 40, { note }), { organizations }));
      // The portal shows some of them too.
      await journal.append(
        pageOf(eventTexts(page * 40, 10, { note }), { organizations: [], provider: "9d9d" }),
      );
      const fromMs = FETCHED_MS + page * 1000;
      const gap = {
        stream,
        fromMs,
        toMs: fromMs + 10,
        reason: "expired" as const,
        detail: `${page}`,
        events: 3,
      };
      await journal.changeWindows({ add: [newWindow(stream, fromMs, fromMs + 1000)], gaps: [gap] });
      if (page < 6) await reader.commit((await reader.read(reader.position))!.after(39), { file: page });
    }
  }

  /** Every row of the tables, or the error that reading them ends with. */
  function dump(): string {
    try {
      const db = new Sqlite(copy, { readonly: true });
      try {
        const rows = TABLES.map((table) => db.prepare(`SELECT * FROM ${table} ORDER BY 1`).raw().all());
        const schema = db.prepare("SELECT * FROM sqlite_schema").raw().all();
        const list = db.prepare("SELECT number, name FROM migrations").raw().all();
        return JSON.stringify([rows, schema, list, db.pragma("user_version")]);
      } finally {
        db.close();
      }
    } catch (error) {
      return `error ${(error as Error).message}`;
    }
  }

  async function doctor(): Promise<string[]> {
    const configFile = `${folder.path}/tidemark.yaml`;
    const account = "{ name: acme, region: us, apiKey: { env: KEY } }";
    const text = `accounts: [${account}]\nstate: ${copy}\nsinks: [{ name: disk, type: console }]\n`;
    writeFileSync(configFile, text);
    const wrong: string[] = [];
    const options = {
      config: parseConfig(text, configFile),
      configFile,
      clock: systemClock,
      log: silentLog,
      signal: new AbortController().signal,
      stdout: process.stdout,
      offline: true,
      quick: false,
    };
    for await (const { ok, message, subject } of examine(options))
      if (!ok && ["state", "integrity"].includes(subject)) wrong.push(message);
    return wrong;
  }

  function flip(file: string, bytes: Buffer, byte: number, bit: number): void {
    const flipped = Buffer.from(bytes);
    flipped[byte]! ^= 1 << bit;
    writeFileSync(file, flipped, { mode: 0o600 });
  }

  function put(withLog: boolean): void {
    for (const part of ["", "-wal", "-shm"]) rmSync(`${copy}${part}`, { force: true });
    copyFileSync(fixture.file, copy);
    if (withLog) copyFileSync(`${fixture.file}-wal`, `${copy}-wal`);
  }

  /** A repeatable sequence, so that a failing flip can be looked at again. */
  function* numbers(seed: number): Generator<number> {
    for (let state = seed; ; ) {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      yield state / 2 ** 32;
    }
  }

  function judge(found: readonly string[], where: string): void {
    expect(found.join("; "), where).toMatch(/damaged/);
    expect(found.join("; "), where).not.toMatch(/older|newer|start anew|set it aside|tidemark run/);
  }

  test(
    "R37 in the state file: every one that changes a query is named",
    async () => {
      fixture.db.pragma("wal_checkpoint(TRUNCATE)");
      put(false);
      const bytes = readFileSync(copy);
      const whole = dump();
      expect(await doctor()).toEqual([]);
      const random = numbers(SEED);
      let named = 0;
      for (let round = 0; named < FLIPS && round < FLIPS * 50; round++) {
        const byte = Math.floor(random.next().value! * bytes.length);
        const bit = Math.floor(random.next().value! * 8);
        put(false);
        flip(copy, bytes, byte, bit);
        if (dump() === whole) continue;
        judge(await doctor(), `byte ${byte}, bit ${bit}`);
        named++;
      }
      process.stderr.write(`state file: ${named} flips changed a query, all named\n`);
      expect(named).toBe(FLIPS);
    },
    TIMEOUT_MS,
  );

  test("R37 in the schema: a line break after a comment that became another character is named", async () => {
    fixture.db.pragma("wal_checkpoint(TRUNCATE)");
    put(false);
    const bytes = readFileSync(copy);
    const whole = dump();
    let changed = 0;
    // Some copies of a definition are left over in unused parts of the file.
    for (let at = bytes.indexOf("-- "); at >= 0; at = bytes.indexOf("-- ", at + 1)) {
      put(false);
      flip(copy, bytes, bytes.indexOf("\n", at), 0);
      if (dump() === whole) continue;
      judge(await doctor(), `the line break after byte ${at}`);
      changed++;
    }
    expect(changed).toBeGreaterThan(0);
  });

  test(
    "R37 in the header: none makes the file pass for one of another version",
    async () => {
      fixture.db.pragma("wal_checkpoint(TRUNCATE)");
      put(false);
      const bytes = readFileSync(copy);
      const whole = dump();
      for (let byte = 0; byte < 100; byte++) {
        put(false);
        flip(copy, bytes, byte, byte % 8);
        if (dump() !== whole) judge(await doctor(), `byte ${byte}`);
      }
    },
    TIMEOUT_MS,
  );

  test(
    "R37 in the log: every one that makes a frame not count is named, except in the last transaction",
    async () => {
      fixture.db.pragma("wal_autocheckpoint = 0");
      fixture.db.pragma("wal_checkpoint(TRUNCATE)");
      for (let page = 20; page < 26; page++) await fixture.journal.append(pageOf(eventTexts(page * 40, 40)));
      put(true);
      const bytes = readFileSync(`${copy}-wal`);
      const { frames, problem } = checkLog(`${copy}-wal`);
      expect([problem, frames > 10]).toEqual([null, true]);
      expect(await doctor()).toEqual([]);
      const frameBytes = (bytes.length - 32) / frames;
      const lastCommit = lastCommitBefore(bytes, frames, frameBytes);
      const random = numbers(SEED + 4);
      let named = 0;
      for (let round = 0; named < FLIPS / 2 && round < FLIPS * 20; round++) {
        const byte = Math.floor(random.next().value! * (32 + lastCommit * frameBytes));
        put(true);
        flip(`${copy}-wal`, bytes, byte, Math.floor(random.next().value! * 8));
        if (checkLog(`${copy}-wal`).frames === frames) continue;
        judge(await doctor(), `byte ${byte} of the log`);
        const flipped = readFileSync(`${copy}-wal`);
        expect(() => openState(copy).close(), `byte ${byte} of the log`).toThrow(DamagedStateError);
        expect(readFileSync(`${copy}-wal`).equals(flipped)).toBe(true);
        named++;
      }
      process.stderr.write(`log: ${named} flips made frames not count, all named\n`);
      expect(named).toBeGreaterThanOrEqual(FLIPS / 2);
    },
    TIMEOUT_MS,
  );

  test("R37 frames of an earlier use of the log are normal", async () => {
    fixture.db.pragma("wal_autocheckpoint = 0");
    for (let page = 20; page < 26; page++) await fixture.journal.append(pageOf(eventTexts(page * 40, 40)));
    fixture.db.pragma("wal_checkpoint(RESTART)");
    await fixture.journal.append(pageOf(eventTexts(2000, 2)));
    put(true);
    expect(existsSync(`${copy}-wal`)).toBe(true);
    expect(checkLog(`${copy}-wal`)).toMatchObject({ problem: null });
    expect(await doctor()).toEqual([]);
  });

  test("R37 a damaged page is offered to be fetched again, with the time of its events", async () => {
    const body = fixture.db.prepare("SELECT body FROM bodies WHERE page = 3").pluck().get() as Buffer;
    body[20]! ^= 4;
    fixture.db.prepare("UPDATE bodies SET body = ? WHERE page = 3").run(body);
    fixture.db.pragma("wal_checkpoint(TRUNCATE)");
    put(false);
    const found = (await doctor()).join("\n");
    expect(found).toContain("page 3: the bytes do not match their checksum");
    expect(found).toMatch(/backfill --account acme --sink NAME --since 2026-03-14T12:01:20\.000Z --until/);
  });
});

/** The number of frames up to the commit before the last one. */
function lastCommitBefore(bytes: Buffer, frames: number, frameBytes: number): number {
  const commits: number[] = [];
  for (let frame = 0; frame < frames; frame++)
    if (bytes.readUInt32BE(32 + frame * frameBytes + 4) !== 0) commits.push(frame + 1);
  return commits.at(-2)!;
}

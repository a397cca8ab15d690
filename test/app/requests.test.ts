import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { carryOutRequests } from "../../src/app/requests.ts";
import { openApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config/load.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { LaneOutcome } from "../../src/core/lane-requests.ts";
import { silentLog } from "../../src/core/log.ts";
import { createRequests } from "../../src/journal/command-queue.ts";
import { openState } from "../../src/journal/database.ts";
import { createDeadLetters } from "../../src/journal/dead-letters.ts";
import { createJournal } from "../../src/journal/journal.ts";
import { isLocked, takeLock } from "../../src/journal/lock.ts";
import { temporaryFolder } from "../journal/support.ts";
import { createFakeClock } from "../support/clock.ts";
import { readEvents } from "../support/pages.ts";
import { openWorld, type World } from "../support/world.ts";

const DRIVER = join(import.meta.dirname, "request-kill-driver.js");

/** A process was killed after it carried a request out and before it marked it as done. */
describe("R15 a request that a crash interrupted", () => {
  let world: World;
  let config: string;
  beforeEach(async () => {
    world = await openWorld({ events: 100, organizations: 1 });
    config = world.configure();
    expect((await world.run(["run", "--once", "-c", config])).code).toBe(0);
  });
  afterEach(() => world.close());

  const leave = (kind: string, body: unknown, madeMs = Date.now()) =>
    withState((db) => {
      db.prepare("INSERT INTO requests (kind, body, made_ms) VALUES (?, ?, ?)").run(
        kind,
        JSON.stringify(body),
        madeMs,
      );
    });

  async function withState<Result>(
    work: (db: ReturnType<typeof openState>) => Result,
  ): Promise<Awaited<Result>> {
    const db = openState(world.at("state.db"));
    try {
      return await work(db);
    } finally {
      db.close();
    }
  }

  async function killBetweenDoingAndForgetting(): Promise<void> {
    const env = { PATH: process.env.PATH, KEY: world.simulator.apiKey };
    // Not the synchronous form: the simulated service runs in this process and has to answer.
    const child = spawn(process.execPath, [DRIVER, config], { env, stdio: "inherit" });
    expect((await once(child, "exit"))[1]).toBe("SIGKILL");
  }

  /** The next process and the request that is still open. */
  async function carryOutAgain(): Promise<{ ok: boolean; message: string }> {
    const loaded = loadConfig(config, { KEY: world.simulator.apiKey });
    const app = await openApp({ config: loaded.config, log: silentLog, stdout: process.stdout });
    try {
      const requests = createRequests(app.db, systemClock);
      await carryOutRequests(requests, app.actions, silentLog, new AbortController().signal);
      expect(requests.open()).toEqual([]);
      return JSON.parse(app.db.prepare("SELECT result FROM requests").pluck().get() as string);
    } finally {
      await app.close();
    }
  }

  const bury = () =>
    withState(async (db) => {
      const reader = await createJournal(db, systemClock).reader("disk");
      const events = await readEvents(reader, { ...reader.position, page: 0, event: 0, hash: "" });
      await reader.addDeadLetters(events.slice(0, 3).map((event) => ({ event, reason: "no" })));
    });

  test("is repeated for a replay, which finds nothing left: letters refused since then stay", async () => {
    await bury();
    await leave("replay", {
      sink: "disk",
      pageMax: await withState((db) => createDeadLetters(db).newestPage()),
    });
    await killBetweenDoingAndForgetting();
    const pages = () => withState((db) => db.prepare("SELECT COUNT(*) FROM pages").pluck().get());
    const before = await pages();
    // The sink refuses one of the replayed events again before the next process starts.
    await withState(async (db) => {
      const reader = await createJournal(db, systemClock).reader("disk");
      const [first] = await readEvents(reader, reader.position);
      await reader.addDeadLetters([{ event: first!, reason: "no, again" }]);
    });
    expect(await carryOutAgain()).toMatchObject({ ok: true });
    expect(await pages()).toBe(before);
    const left = await withState((db) =>
      createDeadLetters(db)
        .list({}, 10)
        .map(({ reason }) => reason),
    );
    expect(left).toEqual(["no, again"]);
  });

  test("is not carried out minutes after the command that left it was killed", async () => {
    await bury();
    await leave("drop", { sink: "disk" }, Date.now() - 121_000);
    expect(await carryOutAgain()).toEqual({ ok: false, message: expect.stringContaining("not carried out") });
    expect(await withState((db) => createDeadLetters(db).list({}, 10).length)).toBe(3);
  });

  test("is reported and not repeated for a backfill of one sink, which would deliver twice", async () => {
    const nowMs = Date.now();
    await leave("backfill", { fromMs: nowMs - 86_400_000, toMs: nowMs, sink: "disk" });
    await killBetweenDoingAndForgetting();
    const windows = () =>
      withState((db) => db.prepare("SELECT COUNT(*) FROM windows WHERE reader = 'disk'").pluck().get());
    const before = await windows();
    expect(before).toBeGreaterThan(0);
    expect(await carryOutAgain()).toMatchObject({
      ok: false,
      message: expect.stringContaining("may be done or not"),
    });
    expect(await windows()).toBe(before);
  });
});

/** A process was killed in the middle of an order for an archive. */
describe("R15 an order for an archive that a crash interrupted", () => {
  let world: World;
  beforeEach(async () => {
    world = await openWorld({ events: 100, organizations: 1 });
    const [origin, key] = ["example.com/evidence", world.at("archive.key")];
    await world.run(["archive", "keys", "new", key, "--origin", origin]);
    const store = `store: { directory: ${world.at("archive")} }, settle: 0s`;
    const sink = `{ name: evidence, type: archive, origin: ${origin}, key: { file: ${key} }, ${store} }`;
    expect((await world.run(["run", "--once", "-c", world.configure({ sinks: [sink] })])).code).toBe(0);
  });
  afterEach(() => world.close());

  async function goOnWith(operation: object): Promise<LaneOutcome> {
    const { config } = loadConfig(world.at("tidemark.yaml"), { KEY: world.simulator.apiKey });
    const app = await openApp({ config, log: silentLog, stdout: process.stdout });
    try {
      app.db
        .prepare("INSERT INTO requests (kind, body, made_ms, started_ms) VALUES ('archive', ?, 1, 1)")
        .run(JSON.stringify({ operation }));
      await carryOutRequests(
        createRequests(app.db, systemClock),
        app.actions,
        silentLog,
        new AbortController().signal,
      );
      return JSON.parse(app.db.prepare("SELECT result FROM requests").pluck().get() as string);
    } finally {
      await app.close();
    }
  }
  const logged = () => readFileSync(world.at("archive/log/leaves.jsonl"), "utf8");

  test("is carried out again for an erasure, which removes what is left", async () => {
    const organization = world.simulator.organizations[0]!.id;
    const erasure = { kind: "erase", organization, from: null, to: "2026-12-31", reason: "contract ended" };
    expect(await goOnWith(erasure)).toMatchObject({ ok: true, message: expect.stringContaining("was left") });
    expect(logged()).toContain('"kind":"erase"');
  });

  test("is reported for a hold, which would be there twice", async () => {
    const hold = { kind: "hold", case: "17", organizations: [], from: null, to: null };
    expect(await goOnWith(hold)).toMatchObject({
      ok: false,
      message: expect.stringContaining("done or not"),
    });
    expect(logged()).not.toContain('"kind":"hold"');
  });
});

/** The lock is held by a process that takes no requests, such as `run --once`. */
describe("R15 a request that nobody takes", () => {
  const folder = temporaryFolder();
  const file = join(folder.path, "state.db");
  const db = openState(file);
  const signal = new AbortController().signal;
  afterAll(() => {
    db.close();
    folder.remove();
  });

  test("is withdrawn at the end of the wait, and the command says that nothing was changed", async () => {
    const clock = createFakeClock();
    const requests = createRequests(db, { ...clock, sleep: async (ms) => void clock.advance(ms) });
    const held = { timeoutMs: 30_000, isRunning: () => true };
    expect(await requests.ask("drop", {}, held, signal)).toEqual({
      ok: false,
      message: expect.stringContaining("Nothing was changed"),
    });
    expect(requests.open()).toEqual([]);
  });

  test("is withdrawn for the asker to carry out when the lock is free again", async () => {
    const lock = takeLock(file);
    const clock = createFakeClock();
    let sleeps = 0;
    const sleep = async (ms: number) => {
      clock.advance(ms);
      if (++sleeps === 20) lock.release();
    };
    const requests = createRequests(db, { ...clock, sleep });
    const running = { timeoutMs: 30_000, isRunning: () => isLocked(file) };
    expect(await requests.ask("drop", {}, running, signal)).toBeUndefined();
    expect(requests.open()).toEqual([]);
  });

  test("is withdrawn when the asker is ended by a signal", async () => {
    const ended = new AbortController();
    const clock = createFakeClock();
    const sleep = async () => {
      ended.abort();
      throw ended.signal.reason;
    };
    const requests = createRequests(db, { ...clock, sleep });
    const held = { timeoutMs: 30_000, isRunning: () => true };
    await expect(requests.ask("drop", {}, held, ended.signal)).rejects.toThrow(/abort/i);
    expect(requests.open()).toEqual([]);
  });

  /** The running process has begun it; `later` happens after a minute, which is longer than the wait. */
  async function askBegun(kind: string, body: unknown, later: () => Promise<boolean>) {
    const clock = createFakeClock();
    const laterMs = clock.now() + 60_000;
    let isRunning = true;
    const sleep = async (ms: number) => {
      clock.advance(ms);
      const request = requests.open()[0];
      if (request !== undefined && !request.wasStarted) await requests.start(request.id);
      if (clock.now() >= laterMs) isRunning = await later();
    };
    const requests: ReturnType<typeof createRequests> = createRequests(db, { ...clock, sleep });
    return requests.ask(kind, body, { timeoutMs: 30_000, isRunning: () => isRunning }, signal);
  }
  const open = () => createRequests(db, createFakeClock()).open();

  test("is waited for after the running process has begun it, whatever that takes", async () => {
    const finish = async () => {
      await createRequests(db, createFakeClock()).finish(open()[0]!.id, { ok: true, message: "Done." });
      return true;
    };
    expect(await askBegun("drop", {}, finish)).toEqual({ ok: true, message: "Done." });
  });

  test.each([
    ["goes on with it", { kind: "erase" }],
    ["may be done or not", { kind: "hold" }],
  ])('is an error that says "%s" when the process ends in the middle', async (words, operation) => {
    expect(await askBegun("archive", { operation }, async () => false)).toEqual({
      ok: false,
      message: expect.stringContaining(words),
    });
    const [left] = open();
    expect(left).toMatchObject({ wasStarted: true });
    await createRequests(db, createFakeClock()).finish(left!.id, { ok: true, message: "" });
  });
});

test("R21 a drop deletes only letters that were refused before it was asked for", async () => {
  const world = await openWorld({ events: 100, organizations: 1 });
  try {
    const config = world.configure();
    await world.run(["run", "--once", "-c", config]);
    const db = openState(world.at("state.db"));
    const reader = await createJournal(db, systemClock).reader("disk");
    const events = await readEvents(reader, { ...reader.position, page: 0, event: 0, hash: "" });
    await reader.addDeadLetters(events.slice(0, 3).map((event) => ({ event, reason: "no" })));
    const later = db.prepare("UPDATE dead_letters SET stored_ms = ? WHERE id = 3");
    later.run(Date.now() + 600_000);
    db.close();
    const { stdout } = await world.run(["dead-letters", "drop", "--all", "-c", config]);
    expect(stdout).toContain("2");
    expect((await world.run(["dead-letters", "list", "--each", "-c", config])).stdout).toMatch(/^3\t/);
  } finally {
    await world.close();
  }
});

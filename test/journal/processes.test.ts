import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openState, openStateForReading } from "../../src/journal/database.ts";
import { createJournal } from "../../src/journal/journal.ts";
import { isLocked, takeLock } from "../../src/journal/lock.ts";
import { readEvents } from "../support/pages.ts";
import { temporaryFolder } from "./support.ts";

const KILLS = Number(process.env.TIDEMARK_KILLS ?? 10);
const PAGE_EVENTS = 7;

describe("real processes on one state file", () => {
  let folder: ReturnType<typeof temporaryFolder>;
  let file: string;

  beforeEach(() => {
    folder = temporaryFolder();
    file = join(folder.path, "state.db");
  });
  afterEach(() => folder.remove());

  /** Resolves when the process has the lock and begins to append. */
  async function start() {
    const child = spawn(process.execPath, ["test/journal/append-driver.js", file], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    let errors = "";
    child.stderr.on("data", (chunk: Buffer) => {
      errors += chunk.toString();
    });
    const gone = once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
    await Promise.race([
      once(child.stdout, "data"),
      gone.then(([code]) => Promise.reject(new Error(`it ended with ${code}: ${errors}`))),
    ]);
    return {
      async kill() {
        child.kill("SIGKILL");
        const [code, signal] = await gone;
        // Any other end is the process's own complaint about what it found.
        expect([code, signal, errors]).toEqual([null, "SIGKILL", ""]);
      },
    };
  }

  test(
    "append and commit are all or nothing, whenever the process is killed",
    async () => {
      let pages = 0;
      for (let kill = 0; kill < KILLS; kill++) {
        const child = await start();
        await sleep(Math.random() * 200);
        await child.kill();
        const held = await verify();
        expect(held).toBeGreaterThanOrEqual(pages);
        pages = held;
      }
      process.stdout.write(
        `kills ${KILLS}, pages ${pages}, events ${pages * PAGE_EVENTS}, lost 0, twice 0\n`,
      );
      expect(pages).toBeGreaterThan(0);
    },
    30_000 + KILLS * 3000,
  );

  /** Everything in the file fits together; gives the number of pages. */
  async function verify(): Promise<number> {
    const db = openState(file);
    try {
      const journal = createJournal(db, systemClock);
      const [window] = await journal.windows();
      const pages = journal.end().page;
      expect(window!.sweeps).toBe(pages);
      expect((await journal.held(["5f0c5f0c5f0c5f0c5f0c5f0c"], 0, 1e15)).count).toBe(pages * PAGE_EVENTS);
      const reader = await journal.reader("disk");
      const passed = (reader.state as { passed: number } | undefined)?.passed ?? 0;
      expect(await reader.holds(reader.position)).toBe(true);
      const rest = (await readEvents(reader)).map(
        (event) => (JSON.parse(Buffer.from(event.bytes).toString()) as { number: number }).number,
      );
      expect(rest).toEqual(Array.from({ length: pages * PAGE_EVENTS - passed }, (_, at) => passed + at));
      expect(db.pragma("integrity_check", { simple: true })).toBe("ok");
      return pages;
    } finally {
      db.close();
    }
  }

  test("R15 the lock is held while a process lives, free after kill -9, and others can read meanwhile", async () => {
    const child = await start();
    expect(isLocked(file)).toBe(true);
    expect(() => takeLock(file)).toThrow(`Another Tidemark works with ${file}`);
    const db = openStateForReading(file);
    expect(db.prepare("SELECT COUNT(*) FROM windows").pluck().get()).toBe(1);
    db.close();
    await child.kill();
    expect(isLocked(file)).toBe(false);
    takeLock(file).release();
  });

  test("R15 looking whether the lock is free does not keep anybody from taking it", () => {
    const first = takeLock(file);
    expect(isLocked(file)).toBe(true);
    first.release();
    first.release();
    expect(isLocked(file)).toBe(false);
    takeLock(file).release();
  });

  test("R15 a lock that cannot be made says why", () => {
    const nowhere = join(folder.path, "no", "state.db");
    expect(() => takeLock(nowhere)).toThrow(
      /The lock .*no\/state\.db\.lock cannot be taken .* folder exists/,
    );
    expect(() => isLocked(nowhere)).toThrow("cannot be taken");
  });
});

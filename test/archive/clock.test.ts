import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startSimulator } from "../../simulator/index.ts";
import { openClients } from "../../src/app/account.ts";
import { createArchiveClock } from "../../src/app/archive-clock.ts";
import type { ArchiveOperation } from "../../src/app/archive-operations.ts";
import { readLog } from "../../src/archive/evidence/read.ts";
import { reportHtml } from "../../src/archive/evidence/report.ts";
import { isPart } from "../../src/archive/log/leaf.ts";
import { openDirectory } from "../../src/archive/store/directory.ts";
import { verifyArchive } from "../../src/archive/verify/verify.ts";
import { secretOf } from "../../src/core/secret.ts";
import { DAY_MS } from "../../src/core/time.ts";
import { openRunning } from "./running.ts";
import { A, B, DAY, never, openWorld, type World } from "./world.ts";

const HOUR_MS = DAY_MS / 24;
let world: World;
let archive: Awaited<ReturnType<typeof openRunning>>;

beforeEach(async () => {
  world = await openWorld();
  const directory = join(world.folder, "running");
  mkdirSync(directory);
  archive = await openRunning(world, { directory });
});
afterEach(async () => {
  await archive.close();
  world.end();
});

async function leaves() {
  const store = await openDirectory(join(world.folder, "running"));
  expect((await verifyArchive(store, { key: archive.verifier, nowMs: world.nowMs })).findings).toEqual([]);
  return (await readLog(store)).leaves;
}

describe("a clock that jumps while days are closed", () => {
  test.each([
    ["a day", 1],
    ["a month", 30],
    ["a year", 365],
  ])("forwards by %s and back: nothing is given up, signed or closed twice", async (_, days) => {
    await world.events(A, DAY, 0, 5);
    await world.seal([A], DAY, 5);
    // The service refuses B, but still has this day.
    await world.events(B, DAY, 10, 2);
    await world.seal([B], DAY, 2, { state: "refused", reason: "403" });
    await archive.answer(world.nowMs);
    const rightMs = world.nowMs;
    world.nowMs = rightMs + days * DAY_MS;
    expect(await archive.drain()).toBe(true);
    expect(archive.size()).toBe(0);
    // It is no alarm at once: after a long stop the first answer of the service ends it.
    expect(archive.alarms()).toEqual([]);
    world.nowMs += HOUR_MS;
    expect(await archive.drain()).toBe(false);
    expect(archive.alarms()).toMatchObject([
      { kind: "archive_failing", message: expect.stringMatching(/nothing is signed.*set the clock/) },
    ]);
    world.nowMs = rightMs + 2 * HOUR_MS;
    expect(await archive.drain()).toBe(true);
    expect(archive.alarms()).toEqual([]);
    const closed = await leaves();
    expect(closed.filter(isPart)).toMatchObject([{ day: DAY, events: 5, lines: 1 }]);
    expect(closed.every(({ time }) => Date.parse(time) === world.nowMs)).toBe(true);
  });

  test.each([
    ["a day", 1],
    ["a month", 30],
    ["a year", 365],
  ])("backwards by %s: a day that was closed long ago is not closed again", async (_, days) => {
    await world.events(A, DAY, 0, 5);
    await world.seal([A], DAY, 5);
    await archive.answer(world.nowMs);
    await archive.drain();
    const before = archive.size();
    expect((await leaves()).filter(isPart).length).toBe(1);
    // Much later the closing of that day is no longer remembered.
    world.nowMs = Date.parse(DAY) + 100 * DAY_MS;
    await world.events(B, new Date(world.nowMs - DAY_MS).toISOString().slice(0, 10), 0, 1);
    await archive.answer(world.nowMs);
    await archive.drain();
    expect(
      world.db.prepare("SELECT COUNT(*) FROM archive_closed WHERE archive = 'running'").pluck().get(),
    ).toBe(0);
    const rightMs = world.nowMs;
    world.nowMs = rightMs - days * DAY_MS;
    await archive.drain();
    world.nowMs += HOUR_MS;
    expect(await archive.drain()).toBe(false);
    expect(archive.alarms()).toMatchObject([
      { kind: "archive_failing", message: expect.stringMatching(/nothing is signed.*set the clock/) },
    ]);
    expect(archive.size()).toBe(before);
    world.nowMs = rightMs;
    await archive.drain();
    expect((await leaves()).filter(({ kind }) => kind === "day").length).toBe(1);
  });
});

describe("operations while the clock is in doubt", () => {
  const hold: ArchiveOperation = { kind: "hold", case: "Case 1", organizations: [], from: null, to: null };
  const prune: ArchiveOperation = { kind: "prune", dryRun: false };

  async function close(): Promise<void> {
    await world.events(A, DAY, 0, 5);
    await world.seal([A], DAY, 5);
    await archive.answer(world.nowMs);
    await archive.drain();
    expect((await leaves()).filter(isPart)).toHaveLength(1);
  }

  test("without an answer of the service, nothing is pruned; a hold is possible", async () => {
    await close();
    world.nowMs += 10 * 365 * DAY_MS;
    const before = archive.size();
    await expect(archive.change(prune)).rejects.toThrow(/nothing is pruned.*--without-service/);
    expect(archive.size()).toBe(before);
    await archive.change(hold);
    expect(archive.size()).toBe(before + 1);
  });

  test("where the service is gone, the operator can answer for the clock, and the log says so", async () => {
    await close();
    world.nowMs += 10 * 365 * DAY_MS;
    const before = archive.size();
    const dry: ArchiveOperation = { kind: "prune", dryRun: true, withoutService: true };
    expect(await archive.change(dry)).toContain("1 parts are past their retention");
    expect(archive.size()).toBe(before);
    expect(await archive.change({ ...prune, withoutService: true })).toContain("1 parts were pruned");
    expect((await leaves()).at(-1)).toMatchObject({ kind: "prune", clock: "unconfirmed" });
    const store = await openDirectory(join(world.folder, "running"));
    const { html } = await reportHtml(store, { key: archive.verifier, nowMs: world.nowMs, signal: never });
    expect(html).toContain("nothing confirmed the clock");
  });

  test("without an answer of the service, an erasure up to today ends with the day of its last answer", async () => {
    await close();
    const answered = new Date(world.nowMs).toISOString().slice(0, 10);
    world.nowMs += 90 * DAY_MS;
    const today = new Date(world.nowMs).toISOString().slice(0, 10);
    const erase = { kind: "erase", organization: A, from: null, reason: "asked" } as const;
    for (const to of [today, null])
      expect(await archive.change({ ...erase, to })).toContain(`about days up to ${answered}:`);
    const ordered = new Date(world.nowMs + 5 * DAY_MS).toISOString().slice(0, 10);
    expect(await archive.change({ ...erase, to: ordered })).toContain(`about days up to ${ordered}:`);
  });

  test("the service's own time decides: nothing is signed with a wrong one, and a long stop is no doubt", async () => {
    const simulator = await startSimulator({
      organizations: 1,
      events: 0,
      clock: { start: world.nowMs, speed: 0.001 },
    });
    const { insightsUrl, managementUrl, apiKey } = simulator;
    const service = { insightsUrl, managementUrl, apiKey, services: ["all"], name: "acme" };
    const clients = openClients(
      { ...service, apiKey: secretOf(apiKey) } as never,
      { now: () => world.nowMs, sleep: async () => {} },
      1,
    );
    try {
      await archive.close();
      const directory = join(world.folder, "running");
      const account = { name: "acme", config: service as never, insights: clients.insights };
      archive = await openRunning(world, { directory }, {}, [account]);
      await close();
      const before = archive.size();
      const rightMs = world.nowMs;
      world.nowMs = rightMs + 10 * 365 * DAY_MS;
      const erase = { kind: "erase", organization: A, from: null, to: null, reason: "asked" } as const;
      const anyway: ArchiveOperation = { ...prune, withoutService: true };
      for (const operation of [prune, anyway, hold, erase, { kind: "keys" } as const])
        await expect(archive.change(operation)).rejects.toThrow(/nothing is signed/);
      expect(await archive.change({ kind: "holds" })).toBe("Nothing is on hold.");
      expect(archive.size()).toBe(before);
      // No process has run for two days: the newest pass is old, and the clock is right.
      world.nowMs = rightMs;
      world.db.prepare("UPDATE windows SET asked_ms = asked_ms - ?").run(2 * DAY_MS);
      expect(await archive.change(prune)).toContain("0 parts were pruned");
      await archive.change(hold);
      expect(archive.size()).toBe(before + 1);
    } finally {
      await clients.close();
      await simulator.close();
    }
  });
});

describe("the doubt about a clock", () => {
  test("ends with an answer of the service, and never begins while time passes as usual", () => {
    let [nowMs, confirmed] = [Date.parse("2026-03-10"), Date.parse("2026-03-10")];
    const clock = createArchiveClock({ now: () => nowMs, sleep: async () => {} }, () => confirmed);
    // The service is away for a week.
    for (let minute = 0; minute < 7 * 24 * 60; minute++) {
      expect(clock.doubt()).toBeUndefined();
      nowMs += 60_000;
    }
    nowMs += 2 * DAY_MS;
    expect(clock.doubt()?.lastsMs).toBe(0);
    nowMs += 60_000;
    expect(clock.doubt()?.lastsMs).toBe(60_000);
    confirmed = nowMs;
    expect(clock.doubt()).toBeUndefined();
    nowMs -= DAY_MS;
    expect(clock.doubt()).toBeDefined();
  });

  test("ends when the windows of a Date that was ahead are brought back", () => {
    const nowMs = Date.parse("2026-03-10");
    let confirmed = nowMs;
    const clock = createArchiveClock({ now: () => nowMs, sleep: async () => {} }, () => confirmed);
    expect(clock.doubt()).toBeUndefined();
    confirmed = nowMs + 2 * DAY_MS;
    expect(clock.doubt()).toBeDefined();
    confirmed = nowMs;
    expect(clock.doubt()).toBeUndefined();
  });
});

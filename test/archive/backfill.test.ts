// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { afterEach, describe, expect, test } from "vitest";
import { type App, openApp } from "../../src/app.ts";
import { openDirectory } from "../../src/archive/store/directory.ts";
import { verifyArchive } from "../../src/archive/verify/verify.ts";
import { loadConfig } from "../../src/config/load.ts";
import { silentLog } from "../../src/core/log.ts";
import { DAY_MS } from "../../src/core/time.ts";
import { createSpace } from "../../src/journal/space.ts";
import { openWorld, type World } from "../support/world.ts";

/*
 * TIDEMARK_ARCHIVE_BACKFILL: how many organizations. Few have many large events on each of 88 days; thousands have
 * one smaller event a day each, so that every organization has a line in every day.
 */
const ORGANIZATIONS = Number(process.env.TIDEMARK_ARCHIVE_BACKFILL ?? 20);
const DAYS = 88;
const EVENTS_A_DAY = Math.max(60, ORGANIZATIONS);
/** Random text, so that a stored event has about this many bytes however well it is compressed. */
const EVENT_BYTES = ORGANIZATIONS > 100 ? 2500 : 10_000;
const PAGE_SIZE = ORGANIZATIONS > 100 ? 500 : 25;
const LOOK_MS = ORGANIZATIONS > 100 ? 500 : 20;

let world: World;
let app: App | undefined;
afterEach(async () => {
  await app?.close();
  app = undefined;
  await world.close();
});

/** Events on every day; gives their number. */
function fill(): number {
  const nowMs = Date.now();
  const organizations = world.simulator.organizations.map(({ id }) => id);
  let count = 0;
  for (let day = 1; day <= DAYS; day++)
    for (let at = 0; at < EVENTS_A_DAY; at++) {
      const timestamp = new Date(nowMs - day * DAY_MS + (at % 60) * 60_000 + at).toISOString();
      const detail = randomBytes(EVENT_BYTES).toString("base64");
      world.simulator.control.append(organizations[count++ % organizations.length]!, [
        { id: `event-${count}`, service: "directory", event_type: "user_update", timestamp, detail },
      ]);
    }
  return count;
}

async function openWithBudget(budget: number): Promise<App> {
  const key = world.at("archive.key");
  await world.run(["archive", "keys", "new", key, "--origin", "example.com/backfill"]);
  const file = world.configure({
    account: "organizations: all, since: 90d",
    polling: `interval: 1s, pageSize: ${PAGE_SIZE}, pagesInFlight: 2, concurrency: 2`,
    sinks: [
      `{ name: evidence, type: archive, origin: example.com/backfill, key: { file: ${key} }, store: { directory: ${world.at("archive")} }, settle: 0s }`,
    ],
  });
  const { config } = loadConfig(file, { KEY: world.simulator.apiKey });
  return openApp({ config: { ...config, journal: { budget } }, log: silentLog, stdout: process.stdout });
}

describe("A4 a first backfill ten times as large as the journal's budget", () => {
  test("closes its days while it reads on, stays near the budget and ends complete", async () => {
    world = await openWorld({ organizations: ORGANIZATIONS, events: 0, days: 90 });
    const events = fill();
    const budget = Math.floor((events * EVENT_BYTES) / 10);
    app = await openWithBudget(budget);
    const { db } = app;
    const watch = watchProgress(budget);
    const startedMs = Date.now();
    await app.once(new AbortController().signal).finally(watch.stop);
    const { usedMax, closedWhileReading } = watch;
    // Pages in flight and the write-ahead log come on top of the budget; all events would be ten times as much.
    expect(usedMax()).toBeLessThan(3 * budget);
    if (process.env.TIDEMARK_ARCHIVE_BACKFILL) {
      // A small backfill may have been read before the archive has looked twice.
      expect(closedWhileReading()).toBeGreaterThan(DAYS / 2);
      console.log(
        `${ORGANIZATIONS} organizations, ${events} events, ${Math.round((Date.now() - startedMs) / 1000)} s: at most ${Math.round((100 * usedMax()) / budget)}% of the budget of ${Math.round(budget / 1e6)} MB; ${closedWhileReading()} days had a closed part when the last event was read.`,
      );
    }
    const result = await verifyArchive(await openDirectory(world.at("archive")), { nowMs: Date.now() });
    expect(result.findings).toEqual([]);
    // Yesterday and the day before it are open until their windows are compared once more.
    const open = new Date(Date.now() - 2 * DAY_MS).toISOString().slice(0, 10);
    const expected = world.served().filter((text) => JSON.parse(text).timestamp.slice(0, 10) < open).length;
    expect(result.events).toBeGreaterThanOrEqual(expected);
    expect(result.gaps.filter(({ reason }) => reason !== "not asked for")).toEqual([]);
    // Only pages of the open days are left, with a file for each that was staged.
    const count = (sql: string) => db.prepare(`SELECT COUNT(${sql}`).pluck().get();
    expect(count("DISTINCT bucket) FROM archive_open")).toBeLessThanOrEqual(3);
    expect(count("*) FROM archive_staged WHERE page NOT IN (SELECT page FROM archive_open)")).toBe(0);
    expect(readdirSync(world.at("evidence.archive/pages")).length).toBe(count("*) FROM archive_staged"));
  }, 3_600_000);
});

/** Looks at the state file again and again. */
function watchProgress(budget: number) {
  const { db } = app!;
  const space = createSpace(db, world.at("state.db"), budget);
  const counts = db.prepare(
    `SELECT (SELECT MAX(number) FROM pages) AS pages,
       (SELECT COUNT(DISTINCT day) FROM archive_closed WHERE day NOT IN (SELECT day FROM archive_plans)) AS days`,
  );
  const [used, days]: [number[], { pages: number; days: number }[]] = [[], []];
  const timer = setInterval(() => {
    used.push(space.usedBytes());
    days.push(counts.get() as { pages: number; days: number });
  }, LOOK_MS);
  return {
    stop: () => clearInterval(timer),
    usedMax: () => Math.max(...used),
    /** Days with a closed part at the moment when the last page was read. */
    closedWhileReading: () => days.find(({ pages }) => pages === days.at(-1)!.pages)!.days,
  };
}

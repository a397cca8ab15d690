import { afterEach, expect, test } from "vitest";
import { MINUTE, openWorld, type World } from "./support.ts";

let world: World | undefined;

afterEach(() => world?.close());

/** SQLite gets no page more, and a count that upkeep writes needs some: every other write still works. */
function fillForUpkeep({ db }: World): void {
  db.exec(`CREATE TABLE ballast (bytes BLOB);
    CREATE TRIGGER ballast_grows BEFORE UPDATE OF events ON organizations BEGIN
      INSERT INTO ballast VALUES (zeroblob(16000000));
    END`);
  db.pragma(`max_page_count = ${db.pragma("page_count", { simple: true })}`);
}

function eventsCounted({ db }: World): number {
  return db.prepare("SELECT COALESCE(SUM(events), 0) FROM organizations").pluck().get() as number;
}

test("a disk that is full while the first plan is made delays it until there is space, not until the next discovery", async () => {
  world = await openWorld({ simulator: { organizations: 1, events: 60, days: 1 } });
  const { db } = world;
  db.exec(`CREATE TABLE ballast (bytes BLOB);
    CREATE TRIGGER ballast_grows BEFORE INSERT ON windows BEGIN
      INSERT INTO ballast VALUES (zeroblob(16000000));
    END`);
  db.pragma(`max_page_count = ${db.pragma("page_count", { simple: true })}`);
  await world.pass(MINUTE);
  expect(world.alarms().map(({ kind }) => kind)).toContain("state_unwritable");
  db.exec("DROP TRIGGER ballast_grows");
  db.pragma("max_page_count = 1000000");
  await world.pass(2 * MINUTE, 10_000);
  const { held, lost } = await world.compare();
  expect([held, lost]).toEqual([expect.any(Number), 0]);
  expect(held).toBeGreaterThan(0);
  expect(world.alarms().map(({ kind }) => kind)).not.toContain("state_unwritable");
});

test("a full disk during upkeep pauses polling with an alarm, and the counts are written when there is space", async () => {
  world = await openWorld({ simulator: { organizations: 1, events: 60, days: 1 } });
  const isUnwritable = () => world!.alarms().some(({ kind }) => kind === "state_unwritable");
  const countedBefore = eventsCounted(world);
  fillForUpkeep(world);
  await world.drain();
  await world.pass(2 * MINUTE);
  expect(isUnwritable()).toBe(true);
  expect(world.account.poller.status().pausedUntilMs).not.toBeNull();
  expect(eventsCounted(world)).toBe(countedBefore);

  world.db.pragma("max_page_count = 1000000");
  await world.pass(10 * MINUTE, MINUTE);
  expect(isUnwritable()).toBe(false);
  const { held, lost, twice } = await world.compare();
  expect({ lost, twice }).toEqual({ lost: 0, twice: 0 });
  expect(eventsCounted(world)).toBe(held);
});

test("the alarm of a full disk stays while pages cannot be written, although smaller writes succeed, and ends when they can", async () => {
  world = await openWorld({ simulator: { organizations: 1, events: 60, days: 1 } });
  const { db } = world;
  const sinceMs = () => world!.alarms().find(({ kind }) => kind === "state_unwritable")?.sinceMs;
  db.exec(`CREATE TABLE ballast (bytes BLOB);
    CREATE TRIGGER ballast_grows BEFORE INSERT ON pages BEGIN
      INSERT INTO ballast VALUES (zeroblob(16000000));
    END`);
  db.pragma(`max_page_count = ${db.pragma("page_count", { simple: true })}`);
  // The wait is five seconds, and upkeep comes once a minute.
  const seen: (number | undefined)[] = [];
  for (let at = 0; at < 60; at++) {
    await world.pass(3000);
    seen.push(sinceMs());
  }
  const raised = seen.filter((ms) => ms !== undefined);
  expect(raised.length).toBeGreaterThan(40);
  // An alarm that is cleared and raised again within a step has another time.
  expect(new Set(seen.slice(seen.indexOf(raised[0])))).toEqual(new Set([raised[0]]));
  db.pragma("max_page_count = 1000000");
  // The page that failed is written after the pause, and nothing else has failed.
  await world.pass(10_000, 1000);
  expect(sinceMs()).toBeUndefined();
});

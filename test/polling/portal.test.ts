// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterEach, describe, expect, test } from "vitest";
import { createView } from "../../src/journal/view/view.ts";
import { eventText, pageOf } from "../support/pages.ts";
import { openProxied } from "./proxied.ts";
import type { AnswerProxy } from "./proxy.ts";
import { DAY, HOUR, MINUTE, openWorld, type World, type WorldOptions } from "./support.ts";

let world: World | undefined;
let proxy: AnswerProxy | undefined;
afterEach(async () => {
  await world?.close();
  await proxy?.close();
});

const EVERYTHING = { search: "", problems: false, sort: "lag" as const, offset: 0, limit: 1000 };
const SIMULATOR = { organizations: 2, events: 100, liveEventsPerSecond: 0.002 };

/** Shows events of an organization through it and through the portal. */
function showBoth(it: World, count: number, beforeMs: number, name: string): void {
  const [organization] = it.organizations as [string];
  for (let at = 0; at < count; at++) {
    const timestamp = new Date(it.clock.now() - beforeMs - at * MINUTE).toISOString();
    const event = { id: `${name}${at}`.padEnd(24, "0"), timestamp, organization, service: "directory" };
    const text = JSON.stringify({ ...event, event_type: "user_update", number: at });
    for (const place of [organization, "provider"]) it.simulator.control.append(place, [text]);
  }
}

async function openPortal(options: WorldOptions = {}): Promise<World> {
  const started = await openWorld({ simulator: SIMULATOR, ...options });
  world = started;
  const provider = started.simulator.providerId;
  const accounts = (options.accounts ?? [{}]).map((account) => ({ provider, ...account }));
  await started.restart({ accounts });
  return started;
}

/** Every distinct event that the service shows in closed windows counts once in the totals, and for each source that shows it. */
async function everyCountIsTrue(it: World): Promise<void> {
  const accounts = it.accounts.map(({ name }) => ({ name, retentionMs: 90 * DAY }));
  const view = createView(it.db, null, {
    ...{ clock: it.clock, version: "1", file: `${it.folder}/state.db`, budgetBytes: null },
    ...{ sinkBehindMs: HOUR, accounts, sinks: [] },
  });
  const windows = (await it.windows()).filter(({ live, heldCount }) => !live && heldCount !== null);
  expect(windows.length).toBeGreaterThan(1);
  const { control } = it.simulator;
  const closed = new Set<string>();
  for (const { stream, fromMs, toMs, apiCount, heldCount } of windows) {
    const named = stream.organizations.length > 0 ? stream.organizations : it.organizations;
    const places = stream.provider === null ? named : ["provider"];
    const shown = places
      .flatMap((organization) => [...control.allEvents({ organization })])
      .map((bytes) => Buffer.from(bytes).toString("latin1"))
      .filter((text) => {
        const timeMs = Date.parse((JSON.parse(text) as { timestamp: string }).timestamp);
        return timeMs >= fromMs && timeMs < toMs;
      });
    expect([stream.provider, apiCount, heldCount]).toEqual([stream.provider, shown.length, shown.length]);
    for (const text of shown) closed.add(text);
  }
  const { totals } = await view.status();
  expect(totals).toMatchObject({ heldCount: closed.size, apiCount: closed.size, differing: 0 });
  const days = (await view.calendar()).days.filter(({ read, sealed }) => read + sealed > 0);
  if (days.every(({ heldCount }) => heldCount !== null))
    expect(days.reduce((sum, { heldCount }) => sum + heldCount!, 0)).toBe(closed.size);
  const held = await it.held();
  expect(new Set(held).size).toBe(held.length);
  expect(new Set(it.served())).toEqual(new Set(held));
  for (const row of (await view.organizations(EVERYTHING)).rows) expect(row.heldCount).toBe(row.apiCount);
}

describe("R36 events that a portal and an organization show", () => {
  test("history, late events and live ones: every window counts what its source shows", async () => {
    const it = await openPortal();
    showBoth(it, 5, 3 * HOUR, "a");
    await it.drain();
    await everyCountIsTrue(it);
    showBoth(it, 4, 20 * MINUTE, "b");
    await it.pass(30 * MINUTE, MINUTE);
    showBoth(it, 3, 2 * HOUR, "c");
    await it.pass(2 * DAY, 3 * HOUR);
    await everyCountIsTrue(it);
    await it.restart();
    await it.pass(3 * HOUR, HOUR);
    await everyCountIsTrue(it);
  });

  test("one of both shows them later than the other", async () => {
    const it = await openPortal();
    await it.drain();
    const [organization] = it.organizations as [string];
    const timestamp = new Date(it.clock.now() - 10 * MINUTE).toISOString();
    const places = [organization, "provider"];
    for (const [at, late] of places.entries()) {
      const event = { id: `${at}`.padEnd(24, "f"), timestamp, organization, service: "directory" };
      const text = JSON.stringify({ ...event, event_type: "user_update" });
      for (const place of places) it.simulator.control.append(place, [text], place === late ? 4 * HOUR : 0);
    }
    await it.pass(2 * DAY, HOUR);
    await everyCountIsTrue(it);
  });

  test("a state of an earlier version: the next comparison makes the counts right", async () => {
    const it = await openPortal();
    showBoth(it, 5, 3 * HOUR, "a");
    await it.drain();
    // As the version before left it.
    it.db.exec(`DROP TABLE also_seen; ALTER TABLE archive_tombstones DROP COLUMN reason;
      ALTER TABLE jobs DROP COLUMN ended_by; ALTER TABLE job_parts DROP COLUMN first_sent_ms;
      DROP TRIGGER gaps_checksum_insert; DROP TRIGGER gaps_checksum_update;
      DROP INDEX gaps_of_events; ALTER TABLE gaps DROP COLUMN came_ms;
      DROP INDEX job_users_by_name; DROP INDEX job_users_by_email; DROP INDEX job_users_unfolded;
      DROP INDEX job_users_by_outcome; DROP INDEX job_events_passed_over;
      DROP INDEX jobs_by_folded_service_job; DROP INDEX job_parts_by_folded_service_job;
      ALTER TABLE job_users DROP COLUMN state_ms; ALTER TABLE job_users DROP COLUMN name_key; ALTER TABLE job_users DROP COLUMN email_key;
      CREATE INDEX job_users_by_name ON job_users (job, username);
      CREATE INDEX job_users_by_email ON job_users (job, email);
      DELETE FROM migrations WHERE number >= 25; PRAGMA user_version = 24;
      UPDATE windows SET held_count = held_count - 5, counts = NULL WHERE api_count >= 5
        AND stream IN (SELECT id FROM streams WHERE provider IS NOT NULL)`);
    await it.restart();
    const nowMs = it.clock.now();
    await it.account.poller.reconcile({ fromMs: nowMs - 5 * DAY, toMs: nowMs }, it.signal);
    await it.drain();
    await everyCountIsTrue(it);
  });
});

describe("R36 a portal that several accounts read", () => {
  test("two accounts: each counts all of it, the totals count it once", async () => {
    const it = await openPortal({ accounts: [{ name: "acme" }, { name: "second" }] });
    showBoth(it, 5, 3 * HOUR, "a");
    await it.drain();
    await everyCountIsTrue(it);
    await it.pass(DAY, 3 * HOUR);
    await everyCountIsTrue(it);
  });

  test("a renamed account counts what it held under its old name", async () => {
    const it = await openPortal();
    showBoth(it, 5, 3 * HOUR, "a");
    await it.drain();
    await it.pass(DAY, 6 * HOUR);
    await it.restart({ accounts: [{ name: "renamed", provider: it.simulator.providerId }] });
    const nowMs = it.clock.now();
    await it.account.poller.reconcile({ fromMs: nowMs - 5 * DAY, toMs: nowMs }, it.signal);
    await it.pass(DAY, 6 * HOUR);
    await everyCountIsTrue(it);
  });
});

test("R29 a portal that was taken out of the config while the program was stopped for hours is read up to then", async () => {
  const it = await openPortal();
  await it.drain();
  it.simulator.control.clock.advance(5 * HOUR);
  const timestamp = new Date(it.clock.now() - 3 * HOUR).toISOString();
  const event = { id: "d".repeat(24), timestamp, service: "directory", event_type: "user_update" };
  it.simulator.control.append("provider", [JSON.stringify(event)]);
  await it.restart({ accounts: [{}] });
  await it.drain();
  expect((await it.held()).filter((text) => text.includes(event.id))).toHaveLength(1);
  expect((await it.windows()).filter(({ stream, live }) => stream.provider !== null && live)).toEqual([]);
});

test("R36 a comparison counts the held events of an owner that the portal no longer shows", async () => {
  const account = { since: "2d" };
  ({ world, proxy } = await openProxied({ simulator: { organizations: 2, events: 0 }, account }));
  const [first, second] = world.organizations as [string, string];
  for (const [at, organization] of [first, first, second, second, second].entries()) {
    const timestamp = new Date(world.clock.now() - (at + 3) * HOUR).toISOString();
    const event = { id: `${at}`.padEnd(24, "b"), timestamp, organization, service: "directory" };
    world.simulator.control.append("provider", [JSON.stringify({ ...event, event_type: "user_update" })]);
  }
  const provider = world.simulator.providerId;
  await world.restart({ account: { ...account, insightsUrl: proxy.url, provider } });
  await world.drain();
  const ofPortal = async () =>
    (await world!.windows()).filter(
      ({ live, stream, apiCount }) => !live && stream.provider !== null && apiCount !== 0,
    );
  const countsNow = async () => (await ofPortal()).map(({ apiCount, heldCount }) => [apiCount, heldCount]);
  expect(await countsNow()).toEqual([[5, 5]]);
  let hidden = 0;
  proxy.change = (exchange) => {
    if (!exchange.path.endsWith("/events") || exchange.organizations.length > 0) return;
    const events = JSON.parse(exchange.body.toString()) as { organization?: string }[];
    const left = events.filter(({ organization }) => organization !== second);
    hidden += events.length - left.length;
    exchange.body = Buffer.from(JSON.stringify(left));
    exchange.headers["x-result-count"] = String(left.length);
  };
  const nowMs = world.clock.now();
  await world.account.poller.reconcile({ fromMs: nowMs - 2 * DAY, toMs: nowMs }, world.signal);
  await world.drain();
  expect(hidden).toBeGreaterThan(0);
  expect(await countsNow()).toEqual([[5, 5]]);
});

test("R36 the own organization of a renamed account, whose events name no organization", async () => {
  const account = { organizations: undefined };
  world = await openWorld({ simulator: { organizations: 1, events: 60 }, account });
  const [organization] = world.organizations as [string];
  for (let at = 0; at < 7; at++) {
    const timestamp = new Date(world.clock.now() - (at + 3) * HOUR).toISOString();
    const event = { id: `${at}`.padEnd(24, "d"), timestamp, organization: null, service: "directory" };
    world.simulator.control.append(organization, [JSON.stringify({ ...event, event_type: "user_update" })]);
  }
  await world.drain();
  await everyCountIsTrue(world);
  await world.restart({ account: { ...account, name: "renamed" } });
  await world.drain();
  expect(new Set((await world.windows()).map(({ stream }) => stream.account))).toContain("renamed");
  const nowMs = world.clock.now();
  await world.account.poller.addHistory({ fromMs: nowMs - 4 * DAY, toMs: nowMs, reader: null }, world.signal);
  await world.drain();
  await everyCountIsTrue(world);
});

test("R36 an event that a live read finds while its window is compared is in the counts of that window", async () => {
  world = await openWorld({ simulator: { organizations: 1, events: 40 }, account: { since: "5d" } });
  await world.drain();
  const { journal } = world;
  const [window] = (await world.windows()).filter(({ live, heldCount }) => !live && heldCount! > 3);
  const { stream, fromMs, toMs } = window!;
  await world.account.poller.reconcile({ fromMs, toMs }, world.signal);
  const organization = stream.organizations[0]!;
  const timestamp = new Date(fromMs + 1).toISOString();
  const late = pageOf([eventText(1, { organization, timestamp })], {
    organizations: [organization],
    services: stream.services,
  });
  // Between the comparison and its end.
  const { changeWindows } = journal;
  let isAdded = false;
  journal.changeWindows = async (change) => {
    const isOfWindow = typeof change === "function" || change.put?.some(({ id }) => id === window!.id);
    if (!isAdded && isOfWindow) {
      isAdded = true;
      await journal.append(late);
    }
    return changeWindows(change);
  };
  await world.drain();
  expect(isAdded).toBe(true);
  const [after] = await journal.windows({ id: window!.id });
  const held = await journal.countHeld({ ...stream, owners: stream.organizations, fromMs, toMs });
  expect(after).toMatchObject({
    heldCount: held.get(organization),
    apiCount: window!.apiCount! + 1,
  });
});

// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterEach, describe, expect, test } from "vitest";
import type { View } from "../../src/core/view.ts";
import { createView } from "../../src/journal/view/view.ts";
import { DAY, HOUR, MINUTE, openWorld, type World } from "./support.ts";

let world: World | undefined;
afterEach(async () => await world?.close());

function viewOf(it: World): View {
  const accounts = it.accounts.map(({ name }) => ({ name, retentionMs: 90 * DAY }));
  return createView(it.db, null, {
    ...{ clock: it.clock, version: "1", file: `${it.folder}/tidemark.db`, budgetBytes: null },
    ...{ sinkBehindMs: HOUR, accounts, sinks: [] },
  });
}

const EVERYTHING = { search: "", problems: false, sort: "lag" as const, offset: 0, limit: 1000 };

/** Both counts, as every place shows them that sums windows. */
async function sumsOf(it: World) {
  const view = viewOf(it);
  const { totals } = await view.status();
  const { rows } = await view.organizations(EVERYTHING);
  const days = (await view.calendar()).days;
  const byAccount = new Map<string, { api: number; held: number; inDays: number | null }>();
  for (const { account, id, apiCount, heldCount } of rows) {
    const own = (await view.windows({ account, organization: id, limit: 5000 }))!.days;
    const sum = byAccount.get(account) ?? { api: 0, held: 0, inDays: 0 };
    byAccount.set(account, {
      api: sum.api + (apiCount ?? 0),
      held: sum.held + (heldCount ?? 0),
      inDays: plus(sum.inDays, heldIn(own)),
    });
  }
  return { totals, byAccount, inDays: heldIn(days) };
}

/** null: a day shares its counts with another. */
function heldIn(days: Awaited<ReturnType<View["calendar"]>>["days"]): number | null {
  const used = days.filter(({ read, sealed }) => read + sealed > 0);
  return used.reduce<number | null>((sum, { heldCount }) => plus(sum, heldCount), 0);
}

function plus(a: number | null, b: number | null): number | null {
  return a === null || b === null ? null : a + b;
}

/** The events that a closed window has read, each once. */
async function heldInClosed(it: World): Promise<number> {
  const closed = (await it.windows()).filter(({ live, heldCount }) => !live && heldCount !== null);
  const isClosed = (text: string) => {
    const { organization, timestamp, service } = JSON.parse(text) as Record<string, string>;
    const timeMs = Date.parse(timestamp!);
    return closed.some(
      ({ stream, fromMs, toMs }) =>
        stream.organizations.includes(organization!) &&
        (stream.services.includes("all") || stream.services.includes(service!)) &&
        timeMs >= fromMs &&
        timeMs < toMs,
    );
  };
  return (await it.held()).filter(isClosed).length;
}

/** Every event of a closed window counts once everywhere. */
async function countsOnce(it: World): Promise<void> {
  const held = await heldInClosed(it);
  expect(held).toBeGreaterThan(50);
  const { totals, byAccount, inDays } = await sumsOf(it);
  expect(totals).toMatchObject({ heldCount: held, apiCount: held, differing: 0 });
  expect([held, null]).toContain(inDays);
  if (byAccount.size > 1) return;
  const [only] = byAccount.values();
  expect(only).toMatchObject({ api: held, held });
  expect([held, null]).toContain(only!.inDays);
}

describe("R36 totals after the services of an account were changed", () => {
  test.each([
    [["directory"], ["all"], "30d"],
    [["all"], ["directory"], "30d"],
    [["all"], ["directory"], "2d"],
    [["directory"], ["all"], "2d"],
    [["directory", "sso"], ["sso", "systems"], "30d"],
    [["all"], ["all", "sso"], "30d"],
  ])("%s, then %s since %s: every event counts once", async (first, second, since) => {
    const it = await openChanged(first);
    await it.restart({ account: { services: second, since } });
    await it.drain();
    await countsOnce(it);
    await it.restart();
    await countsOnce(it);
    await it.pass(DAY, 8 * HOUR);
    await it.restart({ account: { services: first, since } });
    await it.drain();
    await countsOnce(it);
  });

  test("while the new setting is read in part, no event counts twice, and none that no closed window has", async () => {
    const it = await openChanged(["directory"]);
    const before = (await sumsOf(it)).totals.heldCount;
    await it.restart({ account: { services: ["all"], since: "30d" }, polling: { pageSize: 20 } });
    for (let steps = 0; ; steps++) {
      const { heldCount, apiCount, windows } = (await sumsOf(it)).totals;
      const held = await heldInClosed(it);
      expect(heldCount).toBeGreaterThanOrEqual(before);
      expect(heldCount).toBeLessThanOrEqual(held);
      expect(apiCount).toBe(heldCount);
      if (windows.unread === 0 && steps > 3) break;
      await it.account.poller.step(it.signal);
    }
    await it.drain();
    await countsOnce(it);
  });
});

async function openChanged(services: readonly string[]): Promise<World> {
  world = await openWorld({ simulator: { liveEventsPerSecond: 0.002 }, account: { services, since: "30d" } });
  await world.drain();
  await countsOnce(world);
  return world;
}

describe("R36 totals of an organization that two accounts read", () => {
  test.each([
    [{}, {}],
    [{ services: ["directory"] }, { services: ["directory", "sso"] }],
    [{ services: ["directory"] }, { services: ["sso"] }],
    [{ since: "2d" }, { since: "30d" }],
  ])("%j and %j: every event counts once", async (first, second) => {
    const two = [
      { name: "acme", since: "30d", ...first },
      { name: "second", since: "30d", ...second },
    ];
    world = await openWorld({ simulator: { liveEventsPerSecond: 0.002 }, accounts: two });
    await world.drain();
    await countsOnce(world);
    await world.pass(2 * HOUR, 20 * MINUTE);
    await world.restart();
    await world.drain();
    await countsOnce(world);
  });

  test("each account's own rows have all of its events", async () => {
    world = await openWorld({ accounts: [{ name: "acme" }, { name: "second" }] });
    await world.drain();
    const { byAccount, totals } = await sumsOf(world);
    for (const { held, api } of byAccount.values())
      expect([held, api]).toEqual([totals.events, totals.events]);
  });

  test("a renamed account with other services beside another account", async () => {
    world = await openWorld({ accounts: [{ name: "acme" }, { name: "second", services: ["directory"] }] });
    await world.drain();
    await world.pass(DAY, 6 * HOUR);
    const two = [
      { name: "renamed", services: ["sso"] },
      { name: "second", services: ["directory"] },
    ];
    await world.restart({ accounts: two });
    await world.drain();
    const { totals } = await sumsOf(world);
    expect(totals.heldCount).toBeLessThanOrEqual(totals.events);
    expect(totals).toMatchObject({ apiCount: totals.heldCount, differing: 0 });
  });
});

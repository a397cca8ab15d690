// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterEach, expect, test } from "vitest";
import type { Window } from "../../src/core/window.ts";
import { eventText, pageOf } from "../support/pages.ts";
import { DAY, HOUR, openWorld, type World } from "./support.ts";

let world: World | undefined;
afterEach(async () => await world?.close());

/** Right before every change of the ledger, another read finds an event in a window that has counts. */
function findBeforeEveryChange(it: World): () => number {
  const { journal } = it;
  const { changeWindows } = journal;
  let found = 0;
  journal.changeWindows = async (change) => {
    const windows = await counted(it);
    const window = windows[found % Math.max(1, windows.length)];
    if (window !== undefined) {
      const organization = organizationOf(window, ++found);
      const text = lateEvent(window, organization, found);
      it.simulator.control.append(organization, [text]);
      await journal.append(pageOf([text], window.stream));
    }
    return changeWindows(change);
  };
  return () => found;
}

function organizationOf({ stream }: Window, number: number): string {
  return stream.organizations[number % stream.organizations.length]!;
}

function lateEvent({ fromMs, toMs }: Window, organization: string, number: number): string {
  const timestamp = new Date(fromMs + ((number * 7919) % (toMs - fromMs))).toISOString();
  return eventText(number, { organization, timestamp, service: "found" });
}

async function counted(it: World): Promise<readonly Window[]> {
  return (await it.windows()).filter(({ live, heldCount }) => !live && heldCount !== null);
}

async function everyCountIsTrue(it: World): Promise<void> {
  for (const { stream, fromMs, toMs, apiCount, heldCount, counts } of await counted(it)) {
    const held = await it.journal.countHeld({ ...stream, owners: stream.organizations, fromMs, toMs });
    const sum = [...held.values()].reduce((total, count) => total + count, 0);
    expect([apiCount, heldCount]).toEqual([sum, sum]);
    for (const [owner, pair] of Object.entries(counts ?? {}))
      expect(pair).toEqual([held.get(owner) ?? 0, held.get(owner) ?? 0]);
  }
}

test.each([
  ["a group", 2],
  ["one organization", 1],
])(
  "R36 events that other reads find between a look at the ledger and its change are in the counts: %s",
  async (_, organizations) => {
    world = await openWorld({
      simulator: { organizations, events: 60, liveEventsPerSecond: 0.002 },
      account: { since: "4d", retention: "6d" },
    });
    await world.drain();
    const found = findBeforeEveryChange(world);
    for (let day = 0; day < 2; day++) {
      await world.pass(DAY, 3 * HOUR);
      await everyCountIsTrue(world);
      const toMs = world.clock.now();
      await world.account.poller.reconcile({ fromMs: toMs - 3 * DAY, toMs }, world.signal);
      await world.drain();
      await everyCountIsTrue(world);
    }
    // Windows that the service has forgotten meanwhile are cut.
    world.simulator.control.clock.advance(3 * DAY);
    await world.pass(DAY, 6 * HOUR);
    await everyCountIsTrue(world);
    expect(found()).toBeGreaterThan(20);
  },
);

import { afterEach, describe, expect, test } from "vitest";
import { createView } from "../../src/journal/view/view.ts";
import { DAY, HOUR, openWorld, type World } from "./support.ts";

let world: World | undefined;
afterEach(async () => await world?.close());

async function daysOf(it: World, organization: string) {
  const view = createView(it.db, null, {
    ...{ clock: it.clock, version: "1", file: `${it.folder}/state.db`, budgetBytes: null },
    ...{ sinkBehindMs: HOUR, accounts: [{ name: "acme", retentionMs: 90 * DAY }], sinks: [] },
  });
  const { days } = (await view.windows({ account: "acme", organization, limit: 5000 }))!;
  return days.filter(({ read, sealed }) => read + sealed > 0);
}

/** Every day has the counts of the events that closed windows have read. */
async function everyDayIsCounted(it: World, organization: string): Promise<void> {
  const isOf = ({ provider, organizations }: { provider: string | null; organizations: readonly string[] }) =>
    provider === organization || organizations.includes(organization);
  const closed = (await it.windows()).filter(({ live, stream }) => !live && isOf(stream));
  expect(closed.some(({ fromMs, toMs }) => toMs - fromMs > DAY)).toBe(true);
  const place = organization === it.simulator.providerId ? "provider" : organization;
  const times = [...it.simulator.control.allEvents({ organization: place })]
    .map((bytes) =>
      Date.parse((JSON.parse(Buffer.from(bytes).toString()) as { timestamp: string }).timestamp),
    )
    .filter((timeMs) => closed.some(({ fromMs, toMs }) => timeMs >= fromMs && timeMs < toMs));
  expect(times.length).toBeGreaterThan(10);
  const days = await daysOf(it, organization);
  expect(days.length).toBeGreaterThan(3);
  for (const { day, apiCount, heldCount } of days) {
    const count = times.filter((timeMs) => Math.floor((timeMs - Date.parse(day)) / DAY) === 0).length;
    expect([day, apiCount, heldCount]).toEqual([day, count, count]);
  }
}

describe("R36 the counts of a day", () => {
  test("are known for each of several organizations that are read together, where a window covers days", async () => {
    world = await openWorld({ simulator: { organizations: 3 }, account: { since: "5d" } });
    await world.drain();
    expect((await world.windows()).some(({ stream }) => stream.organizations.length === 3)).toBe(true);
    for (const organization of world.organizations) await everyDayIsCounted(world, organization);
    await world.pass(2 * DAY, 6 * HOUR);
    for (const organization of world.organizations) await everyDayIsCounted(world, organization);
  });

  test("are known for a portal", async () => {
    world = await openWorld({ simulator: { organizations: 2 } });
    for (let at = 0; at < 15; at++) {
      const timestamp = new Date(world.clock.now() - at * 7 * HOUR - 1).toISOString();
      const event = {
        id: `${at}`.padEnd(24, "e"),
        timestamp,
        organization: at % 2 ? world.organizations[0] : null,
      };
      const text = JSON.stringify({ ...event, service: "directory", event_type: "user_update" });
      for (const place of at % 4 === 1 ? [world.organizations[0]!, "provider"] : ["provider"])
        world.simulator.control.append(place, [text]);
    }
    await world.restart({ account: { since: "5d", provider: world.simulator.providerId } });
    await world.drain();
    await everyDayIsCounted(world, world.simulator.providerId);
  });

  test("are not shown where a window over several days lacks an event: its day is not known", async () => {
    world = await openWorld({ simulator: { organizations: 1 }, account: { since: "5d" } });
    await world.drain();
    const [organization] = world.organizations as [string];
    await everyDayIsCounted(world, organization);
    world.db.exec(`UPDATE windows SET api_count = api_count + 1 WHERE to_ms - from_ms > ${DAY}`);
    expect((await daysOf(world, organization)).map(({ heldCount }) => heldCount)).toContain(null);
    world.db.exec(
      `UPDATE windows SET api_count = api_count - 2, held_count = held_count - 1 WHERE to_ms - from_ms > ${DAY}`,
    );
    expect((await daysOf(world, organization)).map(({ heldCount }) => heldCount)).toContain(null);
  });
});

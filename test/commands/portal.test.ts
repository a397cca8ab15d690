import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import type { StatusView } from "../../src/core/view/status.ts";
import { openStateForReading, type State } from "../../src/journal/database.ts";
import { createView } from "../../src/journal/view/view.ts";
import { openWorld, type World } from "../support/world.ts";

const DAY = 86_400_000;
const EVERYTHING = { search: "", problems: false, sort: "lag" as const, offset: 0, limit: 1000 };

function viewOf(db: State) {
  return createView(db, null, {
    ...{ clock: systemClock, version: "1", file: "", budgetBytes: null, sinkBehindMs: DAY, sinks: [] },
    accounts: [{ name: "acme", retentionMs: 90 * DAY }],
  });
}

/** The service shows some events through the provider's portal and through an organization. */
describe("R36 a portal and an organization that show the same events", () => {
  let world: World;
  let distinct: Set<string>;
  beforeEach(async () => {
    world = await openWorld({ events: 120 });
    const { control, organizations } = world.simulator;
    const [first, second] = organizations.map(({ id }) => id) as [string, string];
    // Both show these; the portal alone shows the next ones, although they name the organization.
    show([first, "provider"], 5, first, "a");
    show([second, "provider"], 4, second, "b");
    show(["provider"], 3, first, "c");
    distinct = new Set([...control.allEvents()].map((bytes) => Buffer.from(bytes).toString()));
  });
  afterEach(() => world.close());

  function show(places: readonly string[], count: number, organization: string, name: string): void {
    for (let at = 0; at < count; at++) {
      const timestamp = new Date(Date.now() - (2 + at) * DAY).toISOString();
      const event = { id: `${name}${at}`.padEnd(24, "0"), timestamp, organization, service: "directory" };
      const text = JSON.stringify({ ...event, event_type: "user_update", number: at });
      for (const place of places) world.simulator.control.append(place, [text]);
    }
  }

  const portal = () => `since: 30d, provider: ${world.simulator.providerId}`;

  async function once(account: string): Promise<string> {
    const config = world.configure({ account });
    const { code, stdout } = await world.run(["run", "--once", "-c", config]);
    expect({ code, stdout }).toMatchObject({ code: 0 });
    expect(stdout).toMatch(/Nothing (else )?is missing\./);
    return config;
  }

  /** Every count that is shown, against the service's own. */
  async function everyCountIsTrue(config: string): Promise<void> {
    expect(world.lines().toSorted()).toEqual([...distinct].toSorted());
    const { status } = JSON.parse((await world.run(["status", "--json", "-c", config])).stdout) as {
      status: StatusView;
    };
    const all = distinct.size;
    expect(status.totals).toMatchObject({ events: all, apiCount: all, heldCount: all, differing: 0 });
    const text = (await world.run(["coverage", "-c", config])).stdout;
    expect(text).toContain(`The service counts ${all} events in closed time ranges, ${all} are held; 0 `);
    const db = openStateForReading(world.at("state.db"));
    const { rows } = await viewOf(db).organizations(EVERYTHING);
    const { control, providerId, organizations } = world.simulator;
    expect(rows).toHaveLength(organizations.length + 1);
    for (const { id, apiCount, heldCount } of rows) {
      const served = control.countEvents({ organization: id === providerId ? "provider" : id });
      expect([id, apiCount, heldCount]).toEqual([id, served, served]);
    }
    const wrong = db.prepare("SELECT * FROM windows WHERE api_count <> held_count").all();
    db.close();
    expect(wrong).toEqual([]);
  }

  test("read at once: both sides count them, the totals count them once, and nothing is called missing", async () => {
    const config = await once(`organizations: all, ${portal()}`);
    await everyCountIsTrue(config);
    await once(`organizations: all, ${portal()}`);
    await everyCountIsTrue(config);
  });

  test.each(["first", "later"])("the portal is read %s", async (when) => {
    const { organizations } = world.simulator;
    const ids = `organizations: [${organizations.map(({ id }) => id).join(", ")}]`;
    const last = organizations.at(-1)!.id;
    await once(when === "first" ? `organizations: [${last}], ${portal()}` : `${ids}, since: 30d`);
    await everyCountIsTrue(await once(`${ids}, ${portal()}`));
  });
});

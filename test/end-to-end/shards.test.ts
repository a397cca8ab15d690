import { existsSync, readdirSync } from "node:fs";
import { afterEach, describe, expect, test } from "vitest";
import { shareOf } from "../../src/core/shard.ts";
import { openStateForReading } from "../../src/journal/database.ts";
import { openWorld, type World } from "../support/world.ts";
import { compare } from "./scene.ts";

const SHARDS = [0, 1, 2];

describe("three shards of one config", () => {
  let world: World;
  afterEach(() => world.close());

  /** The same config for all, but for the state file; the environment says which shard it is. */
  function configure(index: number, more: readonly string[] = []): string {
    return world.configure({
      account: `organizations: all, since: 30d, provider: ${world.simulator.providerId}`,
      file: world.at(`shard-${index}.yaml`),
      state: world.at(`state-${index}.db`),
      more: ["shard: auto/3", ...more],
    });
  }

  const on = (index: number, ...args: string[]) =>
    world.run([...args, "-c", configure(index)], { env: { TIDEMARK_SHARD: `tidemark-${index}` } });

  function organizationsIn(index: number): string[] {
    const db = openStateForReading(world.at(`state-${index}.db`));
    try {
      return db.prepare("SELECT id FROM organizations ORDER BY id").pluck().all() as string[];
    } finally {
      db.close();
    }
  }

  const served = () => [...world.simulator.control.allEvents()].map((bytes) => Buffer.from(bytes).toString());

  test("C17 deliver every event once; each knows its own organizations alone, and shard 0 has the provider's", async () => {
    world = await openWorld({ organizations: 9, events: 300 });
    for (const index of SHARDS) expect(await on(index, "run", "--once")).toMatchObject({ code: 0 });
    expect(compare(served(), world.lines())).toEqual({ lost: 0, surplus: 0 });
    for (const index of SHARDS) {
      const own = world.simulator.organizations
        .map(({ id }) => id)
        .filter((id) => shareOf(id, 3) === index)
        .toSorted();
      expect(own.length).toBeGreaterThan(0);
      expect(organizationsIn(index)).toEqual(own);
      const status = JSON.parse((await on(index, "status", "--json")).stdout);
      expect(status.status ?? status).toMatchObject({ shard: `${index}/3` });
      const coverage = (await on(index, "coverage", "--since", "30d", "--json")).stdout;
      for (const { id } of world.simulator.organizations)
        expect(coverage.includes(id)).toBe(own.includes(id));
      expect(coverage.includes(world.simulator.providerId)).toBe(index === 0);
    }
    expect(readdirSync(world.at("events")).toSorted()).toEqual([
      "shard-0-of-3",
      "shard-1-of-3",
      "shard-2-of-3",
    ]);
  });

  test("R7 an event of another shard's organization is foreign: it is delivered by its own shard alone", async () => {
    world = await openWorld({ organizations: 5, events: 60 });
    world.simulator.control.faults.set([{ kind: "foreign_event", api: "insights" }]);
    expect((await on(0, "run", "--once")).stderr).toContain('"kind":"foreign_events"');
    world.simulator.control.faults.set([]);
    for (const index of SHARDS) expect(await on(index, "run", "--once")).toMatchObject({ code: 0 });
    expect(compare(served(), world.lines())).toEqual({ lost: 0, surplus: 0 });
  });

  test("a state file remembers its shard, and another one is refused with what to do", async () => {
    world = await openWorld({ events: 60 });
    await on(0, "run", "--once");
    const other = { env: { TIDEMARK_SHARD: "1" } };
    for (const command of [["run", "--once"], ["check"]]) {
      const { code, stderr } = await world.run([...command, "-c", configure(0)], other);
      expect(code).toBe(2);
      expect(stderr).toContain("belongs to shard 0/3, and the config says shard 1/3");
      expect(stderr).toContain("tidemark restore --reshard");
    }
    const whole = world.configure({ file: world.at("whole.yaml"), state: world.at("state-0.db") });
    expect((await world.run(["run", "--once", "-c", whole])).stderr).toContain(
      "the config says no shard (all organizations)",
    );
  });

  test("a state file without a shard is refused by a shard, and a new one is taken", async () => {
    world = await openWorld({ events: 60 });
    const whole = world.configure({ file: world.at("whole.yaml"), state: world.at("state-0.db") });
    await world.run(["run", "--once", "-c", whole]);
    expect((await on(0, "run", "--once")).stderr).toContain("belongs to no shard (all organizations)");
    expect(existsSync(world.at("events/shard-0-of-3"))).toBe(false);
    expect(await on(1, "run", "--once")).toMatchObject({ code: 0 });
  });

  test("check says what the shard reads, and commands name the right shard for another's organization", async () => {
    world = await openWorld({ organizations: 9, events: 90 });
    const [first] = world.simulator.organizations;
    const owner = shareOf(first!.id, 3);
    const wrong = (owner + 1) % 3;
    const count = world.simulator.organizations.filter(({ id }) => shareOf(id, 3) === wrong).length;
    const { stdout } = await on(wrong, "check", "--online");
    expect(stdout).toContain(`shard ${wrong}/3 reads ${count} of its organizations`);
    expect(stdout).not.toContain(first!.id);
    await on(wrong, "run", "--once");
    for (const command of [
      ["reconcile", "--since", "10d", "--organization", first!.id],
      ["imports", "start", "--account", "acme", "--organization", first!.id, "--application", "a1"],
    ]) {
      const { code, stderr } = await on(wrong, ...command);
      expect(code, command[0]).toBe(2);
      expect(stderr).toContain(`belongs to shard ${owner}/3, and this is shard ${wrong}/3`);
    }
  });

  test("a key's own organization, whose id is not named, is read by shard 0", async () => {
    world = await openWorld({ organizations: 1, events: 100 });
    for (const index of SHARDS) {
      const file = world.configure({
        account: "since: 30d",
        file: world.at(`own-${index}.yaml`),
        state: world.at(`own-${index}.db`),
        more: [`shard: ${index}/3`],
      });
      expect(await world.run(["run", "--once", "-c", file])).toMatchObject({ code: 0 });
      expect(world.lines()).toHaveLength(world.served().length);
    }
  });
});

import { existsSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { shareOf } from "../../src/core/shard.ts";
import { openState, openStateForReading, type State } from "../../src/journal/database.ts";
import { TABLES } from "../../src/journal/split/tables.ts";
import { temporaryFolder } from "../journal/support.ts";
import { openWorld, type World } from "../support/world.ts";
import { compare } from "./scene.ts";

test("every table of the schema says what becomes of it when states are split", () => {
  const folder = temporaryFolder();
  const db = openState(`${folder.path}/state.db`);
  try {
    const tables = db
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
      .pluck()
      .all() as string[];
    expect(Object.keys(TABLES).toSorted()).toEqual(tables.toSorted());
  } finally {
    db.close();
    folder.remove();
  }
});

describe("moving from n shards to m", () => {
  let world: World;
  beforeEach(async () => {
    world = await openWorld({ organizations: 8, events: 400, days: 5 });
  });
  afterEach(() => world.close());

  /** One of `count` processes; 0 means one process without shards. */
  function config(count: number, index: number): string {
    return world.configure({
      account: `organizations: all, since: 30d, provider: ${world.simulator.providerId}`,
      file: world.at(`${count}-${index}.yaml`),
      state: world.at(`${count}-${index}.db`),
      polling: "interval: 1s, pageSize: 50, window: 1m, sweeps: [1s, 2s], lastSweep: 0s",
      more: count === 0 ? [] : [`shard: ${index}/${count}`],
    });
  }

  const indexes = (count: number) => Array.from({ length: Math.max(1, count) }, (_, index) => index);
  const copy = (count: number, index: number, turn: string) => world.at(`final-${turn}-${count}-${index}.db`);

  async function on(count: number, index: number, ...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await world.run([...args, "-c", config(count, index)]);
    expect(code, `${args.join(" ")}: ${stdout}${stderr}`).toBe(0);
    return stdout;
  }

  async function runAll(count: number): Promise<void> {
    for (const index of indexes(count)) await on(count, index, "run", "--once");
  }

  async function move(from: number, to: number, turn = "a"): Promise<void> {
    for (const index of indexes(from)) await on(from, index, "backup", "--final", copy(from, index, turn));
    const copies = indexes(from).map((index) => copy(from, index, turn));
    for (const index of indexes(to)) await on(to, index, "restore", "--reshard", ...copies);
  }

  /** Some new events for every organization and for the portal's time to go on. */
  function more(count: number): void {
    const { organizations, control } = world.simulator;
    for (let at = 0; at < count; at++)
      control.append(organizations[at % organizations.length]!.id, [
        { event_type: "user_create", number: at },
      ]);
  }

  const served = () => [...world.simulator.control.allEvents()].map((bytes) => Buffer.from(bytes).toString());

  function read<Result>(count: number, index: number, look: (db: State) => Result): Result {
    const db = openStateForReading(world.at(`${count}-${index}.db`));
    try {
      return look(db);
    } finally {
      db.close();
    }
  }

  test("R1 R20 from one to three, to two and back to one: nothing is lost and nothing comes twice", async () => {
    await runAll(0);
    await move(0, 3);
    more(60);
    await runAll(3);
    expect(compare(served(), world.lines())).toEqual({ lost: 0, surplus: 0 });
    await move(3, 2);
    more(60);
    await runAll(2);
    expect(compare(served(), world.lines())).toEqual({ lost: 0, surplus: 0 });
    // The directory of the first journal is used again: it holds the end of a journal that the new one continues.
    await move(2, 0, "b");
    more(60);
    await runAll(0);
    more(10);
    await runAll(0);
    expect(compare(served(), world.lines())).toEqual({ lost: 0, surplus: 0 });
  });

  test("R11 R36 events that the portal and an organization show are known in the shards of both, and count once when these are one again", async () => {
    const { control, organizations } = world.simulator;
    for (const [at, { id: organization }] of organizations.entries()) {
      const timestamp = new Date(Date.now() - (2 + at) * 3_600_000).toISOString();
      const event = { id: `${at}`.padEnd(24, "e"), timestamp, organization, service: "directory" };
      const text = JSON.stringify({ ...event, event_type: "user_update" });
      for (const place of [organization, "provider"]) control.append(place, [text]);
    }
    const distinct = () => [...new Set(served())];
    await runAll(0);
    expect(compare(distinct(), world.lines())).toEqual({ lost: 0, surplus: 0 });
    await move(0, 3);
    for (const index of indexes(3)) {
      expect(await on(3, index, "reconcile", "--since", "30d")).toContain("compare");
      await on(3, index, "run", "--once");
      expect(await on(3, index, "doctor", "--offline")).not.toContain("FAILED");
      const wrong = (db: State) =>
        db.prepare("SELECT COUNT(*) FROM windows WHERE api_count <> held_count").pluck().get();
      expect(read(3, index, wrong)).toBe(0);
    }
    expect(compare(distinct(), world.lines())).toEqual({ lost: 0, surplus: 0 });
    await move(3, 0, "b");
    await on(0, 0, "reconcile", "--since", "30d");
    await runAll(0);
    expect(compare(distinct(), world.lines())).toEqual({ lost: 0, surplus: 0 });
    const { status } = JSON.parse(await on(0, 0, "status", "--json")) as {
      status: { totals: { apiCount: number; heldCount: number; differing: number } };
    };
    const { apiCount, heldCount, differing } = status.totals;
    expect([apiCount, heldCount, differing]).toEqual([distinct().length, distinct().length, 0]);
  });

  test("R1 windows, identities, organizations and events are split by owner, and totals stay the same", async () => {
    await runAll(0);
    const facts = (db: State) => ({
      events: db.prepare("SELECT SUM(events) FROM pages").pluck().get() as number,
      identities: db.prepare("SELECT SUM(length(entries)) / 24 FROM identities").pluck().get() as number,
      held: db.prepare("SELECT SUM(held_count) FROM windows").pluck().get() as number,
      passes: db.prepare("SELECT COUNT(*) FROM windows WHERE pass IS NOT NULL").pluck().get() as number,
      unread: db.prepare("SELECT COUNT(*) FROM windows WHERE state = 'unread' AND live = 0").pluck().get(),
    });
    const before = read(0, 0, facts);
    await move(0, 3);
    const after = indexes(3).map((index) => read(3, index, facts));
    const sum = (name: "events" | "identities" | "held") =>
      after.reduce((total, one) => total + (one[name] ?? 0), 0);
    expect([sum("events"), sum("identities"), sum("held")]).toEqual([
      before.events,
      before.identities,
      before.held,
    ]);
    for (const index of indexes(3)) {
      const organizations = read(3, index, (db) =>
        db.prepare("SELECT organizations FROM streams").pluck().all(),
      ) as string[];
      for (const id of organizations.flatMap((list) => JSON.parse(list) as string[]))
        expect(shareOf(id, 3)).toBe(index);
      expect(after[index]!.passes).toBe(0);
      expect(after[index]!.unread).toBe(0);
      expect(await on(3, index, "doctor", "--offline")).not.toContain("FAILED");
    }
  });

  test("a final copy needs everything delivered, ends the use of the state, and can be taken back", async () => {
    await runAll(0);
    const db = openState(world.at("0-0.db"));
    db.exec("UPDATE readers SET event = event - 1 WHERE name = 'disk'");
    const early = await world.run(["backup", "--final", world.at("early.db"), "-c", config(0, 0)]);
    db.exec("UPDATE readers SET event = event + 1 WHERE name = 'disk'");
    db.close();
    expect(early.code).toBe(2);
    expect(early.stderr).toContain('the sink "disk" has not delivered everything');
    expect(existsSync(world.at("early.db"))).toBe(false);

    await on(0, 0, "backup", "--final", copy(0, 0, "a"));
    const refused = await world.run(["run", "--once", "-c", config(0, 0)]);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain("was backed up with --final");
    await on(0, 0, "restore", copy(0, 0, "a"));
    more(20);
    await runAll(0);
    expect(compare(served(), world.lines())).toEqual({ lost: 0, surplus: 0 });
    // Its process went on, so the copy is not final any more.
    const late = await world.run(["restore", "--reshard", copy(0, 0, "a"), "-c", config(0, 0)]);
    expect(late.stderr).toContain("was taken into use again after its final copy");
  });

  test("all old shards are needed, each once, and a state is not made twice from the same copies", async () => {
    await runAll(2);
    for (const index of indexes(2)) await on(2, index, "backup", "--final", copy(2, index, "a"));
    const [first, second] = [copy(2, 0, "a"), copy(2, 1, "a")];
    const refusals: [string[], string][] = [
      [[first], "the copy of shard 1/2 is missing"],
      [[first, first, second], "shard 0/2 is there twice"],
      [[first, world.at("nothing.db")], "There is no file"],
    ];
    for (const [copies, sentence] of refusals) {
      const { code, stderr } = await world.run(["restore", "--reshard", ...copies, "-c", config(3, 0)]);
      expect([code, stderr]).toEqual([2, expect.stringContaining(sentence)]);
      expect(existsSync(world.at("3-0.db"))).toBe(false);
    }
    await on(3, 0, "restore", "--reshard", first, second);
    await on(3, 0, "run", "--once");
    const again = await world.run(["restore", "--reshard", first, second, "-c", config(3, 0)]);
    expect([again.code, again.stderr]).toEqual([2, expect.stringContaining("was made from")]);
    await on(2, 0, "restore", first);
    await on(2, 0, "backup", world.at("ordinary.db"));
    const ordinary = await world.run([
      "restore",
      "--reshard",
      world.at("ordinary.db"),
      second,
      "-c",
      config(3, 1),
    ]);
    expect(ordinary.stderr).toContain("is no final copy");
  });
});

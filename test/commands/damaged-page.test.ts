// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { rmSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Sqlite } from "../../src/core/sqlite.ts";
import { openWorld, type World } from "../support/world.ts";

const RUNS = 3;
const MORE = 10;

describe("R16 the advice at a damaged page, as it is printed", () => {
  let world: World;
  let total: number;
  let config: string;
  beforeEach(async () => {
    world = await openWorld({ organizations: 1, events: 20 });
    total = 20;
    config = world.configure({
      sinks: ["one", "two"].map((name) => `{ name: ${name}, type: file, directory: ${world.at(name)} }`),
    });
    // Nothing can be written there, so everything waits for the sink.
    writeFileSync(world.at("two"), "");
    for (let round = 0; round < RUNS; round++, serveMore()) expect((await run("run --once")).code).toBe(1);
    expect((await run("run --once")).code).toBe(1);
    rmSync(world.at("two"));
  });
  afterEach(() => world.close());

  const run = (line: string) => world.run([...line.split(" "), "-c", config]);

  function serveMore(): void {
    const at = Date.now() - 60_000;
    const events = Array.from({ length: MORE }, (_, number) => ({
      event_type: "user_create",
      timestamp: new Date(at + number).toISOString(),
    }));
    world.simulator.control.append(world.simulator.organizations[0]!.id, events);
    total += MORE;
  }

  /** The number of pages, and of events of those from this one on. */
  function damage(page: number): { pages: number; own: number; behind: number } {
    const db = new Sqlite(world.at("state.db"));
    try {
      const body = db.prepare("SELECT body FROM bodies WHERE page = ?").pluck().get(page) as Buffer;
      body[20]! ^= 4;
      db.prepare("UPDATE bodies SET body = ? WHERE page = ?").run(body, page);
      const pages = db.prepare("SELECT COUNT(*) FROM pages").pluck().get() as number;
      const of = db.prepare("SELECT SUM(events) FROM pages WHERE number >= ? AND number <= ?").pluck();
      return { pages, own: of.get(page, page) as number, behind: of.get(page, pages) as number };
    } finally {
      db.close();
    }
  }

  const commandsIn = (text: string, start: string) =>
    [...text.matchAll(/`tidemark ([^`]*)`/g)]
      .map((match) => match[1]!)
      .filter((each) => each.startsWith(start));
  const held = () => new Set(world.lines(world.at("two"))).size;

  test("going on behind it brings all that is behind, and the backfill the page itself", async () => {
    const { pages, own, behind } = damage(3);
    expect(pages).toBeGreaterThan(3);
    const stopped = await run("run --once");
    expect(stopped.code).toBe(1);
    expect(held()).toBe(total - behind);
    expect(stopped.stdout).toContain(`two lacks ${behind} events`);
    const [resume] = commandsIn(stopped.stdout, "sinks resume two");
    const [backfill] = commandsIn(stopped.stdout, "backfill");
    expect(resume).toBe("sinks resume two --from behind-damage");
    const resumed = await run(resume!);
    expect(resumed).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`It leaves out ${own} events`),
    });
    expect(commandsIn(resumed.stdout, "backfill")).toEqual([backfill]);
    expect((await run(backfill!)).code).toBe(0);
    expect((await run("run --once")).code).toBe(0);
    expect(held()).toBe(total);
  });

  test("--from now says how many events it leaves out, and the backfill that it names brings them", async () => {
    const { behind } = damage(2);
    expect((await run("run --once")).code).toBe(1);
    const resumed = await run("sinks resume two --from now");
    expect(resumed.code).toBe(0);
    expect(resumed.stdout).toContain('The sink "two" continues with new events only. It leaves out');
    expect(resumed.stdout).toContain(`It leaves out ${behind} events of the account`);
    const [backfill] = commandsIn(resumed.stdout, "backfill");
    expect((await run(backfill!)).code).toBe(0);
    expect((await run("run --once")).code).toBe(0);
    expect(held()).toBe(total);
    expect((await run("sinks resume two --from now")).stdout).toBe(
      'The sink "two" continues with new events only.\n',
    );
  });
});

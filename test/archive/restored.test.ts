import { readFileSync } from "node:fs";
import { afterEach, describe, expect, test } from "vitest";
import { Sqlite } from "../../src/core/sqlite.ts";
import { duckdb } from "../search/support.ts";
import { openWorld, type World } from "../support/world.ts";

// These tests run the whole program, as those in test/end-to-end/ do.
let world: World;
afterEach(() => world.close());

const tidemark = (...args: string[]) => world.run([...args, "--config", world.at("tidemark.yaml")]);

async function configure(name: string): Promise<void> {
  const key = world.at(`${name}.key`);
  await world.run(["archive", "keys", "new", key, "--origin", `example.com/${name}`]);
  world.configure({
    sinks: [
      `{ name: ${name}, type: archive, origin: example.com/${name}, key: { file: ${key} }, store: { directory: ${world.at(name)} }, settle: 0s }`,
    ],
  });
}

/** A copy is made, the archive goes on with a hold and an erasure, and the copy is put in place. */
async function restoredOld(): Promise<{ said: string; erased: string; newest: string }> {
  world = await openWorld();
  await configure("evidence");
  expect((await tidemark("run", "--once")).stderr).toBe("");
  expect((await tidemark("backup", world.at("old.db"))).code).toBe(0);
  const [, kept, erased] = world.simulator.organizations.map(({ id }) => id);
  expect((await tidemark("archive", "hold", "add", "Case 18", "--organization", kept!)).code).toBe(0);
  const done = await tidemark("archive", "erase", "--organization", erased!, "--reason", "contract ended");
  expect(done.stdout).toMatch(/^[1-9]\d* events of/);
  const { code, stdout } = await tidemark("restore", world.at("old.db"));
  expect(code).toBe(0);
  return { said: stdout, erased: erased!, newest: /is kept as (\S+)\.\n/.exec(stdout)![1]! };
}

const AHEAD = /The log in \S+ \((\d+) entries\) is ahead of this state \((\d+) entries\)/;

describe("A19 an older state beside an archive that went on", () => {
  test("restore, status, check and every answer from the state say so; the newest state ends it", async () => {
    const { said, newest } = await restoredOld();
    expect(said).toMatch(/ {2}- evidence \(archive\): The log in/);
    const [, inStore, inState] = AHEAD.exec(said)!;
    expect(Number(inStore)).toBeGreaterThan(Number(inState));
    const answers = [
      ["archive", "hold", "list"],
      ["archive", "hold", "add", "Case 19"],
      ...(duckdb === undefined
        ? []
        : [
            ["search", "--count"],
            ["search", "--output", "raw"],
            ["sql", "SELECT count(*) FROM events"],
            ["archive", "rebuild-index"],
          ]),
    ];
    for (const args of answers) {
      const { code, stdout, stderr } = await tidemark(...args);
      expect({ args, code, stdout }).toEqual({ args, code: 1, stdout: "" });
      expect(stderr, args.join(" ")).toMatch(AHEAD);
      expect(stderr, args.join(" ")).toContain("Choose one: restore the newest state file;");
      expect(stderr).not.toContain("damaged");
    }
    const status = (await tidemark("status")).stdout;
    expect(status).toMatch(AHEAD);
    expect(status).toContain("evidence is stopped.");
    expect(status).not.toContain("up to date");
    expect((await tidemark("check", "--online")).stdout).toMatch(AHEAD);

    expect((await tidemark("restore", newest)).stdout).not.toMatch(AHEAD);
    expect((await tidemark("archive", "hold", "list")).stdout).toContain("Case 18");
    expect((await tidemark("status")).stdout).not.toMatch(AHEAD);
    expect((await tidemark("check", "--online")).stdout).not.toMatch(AHEAD);
    if (duckdb !== undefined) expect((await tidemark("search", "--count")).code).toBe(0);
    expect((await tidemark("run", "--once")).code).toBe(0);
  });

  test("a new archive goes on without the newest state: nothing is missing in the two, and the journal is freed", async () => {
    const { erased } = await restoredOld();
    await configure("second");
    const refused = await tidemark("run", "--once");
    expect(refused.stderr).toContain('"tidemark sinks forget evidence"');
    const renamed = await tidemark("sinks", "rename", "evidence", "second");
    expect(renamed.stderr).toContain("is an archive");
    const forgotten = await tidemark("sinks", "forget", "evidence");
    expect(forgotten).toMatchObject({ code: 0, stdout: expect.stringContaining("cannot be continued") });
    expect((await tidemark("run", "--once")).code).toBe(0);
    const db = new Sqlite(world.at("state.db"), { readonly: true });
    expect(db.prepare("SELECT DISTINCT archive FROM archive_open").pluck().all()).toEqual(["second"]);
    expect(db.prepare("SELECT name FROM archives").pluck().all()).toEqual(["second"]);
    db.close();
    for (const name of ["evidence", "second"])
      expect((await world.run(["archive", "verify", "--store", world.at(name)])).code, name).toBe(0);
    expect(readFileSync(world.at("evidence/log/checkpoint"), "utf8")).toContain("example.com/evidence");
    if (duckdb === undefined) return;
    const held = new Set<string>();
    for (const args of [
      ["--config", world.at("tidemark.yaml")],
      ["--store", world.at("evidence")],
    ]) {
      const env = { XDG_CACHE_HOME: world.at("cache") };
      const { code, stdout } = await world.run(["search", "--output", "raw", ...args], { env });
      expect(code).toBe(0);
      for (const line of stdout.split("\n")) held.add(line);
    }
    const wanted = world.served().filter((text) => !text.includes(erased));
    expect(wanted.length).toBeGreaterThan(300);
    expect(wanted.filter((text) => !held.has(text))).toEqual([]);
  });
});

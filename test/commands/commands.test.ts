// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createProgram } from "../../src/commands/index.ts";
import { parseConfig } from "../../src/config/load.ts";
import { systemClock } from "../../src/core/clock.ts";
import { openState } from "../../src/journal/database.ts";
import { createJournal } from "../../src/journal/journal.ts";
import { openTap } from "../../src/journal/tap.ts";
import { temporaryFolder } from "../journal/support.ts";
import { readEvents } from "../support/pages.ts";
import { openWorld, runMain, type World } from "../support/world.ts";

describe("usage", () => {
  test.each([
    [[], 2],
    [["--help"], 0],
    [["--version"], 0],
    [["run", "--help"], 0],
    [["nonsense"], 2],
    [["run", "--nonsense"], 2],
    [["tap", "--count", "many"], 2],
    [["tap", "--from", "yesterday"], 2],
    [["dead-letters", "list", "--limit", "x"], 2],
    [["dead-letters", "show", "x"], 2],
    [["dead-letters", "replay", "x"], 2],
    [["backfill"], 2],
    [["backfill", "--since", "sometime"], 2],
    [["run", "--config", "/nowhere/tidemark.yaml"], 2],
  ])("%j ends with %i and says why", async (args, code) => {
    const outcome = await runMain(args);
    expect(outcome.code).toBe(code);
    expect((code === 0 ? outcome.stdout : outcome.stderr).length).toBeGreaterThan(0);
    expect(outcome.stderr).not.toMatch(/^\s+at /m);
  });

  test("every command has help with a description, and an example wherever it does something", async () => {
    const io = { stdout: process.stdout, stderr: process.stderr, stdin: process.stdin, env: {} };
    const program = await createProgram({
      ...io,
      signal: new AbortController().signal,
      interactive: false,
      setExitCode() {},
    });
    const paths: string[][] = [];
    const walk = (command: typeof program, path: string[]): void => {
      if (command.commands.length === 0) paths.push(path);
      for (const sub of command.commands) walk(sub as typeof program, [...path, sub.name()]);
    };
    walk(program, []);
    expect(paths.length).toBeGreaterThan(20);
    for (const path of paths) {
      const { code, stdout } = await runMain([...path, "--help"]);
      expect([path, code]).toEqual([path, 0]);
      expect(stdout, path.join(" ")).toMatch(/\n {2}\$ (sudo )?tidemark \S+/);
      expect(stdout).toMatch(new RegExp(`^Usage: tidemark ${path.join(" ")}`));
    }
  });
});

describe("init", () => {
  let folder: ReturnType<typeof temporaryFolder>;
  beforeAll(() => {
    folder = temporaryFolder();
  });
  afterAll(() => folder.remove());

  test("writes a config that is valid, readable by its owner alone, and never over another", async () => {
    const file = `${folder.path}/a.yaml`;
    const args = ["init", "--yes", "--output", file];
    const first = await runMain(args);
    expect([first.code, first.stdout]).toEqual([0, expect.stringContaining("tidemark check --online")]);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(parseConfig(readFileSync(file, "utf8"), file).accounts[0]).toMatchObject({
      name: "main",
      region: "us",
    });
    const [, reference] = /^# yaml-language-server: \$schema=(.+)\n/.exec(readFileSync(file, "utf8"))!;
    expect(JSON.parse(readFileSync(`${folder.path}/${reference}`, "utf8"))).toHaveProperty("$schema");
    writeFileSync(file, "kept");
    const second = await runMain(args);
    expect([second.code, second.stderr]).toEqual([2, expect.stringContaining("--force")]);
    expect(readFileSync(file, "utf8")).toBe("kept");
    expect((await runMain([...args, "--force"])).code).toBe(0);
    expect(readFileSync(file, "utf8")).not.toBe("kept");
  });

  test("asks, asks again where the answer does not do, and writes what was answered", async () => {
    const file = `${folder.path}/b.yaml`;
    const input = 'acme\nmars\neu\nMY_KEY\n5f0c5f0c5f0c,6a1b6a1b6a1b\n30d\n/data/a b: "c"\n';
    const { code, stdout } = await runMain(["init", "--output", file], {}, { input });
    expect([code, stdout]).toEqual([0, expect.stringContaining("Please give us, eu or in.")]);
    const config = parseConfig(readFileSync(file, "utf8"), file);
    expect(config.accounts[0]).toMatchObject({
      name: "acme",
      region: "eu",
      organizations: ["5f0c5f0c5f0c", "6a1b6a1b6a1b"],
      since: 30 * 86_400_000,
    });
    expect(config.accounts[0]!.apiKey!.source).toEqual({ env: "MY_KEY" });
    expect(config.sinks[0]).toMatchObject({ directory: '/data/a b: "c"' });
  });

  test("writes nothing when the answers end too early", async () => {
    const file = `${folder.path}/c.yaml`;
    const { code, stderr } = await runMain(["init", "--output", file], {}, { input: "acme\nus\n" });
    expect([code, stderr]).toEqual([2, expect.stringContaining("nothing was written")]);
    expect(existsSync(file)).toBe(false);
  });
});

test("docs writes both files, and --check tells when they are old or missing", async () => {
  const folder = temporaryFolder();
  const run = (...more: string[]) => runMain(["docs", "--directory", folder.path, ...more]);
  expect(await run("--check")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("REFERENCE.md is not current"),
  });
  expect((await run()).code).toBe(0);
  expect((await run("--check")).code).toBe(0);
  writeFileSync(`${folder.path}/schema.json`, "{}");
  expect(await run("--check")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("schema.json is not current"),
  });
  folder.remove();
});

describe("on a state", () => {
  let world: World;
  beforeAll(async () => {
    world = await openWorld({ events: 300 });
  });
  afterAll(() => world.close());
  afterEach(() => world.simulator.control.faults.clear());

  const ids = (lines: readonly string[]) =>
    lines.map((line) => (JSON.parse(line) as { id: string }).id).toSorted();
  const served = () => world.served();

  test("run --once delivers everything exactly once, byte for byte, and again nothing", async () => {
    const config = world.configure();
    for (let round = 0; round < 2; round++) {
      const outcome = await world.run(["run", "--once", "-c", config]);
      expect(outcome).toMatchObject({ code: 0, stderr: "" });
      expect(world.lines().toSorted()).toEqual(served().toSorted());
    }
  });

  test("tap shows what the journal holds, chosen and formatted, and ends when told to", async () => {
    const config = world.configure({
      state: world.at("tap.db"),
      sinks: ["{ name: dead, type: syslog, host: 127.0.0.1, port: 1, transport: tcp }"],
    });
    const stop = new AbortController();
    const running = world.run(["run", "-c", config], { signal: stop.signal });
    try {
      await until(() => existsSync(world.at("tap.db")));
      const all = await world.run([
        "tap",
        "-c",
        config,
        "--from",
        "beginning",
        "--count",
        String(served().length),
      ]);
      expect(all.code).toBe(0);
      expect(ids(all.stdout.trim().split("\n"))).toEqual(ids(served()));
      const { service, organization } = JSON.parse(served()[0]!) as { service: string; organization: string };
      const chosen = served().filter((line) => {
        const event = JSON.parse(line) as { service: string; organization: string };
        return event.service === service && event.organization === organization;
      });
      const some = await world.run([
        ...["tap", "-c", config, "--from", "beginning", "-n", String(chosen.length)],
        ...["--service", service, "--organization", organization.toUpperCase(), "--format", "envelope"],
      ]);
      const events = some.stdout
        .trim()
        .split("\n")
        .map((line) => (JSON.parse(line) as { event: { id: string } }).event);
      expect(events.map(({ id }) => id).toSorted()).toEqual(ids(chosen));
      expect(await world.run(["tap", "-c", config, "--format", "xml"])).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("use one of raw"),
      });
      const tapping = new AbortController();
      const endless = world.run(["tap", "-c", config], { signal: tapping.signal });
      tapping.abort(new Error("stopped"));
      expect(await endless).toEqual({ code: 0, stdout: "", stderr: "" });
    } finally {
      stop.abort(new Error("stopped"));
      expect((await running).code).toBe(0);
    }
  });

  test("tap goes on behind what was trimmed, and says how much that was", async () => {
    const state = world.at("trimmed.db");
    const config = world.configure({ state, sinks: ["{ name: screen, type: console }"] });
    const before = openState(state);
    // A run that takes long trims what was delivered. This reader keeps all of it.
    await createJournal(before, systemClock).reader("~keeper");
    before.close();
    await world.run(["run", "--once", "-c", config]);
    const db = openState(state);
    db.exec("DELETE FROM bodies WHERE page < (SELECT MAX(page) FROM bodies)");
    const last = db.prepare("SELECT events FROM pages ORDER BY number DESC LIMIT 1").pluck().get() as number;
    db.close();
    const outcome = await world.run(["tap", "-c", config, "--from", "beginning", "-n", String(last)]);
    expect(outcome.code).toBe(0);
    expect(outcome.stdout.trim().split("\n")).toHaveLength(last);
  });

  test("tap tells once what was trimmed, also where no event follows", async () => {
    const state = world.at("trimmed-all.db");
    const config = world.configure({ state, sinks: ["{ name: screen, type: console }"] });
    await world.run(["run", "--once", "-c", config]);
    const db = openState(state);
    db.exec("DELETE FROM bodies");
    const tap = openTap(db);
    const first = db.prepare("SELECT MIN(number) FROM pages").pluck().get() as number;
    const { page, at, trimmed } = tap.next({ ...tap.end(), page: first, event: 0 });
    expect(page).toBeNull();
    expect(trimmed).toBe(db.prepare("SELECT SUM(events) FROM pages").pluck().get());
    expect(tap.next(at)).toMatchObject({ page: null, trimmed: 0 });
    db.close();
  });

  test("R14 a sink that is gone from the config is an error until it is renamed or forgotten", async () => {
    const sink = (name: string, more = "") =>
      `{ name: ${name}, type: file, directory: ${world.at(`r14-${name}`)}${more} }`;
    const state = world.at("r14.db");
    await world.run(["run", "--once", "-c", world.configure({ state, sinks: [sink("a")] })]);
    const gone = world.configure({ state, sinks: [sink("b", ", start: now")] });
    const refused = await world.run(["run", "--once", "-c", gone]);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('the sink "a" has a position and is not in the config');
    expect(refused.stderr).toContain("tidemark sinks rename a NEW");
    expect(await world.run(["sinks", "rename", "nobody", "b", "-c", gone])).toMatchObject({ code: 2 });
    expect(await world.run(["sinks", "forget", "b", "-c", gone])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("is still in the config"),
    });
    expect(await world.run(["sinks", "forget", "a", "-c", gone])).toMatchObject({ code: 0 });
    expect(await world.run(["run", "--once", "-c", gone])).toMatchObject({ code: 0, stderr: "" });
    expect(world.lines(world.at("r14-b"))).toEqual([]);
  });

  test("R14 the position of an archive in the config is not forgotten", async () => {
    const key = world.at("r14.key");
    await world.run(["archive", "keys", "new", key, "--origin", "example.com/r14"]);
    const store = `store: { directory: ${world.at("r14-archive")} }`;
    const archive = `{ name: evidence, type: archive, origin: example.com/r14, key: { file: ${key} }, ${store} }`;
    const config = world.configure({ state: world.at("r14-archive.db"), sinks: [archive] });
    await world.run(["run", "--once", "-c", config]);
    expect(await world.run(["sinks", "forget", "evidence", "-c", config])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("is still in the config"),
    });
  });

  test("R14 a renamed sink goes on where it was, with nothing twice", async () => {
    const state = world.at("renamed.db");
    const directory = world.at("renamed");
    const config = (name: string) =>
      world.configure({ state, sinks: [`{ name: ${name}, type: file, directory: ${directory} }`] });
    await world.run(["run", "--once", "-c", config("old")]);
    const renamed = config("new");
    expect(await world.run(["sinks", "rename", "old", "new", "-c", renamed])).toMatchObject({ code: 0 });
    expect(await world.run(["run", "--once", "-c", renamed])).toMatchObject({ code: 0, stderr: "" });
    expect(world.lines(directory).toSorted()).toEqual(served().toSorted());
  });

  test("R14 where a new sink starts must be stated when the journal is not empty: beginning, now or a time", async () => {
    const state = world.at("new.db");
    const sink = (name: string, more = "") =>
      `{ name: ${name}, type: file, directory: ${world.at(`new-${name}`)}${more} }`;
    await world.run(["run", "--once", "-c", world.configure({ state, sinks: [sink("first")] })]);
    const unstated = await world.run([
      "run",
      "--once",
      "-c",
      world.configure({ state, sinks: [sink("first"), sink("second")] }),
    ]);
    expect([unstated.code, unstated.stderr]).toEqual([
      2,
      expect.stringContaining("add start: beginning, start: now or start: TIME"),
    ]);
    const times = served()
      .map((line) => (JSON.parse(line) as { timestamp: string }).timestamp)
      .toSorted();
    const middle = `${times[Math.floor(times.length / 2)]!.slice(0, 19)}Z`;
    const sinks = [
      sink("first"),
      sink("all", ", start: beginning"),
      sink("none", ", start: now"),
      sink("half", `, start: '${middle}'`),
    ];
    expect(await world.run(["run", "--once", "-c", world.configure({ state, sinks })])).toMatchObject({
      code: 0,
      stderr: "",
    });
    expect(world.lines(world.at("new-none"))).toEqual([]);
    const half = served().filter(
      (line) => (JSON.parse(line) as { timestamp: string }).timestamp >= middle.replace("Z", ""),
    );
    expect(world.lines(world.at("new-half")).toSorted()).toEqual(half.toSorted());
    expect(world.lines(world.at("new-all")).toSorted()).toEqual(served().toSorted());
  });

  test("R21 backfill --sink reads again for that sink alone, whatever is held", async () => {
    const state = world.at("backfill.db");
    const sinks = ["one", "two"].map(
      (name) => `{ name: ${name}, type: file, directory: ${world.at(`backfill-${name}`)} }`,
    );
    const config = world.configure({ state, sinks });
    await world.run(["run", "--once", "-c", config]);
    const organization = world.simulator.organizations[0]!.id;
    const args = ["backfill", "-c", config, "--since", "40d", "--organization", organization.toUpperCase()];
    expect(await world.run([...args, "--sink", "three"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("It has: one, two."),
    });
    const done = await world.run([...args, "--sink", "one"]);
    expect(done).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^\d+ windows? (is|are) to be read/),
    });
    const again = served().filter(
      (line) => (JSON.parse(line) as { organization: string }).organization === organization,
    );
    expect(again.length).toBeGreaterThan(10);
    expect(world.lines(world.at("backfill-one")).toSorted()).toEqual([...served(), ...again].toSorted());
    expect(world.lines(world.at("backfill-two")).toSorted()).toEqual(served().toSorted());
    expect(await world.run(["run", "--once", "-c", config])).toMatchObject({ code: 0 });
    expect(world.lines(world.at("backfill-one"))).toHaveLength(served().length + again.length);
  });

  test("R20 a Kafka sink is renamed only with the id under which Kafka holds its position", async () => {
    const config = world.configure({
      state: world.at("renamed.db"),
      sinks: ["{ name: lake2, type: kafka, brokers: ['127.0.0.1:1'], topic: events }"],
    });
    expect(await world.run(["sinks", "rename", "lake", "lake2", "-c", config])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        'Add "transactionalId: tidemark-lake", or the one it had, to the sink "lake2"',
      ),
    });
  });

  test("dead letters are listed, shown byte for byte, replayed and dropped", async () => {
    const state = world.at("letters.db");
    const config = world.configure({
      state,
      sinks: [`{ name: disk, type: file, directory: ${world.at("letters")} }`],
    });
    expect(await world.run(["dead-letters", "list", "-c", config])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("There is no state file"),
    });
    await world.run(["run", "--once", "-c", config]);
    expect((await world.run(["dead-letters", "list", "-c", config])).stdout).toBe(
      "There are no dead letters.\n",
    );
    const db = openState(state);
    const journal = createJournal(db, systemClock);
    const reader = await journal.reader("disk");
    const events = (await readEvents(reader, { journal: journal.id, page: 0, event: 0, hash: "" })).slice(
      0,
      3,
    );
    await reader.addDeadLetters(events.map((event, at) => ({ event, reason: `mapping ${at}` })));
    const bytes = Buffer.from(events[1]!.bytes).toString();
    db.close();
    const list = await world.run(["dead-letters", "list", "-c", config, "--json", "--limit", "2"]);
    expect(
      list.stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as object),
    ).toMatchObject([
      { id: 1, sink: "disk", reason: "mapping 0" },
      { id: 2, reason: "mapping 1" },
    ]);
    expect((await world.run(["dead-letters", "list", "-c", config, "--reason", "mapping 2"])).stdout).toMatch(
      /^3\tdisk\t.*\tmapping 2\n$/,
    );
    expect((await world.run(["dead-letters", "show", "2", "-c", config])).stdout).toBe(`${bytes}\n`);
    expect(await world.run(["dead-letters", "show", "9", "-c", config])).toMatchObject({ code: 2 });
    expect(await world.run(["dead-letters", "replay", "-c", config])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--all"),
    });
    for (const named of [["99"], ["--sink", "dsik"], ["--group", "00000000"]])
      for (const kind of ["drop", "replay"])
        expect(await world.run(["dead-letters", kind, ...named, "-c", config])).toMatchObject({
          code: 2,
          stderr: expect.stringContaining("No dead letter matches"),
        });
    expect(await world.run(["dead-letters", "drop", "1", "-c", config])).toMatchObject({
      code: 0,
      stdout: "1 dead letter was deleted.\n",
    });
    expect(await world.run(["dead-letters", "replay", "2", "-c", config])).toMatchObject({
      code: 0,
      stdout: "1 dead letter was returned to its sink.\n",
    });
    const held = openState(state);
    const place = held.prepare("SELECT page, event FROM readers WHERE name = 'disk'").get();
    const moveTo = held.prepare("UPDATE readers SET page = @page, event = @event WHERE name = 'disk'");
    moveTo.run({ page: 1, event: 0 });
    expect(await world.run(["dead-letters", "drop", "3", "-c", config])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("1 must wait: its batch is not delivered yet"),
    });
    moveTo.run(place);
    held.close();
    await world.run(["run", "--once", "-c", config]);
    const lines = world.lines(world.at("letters"));
    expect(lines.filter((line) => line === bytes)).toHaveLength(2);
    expect(lines).toHaveLength(served().length + 1);
  });

  test("someone on call can look without any secret, and start nothing", async () => {
    const config = world.configure({
      state: world.at("on-call.db"),
      sinks: [`{ name: call, type: file, directory: ${world.at("call")} }`],
    });
    expect((await world.run(["run", "--once", "-c", config])).code).toBe(0);
    for (const words of [
      ...[
        ["status"],
        ["coverage"],
        ["drift"],
        ["dead-letters", "list"],
        ["backup", world.at("on-call-copy.db")],
      ],
      ["tap", "--from", "beginning", "-n", "1"],
    ]) {
      const { code, stderr } = await runMain([...words, "-c", config]);
      expect([words[0], code, stderr]).toEqual([words[0], 0, expect.not.stringContaining("is not set")]);
    }
    const run = await runMain(["run", "--once", "-c", config]);
    expect([run.code, run.stderr]).toEqual([
      2,
      expect.stringContaining("environment variable KEY is not set"),
    ]);
  });

  test("drift prints rows, as JSON when asked", async () => {
    const config = world.configure();
    const outcome = await world.run(["drift", "-c", config, "--json"]);
    expect(outcome.code).toBe(0);
    for (const line of outcome.stdout.split("\n").filter(Boolean))
      expect(JSON.parse(line)).toMatchObject({ service: expect.any(String), count: expect.any(Number) });
  });

  test("a state whose folder is missing, that is damaged, or of a newer program is refused with 2, and kept", async () => {
    const nowhere = await world.run([
      "run",
      "--once",
      "-c",
      world.configure({ state: world.at("no/state.db") }),
    ]);
    expect([nowhere.code, nowhere.stderr]).toEqual([
      2,
      expect.stringContaining("check that its folder exists"),
    ]);
    const damaged = world.at("damaged.db");
    writeFileSync(damaged, "no database at all, no database at all".repeat(1000));
    const before = readFileSync(damaged);
    const config = world.configure({ state: damaged });
    for (const args of [["run", "--once"], ["tap"], ["dead-letters", "list"], ["drift"]]) {
      const outcome = await world.run([...args, "-c", config]);
      expect([outcome.code, outcome.stderr], args.join(" ")).toEqual([
        2,
        expect.stringContaining("is damaged"),
      ]);
    }
    expect(readFileSync(damaged).equals(before)).toBe(true);
  });

  async function until(condition: () => boolean): Promise<void> {
    for (let turn = 0; turn < 500 && !condition(); turn++)
      await new Promise((resolve) => setTimeout(resolve, 20));
    expect(condition()).toBe(true);
  }
});

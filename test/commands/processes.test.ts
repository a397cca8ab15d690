import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openWorld, type World } from "../support/world.ts";

const DEAD = "{ name: dead, type: syslog, host: 127.0.0.1, port: 1, transport: tcp }";

describe("the program as real processes", () => {
  let world: World;
  const children = new Set<ChildProcess>();

  beforeEach(async () => {
    world = await openWorld({ events: 400 });
  });
  afterEach(async () => {
    for (const child of children) {
      child.kill("SIGKILL");
      await once(child, "exit");
    }
    await world.close();
  });

  function start(args: readonly string[], env: Record<string, string> = {}) {
    const child = spawn(process.execPath, ["dist/src/main.js", ...args], {
      env: { PATH: process.env.PATH!, KEY: world.simulator.apiKey, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    children.add(child);
    const result = { stdout: "", stderr: "" };
    child.stdout.on("data", (chunk: Buffer) => {
      result.stdout += chunk.toString();
    });
    child.stderr.on("data", (chunk: Buffer) => {
      result.stderr += chunk.toString();
    });
    const ended = (async () => {
      const [code, signal] = (await once(child, "close")) as [number | null, string | null];
      children.delete(child);
      return { ...result, code, signal };
    })();
    return { child, ended, result };
  }

  const served = () => world.served();

  async function until(condition: () => boolean, what: string): Promise<void> {
    for (const deadline = Date.now() + 400_000; !condition(); await sleep(50))
      if (Date.now() > deadline) throw new Error(`It never came to this: ${what}`);
  }

  test("a reader that takes its time gets all of the output", async () => {
    const event = { id: "", service: "sso", event_type: "sso_auth", timestamp: "2026-11-01T00:00:00.000Z" };
    const lines = Array.from({ length: 110 }, (_, at) =>
      JSON.stringify({ ...event, id: `e${at}`, note: "x".repeat(500) }),
    );
    const file = world.at("events.jsonl");
    writeFileSync(file, `${lines.join("\n")}\n`);
    // A pipe holds 64 KiB; the rest is still in the program when it has nothing more to do.
    const command = `"${process.execPath}" dist/src/main.js convert --format raw < "${file}" | (sleep 3; cat)`;
    const child = spawn("sh", ["-c", command], { stdio: ["ignore", "pipe", "inherit"] });
    let read = "";
    child.stdout.on("data", (chunk: Buffer) => {
      read += chunk.toString();
    });
    await once(child, "close");
    expect(read.trimEnd().split("\n")).toEqual(lines);
  });

  test("R15 a second run on the same state is refused clearly with 2; reading and changing commands work beside the first", async () => {
    const config = world.configure({
      sinks: [`{ name: disk, type: file, directory: ${world.at("events")} }`, DEAD],
    });
    const first = start(["run", "-c", config]);
    await until(() => world.lines().length === served().length, "everything is delivered");

    const second = await start(["run", "-c", config]).ended;
    expect(second.code).toBe(2);
    expect(second.stderr).toContain(`Another Tidemark works with ${world.at("state.db")}`);
    expect(second.stderr.trim().split("\n")).toHaveLength(1);

    const status = await start(["status", "--json", "-c", config]).ended;
    expect([status.code, status.stderr]).toEqual([0, ""]);
    expect(JSON.stringify(JSON.parse(status.stdout))).toContain('"disk"');
    const tap = await start(["tap", "--from", "beginning", "-n", "5", "-c", config]).ended;
    expect([tap.code, tap.stdout.trim().split("\n").length]).toEqual([0, 5]);
    expect((await start(["dead-letters", "list", "-c", config]).ended).stdout).toBe(
      "There are no dead letters.\n",
    );

    const drop = await start(["dead-letters", "drop", "--all", "-c", config]).ended;
    expect([drop.code, drop.stdout]).toEqual([0, "0 dead letters were deleted.\n"]);
    const resume = await start(["sinks", "resume", "nobody", "--from", "now", "-c", config]).ended;
    expect([resume.code, resume.stderr]).toEqual([2, expect.stringContaining('There is no sink "nobody"')]);
    const backfill = await start(["backfill", "--since", "10d", "--sink", "disk", "-c", config]).ended;
    expect([backfill.code, backfill.stdout]).toEqual([
      0,
      expect.stringMatching(/^\d+ windows? (is|are) to be read/),
    ]);
    const tenDaysAgo = Date.now() - 10 * 86_400_000;
    const again = served().filter(
      (line) => Date.parse((JSON.parse(line) as { timestamp: string }).timestamp) >= tenDaysAgo,
    );
    await until(() => world.lines().length === served().length + again.length, "the backfill is delivered");

    expect(first.child.exitCode).toBeNull();
    first.child.kill("SIGTERM");
    expect((await first.ended).code).toBe(0);
    const third = await start(["run", "--once", "-c", world.configure()]).ended;
    expect(third.stderr).toContain('the sink "dead"');
  });

  test("R15 the lock is free after kill -9, and what was under way goes on exactly once", async () => {
    const config = world.configure({ more: ["journal: { budget: 1GB }"] });
    for (let round = 0; round < 3; round++) {
      const { child, ended } = start(["run", "-c", config]);
      await until(() => existsSync(world.at("state.db-wal")), "it has opened its state");
      await sleep(Math.random() * 500);
      child.kill("SIGKILL");
      expect((await ended).signal).toBe("SIGKILL");
    }
    const last = await start(["run", "--once", "-c", config]).ended;
    expect([last.code, last.stderr]).toEqual([0, ""]);
    expect(world.lines().toSorted()).toEqual(served().toSorted());
  });

  test("SIGTERM ends a run with 0 at any moment, and loses nothing", async () => {
    const config = world.configure();
    for (let round = 0; round < 3; round++) {
      const { child, ended } = start(["run", "-c", config]);
      await until(() => existsSync(world.at("state.db.lock")), "it has begun");
      await sleep(Math.random() * 600);
      child.kill("SIGTERM");
      const { code, signal, stderr } = await ended;
      // Before its handlers stand the signal ends it as any other program.
      expect([code === 0 || signal === "SIGTERM", stderr]).toEqual([true, ""]);
    }
    expect((await start(["run", "--once", "-c", config]).ended).code).toBe(0);
    expect(world.lines().toSorted()).toEqual(served().toSorted());
  });

  test("run --once against a wrong key fails with 1 in words, and goes on when the key is right", async () => {
    const config = world.configure();
    const wrong = await start(["run", "--once", "-c", config], { KEY: "hunter2hunter2" }).ended;
    expect(wrong.code).toBe(1);
    expect(wrong.stderr).toMatch(/key|refused|unauthorized/i);
    expect(wrong.stderr).not.toContain("hunter2");
    const right = await start(["run", "--once", "-c", config]).ended;
    expect(right.code).toBe(0);
    expect(world.lines().toSorted()).toEqual(served().toSorted());
  });

  test("R39 a sink that is down does not hold up the others, and --once waits for it until it is stopped", async () => {
    const config = world.configure({
      sinks: [DEAD, `{ name: disk, type: file, directory: ${world.at("events")} }`],
    });
    const { child, ended } = start(["run", "--once", "-c", config]);
    await until(() => world.lines().length === served().length, "the other sink has everything");
    expect(child.exitCode).toBeNull();
    child.kill("SIGTERM");
    const { code, stdout } = await ended;
    expect([code, stdout]).toEqual([1, expect.stringContaining("dead lacks")]);
  });

  test("R40 status says that nothing is running as soon as the process is gone, by kill -9 too", async () => {
    const config = world.configure();
    const { child, ended } = start(["run", "-c", config]);
    const status = async () => (await start(["status", "-c", config]).ended).stdout;
    await until(() => world.lines().length === served().length, "everything is delivered");
    for (const deadline = Date.now() + 400_000; !(await status()).includes(", up "); )
      if (Date.now() > deadline) throw new Error("The process never reported itself.");
    child.kill("SIGKILL");
    await ended;
    expect(await status()).toContain("Tidemark is not running.");
  });

  test("the log says when it starts, when it stops and why, and no line has a key twice", async () => {
    const config = world.configure({
      sinks: [`{ name: disk, type: file, directory: ${world.at("events")} }`, DEAD],
    });
    writeFileSync(config, readFileSync(config, "utf8").replace("level: warn", "level: debug"));
    const { child, ended, result } = start(["run", "-c", config]);
    await until(() => result.stderr.includes("Tidemark has started."), "it has started");
    await until(() => world.lines().length === served().length, "everything is delivered");
    child.kill("SIGTERM");
    await ended;
    const lines = result.stderr.trimEnd().split("\n");
    const stops = lines.find((line) => line.includes("Tidemark stops."));
    expect(stops).toContain('"reason":"stopped by SIGTERM"');
    expect(lines.length).toBeGreaterThan(2);
    // Parsing keeps the last of equal keys, so a line with two of them becomes shorter.
    for (const line of lines) expect(JSON.stringify(JSON.parse(line))).toBe(line);
    for (const line of lines) expect(line).not.toMatch(/failed\.:/);
  });

  test("a low limit of open files is named with the remedy", async () => {
    const config = world.configure();
    const program = `ulimit -n 40; exec "${process.execPath}" dist/src/main.js run --once -c "${config}"`;
    const child = spawn("bash", ["-c", program], { env: { ...process.env, KEY: world.simulator.apiKey } });
    children.add(child);
    let stderr = "";
    child.stderr.on("data", (chunk: Buffer) => {
      stderr += chunk.toString();
    });
    const [code] = (await once(child, "close")) as [number];
    children.delete(child);
    expect([code, stderr]).toEqual([1, expect.stringContaining("Raise it with `ulimit -n 1024`")]);
  });

  test.each(["000", "077"])(
    "umask %s: state, lock, log and output are for the owner, or the group at most",
    async (umask) => {
      const config = world.configure();
      const program = `umask ${umask}; exec "${process.execPath}" dist/src/main.js run --once -c "${config}"`;
      const env = { ...process.env, KEY: world.simulator.apiKey };
      const modes = new Map<string, number>();
      const look = () => {
        for (const entry of readdirSync(world.at("."), { recursive: true, withFileTypes: true })) {
          const path = join(entry.parentPath, entry.name);
          const isOurs = entry.isFile() && (/state\.db/.test(entry.name) || path.includes("/events/"));
          const { mode } = statSync(path, { throwIfNoEntry: false }) ?? {};
          if (isOurs && mode !== undefined) modes.set(entry.name, mode & 0o777);
        }
      };
      const child = spawn("bash", ["-c", program], { env, stdio: "ignore" });
      children.add(child);
      const timer = setInterval(look, 20);
      const [code] = (await once(child, "close")) as [number];
      clearInterval(timer);
      children.delete(child);
      look();
      expect(code).toBe(0);
      expect([...modes.keys()]).toEqual(expect.arrayContaining(["state.db", "state.db.lock"]));
      expect([...modes.keys()].some((name) => name.endsWith(".jsonl"))).toBe(true);
      for (const [name, mode] of modes) expect([0o600, 0o640], `${name} ${mode.toString(8)}`).toContain(mode);
    },
  );

  test("run --once shows a bar with rate and remaining time on a terminal, then the report", async () => {
    world.simulator.control.faults.set([{ kind: "latency", ms: 700 }]);
    const config = world.configure();
    const program = `"${process.execPath}" dist/src/main.js run --once -c "${config}"`;
    const child = spawn("script", ["-qefc", program, "/dev/null"], {
      env: { ...process.env, KEY: world.simulator.apiKey, TERM: "xterm" },
      stdio: ["ignore", "pipe", "inherit"],
    });
    children.add(child);
    let shown = "";
    child.stdout.on("data", (chunk: Buffer) => {
      shown += chunk.toString();
    });
    const [code] = (await once(child, "close")) as [number];
    children.delete(child);
    world.simulator.control.faults.clear();
    expect(code).toBe(0);
    expect(shown).toMatch(/\r\x1b\[K\[[#-]{30}\] \d+% read, \d+ events, \d+ a second/);
    // Some of the 400 events may be the provider's own, which this account does not read.
    expect(shown).toMatch(new RegExp(`\\r\\x1b\\[KDone in .* Read ${served().length} new events\\.`));
    expect(shown).toContain("Nothing is missing.");
  });
});

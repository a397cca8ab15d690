// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { mkdirSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openWorld, type World } from "../support/world.ts";

describe("a sink whose settings were changed under its name", () => {
  let world: World;
  beforeEach(async () => {
    world = await openWorld({ organizations: 1, events: 60 });
  });
  afterEach(() => world.close());

  const onDisk = (name = "events") => [`{ name: one, type: file, directory: ${world.at(name)} }`];

  function serveMore(count: number): void {
    const [organization] = world.simulator.organizations;
    const at = Date.now() - 60_000;
    const events = Array.from({ length: count }, (_, number) => ({
      event_type: "user_create",
      timestamp: new Date(at + number).toISOString(),
    }));
    world.simulator.control.append(organization!.id, events);
  }

  async function runOnce(sinks: readonly string[]) {
    return world.run(["run", "--once", "-c", world.configure({ sinks })]);
  }

  test("R20 another type for a while: its first directory is behind, which is named, and a person decides", async () => {
    for (const more of [1, 1]) {
      expect((await runOnce(onDisk())).code).toBe(0);
      serveMore(more);
    }
    expect((await runOnce(onDisk())).code).toBe(0);
    serveMore(10);
    expect((await runOnce(["{ name: one, type: console }"])).code).toBe(0);
    serveMore(10);
    const { code, stdout } = await runOnce(onDisk());
    expect(code).toBe(1);
    expect(stdout).toContain("is behind the state");
    expect(stdout).toContain("backfill --sink one");
    expect(world.lines()).toHaveLength(62);
    const resume = ["sinks", "resume", "one", "--from", "state", "-c", world.at("tidemark.yaml")];
    expect((await world.run(resume)).code).toBe(0);
    expect((await runOnce(onDisk())).code).toBe(0);
    expect(new Set(world.lines()).size).toBe(72);
    expect(world.lines()).toHaveLength(72);
  });

  test("R14 beside a process with the former config, check, doctor and the commands say to stop it first", async () => {
    const sink = (name: string) => [`{ name: ${name}, type: file, directory: ${world.at("events")} }`];
    const stop = new AbortController();
    const former = world.configure({ sinks: sink("old"), file: world.at("former.yaml") });
    const running = world.run(["run", "-c", former], { signal: stop.signal });
    await expect.poll(() => world.lines().length, { timeout: 120_000 }).toBe(60);
    const config = world.configure({ sinks: sink("new") });
    const run = (...args: string[]) => world.run([...args, "-c", config]);
    const other = "was started with another config";
    for (const args of [["check"], ["sinks", "rename", "old", "new"], ["sinks", "forget", "old"]])
      expect(await run(...args)).toMatchObject({ code: 2, stderr: expect.stringContaining(other) });
    expect(await run("backfill", "--since", "2d", "--sink", "new")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('which does not have the sink "new"'),
    });
    const doctor = await run("doctor", "--offline", "--quick");
    expect(doctor.code).toBe(1);
    expect(doctor.stdout).toContain("FAILED  positions: The sinks of the config do not match");
    expect(doctor.stdout).toContain(other);
    // A refusal that is right for this config too keeps its words.
    expect((await run("sinks", "rename", "another", "new")).stderr).toContain("has no position for a sink");
    stop.abort(new Error("stopped"));
    await running;
    expect(await run("sinks", "rename", "old", "new")).toMatchObject({ code: 0 });
    const after = await run("doctor", "--offline", "--quick");
    expect(after.stdout).toContain("ok      positions: the sinks of the config match the state file");
    expect(after.code).toBe(0);
  });

  test.each(["empty", "absent"])(
    "R20 check --online and doctor name an %s directory in which the next run would stop",
    async (kind) => {
      expect((await runOnce(onDisk())).code).toBe(0);
      if (kind === "empty") mkdirSync(world.at("other"));
      const config = world.configure({ sinks: onDisk("other") });
      for (const command of [
        ["check", "--online"],
        ["doctor", "--quick"],
      ]) {
        const { code, stdout } = await world.run([...command, "-c", config]);
        expect(code).toBe(1);
        expect(stdout).toContain("is not the one that this sink has written to so far");
        expect(stdout).not.toContain("file is ready");
      }
    },
  );

  test("R40 check says what a restore may mean for a sink, until the sink has committed again", async () => {
    const config = world.configure({
      sinks: [`{ name: disk, type: file, directory: ${world.at("restored")} }`],
      state: world.at("restored.db"),
    });
    const run = async (...args: string[]) => {
      const outcome = await world.run([...args, "-c", config]);
      expect(outcome.code, outcome.stderr).toBe(0);
      return outcome.stdout;
    };
    await run("run", "--once");
    expect(await run("check", "--online")).not.toContain("restored from a copy");
    await run("backup", world.at("copy.db"));
    // One commit more, as after a crash: the directory alone cannot tell that the state is older.
    await run("backfill", "--since", "40d", "--sink", "disk");
    await run("restore", world.at("copy.db"));
    const note = "sink disk: The state was restored from a copy, and this sink has committed nothing since:";
    expect(await run("check", "--online")).toContain(note);
    const outcome = await world.run(["run", "--once", "-c", config]);
    expect(outcome).toMatchObject({ code: 1, stdout: expect.stringContaining("is stopped") });
  });
});

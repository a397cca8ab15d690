import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { skipUnless } from "../support/components.ts";
import { findPython, PYTHON_REMEDY } from "../support/tessera.ts";
import { openWorld, type World } from "../support/world.ts";

const python = await findPython();
const skipsPython = skipUnless("python", python, PYTHON_REMEDY);

let world: World;
afterEach(() => world.close());

async function archived(more = ""): Promise<string> {
  world = await openWorld();
  const made = await world.run([
    "archive",
    "keys",
    "new",
    world.at("archive.key"),
    "--origin",
    "example.com/evidence",
  ]);
  expect(made.code).toBe(0);
  world.configure({
    sinks: [
      `{ name: disk, type: file, directory: ${world.at("events")} }`,
      `{ name: evidence, type: archive, origin: example.com/evidence, key: { file: ${world.at("archive.key")} }, store: { directory: ${world.at("archive")} }, settle: 0s ${more} }`,
    ],
  });
  const ran = await world.run(["run", "--once", "--config", world.at("tidemark.yaml")]);
  expect(ran.stderr).toBe("");
  return made.stdout.trim();
}

describe("an archive of the simulated service", () => {
  test("holds every event of the closed days, and `archive verify` says so", async () => {
    const key = await archived();
    const verified = await world.run([
      "archive",
      "verify",
      "--config",
      world.at("tidemark.yaml"),
      "--key",
      key,
      "--json",
    ]);
    expect(verified.stderr).toBe("");
    const result = JSON.parse(verified.stdout);
    expect(result).toMatchObject({ isValid: true, findings: [], isPinned: true });
    // Yesterday's windows are compared once more a day after their end; all days before are closed.
    const today = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
    const before = world
      .served()
      .filter((text) => (JSON.parse(text).timestamp as string).slice(0, 10) < today);
    expect(result.events).toBe(before.length);
    expect(result.days.total).toBeGreaterThan(15);
    const text = await world.run(["archive", "verify", "--store", world.at("archive")]);
    expect(text.stdout).toMatch(/\d+\/\d+ days valid/);
    expect(text.stdout).toContain("Self-consistent only");
    const again = await world.run(["run", "--once", "--config", world.at("tidemark.yaml")]);
    expect(again.code).toBe(0);
    const second = await world.run([
      "archive",
      "verify",
      "--store",
      world.at("archive"),
      "--key",
      key,
      "--since",
      world.at("archive/log/checkpoint"),
      "--json",
    ]);
    expect(JSON.parse(second.stdout)).toMatchObject({ isValid: true, events: before.length });
  }, 120_000);

  test("proves an event, exports an organization, and reports, with commands alone", async () => {
    const key = await archived();
    const served = world
      .served()
      .toSorted((a, b) => (JSON.parse(a).timestamp < JSON.parse(b).timestamp ? -1 : 1));
    const event = served[10]!;
    const { id, organization, timestamp } = JSON.parse(event);
    const proof = await world.run([
      "archive",
      "prove",
      id,
      "--store",
      world.at("archive"),
      "--organization",
      organization,
      "--day",
      timestamp.slice(0, 10),
    ]);
    expect(proof.stderr).toBe("");
    writeFileSync(world.at("proof.json"), proof.stdout);
    const checked = await world.run(["archive", "verify-proof", world.at("proof.json"), "--key", key]);
    expect(checked).toMatchObject({ code: 0 });
    expect(checked.stdout).toContain(event);
    const exported = await world.run([
      "archive",
      "export",
      "--store",
      world.at("archive"),
      "--organization",
      organization,
      "--from",
      "2000-01-01",
      "--to",
      "2100-01-01",
      "--to-directory",
      world.at("case"),
    ]);
    expect(exported).toMatchObject({ code: 0 });
    const count = Number(/with (\d+) events/.exec(exported.stdout)![1]);
    expect(count).toBeGreaterThan(100);
    const report = await world.run(["archive", "report", "--store", world.at("archive"), "--key", key]);
    expect(report.code).toBe(0);
    expect(report.stdout).toContain('<p class="good">Valid</p>');
    for (const question of ["Is it whole?", "What is held?", "What is missing, and why?", "Who signed it?"])
      expect(report.stdout).toContain(question);
    const wrong = await world.run(["archive", "verify", "--store", world.folder]);
    expect(wrong).toMatchObject({ code: 2 });
    expect(wrong.stderr).toContain("holds no archive");
  }, 120_000);

  test.skipIf(skipsPython)(
    "the stranger's verifier accepts it",
    async () => {
      const key = await archived();
      const result = spawnSync(python!, [join(import.meta.dirname, "verify.py"), world.at("archive"), key], {
        encoding: "utf8",
      });
      expect(result.stderr + result.stdout).toContain("VALID:");
      expect(result.status).toBe(0);
    },
    120_000,
  );

  test("a key of another origin, or a place that holds another archive, is refused with what to do", async () => {
    await archived();
    const other = await world.run([
      "archive",
      "keys",
      "new",
      world.at("other.key"),
      "--origin",
      "example.com/evidence",
    ]);
    expect(other.code).toBe(0);
    const config = readFileSync(world.at("tidemark.yaml"), "utf8");
    writeFileSync(world.at("tidemark.yaml"), config.replace("archive.key", "other.key"));
    const ran = await world.run(["run", "--once", "--config", world.at("tidemark.yaml")]);
    expect(ran.stderr).toContain("archive_stopped");
    expect(ran.stderr).toContain("not the one that this archive was signed with");
    expect(ran.code).toBe(1);
  }, 120_000);

  test("holds, prunes and erases with commands, and says what it did", async () => {
    const key = await archived(", keep: 1d");
    const config = ["--config", world.at("tidemark.yaml")];
    const { id } = world.simulator.organizations[0]!;
    const other = world.simulator.organizations[1]!.id;
    const hold = await world.run(["archive", "hold", "add", "Case 17", "--organization", id, ...config]);
    expect(hold.stdout).toMatch(/The hold hold-[0-9a-f]{8} is in force and in the log/);
    const erased = await world.run([
      "archive",
      "erase",
      "--organization",
      other,
      "--reason",
      "contract ended",
      ...config,
    ]);
    expect(erased.stdout).toMatch(/[1-9]\d* events of \d+ parts were erased/);
    expect((await world.run(["archive", "hold", "list", ...config])).stdout).toContain("Case 17");
    const dry = await world.run(["archive", "prune", "--dry-run", ...config]);
    expect(dry.stdout).toMatch(/\d+ parts are past their retention/);
    const pruned = await world.run(["archive", "prune", ...config]);
    expect(pruned.stderr).toBe("");
    expect(pruned.stdout).toMatch(/[1-9]\d* parts were pruned.*[1-9]\d* are on hold and stay/);
    const verified = await world.run(["archive", "verify", "--key", key, "--json", ...config]);
    expect(JSON.parse(verified.stdout)).toMatchObject({ isValid: true, findings: [] });
    const report = await world.run(["archive", "report", "--key", key, ...config]);
    expect(report.stdout).toContain("hold, in force");
  }, 180_000);
});

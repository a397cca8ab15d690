import { readFileSync } from "node:fs";
import { afterEach, describe, expect, test } from "vitest";
import { openWorld, type World } from "../support/world.ts";

// These tests run the whole program, as those in test/end-to-end/ do.
let world: World;
afterEach(() => world.close());

async function archived(): Promise<void> {
  world = await openWorld();
  const key = world.at("archive.key");
  await world.run(["archive", "keys", "new", key, "--origin", "example.com/evidence"]);
  world.configure({
    sinks: [
      `{ name: evidence, type: archive, origin: example.com/evidence, key: { file: ${key} }, store: { directory: ${world.at("archive")} }, settle: 0s }`,
    ],
  });
  expect((await world.run(["run", "--once", "--config", world.at("tidemark.yaml")])).stderr).toBe("");
}

const reconcile = (...more: string[]) =>
  world.run(["archive", "reconcile", "--from", "20d", "--config", world.at("tidemark.yaml"), ...more]);

const leaves = () =>
  readFileSync(world.at("archive/log/leaves.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

/** Events of days that are closed: yesterday and today are not. */
function closedEvents(): { id: string; timestamp: string; organization: string }[] {
  const yesterday = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
  return world
    .served()
    .map((text) => JSON.parse(text))
    .filter(({ timestamp }) => timestamp.slice(0, 10) < yesterday);
}

describe("archive reconcile", () => {
  test("A11 compares identities with the service, says so, and records the result in the log", async () => {
    await archived();
    const done = await reconcile("--json");
    expect(done.code).toBe(0);
    const result = JSON.parse(done.stdout);
    const served = closedEvents().length;
    expect(served).toBeGreaterThan(300);
    expect(result).toMatchObject({
      organizations: 3,
      returned: served,
      held: served,
      missing: 0,
      onlyHeld: 0,
      erased: 0,
      incomplete: [],
    });
    expect(leaves().at(-1)).toMatchObject({
      kind: "reconcile",
      compared: "identities",
      days: result.days,
      returned: served,
      held: served,
      missing: 0,
    });
    const text = await reconcile("--no-record");
    expect(text.stdout).toContain("by identities, not by bytes");
    expect(text.stdout).toContain("Nothing is missing from the archive.");
    expect(leaves().filter(({ kind }) => kind === "reconcile")).toHaveLength(1);
    const verified = await world.run(["archive", "verify", "--store", world.at("archive")]);
    expect(verified.code).toBe(0);
  });

  test("names what the service has and the archive lacks, until it is fetched and archived", async () => {
    await archived();
    const [first] = closedEvents();
    const late = {
      id: "late-1",
      timestamp: first!.timestamp,
      service: "directory",
      event_type: "user_create",
    };
    world.simulator.control.append(first!.organization, [late]);
    const found = await reconcile();
    expect(found.code).toBe(1);
    expect(found.stdout).toContain(`${first!.timestamp.slice(0, 10)} ${first!.organization}: MISSING 1 of`);
    expect(found.stdout).toContain("late-1");
    expect(leaves().at(-1)).toMatchObject({ kind: "reconcile", missing: 1 });
    const fetched = await world.run(["reconcile", "--since", "20d", "--config", world.at("tidemark.yaml")]);
    expect(fetched.code).toBe(0);
    // It is in the journal and not closed yet: an addition closes on the day after its arrival.
    expect((await reconcile("--no-record")).code).toBe(1);
  });

  test("events that were erased on the record are not called missing", async () => {
    await archived();
    const [first] = closedEvents();
    const erased = await world.run([
      ...["archive", "erase", "--organization", first!.organization, "--event", first!.id],
      ...["--reason", "request", "--config", world.at("tidemark.yaml")],
    ]);
    expect(erased.code).toBe(0);
    const done = await reconcile();
    expect(done.code).toBe(0);
    expect(done.stdout).toContain("1 were erased from the archive on the record.");
    expect(done.stdout).toContain("Nothing is missing from the archive.");
  });

  test("a refusal of the service ends it with the reason, and nothing is recorded", async () => {
    await archived();
    const { id } = world.simulator.organizations[0]!;
    world.simulator.control.refuseOrganization(id, 403);
    const refused = await reconcile();
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain("403");
    expect(leaves().filter(({ kind }) => kind === "reconcile")).toHaveLength(0);
  });
});

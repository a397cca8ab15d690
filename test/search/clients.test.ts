import { execFile } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { skipUnless } from "../support/components.ts";
import { findPython, PYTHON_REMEDY } from "../support/tessera.ts";
import { linesBelow, runMain } from "../support/world.ts";
import { type InsightsWorld, openInsightsWorld } from "./insights-world.ts";
import { DUCKDB_REMEDY, duckdb } from "./support.ts";

const python = await findPython();
const skips = skipUnless("duckdb", duckdb, DUCKDB_REMEDY);
const skipsPython = skips || skipUnless("python", python, PYTHON_REMEDY);
const run = promisify(execFile);

/** Events of early 2023, more than three years old, asked for today. */
describe.skipIf(skips)("clients of the service, pointed at the archive", () => {
  let world: InsightsWorld;
  beforeAll(async () => {
    world = await openInsightsWorld(3000, Date.now, "2023-03-01T12:00:00Z");
  });
  afterAll(() => world?.close());
  const servedOf = (organization: string) =>
    [...world.simulator.control.allEvents({ organization })].map((bytes) => Buffer.from(bytes).toString());

  test.skipIf(skipsPython)("the vendor's exporter counts and reads every service", async () => {
    const { id } = world.simulator.organizations[0]!;
    const given = { insightsUrl: world.archived.insightsUrl, apiKey: world.simulator.apiKey };
    const script = join(import.meta.dirname, "../../simulator/test/clients/exporter.py");
    const args = [script, JSON.stringify(given), id, "2023-01-01T00:00:00Z", "2023-03-01T12:00:00Z", "key"];
    const { stdout } = await run(python!, args);
    expect(JSON.parse(stdout).all).toBe(servedOf(id).length);
  });

  test.skipIf(skipsPython)("Elastic's input pages through everything and sees each event once", async () => {
    const { id } = world.simulator.organizations[0]!;
    const script = join(import.meta.dirname, "elastic.py");
    const args = [script, world.archived.insightsUrl, world.simulator.apiKey, id, "2020-01-01T00:00:00Z"];
    const { stdout } = await run(python!, args, { maxBuffer: 64e6 });
    const ids = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line).id as string);
    const served = servedOf(id).map((text) => JSON.parse(text).id as string);
    const oldestMs = Math.min(...servedOf(id).map((text) => Date.parse(JSON.parse(text).timestamp)));
    expect(Date.now() - oldestMs).toBeGreaterThan(3 * 366 * 86_400_000);
    expect(served.length).toBeGreaterThan(1000);
    expect(ids.toSorted()).toEqual(served.toSorted());
  });

  test("Tidemark itself reads the old events unchanged", async () => {
    const { folder } = world.own.world;
    const ids = world.simulator.organizations.map(({ id }) => id);
    const config = join(folder, "again.yaml");
    writeFileSync(
      config,
      [
        "accounts:",
        `  - { name: old, insightsUrl: '${world.archived.insightsUrl}', managementUrl: '${world.simulator.managementUrl}', apiKey: { env: KEY }, organizations: [${ids.join(", ")}], since: 2500d, retention: 3000d }`,
        `state: ${join(folder, "again.db")}`,
        "log: { level: warn }",
        "sinks:",
        `  - { name: disk, type: file, directory: ${join(folder, "again")}, format: raw }`,
      ].join("\n"),
    );
    chmodSync(config, 0o600);
    const { code, stderr } = await runMain(["run", "--once", "--config", config], {
      KEY: world.simulator.apiKey,
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(linesBelow(join(folder, "again")).toSorted()).toEqual(ids.flatMap(servedOf).toSorted());
  });
});

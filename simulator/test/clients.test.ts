import { execFile, spawnSync } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Simulator, startSimulator } from "../index.ts";
import { startTime } from "./support.ts";

const run = promisify(execFile);
const hasPython = spawnSync("python3", ["--version"]).status === 0;
if (!hasPython) console.log("SKIPPED: the scripts of other clients need python3.");

/** Scripts that call the service as the vendor's own exporter and SDKs do. They share no line with our clients. */
describe.skipIf(!hasPython)("the calls of other clients", () => {
  let simulator: Simulator;
  let world: string;
  let organization: string;
  beforeAll(async () => {
    simulator = await startSimulator({
      ...{ seed: 7, organizations: 2, events: 14_000, days: 10, lateness: "none" },
      ...{ clock: { start: startTime, speed: 500 }, optionalEndpoints: true, furtherServices: "exporter" },
      imports: { sourceUsers: 45, usersPerSecond: 20, failureShare: 0, usersShape: "object" },
    });
    const { insightsUrl, managementUrl, apiKey, oauth } = simulator;
    world = JSON.stringify({ insightsUrl, managementUrl, apiKey, oauth });
    organization = simulator.organizations[0]!.id;
  });
  afterAll(() => simulator.close());

  it.each(["key", "token"])("the exporter reads every event once, with a %s", async (mode) => {
    const times = ["2025-02-01T00:00:00Z", startTime];
    const { stdout } = await run("python3", [
      ...["simulator/test/clients/exporter.py", world, organization, ...times, mode],
    ]);
    const counts = JSON.parse(stdout) as Record<string, number>;
    const held = [...simulator.control.allEvents({ organization })].filter(
      (bytes) => JSON.parse(Buffer.from(bytes).toString()).timestamp <= startTime,
    );
    expect(counts.all).toBe(held.length);
    expect(counts.all).toBeGreaterThan(10_000 / 2);
    for (const service of ["alerts", "workflows", "saas_app_management", "sso", "directory"])
      expect(counts[service], service).toBeGreaterThan(0);
  });

  it("an SDK lists, filters, binds, previews, imports and reads results", async () => {
    const { importApplication, workday, groups } = simulator.control.world;
    const group = groups(organization).find(({ name }) => name === "engineering")!;
    const { stdout } = await run("python3", [
      ...["simulator/test/clients/sdk.py", world, organization, importApplication(organization)],
      ...[workday(organization), group.id],
    ]);
    expect(JSON.parse(stdout)).toMatchObject({
      organizations: 2,
      slack: 1,
      paths: 1,
      bindings: 1,
      previewed: 45,
      workers: 45,
      results: 45,
      done: 45,
      directories: 14,
    });
  });
});

it("posting all workers back to it succeeds for each of 8 organizations", async () => {
  const simulator = await startSimulator({
    ...{ seed: 3, organizations: 8, events: 100, days: 1, lateness: "none" },
    imports: { sourceUsers: 45, usersPerSecond: 1000, failureShare: 0 },
  });
  try {
    for (const { id } of simulator.organizations) {
      const url = `${simulator.managementUrl}/v2/workdays/${simulator.control.world.workday(id)}`;
      const headers = { "x-api-key": simulator.apiKey, "x-org-id": id, "content-type": "application/json" };
      const workers = (await (await fetch(`${url}/workers?limit=100`, { headers })).json()) as Worker[];
      expect(workers).toHaveLength(45);
      const entries = workers.map((one) => ({ email: one.email, username: one.username }));
      const answer = await fetch(`${url}/import`, { method: "POST", headers, body: JSON.stringify(entries) });
      expect(answer.status, `${id} ${await answer.text()}`).toBe(201);
    }
    expect(simulator.organizations).toHaveLength(8);
  } finally {
    await simulator.close();
  }
});

interface Worker {
  readonly email: string;
  readonly username: string;
}

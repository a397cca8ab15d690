import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Simulator, startSimulator } from "../../simulator/index.ts";
import { openState } from "../../src/journal/database.ts";
import { jobsOf } from "../imports/support.ts";
import { type Running, startProcess } from "../support/process.ts";

const WORKERS = 500;
const BAD = 10;
const TOKEN = "a-token-of-the-test-that-is-long-enough";

let simulator: Simulator;
let folder: string;
let running: Running | undefined;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tidemark-workday-e2e-"));
  simulator = await startSimulator({
    organizations: 1,
    events: 100,
    days: 1,
    imports: {
      ...{ sourceUsers: WORKERS, badWorkers: BAD, refusals: "unnamed" },
      ...{ usersPerSecond: 60, failureShare: 0, indexingDelayMs: 1_000 },
    },
  });
});

afterAll(async () => {
  await running?.kill();
  await simulator?.close();
  rmSync(folder, { recursive: true });
});

function writeConfig(): { file: string; state: string } {
  const [organization] = simulator.organizations;
  const file = join(folder, "tidemark.yaml");
  const state = join(folder, "state.db");
  const workday = simulator.control.world.workday(organization!.id);
  const config = {
    accounts: [
      {
        name: "acme",
        insightsUrl: simulator.insightsUrl,
        managementUrl: simulator.managementUrl,
        apiKey: { env: "DIRECTORY_API_KEY" },
        organizations: [organization!.id],
        since: "1d",
      },
    ],
    state,
    polling: { interval: "500ms" },
    sinks: [{ name: "disk", type: "file", directory: join(folder, "events") }],
    imports: [{ name: "hr", account: "acme", organization: organization!.id, workday, quietAfter: "5s" }],
    server: { port: 0, token: { env: "TIDEMARK_TOKEN" } },
  };
  // JSON is YAML.
  writeFileSync(file, JSON.stringify(config));
  return { file, state };
}

function run(file: string, state: string): Promise<Running> {
  return startProcess("node", ["dist/src/main.js", "run", "--config", file], {
    env: { ...process.env, DIRECTORY_API_KEY: simulator.apiKey, TIDEMARK_TOKEN: TOKEN },
    isReady: async () => existsSync(state) && urlOf() !== undefined,
  });
}

const urlOf = () => /http:\/\/127\.0\.0\.1:\d+/.exec(running?.output() ?? "")?.[0];

async function until(what: string, isSo: () => boolean, msMax = 400_000): Promise<void> {
  for (const deadline = Date.now() + msMax; !isSo(); await sleep(50)) {
    if (Date.now() > deadline)
      throw new Error(`It did not happen: ${what}\n${running?.output().slice(-3000)}`);
  }
}

it("accounts for 500 workers with ten bad ones, though the process is killed twice in the middle", async () => {
  const { file, state } = writeConfig();
  running = await startProcess("node", ["dist/src/main.js", "run", "--config", file], {
    env: { ...process.env, DIRECTORY_API_KEY: simulator.apiKey, TIDEMARK_TOKEN: TOKEN },
    isReady: async () => existsSync(state),
  });
  await until("it serves", () => urlOf() !== undefined);
  // Every start takes a while, so that the process can be killed while one is under way.
  simulator.control.faults.set([{ kind: "latency", ms: 300, api: "management", path: "/api/v2/workdays" }]);
  const started = fetch(`${urlOf()}/api/imports`, {
    method: "POST",
    headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify({ import: "hr" }),
  }).catch(() => undefined);

  await until("the state can be read", () => existsSync(state));
  const db = openState(state);
  const jobs = jobsOf(db);
  const parts = () => jobs.list({}).find(({ origin }) => origin === "api")?.parts ?? [];
  const isUnderWay = () => parts().some((part) => part.state === "sent");
  await until("a part is taken and another is under way", () =>
    parts().some((part) => part.state === "taken" || part.state === "refused") ? isUnderWay() : false,
  );
  await running.kill("SIGKILL");
  await started;
  running = await run(file, state);
  await until("more parts are taken", () => {
    const done = parts().filter((part) => part.state === "taken" || part.state === "refused");
    return done.length >= 8 && isUnderWay();
  });
  await running.kill("SIGKILL");
  simulator.control.faults.set([]);
  running = await run(file, state);
  const find = () => jobs.list({}).find(({ origin }) => origin === "api")!;
  await until("the job has ended", () => find().endedAt !== null);

  const job = find();
  const users = jobs.users(job.id, { limit: 1_000, offset: 0 }).filter(({ offered }) => offered);
  const failed = users.filter(({ outcome }) => outcome === "failed");
  console.log(`${job.summary} (${job.parts.length} parts, ${job.state}, ${job.reason ?? "no reason"})`);
  expect(job).toMatchObject({ state: "finished", offered: WORKERS, unaccounted: 0, reason: null });
  const { created, updated, reactivated } = job.counts;
  expect(job.summary).toBe(
    `${WORKERS} offered: ${created} created, ${updated} updated, ${BAD} failed, 0 unaccounted`,
  );
  expect(created + updated + reactivated + BAD).toBe(WORKERS);
  expect(users).toHaveLength(WORKERS);
  expect(failed).toHaveLength(BAD);
  for (const user of failed)
    expect([user.email, user.reason]).toEqual(["no address", expect.stringContaining("400")]);
  const [organization] = simulator.organizations;
  const truth = new Set(simulator.control.world.users(organization!.id).map(({ username }) => username));
  for (const user of users.filter(({ outcome }) => outcome !== "failed"))
    expect(truth.has(user.username!), user.username!).toBe(true);
  db.close();
});

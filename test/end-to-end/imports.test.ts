import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Simulator, startSimulator } from "../../simulator/index.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLog } from "../../src/core/log.ts";
import { secretOf } from "../../src/core/secret.ts";
import { importSourceOf } from "../../src/directory/import-source.ts";
import { openManagement } from "../../src/directory/management.ts";
import { importSchema } from "../../src/imports/config.ts";
import { orderOf } from "../../src/imports/scheduler.ts";
import { startImport } from "../../src/imports/start.ts";
import { openState, type State } from "../../src/journal/database.ts";
import { jobsOf, startContext } from "../imports/support.ts";
import { type Running, startProcess } from "../support/process.ts";

const USERS = 5000;
const KILLS = 3;

let simulator: Simulator;
let folder: string;
let running: Running | undefined;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tidemark-imports-e2e-"));
  simulator = await startSimulator({
    organizations: 2,
    events: 500,
    days: 1,
    imports: { sourceUsers: USERS, usersPerSecond: 400, failureShare: 0.05, indexingDelayMs: 2_000 },
  });
});

afterAll(async () => {
  await running?.kill();
  await simulator.close();
  rmSync(folder, { recursive: true });
});

function writeConfig(organization: string, application: string): { file: string; state: string } {
  const file = join(folder, "tidemark.yaml");
  const state = join(folder, "state.db");
  const config = {
    accounts: [
      {
        name: "acme",
        insightsUrl: simulator.insightsUrl,
        managementUrl: simulator.managementUrl,
        apiKey: { env: "DIRECTORY_API_KEY" },
        organizations: "all",
        since: "2d",
      },
    ],
    state,
    polling: { interval: "500ms" },
    sinks: [{ name: "disk", type: "file", directory: join(folder, "events") }],
    imports: [definition(organization, application)],
  };
  // JSON is YAML.
  writeFileSync(file, JSON.stringify(config));
  return { file, state };
}

function definition(organization: string, application: string) {
  return { name: "hr", account: "acme", organization, application, quietAfter: "6s", finishAfter: "12s" };
}

function run(file: string, state: string): Promise<Running> {
  return startProcess("node", ["dist/src/main.js", "run", "--config", file], {
    env: { ...process.env, DIRECTORY_API_KEY: simulator.apiKey },
    isReady: async () => existsSync(state),
  });
}

async function until(what: string, isSo: () => boolean, msMax = 400_000): Promise<void> {
  for (const deadline = Date.now() + msMax; !isSo(); await sleep(50)) {
    if (Date.now() > deadline)
      throw new Error(`It did not happen: ${what}\n${running?.output().slice(-3000)}`);
  }
}

/** Events that the service shows a second time, some of them much later than the first. */
function repeatSome(organization: string, every: number): number {
  const events = [...simulator.control.allEvents({ organization })]
    .map((bytes) => Buffer.from(bytes))
    .filter((event, at) => at % every === 0 && event.includes("user_import"));
  for (const [at, event] of events.entries()) simulator.control.append(organization, [event], (at % 5) * 700);
  return events.length;
}

it("follows an import of 5,000 users through failures, late and repeated events and kills, to the service's own counts", async () => {
  const organization = simulator.organizations[0]!.id;
  const world = simulator.control.world;
  for (const user of world.users(organization).slice(0, 40)) world.suspendUser(organization, user.id);
  const application = world.importApplication(organization);
  const { file, state } = writeConfig(organization, application);
  running = await run(file, state);
  await until("the organizations are known", () => running!.output().includes("Organizations joined."));

  const db = openState(state);
  const jobs = jobsOf(db);
  const id = await start(db, organization, application);
  let repeated = 0;
  for (let kill = 1; kill <= KILLS; kill++) {
    const seen = (USERS * kill) / (KILLS + 2);
    await until(`${seen} events are tracked`, () => jobs.counts(id).events >= seen);
    repeated += repeatSome(organization, 7);
    await running.kill("SIGKILL");
    running = await run(file, state);
  }
  await until("the job has finished", () => jobs.row(id)!.state === "finished");

  const job = jobs.job(id)!;
  const truth = world.importJobUsers(job.serviceJob!).filter(({ outcome }) => outcome !== "skipped");
  const reactivated = reactivatedBy(organization);
  const told = new Map(jobs.users(id, { limit: 1_000_000, offset: 0 }).map((user) => [user.username, user]));
  const wrong = truth.filter(({ entry, outcome, error }) => {
    const user = told.get(entry.username);
    const expected = outcome === "updated" && reactivated.has(entry.username) ? "reactivated" : outcome;
    return user?.outcome !== expected || (user.reason ?? null) !== error;
  });
  console.log(
    `${KILLS} kills, ${job.counts.events} events, ${repeated} repeated, ${truth.length} users at the service, ${told.size} here, ${wrong.length} told wrong`,
  );
  expect(truth.every(({ outcome }) => outcome !== "pending")).toBe(true);
  expect(wrong).toEqual([]);
  expect(told.size).toBe(truth.length);
  expect(job.counts.failed).toBe(truth.filter(({ outcome }) => outcome === "failed").length);
  expect(job.counts.created).toBe(truth.filter(({ outcome }) => outcome === "created").length);
  expect(jobs.list({}).filter(({ origin }) => origin !== "elsewhere")).toHaveLength(1);
  expect(world.importJobs()).toHaveLength(1);
  db.close();
});

/** `tidemark imports start hr`, in a process of its own beside the running one. */
async function start(db: State, organization: string, application: string): Promise<number> {
  const client = openManagement(
    {
      name: "acme",
      insightsUrl: simulator.insightsUrl,
      managementUrl: simulator.managementUrl,
      credentials: { apiKey: secretOf(simulator.apiKey) },
      headersTimeoutMs: 30_000,
      bodyTimeoutMs: 30_000,
      bodyBytesMax: 10_000_000,
    },
    { clock: systemClock },
  );
  const order = {
    ...orderOf(importSchema.parse({ ...definition(organization, application), allowUserReactivation: true })),
    origin: "command",
    requestedBy: "tests",
  } as const;
  const source = () => importSourceOf(client);
  try {
    const { id } = await startImport(
      startContext(db, source(), systemClock, silentLog),
      order,
      AbortSignal.timeout(400_000),
    );
    return id;
  } finally {
    await client.close();
  }
}

/** The names of users whose suspension an event of the import ended. */
function reactivatedBy(organization: string): Set<string> {
  const names = new Set<string>();
  for (const bytes of simulator.control.allEvents({ organization })) {
    const event = JSON.parse(Buffer.from(bytes).toString()) as {
      correlation?: { type?: string };
      resource?: { username?: string };
      changes?: { field: string; to: unknown }[];
    };
    if (event.correlation?.type !== "user_import") continue;
    if (event.changes?.some(({ field, to }) => field === "suspended" && to === false))
      names.add(event.resource!.username!);
  }
  return names;
}

// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { Command } from "commander";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Simulator, startSimulator } from "../../simulator/index.ts";
import { registerApps } from "../../src/commands/apps.ts";
import { registerDirectories } from "../../src/commands/directories.ts";
import { csvOf } from "../../src/commands/import-csv.ts";
import { registerImports } from "../../src/commands/imports.ts";
import type { Io } from "../../src/commands/io.ts";
import type { ManagementContext } from "../../src/commands/management.ts";
import { startWords } from "../../src/commands/start-import.ts";
import { registerSystem } from "../../src/commands/system.ts";
import { registerUsers } from "../../src/commands/users.ts";
import { wentWell } from "../../src/commands/watch-import.ts";
import { systemClock } from "../../src/core/clock.ts";
import { UsageError } from "../../src/core/errors.ts";
import { silentLog } from "../../src/core/log.ts";
import { secretOf } from "../../src/core/secret.ts";
import { importSourceOf } from "../../src/directory/import-source.ts";
import { openManagement, openSystem } from "../../src/directory/management.ts";
import type { Difference } from "../../src/imports/choose.ts";
import { importSchema } from "../../src/imports/config.ts";
import { createImports } from "../../src/imports/create-imports.ts";
import type { Job, JobUser } from "../../src/imports/job.ts";
import { eventOf, forever, type Jobs, jobsOf, openState, sourceOf } from "./support.ts";

let simulator: Simulator;
let organization: string;
let application: string;
let folder: string;
let state: string;

beforeAll(async () => {
  simulator = await startSimulator({
    organizations: 2,
    events: 10,
    lateness: "none",
    clock: { speed: 1000 },
    imports: { usersPerSecond: 100, sourceUsers: 60, failureShare: 0.2, listUsers: true },
  });
  organization = simulator.organizations[0]!.id;
  application = simulator.control.world.importApplication(organization);
  folder = mkdtempSync(join(tmpdir(), "tidemark-commands-"));
  state = join(folder, "state.db");
  openState(state).close();
});
afterAll(async () => {
  await simulator.close();
  rmSync(folder, { recursive: true });
});

function context(): ManagementContext {
  const connection = {
    name: "acme",
    insightsUrl: simulator.insightsUrl,
    managementUrl: simulator.managementUrl,
    credentials: { apiKey: secretOf(simulator.apiKey) },
    headersTimeoutMs: 5_000,
    bodyTimeoutMs: 5_000,
    bodyBytesMax: 10_000_000,
  };
  const client = openManagement(connection, { clock: systemClock });
  const db = openState(state);
  const definition = {
    name: "hr",
    account: "acme",
    organization,
    application,
    quietAfter: "1s",
    finishAfter: "1s",
  };
  return {
    accounts: ["acme"],
    definitions: [importSchema.parse(definition)],
    system: { agentConfig: join(folder, "agent.conf"), agentKey: join(folder, "agent.key") },
    management: () => client,
    openSystem: (_account, identity) => openSystem(connection, identity, { clock: systemClock }),
    database: () => db,
    clock: systemClock,
    log: silentLog,
    async close() {
      await client.close();
      db.close();
    },
  };
}

const applicationPath = () => `/api/v2/applications/${application}`;

/** Runs a command line and gives what it printed and its exit code. */
async function run(...args: string[]): Promise<{ out: string; code: number }> {
  const stdout = new PassThrough();
  let code = 0;
  const io: Io = {
    stdout,
    stderr: new PassThrough(),
    stdin: new PassThrough(),
    env: { USER: "tester" },
    signal: forever,
    interactive: false,
    setExitCode(next) {
      code = next;
    },
  };
  const program = new Command().exitOverride();
  const open = async () => context();
  registerImports(program, io, open);
  registerApps(program, io, open);
  registerDirectories(program, io, open);
  registerUsers(program, io, open);
  registerSystem(program, io, open, "linux");
  const printed = text(stdout);
  try {
    await program.parseAsync(args, { from: "user" });
  } finally {
    stdout.end();
  }
  return { out: await printed, code };
}

const json = async <T>(...args: string[]) => JSON.parse((await run(...args, "--json")).out) as T;

/** Acts as a running process: reads the service's events into the tracker and makes the steps. */
async function follow(until: (jobs: Jobs) => boolean): Promise<void> {
  const db = openState(state);
  const opened = context();
  const source = () => importSourceOf(opened.management("acme"));
  const imports = createImports({
    db,
    definitions: [],
    source,
    accounts: ["acme"],
    clock: systemClock,
    log: silentLog,
  });
  const jobs = jobsOf(db);
  while (!until(jobs)) {
    const events = [...simulator.control.allEvents({ organization })].map((bytes) =>
      eventOf(JSON.parse(Buffer.from(bytes).toString()) as Record<string, unknown>),
    );
    await imports.apply(events);
    await imports.step(forever);
    await systemClock.sleep(50, forever);
  }
  db.close();
  await opened.close();
}

describe("imports", () => {
  it("shows who would be imported", async () => {
    const users = await json<object[]>("imports", "preview", "hr", "--limit", "100");
    expect(users).toHaveLength(60);
    const { out } = await run(
      "imports",
      "preview",
      "--application",
      application,
      "--organization",
      organization,
    );
    expect(out.split("\n")[0]).toMatch(/^USERNAME +EMAIL/);
    expect(out.trim().split("\n")).toHaveLength(63);
    expect(out).toMatch(/60 offered: \d+ would be created, \d+ updated, \d+ unchanged, 0 skipped\./);
  });

  it("starts an import and follows it to counts that equal the service's own, user by user", async () => {
    const job = await json<Job>("imports", "start", "hr");
    expect(job).toMatchObject({ state: "running", requestedBy: "tester", origin: "command", import: "hr" });
    await expect(run("imports", "start", "hr")).rejects.toThrow(/has not ended/);
    const followed = follow((jobs) => jobs.row(job.id)!.state === "finished");
    const watched = await run("imports", "watch", String(job.id));
    await followed;
    const truth = simulator.control.world.importJobUsers(job.serviceJob!);
    expect(watched.code).toBe(truth.some(({ outcome }) => outcome === "failed") ? 1 : 0);
    const shown = await json<Job & { users: JobUser[] }>("imports", "show", String(job.id));
    const told = new Map(shown.users.map((user) => [user.username, user]));
    const expected = truth.filter(({ outcome }) => outcome !== "skipped");
    expect(expected).toHaveLength(60);
    for (const { entry, outcome, error } of expected) {
      expect(told.get(entry.username)).toMatchObject({ outcome, reason: error });
    }
    expect(shown.users).toHaveLength(60);
    expect(watched.out.trim().split("\n").at(-1)).toContain(
      `finished: 60 offered: ${shown.counts.created} created`,
    );
  });

  it.each([
    ["no user has an outcome", {}, null, 1],
    ["listed users wait", { created: 3, pending: 2 }, null, 1],
    ["users have outcomes, and none waits", { created: 3 }, null, 0],
    ["a user failed", { created: 3, failed: 1 }, 0, 1],
    ["an offered user is unaccounted for", { created: 3 }, 1, 1],
    ["nobody was offered", {}, 0, 0],
  ] as const)("a watched job whose end says that %s", async (_, counts, unaccounted, code) => {
    const none = { created: 0, updated: 0, reactivated: 0, failed: 0, skipped: 0, pending: 0, events: 0 };
    const job = { state: "finished", counts: { ...none, ...counts }, unaccounted } as Job;
    expect(wentWell(job) ? 0 : 1).toBe(code);
  });

  it.each([
    [
      "its events came before the answer",
      "sj1",
      "Job 3 has finished as sj1: 12 offered: 11 created, 1 failed.\n",
    ],
    ["nothing was sent", null, "Job 3 has nothing to do: 12 offered: 11 created, 1 failed.\n"],
  ])("a start whose job is finished says that %s", (_, serviceJob, words) => {
    const job = { id: 3, state: "finished", reason: null, serviceJob } as const;
    expect(startWords({ ...job, parts: [], summary: "12 offered: 11 created, 1 failed" })).toBe(words);
  });

  it("says what a Workday import would change, posts the chosen workers and activates the staged ones", async () => {
    const workday = simulator.control.world.workday(organization);
    const at = ["--workday", workday, "--organization", organization];
    const shown = await run("imports", "preview", ...at, "--only", "firstname=unknown");
    expect(shown.out).toContain("60 offered: 0 would be created, 0 updated, 0 unchanged, 60 skipped.");
    const preview = await json<Difference[]>("imports", "preview", ...at);
    const fresh = preview.filter(({ kind }) => kind === "new").map(({ user }) => user.username!);
    expect(preview.find(({ kind }) => kind === "changed")!.changes.length).toBeGreaterThan(0);
    expect(fresh.length).toBeGreaterThan(10);
    const job = await json<Job>(
      ...["imports", "start", ...at, "--only-new", "--state", "STAGED"],
      "--exclude",
      fresh[0]!,
    );
    expect(job.summary).toBe(`60 offered: ${61 - fresh.length} skipped, ${fresh.length - 1} waiting`);
    await follow((jobs) => jobs.row(job.id)!.ended_ms !== null);
    const done = await json<Job>("imports", "show", String(job.id));
    expect(done).toMatchObject({ state: "finished", unaccounted: 0, staged: done.counts.created });
    await expect(run("imports", "activate", String(job.id))).rejects.toThrow(
      `This activates ${done.staged} users of job ${job.id}; repeat it with --yes.`,
    );
    const { out } = await run("imports", "activate", String(job.id), "--yes");
    expect(out).toBe(`${done.staged} users activated.\n`);
    const states = simulator.control.world
      .users(organization)
      .filter(({ username }) => fresh.slice(1).includes(username))
      .map(({ state }) => state);
    expect(new Set(states)).toEqual(new Set(["ACTIVATED"]));
    await expect(run("imports", "start", "hr", "--only-new")).rejects.toThrow(/Workday integration/);
  });

  it("lists scheduled runs and the next one", async () => {
    const { out } = await run("imports", "runs", "hr");
    expect(out).toMatch(/IMPORT +NEXT RUN +SCHEDULE\nhr/);
    await expect(run("imports", "runs", "nothing")).rejects.toThrow(/no import "nothing"/);
  });

  it("calls no user STAGED whose state no event says, and shows a long reason whole", async () => {
    const db = openState(state);
    const parts = { definitions: [], source: () => sourceOf([]), accounts: ["acme"], log: silentLog };
    const created = eventOf({
      ...{ id: "e1", timestamp: "2026-01-01T00:00:00Z", organization, event_type: "user_create" },
      correlation: { id: "elsewhere-1", type: "user_import" },
      resource: { type: "user", id: "u1", username: "anna" },
    });
    const imports = createImports({ ...parts, db, clock: systemClock });
    const fields = { id: "e2", correlation: { id: "elsewhere-1", type: "user_import" }, organization };
    const changes = Array.from({ length: 60_000 }, () => ({ field: "f", to: "" }));
    await imports.apply([created, eventOf({ ...fields, timestamp: "2026-01-01T00:00:01Z", changes })]);
    db.close();
    const job = (await json<Job[]>("imports", "list")).find(
      ({ serviceJob }) => serviceJob === "elsewhere-1",
    )!;
    const { out } = await run("imports", "show", String(job.id));
    expect(out).toMatch(/reason +Of its events, 1 was passed over .+ may have no outcome here\.\n/);
    expect(out).toContain(
      `1 users can be activated: they are STAGED, or were created and no event says their state. Activate them with "tidemark imports activate ${job.id}".`,
    );
  });

  it("lists jobs, shows one and exports its users", async () => {
    const [job] = await json<Job[]>("imports", "list");
    expect((await run("imports", "list", "--state", "running")).out.trim().split("\n")).toHaveLength(1);
    const { out } = await run("imports", "show", String(job!.id));
    expect(out).toMatch(/state +finished since/);
    expect(out).toMatch(/USER +REASON +EVENT/);
    const file = join(folder, "users.csv");
    await run("imports", "export", String(job!.id), "--csv", file);
    const lines = readFileSync(file, "utf8").trim().split("\r\n");
    expect(lines).toHaveLength(61);
    expect(lines[0]).toBe("username,email,userId,outcome,reason,event,timestamp,state");
  });

  it.each([
    [["--not-started"], / is failed now: not started, says .+\.$/],
    [
      ["--ended", "--reason", "nobody needs it"],
      / is ended now: ended by .+: nobody needs it; it is not known to have started\.$/,
    ],
  ])(
    "marks a lost answer as uncertain, starts nothing twice, and takes a person's word %j",
    async (words, told) => {
      const before = simulator.control.world.importJobs().length;
      simulator.control.faults.set([
        { kind: "cut_headers", api: "management", path: `${applicationPath()}/import/jobs`, times: 1 },
      ]);
      const { out, code } = await run("imports", "start", "hr");
      simulator.control.faults.clear();
      expect(code).toBe(1);
      expect(out).toMatch(/is uncertain .* It is not repeated/);
      expect(simulator.control.world.importJobs().length - before).toBeLessThanOrEqual(1);
      const [job] = await json<Job[]>("imports", "list");
      await expect(run("imports", "resolve", String(job!.id))).rejects.toThrow(UsageError);
      await expect(
        run("imports", "resolve", String(job!.id), "--not-started", "--reason", "x"),
      ).rejects.toThrow("--reason belongs to --ended");
      expect((await run("imports", "resolve", String(job!.id), ...words)).out.trim()).toMatch(told);
      await expect(run("imports", "resolve", String(job!.id), "--ended")).rejects.toThrow(
        "has ended already",
      );
    },
  );

  it("says a refusal with the service's words", async () => {
    const { out, code } = await run(
      "imports",
      "start",
      "--application",
      "0".repeat(24),
      "--organization",
      organization,
    );
    expect(code).toBe(1);
    expect(out).toMatch(/was refused: POST .* 404/);
  });

  it("refuses what makes no sense with exit code 2's error", async () => {
    for (const args of [
      ["imports", "start"],
      ["imports", "start", "unknown"],
      ["imports", "show", "999"],
      ["imports", "show", "x"],
      ["imports", "start", "--application", "a", "--account", "b"],
      ["imports", "start", "--application", "a", "--operation", "users.delete"],
    ]) {
      await expect(run(...args)).rejects.toThrow(UsageError);
    }
  });

  it("writes CSV that is safe to open", () => {
    const user = {
      userId: "u",
      username: "=cmd()",
      email: 'a"b,c',
      outcome: "failed",
      reason: "x\ny",
      event: null,
      timestamp: null,
      offered: true,
      state: "STAGED",
    } as const;
    expect(csvOf([user]).split("\r\n")[1]).toBe(`'=cmd(),"a""b,c",u,failed,"x\ny",,,STAGED`);
  });
});

describe("apps", () => {
  const at = () => ["--organization", organization];

  it("makes, changes, shows, binds, unbinds and deletes", async () => {
    const [template] = await json<{ name: string }[]>("apps", "templates", ...at());
    const file = join(folder, "app.json");
    const config = { acsUrl: { value: "https://a" }, spEntityId: { value: "b" } };
    writeFileSync(
      file,
      JSON.stringify({
        name: template!.name,
        displayLabel: "L",
        displayName: "D",
        ssoUrl: "cmd-slug",
        config,
      }),
    );
    const made = await json<{ _id: string }>("apps", "create", "--file", file, ...at());
    await run(
      "apps",
      "update",
      made._id,
      "--set",
      "description=hello",
      "--set",
      "config.acsUrl.value=https://c",
      ...at(),
    );
    const shown = JSON.parse((await run("apps", "show", made._id, ...at())).out) as Record<string, unknown>;
    expect(shown).toMatchObject({
      description: "hello",
      displayLabel: "L",
      config: { acsUrl: { value: "https://c" } },
    });
    expect((await run("apps", "list", ...at())).out).toContain(made._id);
    const [user] = simulator.control.world.users(organization);
    await run("apps", "bind", made._id, "--user", user!.id, ...at());
    expect((await run("apps", "bound", made._id, ...at())).out).toContain("1 users see the application");
    await run("apps", "unbind", made._id, "--user", user!.id, ...at());
    await expect(run("apps", "delete", made._id, ...at())).rejects.toThrow(/repeat it with --yes/);
    await run("apps", "delete", made._id, "--yes", ...at());
    expect((await run("apps", "list", ...at())).out).not.toContain(made._id);
  });

  it("lists with fields, filter and sort, shows a template, and lists directories", async () => {
    const names = async (...args: string[]) =>
      (await json<{ name: string }[]>("apps", "list", ...at(), ...args)).map(({ name }) => name);
    const all = await names();
    expect(await names("--sort", "-name")).toEqual(all.toSorted().toReversed());
    expect(await names("--filter", "name:$eq:slack")).toEqual(["slack"]);
    const [fields] = await json<object[]>("apps", "list", ...at(), "--fields", "name,active");
    expect(Object.keys(fields!).sort()).toEqual(["_id", "active", "name"]);
    const templates = await json<{ _id: string; name: string }[]>(
      "apps",
      "templates",
      ...at(),
      "--sort",
      "name",
    );
    expect(templates.map(({ name }) => name)).toEqual(templates.map(({ name }) => name).toSorted());
    const shown = await json<object>("apps", "templates", "show", templates[0]!._id, ...at());
    expect(shown).toMatchObject({ name: templates[0]!.name, config: {} });
    expect(await json<object[]>("directories", "list", ...at())).toHaveLength(14);
    expect((await run("directories", "list", ...at())).out).toMatch(/^ID +TYPE +NAME/);
  });

  it("refuses an incomplete application, a change of nothing and a binding without a user", async () => {
    const file = join(folder, "empty.json");
    writeFileSync(file, "{}");
    await expect(run("apps", "create", "--file", file, ...at())).rejects.toThrow(/needs name, displayLabel/);
    await expect(run("apps", "update", "x", ...at())).rejects.toThrow(/Say what to change/);
    await expect(run("apps", "bind", "x", ...at())).rejects.toThrow(/either --user or --group/);
  });
});

describe("users", () => {
  it("activates those it can and says why it cannot the others", async () => {
    const user =
      simulator.control.world.users(organization).find((one) => one.state === "STAGED") ??
      simulator.control.world.users(organization)[0]!;
    const { out, code } = await run(
      "users",
      "activate",
      user.id,
      "0".repeat(24),
      "--organization",
      organization,
    );
    expect(code).toBe(1);
    expect(out).toContain(`${user.id} activated.`);
    expect(out).toMatch(/0{24} not activated: .*404/);
    const at = new Date(simulator.control.clock.read().nowMs + 86_400_000_000).toISOString();
    const scheduled = await run("users", "activate", user.id, "--at", at, "--organization", organization);
    expect(scheduled.out).toContain(`1 activations scheduled for ${at}`);
    await expect(run("users", "activate", user.id, "--at", "soon")).rejects.toThrow(UsageError);
  });
});

describe("system", () => {
  it("speaks for itself with signed requests", async () => {
    simulator.control.clock.setSpeed(1);
    simulator.control.clock.set(Date.now());
    const system = simulator.control.world.addSystem(organization);
    writeFileSync(join(folder, "agent.conf"), JSON.stringify({ systemKey: system.id }));
    writeFileSync(join(folder, "agent.key"), system.privateKey!);
    expect(await json("system", "show")).toMatchObject({ _id: system.id });
    await run("system", "set", "--set", "displayName=web-1");
    expect(await json("system", "show")).toMatchObject({ displayName: "web-1" });
    expect((await run("system", "groups", "--add", system.systemGroup)).out).toContain(system.systemGroup);
    const [user] = simulator.control.world.users(organization);
    expect(await json("system", "users", "--add", user!.id)).toMatchObject([{ id: user!.id }]);
    await expect(run("system", "leave")).rejects.toThrow(/repeat it with --yes/);
    await run("system", "leave", "--yes");
    await expect(run("system", "show")).rejects.toThrow(/refuses this system's signature/);
  });

  it("says plainly why it cannot", async () => {
    rmSync(join(folder, "agent.key"));
    await expect(run("system", "show")).rejects.toThrow(/is the agent installed/);
    const io = { signal: forever } as Io;
    const program = new Command().exitOverride();
    registerSystem(program, io, async () => context(), "darwin");
    await expect(program.parseAsync(["system", "show"], { from: "user" })).rejects.toThrow(
      /Linux systems alone; this is darwin/,
    );
  });
});

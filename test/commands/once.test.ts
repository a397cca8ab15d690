// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import type { SinkView } from "../../src/core/view/sinks.ts";
import type { StatusView } from "../../src/core/view/status.ts";
import { newWindow } from "../../src/core/window.ts";
import { openState } from "../../src/journal/database.ts";
import { createJournal } from "../../src/journal/journal.ts";
import { storeLive } from "../../src/journal/view/live.ts";
import { type Fate, startHttpProxy } from "../support/http-proxy.ts";
import { openWorld, type World } from "../support/world.ts";

describe("R39 run --once", () => {
  let world: World;
  afterEach(() => world.close());

  test("ends with what it did: events, where they went, how long, and that nothing is missing", async () => {
    world = await openWorld({ events: 300 });
    const config = world.configure();
    const { code, stdout } = await world.run(["run", "--once", "-c", config]);
    const [first, second, third] = stdout.trim().split("\n");
    expect(code).toBe(0);
    const count = world.served().length;
    expect(count).toBeGreaterThan(250);
    expect(first).toMatch(new RegExp(`^Done in .+\\. Read ${count} new events\\.$`));
    expect(second).toBe(`  disk (file, ${world.at("events")}): ${count} events delivered`);
    expect(third).toBe("Nothing is missing.");
  });

  test("R40 status beside it tells its own work, not the report of a process that was killed", async () => {
    world = await openWorld({ events: 30 });
    expect((await world.run(["run", "--once", "-c", world.configure()])).code).toBe(0);
    const db = openState(world.at("tidemark.db"));
    const rates = () => ({ bucketMs: 5000, fromMs: 0, received: [], live: [], sent: {} });
    const killed = { startedMs: 1, alarms: () => [], accounts: () => [], deliveries: () => [], rates };
    await storeLive(db, killed, Date.now());
    db.close();
    let answer = 503;
    const receiver = createServer((request, response) => {
      request.resume().on("end", () => response.writeHead(answer).end());
    });
    await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
    try {
      const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
      const disk = `{ name: disk, type: file, directory: ${world.at("events")} }`;
      const config = world.configure({
        sinks: [disk, `{ name: hook, type: http, start: beginning, url: "${url}" }`],
      });
      const running = world.run(["run", "--once", "-c", config]);
      const snapshots: { readonly status: StatusView; readonly sinks: readonly SinkView[] }[] = [];
      const stateOfHook = async () => {
        const { stdout } = await world.run(["status", "--json", "-c", config]);
        snapshots.push(JSON.parse(stdout) as (typeof snapshots)[number]);
        return snapshots.at(-1)!.sinks.find(({ name }) => name === "hook")?.state;
      };
      await expect.poll(stateOfHook, { timeout: 60_000, interval: 100 }).toBe("retrying");
      expect(snapshots.map(({ status }) => status.startedMs)).not.toContain(1);
      answer = 200;
      expect((await running).code).toBe(0);
    } finally {
      await new Promise((resolve) => receiver.close(resolve));
    }
  });

  test("an event that cannot be read is named by every run, and fails the first one", async () => {
    world = await openWorld({ events: 30 });
    const config = world.configure();
    const { organizations, control } = world.simulator;
    const timestamp = new Date(Date.now() - 2 * 86_400_000).toISOString();
    const text = `{"event_type":"user_create","timestamp":"${timestamp}","broken":NaN}`;
    control.appendMalformed(organizations[0]!.id, text, { timestamp });
    const first = await world.run(["run", "--once", "-c", config]);
    expect(first.code).toBe(1);
    expect(first.stdout).toContain('Missing:\n  1 gap: "tidemark coverage" names');
    const second = await world.run(["run", "--once", "-c", config]);
    expect(second.code).toBe(0);
    expect(second.stdout).toContain("Known to be missing:\n  1 gap:");
    expect(second.stdout).toContain("Nothing else is missing.");
    expect(second.stdout).not.toContain("Nothing is missing.");
  });

  test("R39 backfill and reconcile without a process end with what they did, and fail for what they could not read", async () => {
    world = await openWorld({ events: 30 });
    const config = world.configure();
    expect((await world.run(["run", "--once", "-c", config])).code).toBe(0);
    const backfill = await world.run(["backfill", "--since", "40d", "-c", config]);
    expect(backfill).toMatchObject({ code: 0, stdout: expect.stringContaining("Nothing is missing.") });
    const { organizations, control } = world.simulator;
    const timestamp = new Date(Date.now() - 2 * 86_400_000).toISOString();
    const text = `{"event_type":"user_create","timestamp":"${timestamp}","broken":NaN}`;
    control.appendMalformed(organizations[0]!.id, text, { timestamp });
    const reconcile = await world.run(["reconcile", "--since", "5d", "-c", config]);
    expect(reconcile.stdout).toContain('Missing:\n  1 gap: "tidemark coverage" names');
    expect(reconcile.code).toBe(1);
  });

  test("does not say that nothing is missing while the service's Date and this machine's clock differ", async () => {
    world = await openWorld({
      events: 30,
      clock: { start: Date.now() + 2 * 86_400_000, speed: 1 },
    });
    const { code, stdout } = await world.run(["run", "--once", "-c", world.configure()]);
    expect(stdout).toContain("The Date of the service's answers is");
    expect(stdout).toContain("Nothing is missing, if the service's time is right.");
    expect(code).toBe(0);
  });

  test("R36 an event that two accounts lack is one missing event", async () => {
    world = await openWorld({ events: 60 });
    const { insightsUrl, managementUrl, organizations } = world.simulator;
    const service = `insightsUrl: '${insightsUrl}', managementUrl: '${managementUrl}', apiKey: { env: KEY }`;
    const account = `organizations: [${organizations[0]!.id}], since: 30d`;
    const config = world.configure({ account: `${account} }\n  - { name: second, ${service}, ${account}` });
    expect((await world.run(["run", "--once", "-c", config])).code).toBe(0);
    // As if the service had shown one more event to both.
    const db = openState(world.at("state.db"));
    const largest = db
      .prepare("SELECT id, MAX(held_count) FROM windows WHERE live = 0 AND held_count > 0 GROUP BY stream")
      .pluck()
      .all();
    expect(largest).toHaveLength(2);
    for (const id of largest) db.prepare("UPDATE windows SET api_count = api_count + 1 WHERE id = ?").run(id);
    db.close();
    const { code, stdout } = await world.run(["run", "--once", "-c", config]);
    expect(code).toBe(1);
    expect(stdout).toContain("The service counts 1 event more than are held");
  });

  test.each<[string, Fate]>([
    ["has a huge header block", { status: 200, headers: { "x-padding": "x".repeat(300_000) }, body: "[]" }],
    ["is cut off", "cut"],
  ])("tries again when the first answer about events %s", async (_, fate) => {
    world = await openWorld({ events: 30 });
    const proxy = await startHttpProxy(world.simulator.insightsUrl);
    try {
      let asked = 0;
      proxy.decide(() => (++asked === 1 ? fate : "pass"));
      const config = world.configure();
      const { origin } = new URL(world.simulator.insightsUrl);
      const text = readFileSync(config, "utf8").replace(
        `insightsUrl: '${origin}`,
        `insightsUrl: '${proxy.url}`,
      );
      writeFileSync(config, text);
      const { code, stdout } = await world.run(["run", "--once", "-c", config]);
      expect(asked).toBeGreaterThan(1);
      expect(stdout).toContain("Nothing is missing.");
      expect(code).toBe(0);
    } finally {
      await proxy.close();
    }
  });

  test("an unread time range of an account that is not in the config fails no run", async () => {
    world = await openWorld({ events: 60 });
    const config = world.configure();
    expect((await world.run(["run", "--once", "-c", config])).code).toBe(0);
    const add = async (organization: string) => {
      const db = openState(world.at("state.db"));
      const journal = createJournal(db, systemClock);
      const account = {
        account: "renamed",
        provider: null,
        organizations: [organization],
        services: ["all"],
      };
      const stream = await journal.stream(account);
      const toMs = Date.now() - 5 * 86_400_000;
      await journal.changeWindows({ add: [newWindow(stream, toMs - 86_400_000, toMs)] });
      db.close();
    };
    // The first run of a renamed account was ended, and the account has its old name again.
    await add(world.simulator.organizations[0]!.id);
    const covered = await world.run(["run", "--once", "-c", config]);
    expect([covered.code, covered.stdout]).toEqual([0, expect.stringContaining("Nothing is missing.")]);
    await add("f".repeat(24));
    const left = await world.run(["run", "--once", "-c", config]);
    expect(left.stdout).toContain("1 time range of accounts that are not in the config any more: not read.");
    expect(left.code).toBe(0);
  });

  test("a loss that joins the gap of an earlier run fails the run and is named as missing", async () => {
    world = await openWorld({ events: 30 });
    const config = world.configure({ account: "organizations: all, since: 10d, retention: 30d" });
    const { id } = world.simulator.organizations[0]!;
    const nowMs = Date.now();
    const once = () => world.run(["run", "--once", "-c", config]);
    /** As if it had not been read before the service forgot it. */
    const leaveUnread = async (fromDays: number, toDays: number) => {
      const db = openState(world.at("state.db"));
      const journal = createJournal(db, systemClock);
      const whose = { account: "acme", provider: null, organizations: [id], services: ["all"] };
      const stream = await journal.stream(whose);
      const at = (days: number) => nowMs - days * 86_400_000;
      await journal.changeWindows({ add: [newWindow(stream, at(fromDays), at(toDays))] });
      db.close();
    };
    const gaps = () => {
      const db = openState(world.at("state.db"));
      const rows = db.prepare("SELECT reason, to_ms - from_ms AS ms FROM gaps").all();
      db.close();
      return rows;
    };
    expect((await once()).code).toBe(0);
    await leaveUnread(50, 45);
    const first = await once();
    expect(first).toMatchObject({ code: 1, stdout: expect.stringContaining("Missing:\n  1 gap:") });
    expect(gaps()).toEqual([{ reason: "expired", ms: 5 * 86_400_000 }]);
    expect(await once()).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("Known to be missing:\n  1 gap:"),
    });
    await leaveUnread(45, 40);
    const grown = await once();
    expect(gaps()).toEqual([{ reason: "expired", ms: 10 * 86_400_000 }]);
    expect(grown.stdout).toMatch(/^Missing:\n {2}1 gap:/m);
    expect(grown.stdout).not.toContain("Known to be missing");
    expect(grown.stdout).not.toContain("Nothing else is missing.");
    expect(grown.code).toBe(1);
  });

  test("a refused organization that answers otherwise is named and fails the run; its refusal keeps its reason", async () => {
    world = await openWorld({ events: 60 });
    const config = world.configure();
    const { organizations, control } = world.simulator;
    const bad = organizations[0]!.id;
    const once = () => world.run(["run", "--once", "-c", config]);
    const reasons = async () => {
      const { stdout } = await world.run(["coverage", "--json", "--organization", bad, "-c", config]);
      return stdout.match(/: [0-9]{3} /g);
    };
    control.refuseOrganization(bad, 403);
    const refused = await once();
    expect(refused).toMatchObject({ code: 0, stdout: expect.stringContaining("Nothing else is missing.") });
    control.refuseOrganization(bad, 503);
    const unanswered = await once();
    expect(unanswered.stdout).toMatch(
      new RegExp(`Missing:\\n {2}acme/${bad} \\(.*503.*\\) cannot be read\\.`),
    );
    expect(unanswered.stdout).not.toContain("Nothing else is missing.");
    expect(unanswered.code).toBe(1);
    expect(new Set(await reasons())).toEqual(new Set([": 403 "]));
    control.refuseOrganization(bad, null);
    expect(await once()).toMatchObject({ code: 0, stdout: expect.stringContaining("Nothing is missing.") });
  });

  test("one dead sink of three: the others get everything, the exit code is 1 and the sink is named", async () => {
    world = await openWorld({ events: 300 });
    const refusing = createServer((_, response) => response.writeHead(403).end("no"));
    await new Promise<void>((resolve) => refusing.listen(0, "127.0.0.1", resolve));
    const { port } = refusing.address() as AddressInfo;
    const config = world.configure({
      sinks: [
        `{ name: disk, type: file, directory: ${world.at("events")} }`,
        `{ name: dead, type: http, url: 'http://127.0.0.1:${port}/' }`,
        `{ name: second, type: file, directory: ${world.at("second")} }`,
      ],
    });
    try {
      const { code, stdout } = await world.run(["run", "--once", "-c", config]);
      expect(code).toBe(1);
      expect(stdout).toContain("dead lacks 300 events (paused");
      expect(stdout).toContain("disk (file");
      expect(world.lines().toSorted()).toEqual(world.served().toSorted());
      expect(world.lines(world.at("second")).toSorted()).toEqual(world.served().toSorted());
    } finally {
      refusing.close();
    }
  });

  test("a dead sink with a filter lacks up to so many events: they are counted before its filter", async () => {
    world = await openWorld({ events: 300 });
    const refusing = createServer((_, response) => response.writeHead(403).end("no"));
    await new Promise<void>((resolve) => refusing.listen(0, "127.0.0.1", resolve));
    const { port } = refusing.address() as AddressInfo;
    const only = "only: { services: [sso] }";
    const config = world.configure({
      sinks: [`{ name: part, type: http, url: 'http://127.0.0.1:${port}/', ${only} }`],
    });
    try {
      const { stdout } = await world.run(["run", "--once", "-c", config]);
      expect(stdout).toMatch(/part lacks up to [0-9]+ events, before its filter \(paused/);
      const status = await world.run(["status", "-c", config]);
      expect(status.stdout).toMatch(/part +http.* up to [0-9]+ /);
    } finally {
      refusing.close();
    }
  });

  test("ended by a signal it exits non-zero and says so", async () => {
    world = await openWorld({ events: 300 });
    world.simulator.control.faults.set([{ kind: "latency", ms: 3000 }]);
    const stop = new AbortController();
    const running = world.run(["run", "--once", "-c", world.configure()], { signal: stop.signal });
    setTimeout(() => stop.abort(new Error("stopped by SIGTERM")), 500);
    const { code, stdout } = await running;
    expect(code).toBe(1);
    expect(stdout).toContain("The run was ended early (stopped by SIGTERM).");
    world.simulator.control.faults.clear();
  });

  test("an account that is refused is named, and the other account is read", async () => {
    world = await openWorld({ events: 300 });
    const { simulator } = world;
    const config = world.configure({
      account: `organizations: all, since: 30d }\n  - { name: wrong, insightsUrl: '${simulator.insightsUrl}', managementUrl: '${simulator.managementUrl}', apiKey: { env: WRONG }, organizations: all`,
    });
    const { code, stdout } = await world.run(["run", "--once", "-c", config], {
      env: { WRONG: "not-the-key-0123456789" },
    });
    expect(code).toBe(1);
    expect(stdout).toContain("wrong");
    expect(world.lines().length).toBe(world.served().length);
  });

  test("a list of organizations that cannot be had is named with its account, and fails the run", async () => {
    world = await openWorld({ events: 30 });
    const config = world.configure();
    expect((await world.run(["run", "--once", "-c", config])).code).toBe(0);
    world.simulator.control.faults.add({ kind: "status", status: 500, api: "management" });
    const unlisted = await world.run(["run", "--once", "-c", config]);
    expect(unlisted.stdout).toContain("Missing:\n  Events of new organizations of acme may be missing");
    expect(unlisted.stdout).toContain("The list of organizations cannot be used: ");
    expect(unlisted.stdout).not.toContain("Nothing is missing.");
    expect(unlisted.code).toBe(1);
    world.simulator.control.faults.clear();
    const listed = await world.run(["run", "--once", "-c", config]);
    expect([listed.code, listed.stdout]).toEqual([0, expect.stringContaining("Nothing is missing.")]);
  });
});

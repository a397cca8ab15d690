// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Fault } from "../../simulator/index.ts";
import { type App, openApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config/load.ts";
import { silentLog } from "../../src/core/log.ts";
import { openWorld, type World } from "../support/world.ts";

describe("the whole program in one process", () => {
  let world: World;
  const apps: App[] = [];
  afterEach(async () => {
    for (const app of apps.splice(0)) await app.close();
    await world.close();
  });

  async function open(file: string, budget?: number): Promise<App> {
    const { config } = loadConfig(file, { KEY: world.simulator.apiKey });
    const journal = budget === undefined ? config.journal : { budget };
    const app = await openApp({ config: { ...config, journal }, log: silentLog, stdout: process.stdout });
    apps.push(app);
    return app;
  }

  async function until(condition: () => boolean, what: string): Promise<void> {
    for (const deadline = Date.now() + 400_000; !condition(); await sleep(50))
      if (Date.now() > deadline) throw new Error(`It never came to this: ${what}`);
  }

  describe("with a destination that is down for a while", () => {
    let server: Server;
    let status: number;
    let taken: string[];

    beforeEach(async () => {
      status = 503;
      taken = [];
      server = createServer((request, response) => {
        let body = "";
        request.on("data", (chunk: Buffer) => {
          body += chunk.toString("latin1");
        });
        request.on("end", () => {
          if (status === 200)
            taken.push(
              ...(JSON.parse(Buffer.from(body, "latin1").toString()) as object[]).map((event) =>
                JSON.stringify(event),
              ),
            );
          response.writeHead(status).end();
        });
      });
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    });
    afterEach(() => new Promise((resolve) => server.close(resolve)));

    test("R13 polling waits at the budget, an alarm names the sink, and when it is back everything arrives", async () => {
      world = await openWorld({ events: 15_000 });
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      world.simulator.control.faults.set([{ kind: "latency", ms: 150 }]);
      const file = world.configure({
        polling: "interval: 1s, pageSize: 500, concurrency: 1",
        sinks: [
          `{ name: hook, type: http, url: '${url}' }`,
          `{ name: disk, type: file, directory: ${world.at("events")} }`,
        ],
      });
      const total = world.served().length;
      // An empty state file needs 1.1 MB and the identities of all events 0.4 MB; two thirds of the events fit beside them.
      const app = await open(file, 2_200_000);
      const stop = new AbortController();
      const running = app.run(stop.signal);
      try {
        const told = () => app.alarms.list().find(({ kind }) => kind === "journal_filling")?.message ?? "";
        await until(() => /all of its budget.*the sink "hook"/.test(told()), "the budget is reached");
        const held = () =>
          app.db.prepare("SELECT COALESCE(SUM(events), 0) FROM pages").pluck().get() as number;
        // Pages on their way still arrive; then polling rests, with most of the events still at the service.
        let [before, unchangedSinceMs] = [held(), Date.now()];
        await until(() => {
          if (held() !== before) [before, unchangedSinceMs] = [held(), Date.now()];
          return Date.now() > unchangedSinceMs + 2500;
        }, "polling rests");
        expect(before).toBeLessThan(total);
        status = 200;
        await until(() => new Set(taken).size >= total, "everything is taken");
        await until(() => world.lines().length >= total, "everything is on disk");
      } finally {
        stop.abort(new Error("stopped"));
        await running;
      }
      const served = world.served().map((line) => JSON.stringify(JSON.parse(line)));
      expect([...new Set(taken)].toSorted()).toEqual(served.toSorted());
      expect(world.lines().toSorted()).toEqual(world.served().toSorted());
    });
  });

  test("R20 a lost state file is reported with the choices; no file is touched", async () => {
    world = await openWorld({ events: 200 });
    const config = world.configure();
    expect(await world.run(["run", "--once", "-c", config])).toMatchObject({ code: 0, stderr: "" });
    const before = world.lines();
    for (const end of ["", "-wal", "-shm", ".lock"]) rmSync(world.at(`state.db${end}`), { force: true });
    const outcome = await world.run(["run", "--once", "-c", config]);
    expect(outcome.code).toBe(1);
    expect(outcome.stdout).toMatch(/The sink "disk" is stopped: .*was written from journal .* Choose: /);
    expect(outcome.stdout).toMatch(
      new RegExp(
        `disk lacks ${before.length} events .* They are kept and delivered once the sink goes on\\.`,
      ),
    );
    expect(outcome.stderr).toMatch(/"kind":"sink_stopped","subject":"disk".*"remedy":"Choose: /);
    expect(world.lines()).toEqual(before);
  });

  test("an organization that is refused does not keep the others from being delivered", async () => {
    world = await openWorld({ events: 300 });
    const [refused, ...others] = world.simulator.organizations;
    world.simulator.control.refuseOrganization(refused!.id, 402);
    const config = world.configure();
    const outcome = await world.run(["run", "--once", "-c", config]);
    expect([outcome.code, outcome.stderr]).toEqual([0, expect.stringContaining(refused!.id)]);
    expect(outcome.stdout).toMatch(
      /Known to be missing:\n {2}The service refused \d+ time ranges? when it was last asked/,
    );
    const expected = others.flatMap(({ id }) =>
      [...world.simulator.control.allEvents({ organization: id })].map((bytes) =>
        Buffer.from(bytes).toString(),
      ),
    );
    expect(world.lines().toSorted()).toEqual(expected.toSorted());
  });

  test.each<[string, Fault]>([
    ["cut in half", { kind: "cut_body", afterBytes: 2000, times: 1 }],
    ["of nonsense", { kind: "broken_json", times: 1 }],
  ])("a page %s is not taken, and everything arrives exactly once all the same", async (_, fault) => {
    world = await openWorld({ events: 300 });
    world.simulator.control.faults.set([fault]);
    expect((await world.run(["run", "--once", "-c", world.configure()])).code).toBe(0);
    expect(world.lines().toSorted()).toEqual(world.served().toSorted());
  });
});

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { skipUnless } from "../support/components.ts";
import { freePort } from "../support/ports.ts";
import { type Program, runProgram, startProgram } from "../support/program.ts";
import { openWorld, type World } from "../support/world.ts";
import { archivedWorld, DUCKDB_REMEDY, duckdb } from "./support.ts";

const skips = skipUnless("duckdb", duckdb, DUCKDB_REMEDY);

describe.skipIf(skips)("the search of a running exporter", () => {
  let world: World;
  let program: Program;
  let url: string;
  const env = () => ({ KEY: world.simulator.apiKey, SERVER_TOKEN: "a-server-token-0123456789" });
  const config = () => ["--config", world.at("tidemark.yaml")];

  // ps fails where there are no such processes.
  const searchProcesses = () =>
    spawnSync("ps", ["-o", "pid=,ni=,args=", "--ppid", String(program.child.pid)], { encoding: "utf8" })
      .stdout.split("\n")
      .filter((line) => line.includes("search-process"));

  beforeAll(async () => {
    world = await openWorld();
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    await archivedWorld(world, [`server: { port: ${port}, token: { env: SERVER_TOKEN } }`], env());
    program = startProgram(["run", ...config()], env());
    await vi.waitFor(async () => expect((await fetch(`${url}/livez`)).status).toBe(200), {
      timeout: 600_000,
      interval: 200,
    });
  });
  afterAll(async () => {
    await program?.kill("SIGTERM");
    await world?.close();
  });

  test("keeps the index up to date without a search, in a process that ends afterwards", async () => {
    const files = () => {
      const folder = world.at("state.db.search/index/default");
      return existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".parquet")) : [];
    };
    await expect.poll(() => files().some((name) => name.startsWith("pages-"))).toBe(true);
    expect(files().filter((name) => name.startsWith("part-")).length).toBeGreaterThan(5);
    await expect.poll(searchProcesses).toEqual([]);
  });

  test("answers in a process of its own, with a token that a command made, until it is revoked", async () => {
    const { id } = world.simulator.organizations[0]!;
    const made = await runProgram(
      ["tokens", "new", "elastic", "--organization", id, "--expires", "1d", ...config()],
      env(),
    );
    const secret = made.stdout.trim();
    expect(secret).toMatch(/^tmk_/);
    const ask = () =>
      fetch(`${url}/insights/directory/v1/events`, {
        method: "POST",
        headers: { "x-api-key": secret, "content-type": "application/json" },
        body: JSON.stringify({ service: ["all"], start_time: "2020-01-01T00:00:00Z", limit: 10_000 }),
      });
    const answer = await ask();
    expect(answer.status).toBe(200);
    const events = (await answer.json()) as { id: string }[];
    const served = [...world.simulator.control.allEvents({ organization: id })].length;
    expect(events.length).toBe(served);
    const page = await fetch(`${url}/api/search/events?limit=1`, {
      headers: { authorization: `Bearer ${env().SERVER_TOKEN}` },
    });
    const found = (await page.json()) as { events: { identity: string }[] };
    const detail = await fetch(`${url}/api/search/event?id=${events[0]!.id}`, {
      headers: { authorization: `Bearer ${env().SERVER_TOKEN}` },
    });
    expect({ status: detail.status, text: await detail.clone().text() }).toMatchObject({ status: 200 });
    const event = (await detail.json()) as { proof: object; deliveries: { sink: string; state: string }[] };
    expect(found.events).toHaveLength(1);
    expect(event.proof).toMatchObject({ type: "tidemark/proof/v1" });
    expect(event.deliveries).toEqual([expect.objectContaining({ sink: "disk", state: "delivered" })]);
    const log = await runProgram(["tokens", "log", "--json", ...config()], env());
    expect(JSON.parse(log.stdout.split("\n")[0]!)).toMatchObject({
      who: "elastic",
      events: served,
      status: 200,
    });
    expect((await runProgram(["tokens", "revoke", "elastic", ...config()], env())).code).toBe(0);
    await expect.poll(async () => (await ask()).status).toBe(401);
    expect((await runProgram(["tokens", "list", ...config()], env())).stdout).toContain("revoked");
  });

  test("a search beside it disturbs nothing, and the exporter goes on when its search process is killed", async () => {
    expect(searchProcesses()).toHaveLength(1);
    const [pid, nice] = searchProcesses()[0]!.trim().split(/\s+/).map(Number) as [number, number];
    expect(nice).toBe(19);
    // A25: the peak of its memory so far, after it made the index and answered.
    const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
    expect(Number(peak) * 1024).toBeLessThan(512e6);
    process.kill(pid, "SIGKILL");
    const headers = { authorization: `Bearer ${env().SERVER_TOKEN}` };
    await expect
      .poll(() => fetch(`${url}/api/search/events?limit=1`, { headers }).then(({ status }) => status))
      .toBe(200);
    expect((await fetch(`${url}/livez`)).status).toBe(200);
  });
});

import { PassThrough } from "node:stream";
import { Command } from "commander";
import { describe, expect, it } from "vitest";
import type { Io } from "../../src/commands/io.ts";
import { registerSimulate } from "../../src/commands/simulate.ts";
import { call } from "./support.ts";

function start(argv: readonly string[]) {
  const stop = new AbortController();
  const stdout = new PassThrough();
  const io: Io = {
    stdout,
    stderr: new PassThrough(),
    stdin: new PassThrough(),
    env: {},
    signal: stop.signal,
    interactive: false,
    setExitCode() {},
  };
  const program = new Command()
    .exitOverride()
    .configureOutput({ writeErr() {}, writeOut: (text) => stdout.write(text) });
  registerSimulate(program, io);
  for (const command of program.commands)
    command.exitOverride().configureOutput({ writeErr() {}, writeOut: (text) => stdout.write(text) });
  const done = program.parseAsync(["node", "tidemark", "simulate", ...argv]);
  return { stop: () => stop.abort(), stdout, done };
}

const firstOutput = async (stdout: PassThrough) =>
  String((await stdout[Symbol.asyncIterator]().next()).value);

describe("tidemark simulate", () => {
  it("prints one line of JSON when it is ready, serves until it is stopped, and ends", async () => {
    const flags = [
      "--json",
      "--events",
      "20",
      "--organizations",
      "2",
      "--api-key",
      "k",
      "--clock",
      "2025-03-01T12:00:00Z",
      "--speed",
      "0",
    ];
    const running = start([...flags, "--fault", '{"kind":"status","status":503,"times":1}']);
    const line = await firstOutput(running.stdout);
    expect(line.indexOf("\n")).toBe(line.length - 1);
    const ready = JSON.parse(line);
    expect(ready).toMatchObject({ apiKey: "k", providerId: expect.any(String), organizations: [{}, {}] });
    const organizations = () => call("GET", `${ready.managementUrl}/organizations/`, { "x-api-key": "k" });
    expect((await organizations()).status).toBe(503);
    expect((await organizations()).body).toMatchObject({ totalCount: 2 });
    running.stop();
    await running.done;
    await expect(organizations()).rejects.toThrow();
  });

  it("prints the OAuth client, whose token opens both APIs, and takes the exporter's service names", async () => {
    const running = start(["--json", "--events", "50", "--exporter-services"]);
    const ready = JSON.parse(await firstOutput(running.stdout));
    const basic = Buffer.from(`${ready.oauth.clientId}:${ready.oauth.clientSecret}`).toString("base64");
    const issued = await fetch(ready.oauth.tokenUrl, {
      method: "POST",
      headers: { authorization: `Basic ${basic}` },
      body: new URLSearchParams({ scope: "api", grant_type: "client_credentials" }),
    });
    const { access_token } = (await issued.json()) as { access_token: string };
    const headers = { authorization: `Bearer ${access_token}`, "x-org-id": ready.organizations[0].id };
    expect((await call("GET", `${ready.managementUrl}/applications`, headers)).status).toBe(200);
    const asked = (service: string) =>
      call("POST", `${ready.insightsUrl}/insights/directory/v1/events`, headers, {
        service: [service],
        start_time: "2024-01-01T00:00:00Z",
      });
    for (const service of ["alerts", "saas_app_management", "workflows"])
      expect((await asked(service)).status).toBe(200);
    expect((await asked("nonsense")).status).toBe(400);
    running.stop();
    await running.done;
  });

  it("says in words where it listens otherwise", async () => {
    const running = start(["--events", "0"]);
    expect(await firstOutput(running.stdout)).toMatch(/listens at http:\/\/127\.0\.0\.1:\d+\n/);
    running.stop();
    await running.done;
  });

  it("fails when the port is taken, and for a fault that does not exist", async () => {
    const running = start(["--events", "0", "--json"]);
    const { url } = JSON.parse(await firstOutput(running.stdout)) as { url: string };
    await expect(start(["--events", "0", "--port", new URL(url).port]).done).rejects.toThrow(/EADDRINUSE/);
    running.stop();
    await running.done;
    await expect(start(["--events", "0", "--fault", '{"kind":"flood"}']).done).rejects.toThrow(
      /no fault of kind "flood"/,
    );
  });

  it("has an example in the help of every flag, and refuses nonsense", async () => {
    const help = start(["--help"]);
    await expect(help.done).rejects.toThrow();
    const text = String(help.stdout.read());
    const flags = [...text.matchAll(/^ {2}(--[\w-]+|-h)/gm)].filter(([, flag]) => flag !== "-h");
    expect(flags.length).toBeGreaterThan(20);
    expect([...text.matchAll(/e\.g\./g)]).toHaveLength(flags.length);
    await expect(start(["--port", "many"]).done).rejects.toThrow(/whole number/);
    await expect(start(["--fault", "{"]).done).rejects.toThrow(/JSON/);
  });
});

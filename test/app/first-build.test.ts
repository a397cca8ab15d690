import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Simulator, startSimulator } from "../../simulator/index.ts";
import { openApp } from "../../src/app.ts";
import { loadConfig } from "../../src/config/load.ts";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { silentLog } from "../../src/core/log.ts";
import { linesBelow } from "../end-to-end/scene.ts";

const FIXTURE = join(import.meta.dirname, "../fixtures/first-build");
const EVENTS = readFileSync(join(FIXTURE, "events.jsonl"), "utf8").trimEnd().split("\n");
const STOPPED_MS = Date.parse("2026-11-01T12:10:00Z");
const ORGANIZATIONS = [1, 2, 3].map((n) => `5f0c8a1b2c3d4e5f6071820${n}`);

/** The time of the fixture goes on, so that nothing in it expires, whenever this test runs. */
const clock: Clock = {
  now: (
    (offsetMs) => () =>
      Date.now() + offsetMs
  )(STOPPED_MS - Date.now()),
  sleep: systemClock.sleep,
};

describe("a state file written by the first build", () => {
  let folder: string;
  let simulator: Simulator;
  let receiver: Server;
  let received: string[];

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "tidemark-first-build-"));
    cpSync(join(FIXTURE, "disk"), join(folder, "disk"), { recursive: true });
    writeFileSync(join(folder, "state.db"), gunzipSync(readFileSync(join(FIXTURE, "state.db.gz"))));
    simulator = await startSimulator({
      organizations: ORGANIZATIONS.map((id, at) => ({ id, name: `tenant ${at}` })),
      events: 0,
      days: 10,
      lateness: "none",
      clock: { start: STOPPED_MS },
    });
    for (const text of EVENTS) simulator.control.append(organizationOf(text), [text]);
    received = [];
    receiver = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const events = JSON.parse(Buffer.concat(chunks).toString()) as unknown[];
        received.push(...events.map((event) => JSON.stringify(event)));
        response.end();
      });
    });
    await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  });

  afterEach(async () => {
    await simulator.close();
    receiver.closeAllConnections();
    receiver.close();
    rmSync(folder, { recursive: true, force: true });
  });

  test("opens, delivers the rest to the sink that was behind, and reads nothing twice", async () => {
    const timestamp = new Date(STOPPED_MS - 60_000).toISOString();
    const fresh = JSON.stringify({ ...JSON.parse(EVENTS[0]!), id: "00000000000065f3121609ff", timestamp });
    simulator.control.append(organizationOf(fresh), [fresh]);
    const app = await openApp({ config: config(), log: silentLog, stdout: process.stdout, clock });
    const { letters } = await app.view.deadLetters({ limit: 10 });
    await app.once(AbortSignal.timeout(400_000));
    await app.close();

    expect(letters.map(({ sink }) => sink)).toEqual(["hook", "hook"]);
    expect(received.length).toBe(EVENTS.length - 100 - letters.length + 1);
    expect(new Set(received).size).toBe(received.length);
    for (const text of received) expect([...EVENTS, fresh]).toContain(text);
    expect(linesBelow(join(folder, "disk")).toSorted()).toEqual([...EVENTS, fresh].toSorted());
  });

  function config() {
    const { port } = receiver.address() as AddressInfo;
    const file = join(folder, "tidemark.yaml");
    const account = {
      name: "acme",
      insightsUrl: simulator.insightsUrl,
      managementUrl: simulator.managementUrl,
      apiKey: { env: "KEY" },
      organizations: ORGANIZATIONS,
      since: "30d",
    };
    const sinks = [
      { name: "disk", type: "file", directory: join(folder, "disk") },
      { name: "hook", type: "http", url: `http://127.0.0.1:${port}/`, gzip: false, format: "raw" },
    ];
    writeFileSync(file, JSON.stringify({ accounts: [account], state: join(folder, "state.db"), sinks }));
    return loadConfig(file, { KEY: simulator.apiKey }).config;
  }
});

function organizationOf(text: string): string {
  return (JSON.parse(text) as { organization: string }).organization;
}

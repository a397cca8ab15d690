import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Simulator, startSimulator } from "../../simulator/index.ts";
import { runProgram, startProgram } from "../support/program.ts";

/** TIDEMARK_KILLS=120 is the long campaign. */
const KILLS = Number(process.env.TIDEMARK_KILLS ?? 6);
const EVENTS = KILLS * 1500;

let simulator: Simulator;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tidemark-kills-"));
  simulator = await startSimulator({
    organizations: 5,
    events: EVENTS,
    days: 20,
    eventBytes: 600,
    liveEventsPerSecond: 100,
    lateness: { typicalMs: 300, lateShare: 0.05, lateMs: 4000, tailShare: 0, tailMs: 0 },
    faults: [{ kind: "latency", ms: 40 }],
  });
});

afterAll(async () => {
  await simulator.close();
  rmSync(folder, { recursive: true, force: true });
});

function writeConfig(): string {
  const file = join(folder, "tidemark.yaml");
  const config = {
    accounts: [
      {
        name: "acme",
        insightsUrl: simulator.insightsUrl,
        managementUrl: simulator.managementUrl,
        apiKey: { env: "DIRECTORY_API_KEY" },
        organizations: "all",
        provider: simulator.providerId,
        since: "30d",
      },
    ],
    state: join(folder, "state.db"),
    polling: { interval: "300ms", overlap: "1m", pageSize: 100 },
    sinks: [
      { name: "raw", type: "file", directory: join(folder, "raw"), rotateSize: "200KB", gzip: true },
      {
        name: "ordered",
        type: "file",
        directory: join(folder, "ordered"),
        path: "{organization}",
        format: "envelope",
      },
    ],
  };
  writeFileSync(file, JSON.stringify(config));
  return file;
}

it(`${KILLS} kill -9 at random moments lose nothing and double nothing`, {
  timeout: 600_000 + KILLS * 10_000,
}, async () => {
  const args = ["run", "--config", writeConfig()];
  const env = { DIRECTORY_API_KEY: simulator.apiKey };
  let atWork = 0;
  for (let kill = 0; kill < KILLS; kill++) {
    const before = bytesBelow(join(folder, "raw"));
    const running = startProgram(args, env);
    // Two of three count from the first bytes that it delivers, so that they meet a program at work on any machine.
    if (kill % 3 > 0) while (bytesBelow(join(folder, "raw")) === before) await sleep(20);
    await sleep(Math.random() * 1500);
    await running.kill();
    if (bytesBelow(join(folder, "raw")) !== before) atWork++;
  }
  simulator.control.setLiveRate(0);
  // The last indexed events are visible before the last read.
  await sleep(5000);
  const last = await runProgram([...args, "--once"], env);
  expect(last.stderr).not.toContain('"level":"error"');
  expect(last, last.stderr.slice(-2000)).toMatchObject({ code: 0 });

  // Without an id the same bytes are the same event (R10), and an LDAP search can be logged twice in a second.
  const served = new Map([...simulator.control.allEvents()].map((bytes) => [digestOf(bytes), bytes]));
  const written = countLines(linesBelow(join(folder, "raw")));
  const missing = [...served]
    .filter(([digest]) => !written.has(digest))
    .map(([, bytes]) => Buffer.from(bytes).toString("utf8", 0, 300));
  const lost = missing.length;
  let twice = 0;
  for (const [digest, count] of written) twice += served.has(digest) ? count - 1 : count;
  const total = served.size;
  process.stderr.write(
    `kills ${KILLS} (${atWork} of a program that was delivering), events ${total}, lost ${lost}, twice ${twice}\n`,
  );
  expect(atWork).toBeGreaterThan(KILLS / 3);
  expect({ lost, twice }, `missing: ${missing.slice(0, 5).join("\n")}`).toEqual({ lost: 0, twice: 0 });
  expect(total).toBeGreaterThanOrEqual(EVENTS * 0.9);
  checkOrder(join(folder, "ordered"), total);
});

interface Envelope {
  readonly organization: string | null;
  readonly position: { readonly page: number; readonly index: number };
}

/** In journal order: page and index only rise along each file of an organization. */
function checkOrder(root: string, total: number): void {
  let lines = 0;
  const last = new Map<string, number>();
  for (const file of filesBelow(root)) {
    for (const line of readFileSync(file, "utf8").split("\n")) {
      if (line === "") continue;
      const { organization, position } = JSON.parse(line) as Envelope;
      const place = position.page * 100_000 + position.index;
      const key = String(organization);
      expect(place).toBeGreaterThan(last.get(key) ?? -1);
      last.set(key, place);
      lines++;
    }
  }
  expect(lines).toBe(total);
}

function countLines(lines: Iterable<Buffer>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const line of lines) {
    const digest = digestOf(line);
    counts.set(digest, (counts.get(digest) ?? 0) + 1);
  }
  return counts;
}

function digestOf(line: Uint8Array): string {
  return createHash("sha256").update(line).digest("hex");
}

function* linesBelow(root: string): Generator<Buffer> {
  for (const file of filesBelow(root)) {
    const bytes = readPlain(file);
    let start = 0;
    for (let end = bytes.indexOf(10, start); end >= 0; end = bytes.indexOf(10, start)) {
      yield bytes.subarray(start, end);
      start = end + 1;
    }
    expect(start).toBe(bytes.length);
  }
}

function filesBelow(root: string): string[] {
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.parentPath.includes(".tidemark"))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

/** A file may go away meanwhile. */
function bytesBelow(root: string): number {
  if (!existsSync(root)) return 0;
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .map((entry) => statSync(join(entry.parentPath, entry.name), { throwIfNoEntry: false }))
    .reduce((sum, status) => sum + (status?.isFile() ? status.size : 0), 0);
}

function readPlain(file: string): Buffer {
  const bytes = readFileSync(file);
  return file.endsWith(".gz") ? gunzipSync(bytes) : bytes;
}

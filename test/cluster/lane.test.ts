import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createModelChangelog, type ModelChangelog } from "../../sim/changelog.ts";
import { type LaneRunner, runLane } from "../../src/app/cluster/lane.ts";
import { createSharedParts } from "../../src/app/cluster/shared-parts.ts";
import { type App, openApp } from "../../src/app.ts";
import { instantNow } from "../../src/cluster/self-fence.ts";
import { loadConfig } from "../../src/config/load.ts";
import { createAlarms } from "../../src/core/alarms.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { LaneOutcome } from "../../src/core/lane-requests.ts";
import { silentLog } from "../../src/core/log.ts";
import { silentMetrics } from "../../src/core/metrics.ts";
import { Sqlite } from "../../src/core/sqlite.ts";
import { DamagedStateError } from "../../src/journal/database.ts";
import { openLane } from "../../src/journal/replication/open.ts";
import { inlinePreparer } from "../../src/polling/prepare/preparer.ts";
import { temporaryFolder } from "../journal/support.ts";
import { eventTexts, pageOf } from "../support/pages.ts";

const never = new AbortController().signal;
let folder: ReturnType<typeof temporaryFolder>;
let changelog: ModelChangelog;
const runners: LaneRunner[] = [];
const answers: [string, LaneOutcome][] = [];

beforeEach(() => {
  folder = temporaryFolder();
  changelog = createModelChangelog();
  changelog.create("c1", 2);
});
afterEach(async () => {
  for (const runner of runners.splice(0)) await runner.close();
  folder.remove();
});

/** Lane 0, or another one, on a machine whose config has one sink of this name. */
function run(machine: string, sink: string, lane = 0, changed = (app: App) => app): LaneRunner {
  const file = join(folder.path, `${machine}.yaml`);
  const lines = [
    "accounts: [{ name: acme, insightsUrl: 'http://127.0.0.1:1', managementUrl: 'http://127.0.0.1:1', apiKey: { env: KEY }, organizations: all }]",
    `state: ${join(folder.path, `${machine}.db`)}`,
    `sinks: [{ name: ${sink}, type: console }]`,
  ];
  writeFileSync(file, lines.join("\n"), { mode: 0o600 });
  const { config } = loadConfig(file, { KEY: "k".repeat(40) });
  const alarms = createAlarms(systemClock, silentLog);
  const shared = createSharedParts(config, { measured: silentMetrics, alarms, preparer: inlinePreparer });
  const runner = runLane({
    ...{ lane, file: config.state, machine, changelog, sessionTimeoutMs: 600_000, log: silentLog },
    ...{ shared: shared.parts, againMs: 50 },
    async openApp(parts, repairing) {
      const { preparer } = shared;
      const stdout = new PassThrough();
      return changed(await openApp({ config, log: silentLog, stdout, preparer, lane: parts, repairing }));
    },
    answer: async (origin, outcome) => void answers.push([origin, outcome]),
    changed: () => {},
    fenced: () => {},
    tooNew: () => {},
  });
  runner.confirm(instantNow());
  runners.push(runner);
  return runner;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; !condition() && tries < 3000; tries++) await systemClock.sleep(20, never);
  const seen = runners.map(({ status: { state, reason } }) => `${state}: ${reason ?? ""}`);
  expect([condition(), ...seen]).toContain(true);
}

test("C3 a lane whose sink was removed from the config waits for the request that says what becomes of it, and goes on", async () => {
  const before = run("one", "old");
  await until(() => before.status.state === "running");
  await before.close();
  const after = run("two", "new");
  await until(() => after.status.state === "stopped" && after.status.app !== undefined);
  expect(after.status.reason).toContain('the sink "old" has a position and is not in the config');
  const forget = { origin: "0:a", kind: "forget", body: { sink: "old" } };
  await after.status.app!.requests.take([forget], 1);
  await until(() => after.status.state === "running");
  expect(answers).toContainEqual(["0:a", expect.objectContaining({ ok: true })]);
  expect(after.status.app!.journal.readers.names()).not.toContain("old");
});

test("C13 a lane that is lost within seconds, again and again, is opened more and more slowly and counts it", async () => {
  const runner = run("one", "sink");
  await until(() => runner.status.state === "running");
  const lose = async (times: number) => {
    changelog.failNext("before");
    const { app } = runner.status;
    await app?.requests.take([{ origin: "0:a", kind: "poll", body: {} }], 1).catch(() => {});
    await until(() => runner.status.failures === times && runner.status.state === "running");
  };
  await lose(1);
  const startMs = performance.now();
  await lose(2);
  await lose(3);
  expect(performance.now() - startMs).toBeGreaterThan(100 + 200);
});

test.each([
  ["a row does not fit its checksum", new DamagedStateError("one.db", "the row 1 of windows")],
  ["SQLite says so", Object.assign(new Error("malformed"), { code: "SQLITE_CORRUPT_INDEX" })],
])(
  "R37 a lane whose file is found damaged while it runs builds it anew and goes on: %s",
  async (_, error) => {
    let lives = 0;
    const runner = run("one", "sink", 0, (app) => {
      if (++lives > 1) return app;
      return { ...app, run: () => Promise.reject(error) };
    });
    await until(() => runner.status.state === "running" && lives === 2);
    expect(runner.status.replay).toBe("rebuilt");
  },
);

test("R37 a lane whose file has a damaged page builds it anew, and delivers the page", async () => {
  const idle = (app: App) => ({ ...app, run: (stop: AbortSignal) => aborted(stop) });
  const first = run("one", "sink", 0, idle);
  await until(() => first.status.state === "running");
  await first.status.app!.journal.append(pageOf(eventTexts(0, 5)));
  await first.close();
  const db = new Sqlite(join(folder.path, "one.db"));
  const body = db.prepare("SELECT body FROM bodies").pluck().get() as Buffer;
  body[20]! ^= 1;
  db.prepare("UPDATE bodies SET body = ?").run(body);
  db.close();
  const second = run("one", "sink");
  await until(() => second.status.replay === "rebuilt" && second.status.state === "running");
  const { app } = second.status;
  const delivered = async () =>
    (await app!.view.sinks()).sinks.find(({ name }) => name === "sink")?.sentEvents;
  await vi.waitFor(async () => expect(await delivered()).toBe(5), { timeout: 60_000 });
});

test("R37 a lane whose rows are damaged in its log stops and is named; the others run", async () => {
  const options = { file: join(folder.path, "lane.db"), changelog, lane: 0, machine: "zero", signal: never };
  const { state, close } = await openLane(options);
  await state.change(() => {
    state.exec("INSERT INTO meta (key, value) VALUES ('k', 'value')");
    state.exec("UPDATE meta SET row_checksum = row_checksum + 12345 WHERE key = 'k'");
  });
  await close();
  const damaged = run("one", "sink");
  const sound = run("two", "sink", 1);
  await until(() => damaged.status.state === "stopped" && sound.status.state === "running");
  expect(damaged.status.reason).toContain("The state of lane 0 in Kafka is damaged (the row k of meta");
});

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openFollowers, TRACKER } from "../../src/app/followers.ts";
import { silentMetrics } from "../../src/core/metrics.ts";
import { newWindow } from "../../src/core/window.ts";
import type { Follower } from "../../src/delivery/follow.ts";
import { createImports, type Imports } from "../../src/imports/create-imports.ts";
import { orderOf } from "../../src/imports/scheduler.ts";
import { startImport } from "../../src/imports/start.ts";
import { type JournalFixture, openFixture } from "../journal/support.ts";
import { eventText, ORGANIZATION, pageOf } from "../support/pages.ts";
import {
  definitionOf,
  forever,
  type HandClock,
  handClock,
  heardLog,
  type Jobs,
  jobsOf,
  type SourceScript,
  sourceOf,
  startContext,
  worker,
} from "./support.ts";

const MINUTE_MS = 60_000;

/** The journal has the events of the last minutes, as after a pause; the tracker has not come to them yet. */
describe("a tracker that is behind the journal", () => {
  let own: JournalFixture;
  let clock: HandClock;
  let jobs: Jobs;
  let tracker: Follower;
  const log = heardLog();

  beforeEach(() => {
    clock = handClock("2026-02-01T01:00:00Z");
    own = openFixture(clock);
    jobs = jobsOf(own.db);
  });
  afterEach(() => own.close());

  async function run(source: SourceScript): Promise<Imports> {
    const { db, journal } = own;
    const imports = createImports({
      ...{ db, definitions: [], source: () => source, accounts: ["acme"], clock, log },
      readUntilMs: journal.readUntil(TRACKER),
    });
    const config = { drift: false, sinks: [] };
    const parts = { config, journal, db, clock, metrics: silentMetrics, draining: () => true };
    [tracker] = (await openFollowers({ ...parts, applyImports: imports.apply })) as [Follower];
    return imports;
  }

  const start = (source: SourceScript, changes: object) =>
    startImport(
      startContext(own.db, source, clock, log),
      orderOf(definitionOf({ organization: ORGANIZATION, ...changes })),
      forever,
    );

  /** A page with these users' events. */
  async function append(serviceJob: string, source: string, names: readonly string[], atMs: number) {
    const events = names.map((username, at) =>
      eventText(at, {
        timestamp: new Date(atMs + at).toISOString(),
        service: "directory",
        event_type: "user_create",
        correlation: { id: serviceJob, type: "user_import" },
        application: { id: source },
        resource: { type: "user", username },
      }),
    );
    await own.journal.append(pageOf(events));
  }

  /** All time up to now is read. */
  async function readAll(): Promise<void> {
    const { journal } = own;
    const stream = await journal.stream({
      ...{ account: "acme", provider: null, organizations: [ORGANIZATION], services: ["all"] },
    });
    await journal.changeWindows({ add: [newWindow(stream, 0, clock.now(), { live: true })] });
  }

  async function follow(): Promise<void> {
    while ((await tracker.step(forever)) === "again");
  }

  it("R28 sends no part again whose events it has still to see", async () => {
    const source = sourceOf(
      [
        { kind: "uncertain", reason: "an answer without an id" },
        { kind: "started", serviceJob: "j2" },
      ],
      undefined,
      [worker("anna"), worker("ben")],
    );
    const imports = await run(source);
    const { id } = await start(source, { application: undefined, workday: "wd1" });
    const sentMs = clock.now();
    clock.advance(10 * MINUTE_MS);
    await append("j1", "wd1", ["anna", "ben"], sentMs + 20_000);
    await readAll();
    await imports.step(forever);
    expect(source.starts).toHaveLength(1);
    await follow();
    await imports.step(forever);
    expect(source.starts).toHaveLength(1);
    expect(jobs.list({})).toMatchObject([{ id, serviceJob: "j1", counts: { created: 2 } }]);
  });

  it("ends no job for silence whose events it has still to see", async () => {
    const source = sourceOf([{ kind: "started", serviceJob: "j1" }]);
    const imports = await run(source);
    const { id } = await start(source, { application: "app1" });
    clock.advance(20 * MINUTE_MS);
    await append("j1", "app1", ["anna"], clock.now() - 10 * MINUTE_MS);
    await readAll();
    await imports.step(forever);
    expect(jobs.row(id)).toMatchObject({ ended_ms: null });
    await follow();
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({ state: "running", counts: { created: 1 } });
  });

  it("R28 resolves no uncertain start before it has seen whether another job fits as well", async () => {
    const source = sourceOf([{ kind: "uncertain", reason: "cut" }]);
    const imports = await run(source);
    const { id } = await start(source, { application: "app1" });
    const sentMs = clock.now();
    clock.advance(10 * MINUTE_MS);
    await append("j1", "app1", ["anna"], sentMs + 20_000);
    await follow();
    await append("j2", "app1", ["ben"], sentMs + 40_000);
    await readAll();
    await imports.step(forever);
    await follow();
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({ state: "uncertain", serviceJob: null });
  });
});

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createImports } from "../../src/imports/create-imports.ts";
import { resolveJob } from "../../src/imports/resolve.ts";
import { orderOf } from "../../src/imports/scheduler.ts";
import type { StartAnswer } from "../../src/imports/source.ts";
import { startImport } from "../../src/imports/start.ts";
import { OpenJobError } from "../../src/imports/store/jobs.ts";
import {
  definitionOf,
  eventOf,
  forever,
  type HandClock,
  type HeardLog,
  handClock,
  heardLog,
  type Jobs,
  jobsOf,
  openState,
  type SourceScript,
  sourceOf,
  startContext,
  worker,
} from "./support.ts";

const MINUTE_MS = 60_000;
const LOST: StartAnswer = { kind: "uncertain", reason: "the answer broke off" };
const REFUSED: StartAnswer = { kind: "refused", about: "request", reason: "400 no such application" };
const started = (serviceJob: string): StartAnswer => ({ kind: "started", serviceJob });

let folder: string;
let file: string;
let db: ReturnType<typeof openState>;
let clock: HandClock;
let log: HeardLog;
let jobs: Jobs;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tidemark-imports-"));
  file = join(folder, "state.db");
  db = openState(file);
  clock = handClock("2026-02-01T01:00:00Z");
  log = heardLog();
  jobs = jobsOf(db);
});
afterEach(() => {
  db.close();
  rmSync(folder, { recursive: true });
});

/** A process over the state file; another one after a kill is another call of this. */
function run(source: SourceScript, definitions = [definitionOf()]) {
  return createImports({ db, definitions, source: () => source, accounts: ["acme"], clock, log });
}

const start = (source: SourceScript, changes = {}) =>
  startImport(
    startContext(db, source, clock, log),
    { ...orderOf(definitionOf(changes)), origin: "command", requestedBy: "tests" },
    forever,
  );

function event(serviceJob: string, username: string, more: Record<string, unknown> = {}) {
  return eventOf({
    id: `${serviceJob}-${username}`,
    timestamp: new Date(clock.now()).toISOString(),
    organization: "o1",
    event_type: "user_create",
    correlation: { id: serviceJob, type: "user_import" },
    application: { id: "app1" },
    resource: { type: "user", username },
    ...more,
  });
}

describe("states", () => {
  it("goes from running over quiet to finished, and back with an event", async () => {
    const imports = run(sourceOf([]), []);
    const { id } = await start(sourceOf([started("j1")]));
    const state = async (minutes: number) => {
      clock.advance(minutes * MINUTE_MS);
      await imports.step(forever);
      return jobs.row(id)!.state;
    };
    expect(await state(0)).toBe("running");
    expect(await state(2)).toBe("quiet");
    await imports.apply([event("j1", "anna")]);
    expect(jobs.row(id)!.state).toBe("running");
    expect(await state(3)).toBe("quiet");
    expect(await state(12)).toBe("finished");
    expect(jobs.job(id)).toMatchObject({
      counts: { created: 1 },
      endedAt: new Date(clock.now()).toISOString(),
    });
  });

  it("counts late events into a finished job, and opens it again for one that happened after the end", async () => {
    const imports = run(sourceOf([]), []);
    const { id } = await start(sourceOf([started("j1")]));
    const late = event("j1", "late");
    clock.advance(20 * MINUTE_MS);
    await imports.step(forever);
    clock.advance(MINUTE_MS);
    await imports.apply([late]);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({ state: "finished", counts: { created: 1 } });
    await imports.apply([event("j1", "anna")]);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({ state: "running", endedAt: null, counts: { created: 2 } });
  });

  it("does not take an outage for a job's end", async () => {
    let readUntilMs = clock.now();
    const source = () => sourceOf([]);
    const imports = createImports({
      db,
      definitions: [],
      source,
      accounts: ["acme"],
      clock,
      log,
      readUntilMs: () => readUntilMs,
    });
    const { id } = await start(sourceOf([started("j1")]));
    clock.advance(60 * MINUTE_MS);
    await imports.step(forever);
    expect(jobs.row(id)!.state).toBe("running");
    readUntilMs = clock.now();
    await imports.step(forever);
    expect(jobs.row(id)!.state).toBe("finished");
  });

  it("does not end a job whose organization cannot be read, and says so", async () => {
    let readUntilMs: number | undefined;
    const asked: unknown[][] = [];
    const imports = createImports({
      ...{ db, definitions: [], source: () => sourceOf([]), accounts: ["acme"], clock, log },
      readUntilMs(...args) {
        asked.push(args);
        return readUntilMs;
      },
    });
    const { id } = await start(sourceOf([started("j1")]));
    clock.advance(60 * MINUTE_MS);
    await imports.step(forever);
    expect(jobs.row(id)).toMatchObject({ state: "running", ended_ms: null });
    expect(jobs.job(id)!.reason).toMatch(/^The events of its organization cannot be read now/);
    const { account, organization, active_ms } = jobs.row(id)!;
    expect(asked).toContainEqual([account, organization, active_ms]);
    readUntilMs = clock.now() - 58 * MINUTE_MS;
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({ state: "quiet", reason: null });
    readUntilMs = clock.now();
    await imports.step(forever);
    expect(jobs.row(id)!.state).toBe("finished");
  });

  it("is ended by a person where its organization stays refused, which is not called finished", async () => {
    const imports = createImports({
      ...{ db, definitions: [], source: () => sourceOf([]), accounts: ["acme"], clock, log },
      readUntilMs: () => undefined,
    });
    const { id } = await start(sourceOf([started("j1")]));
    clock.advance(60 * MINUTE_MS);
    await imports.step(forever);
    expect(jobs.job(id)!.reason).toContain("imports resolve ID --ended");
    const context = { store: jobs.store, clock, log };
    await resolveJob(context, id, { ended: true, reason: "the tenant has left" }, "ann");
    const reason = "ended by ann: the tenant has left; it was not seen to finish";
    const isEnded = { state: "ended", reason, endedAt: new Date(clock.now()).toISOString() };
    expect(jobs.job(id)).toMatchObject(isEnded);
    expect(jobs.list({ state: "ended" })).toHaveLength(1);
    expect(jobs.list({ state: "finished" })).toEqual([]);
    await expect(resolveJob(context, id, { ended: true }, "bob")).rejects.toThrow(
      "has ended already (ended by ann",
    );
    clock.advance(60 * MINUTE_MS);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject(isEnded);
    // It was running after all: nothing that was said of it is true any more.
    await imports.apply([event("j1", "u1")]);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({ state: "running", reason: null, endedAt: null });
  });

  it("R28 keeps the id of a late answer to a start that a person has ended, and the person's reason", async () => {
    let answer = (_: StartAnswer) => {};
    const late = sourceOf([() => new Promise<StartAnswer>((resolve) => (answer = resolve))]);
    const command = start(late);
    await expect.poll(() => late.starts).toHaveLength(1);
    const imports = run(sourceOf([]), []);
    await imports.apply([event("j1", "u1")]);
    clock.advance(MINUTE_MS);
    const context = { store: jobs.store, clock, log };
    await resolveJob(context, 1, { ended: true, reason: "impatient" }, "ann");
    expect(jobs.job(1)).toMatchObject({
      ...{ state: "ended", reason: "ended by ann: impatient; it is not known to have started" },
      parts: [{ state: "uncertain", reason: "ended by ann before the answer came" }],
    });
    answer(started("j1"));
    const { id } = await command;
    const isEnded = { state: "ended", reason: "ended by ann: impatient; it was not seen to finish" };
    expect(jobs.list({})).toMatchObject([{ id, ...isEnded, serviceJob: "j1", counts: { created: 1 } }]);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject(isEnded);
    clock.advance(MINUTE_MS);
    await imports.apply([event("j1", "u2")]);
    await imports.step(forever);
    expect(jobs.list({})).toMatchObject([{ id, state: "running", reason: null, counts: { created: 2 } }]);
  });

  it.each([
    ["is unavailable", { kind: "unavailable", reason: "429 busy" }, "refused"],
    ["refuses it", REFUSED, "refused"],
    ["does not answer", { kind: "uncertain", reason: "cut" }, "uncertain"],
  ] as [string, StartAnswer, string][])(
    "R28 sends a start that a person has ended no further when the service %s",
    async (_words, late, state) => {
      let answer = (_: StartAnswer) => {};
      const source = sourceOf([() => new Promise<StartAnswer>((resolve) => (answer = resolve))]);
      const command = start(source);
      await expect.poll(() => source.starts).toHaveLength(1);
      await resolveJob({ store: jobs.store, clock, log }, 1, { ended: true }, "ann");
      answer(late);
      const { id } = await command;
      clock.advance(60 * MINUTE_MS);
      await run(source, []).step(forever);
      expect(source.starts).toHaveLength(1);
      expect(jobs.job(id)).toMatchObject({ state: "ended", serviceJob: null, parts: [{ state }] });
    },
  );

  it("R28 sends nothing of a job that a person ended while the offer was read", async () => {
    let go = () => {};
    const gate = new Promise<void>((resolve) => (go = resolve));
    const source = {
      ...sourceOf([started("j1")]),
      async *offered() {
        await gate;
        yield worker("ada");
      },
    };
    const command = start(source);
    await expect.poll(() => jobs.list({})).toHaveLength(1);
    await resolveJob({ store: jobs.store, clock, log }, 1, { ended: true }, "ann");
    go();
    await command;
    expect(source.starts).toHaveLength(0);
    expect(jobs.job(1)).toMatchObject({ state: "ended", serviceJob: null });
  });

  it("fails with the service's reason when the start is refused", async () => {
    const { id } = await start(sourceOf([REFUSED]));
    expect(jobs.job(id)).toMatchObject({ state: "failed", reason: "400 no such application" });
    expect(jobs.job(id)!.endedAt).not.toBeNull();
  });

  it("R28 calls a start uncertain whose process was killed before the answer, and does not repeat it", async () => {
    const source = sourceOf([() => new Promise<StartAnswer>(() => {})]);
    void start(source);
    await expect.poll(() => source.starts).toHaveLength(1);
    db.close();
    db = openState(file);
    jobs = jobsOf(db);
    const imports = run(source, []);
    await imports.step(forever);
    expect(jobs.list({})).toMatchObject([{ state: "requested" }]);
    clock.advance(3 * MINUTE_MS);
    await imports.step(forever);
    await imports.step(forever);
    const reason = "the process ended before the answer came";
    expect(jobs.list({})).toMatchObject([{ state: "uncertain", reason }]);
    expect(source.starts).toHaveLength(1);
  });
});

describe("a command that was suspended for long", () => {
  it("R28 sends nothing and stores no second offer when another process has started its import meanwhile", async () => {
    let goOn = () => {};
    const suspended = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const users = [worker("anna"), worker("ben")];
    const slow: SourceScript = {
      ...sourceOf([started("j2")], undefined, users),
      async *offered() {
        await suspended;
        yield* users;
      },
    };
    const command = start(slow);
    await expect.poll(() => jobs.list({})).toHaveLength(1);
    clock.advance(4 * MINUTE_MS);
    const source = sourceOf([started("j1")], undefined, users);
    await run(source, []).step(forever);
    goOn();
    const { id } = await command;
    expect([source.starts.length, slow.starts.length]).toEqual([1, 0]);
    expect(jobs.job(id)).toMatchObject({ state: "running", serviceJob: "j1", offered: 2 });
  });

  it("R28 still tells what the service answered, when another process has called its start uncertain", async () => {
    let answer = (_: StartAnswer) => {};
    const late = sourceOf([() => new Promise<StartAnswer>((resolve) => (answer = resolve))]);
    const command = start(late);
    await expect.poll(() => late.starts).toHaveLength(1);
    clock.advance(4 * MINUTE_MS);
    const other = sourceOf([started("j9")]);
    const imports = run(other, []);
    await imports.step(forever);
    await imports.step(forever);
    expect(jobs.list({})).toMatchObject([{ state: "uncertain" }]);
    answer(started("j1"));
    const { id } = await command;
    expect(jobs.job(id)).toMatchObject({ state: "running", serviceJob: "j1" });
    expect(other.starts).toHaveLength(0);
  });
});

describe("an uncertain start", () => {
  it("R28 is resolved by its one candidate when the events of the next two minutes have been read", async () => {
    const imports = run(sourceOf([]), []);
    const { id } = await start(sourceOf([LOST]));
    await imports.step(forever);
    expect(jobs.row(id)!.state).toBe("uncertain");
    clock.advance(10_000);
    await imports.apply([event("j7", "anna"), event("j8", "ben", { application: { id: "app2" } })]);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({ state: "uncertain", serviceJob: null });
    clock.advance(3 * MINUTE_MS);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({ serviceJob: "j7", counts: { created: 1 } });
    expect(
      jobs
        .list({})
        .map((job) => job.serviceJob)
        .sort(),
    ).toEqual(["j7", "j8"]);
  });

  it.each([
    ["two jobs of that application", [{ application: { id: "app1" } }, { application: { id: "app1" } }]],
    ["one that does not say whose it is", [{ application: undefined }]],
    ["one of it and one that does not say", [{ application: { id: "app1" } }, { application: undefined }]],
    ["one of another application", [{ application: { id: "app2" } }]],
    ["one that began an hour before", [{ timestamp: "2026-02-01T00:00:00Z" }]],
  ])("R28 stays uncertain with %s", async (_words, candidates) => {
    const imports = run(sourceOf([]), []);
    const { id } = await start(sourceOf([LOST]));
    clock.advance(10_000);
    await imports.apply(candidates.map((more, at) => event(`j${at}`, "anna", more)));
    clock.advance(3 * MINUTE_MS);
    await imports.step(forever);
    expect(jobs.row(id)).toMatchObject({ state: "uncertain", service_job: null });
  });

  it("R28 is not taken for a job that began a minute before it", async () => {
    const imports = run(sourceOf([]), []);
    const before = event("j1", "anna");
    clock.advance(MINUTE_MS);
    const { id } = await start(sourceOf([LOST]));
    clock.advance(10_000);
    await imports.apply([before]);
    clock.advance(3 * MINUTE_MS);
    await imports.step(forever);
    expect(jobs.row(id)).toMatchObject({ state: "uncertain", service_job: null });
  });

  it("R28 is not taken for the first of two jobs whose events are seen, the second of which may be its own", async () => {
    const imports = run(sourceOf([]), []);
    const { id } = await start(sourceOf([LOST]));
    clock.advance(10_000);
    await imports.apply([event("j1", "anna")]);
    await imports.step(forever);
    clock.advance(10_000);
    await imports.apply([event("j2", "ben")]);
    clock.advance(3 * MINUTE_MS);
    await imports.step(forever);
    expect(jobs.row(id)).toMatchObject({ state: "uncertain", service_job: null });
  });

  it("R28 is not given to one of two uncertain starts that it could belong to", async () => {
    const imports = run(sourceOf([]), []);
    const first = await start(sourceOf([LOST]));
    jobs.move(first.id, "uncertain", clock.now(), { endedMs: clock.now() });
    const second = await start(sourceOf([LOST]));
    clock.advance(10_000);
    await imports.apply([event("j1", "anna")]);
    clock.advance(3 * MINUTE_MS);
    await imports.step(forever);
    expect([first.id, second.id].map((id) => jobs.row(id)!.service_job)).toEqual([null, null]);
  });

  it("R28 ends at a deadline, after which the schedule goes on", async () => {
    const source = sourceOf([LOST, started("j2")]);
    clock.set("2026-02-01T01:59:00Z");
    const imports = run(source, [definitionOf({ schedule: "*/10 * * * *" })]);
    await imports.step(forever);
    clock.set("2026-02-01T02:00:00Z");
    await imports.step(forever);
    expect(jobs.list({})).toMatchObject([{ state: "uncertain" }]);
    clock.set("2026-02-01T02:10:00Z");
    await imports.step(forever);
    expect(source.starts).toHaveLength(1);
    clock.set("2026-02-01T02:20:00Z");
    await imports.step(forever);
    expect(source.starts).toHaveLength(2);
    expect(jobs.list({}).map((job) => job.state)).toEqual(["running", "uncertain"]);
  });

  describe("that is identified after its deadline, while its import has another open job", () => {
    async function identified() {
      const { id } = await start(sourceOf([LOST]));
      jobs.move(id, "uncertain", clock.now(), { endedMs: clock.now() });
      await start(sourceOf([started("j2")]));
      await resolveJob({ store: jobs.store, clock, log }, id, { serviceJob: "j1" }, "ann");
      expect(jobs.job(id)).toMatchObject({ state: "running", endedAt: null });
      return id;
    }

    it("ends by silence", async () => {
      const id = await identified();
      const imports = run(sourceOf([]), []);
      for (let minutes = 0; minutes < 30; minutes++) {
        clock.advance(MINUTE_MS);
        await imports.step(forever);
      }
      expect(jobs.job(id)).toMatchObject({ state: "finished", endedAt: expect.any(String) });
    });

    it("can be ended by a person", async () => {
      const id = await identified();
      await resolveJob({ store: jobs.store, clock, log }, id, { ended: true }, "ann");
      expect(jobs.job(id)).toMatchObject({ state: "ended" });
    });
  });

  it("is resolved by a person", async () => {
    const { id } = await start(sourceOf([LOST]));
    await resolveJob({ store: jobs.store, clock, log }, id, { serviceJob: "j5" }, "ann");
    expect(jobs.row(id)).toMatchObject({ state: "running", service_job: "j5" });
    await expect(
      resolveJob({ store: jobs.store, clock, log }, id, { started: false }, "ann"),
    ).rejects.toThrow(/already/);
    await resolveJob({ store: jobs.store, clock, log }, id, { ended: true }, "ann");
    const again = await start(sourceOf([LOST]));
    await resolveJob({ store: jobs.store, clock, log }, again.id, { started: false }, "ann");
    expect(jobs.job(again.id)).toMatchObject({ state: "failed", reason: "not started, says ann" });
  });
});

describe("schedules", () => {
  const missed = () => log.heard.filter(({ sentence }) => sentence === "Scheduled imports were missed.");

  it("starts what is due, once, though asked every second and after a kill", async () => {
    const source = sourceOf([started("j1")]);
    await run(source).step(forever);
    clock.set("2026-02-01T02:00:00Z");
    for (let second = 0; second < 5; second++) {
      await run(source).step(forever);
      clock.advance(1000);
    }
    expect(source.starts).toEqual(["app1"]);
    expect(jobs.list({})).toMatchObject([{ import: "nightly-hr", origin: "schedule", state: "running" }]);
    expect(missed()).toEqual([]);
  });

  it("never runs two schedules of the same import at once", async () => {
    const source = sourceOf([started("j1"), started("j2")]);
    const definitions = [definitionOf(), definitionOf({ name: "again", schedule: "0,5 2 * * *" })];
    const imports = run(source, definitions);
    await imports.step(forever);
    clock.set("2026-02-01T02:00:00Z");
    await imports.step(forever);
    expect(source.starts).toHaveLength(1);
    clock.set("2026-02-01T02:05:00Z");
    await imports.apply([event("j1", "anna")]);
    await imports.step(forever);
    expect(source.starts).toHaveLength(1);
    expect(log.heard.filter(({ sentence }) => /has not ended/.test(sentence))).toHaveLength(2);
    const runs = db.prepare("SELECT import, outcome FROM import_runs ORDER BY scheduled_ms, import").all();
    expect(runs).toEqual([
      { import: "again", outcome: "overlapped" },
      { import: "nightly-hr", outcome: "started" },
      { import: "again", outcome: "overlapped" },
    ]);
  });

  it("refuses a second start by hand while one has not ended, from another process too", async () => {
    const { id } = await start(sourceOf([started("j1")]));
    await expect(start(sourceOf([started("j2")]))).rejects.toThrow(OpenJobError);
    const other = openState(file);
    const context = startContext(other, sourceOf([started("j3")]), clock, log);
    await expect(startImport(context, orderOf(definitionOf()), forever)).rejects.toThrow(
      `Job ${id} of the same import`,
    );
    other.close();
  });

  it("says which runs were missed and starts the last one if it is not too late", async () => {
    const source = sourceOf([started("j1")]);
    await run(source).step(forever);
    clock.set("2026-02-04T02:30:00Z");
    await run(source).step(forever);
    expect(source.starts).toHaveLength(1);
    expect(missed()).toMatchObject([
      { fields: { runs: 3, scheduled: ["2026-02-01T02:00", "2026-02-02T02:00", "2026-02-03T02:00"] } },
    ]);
    jobs.move(1, "finished", clock.now(), { endedMs: clock.now() });
    clock.set("2026-02-05T12:00:00Z");
    await run(source).step(forever);
    expect(source.starts).toHaveLength(1);
    expect(missed()[1]).toMatchObject({ fields: { runs: 1, scheduled: ["2026-02-05T02:00"] } });
  });

  it("R28 neither skips nor doubles a run when the clocks change", async () => {
    const definitions = [
      definitionOf({ schedule: "30 2 * * *", timeZone: "Europe/Berlin", finishAfter: "2m" }),
    ];
    for (const [from, to] of [
      ["2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z"],
      ["2026-10-24T00:00:00Z", "2026-10-27T00:00:00Z"],
    ] as const) {
      const source = sourceOf(Array.from({ length: 9 }, (_, at) => started(`${from}-${at}`)));
      clock.set(from);
      db.exec("DELETE FROM import_runs; DELETE FROM import_schedules; DELETE FROM jobs;");
      const imports = run(source, definitions);
      for (; clock.now() < Date.parse(to); clock.advance(10 * MINUTE_MS)) await imports.step(forever);
      expect(source.starts).toHaveLength(3);
    }
  });

  it.each(["the same process", "a new process"])(
    "R28 a clock that was ahead holds up no run, in %s",
    async (which) => {
      const source = sourceOf(Array.from({ length: 9 }, (_, at) => started(`j${at}`)));
      const definitions = [definitionOf({ finishAfter: "2m" })];
      const first = run(source, definitions);
      const imports = () => (which === "the same process" ? first : run(source, definitions));
      const outcomes = () =>
        db.prepare("SELECT local, outcome FROM import_runs ORDER BY local").raw().all() as string[][];
      clock.set("2026-02-01T01:00:00Z");
      await first.step(forever);
      clock.set("2026-02-05T12:00:00Z");
      await first.step(forever);
      expect(outcomes()).toHaveLength(5);

      clock.set("2026-02-01T03:30:00Z");
      await imports().step(forever);
      // The run of 02:00 fell into the time in which the clock was wrong.
      expect(outcomes()).toEqual([["2026-02-01T02:00", "missed"]]);
      for (; clock.now() < Date.parse("2026-02-04T00:00:00Z"); clock.advance(10 * MINUTE_MS))
        await imports().step(forever);
      expect(source.starts).toHaveLength(2);
      expect(outcomes().slice(1)).toEqual([
        ["2026-02-02T02:00", "started"],
        ["2026-02-03T02:00", "started"],
      ]);
    },
  );

  it("R28 a clock that goes back a little starts no run twice", async () => {
    const source = sourceOf([started("j1"), started("j2")]);
    const definitions = [definitionOf({ finishAfter: "2m" })];
    const imports = run(source, definitions);
    await imports.step(forever);
    clock.set("2026-02-01T02:00:00Z");
    await imports.step(forever);
    for (const time of ["2026-02-01T01:59:58Z", "2026-02-01T02:00:01Z", "2026-02-01T02:30:00Z"]) {
      clock.set(time);
      await imports.step(forever);
      await run(source, definitions).step(forever);
    }
    expect(source.starts).toEqual(["app1"]);
    expect(missed()).toEqual([]);
  });

  it("takes a changed schedule from now on", async () => {
    const source = sourceOf([started("j1")]);
    await run(source).step(forever);
    clock.set("2026-02-01T12:00:00Z");
    await run(source, [definitionOf({ schedule: "0 11 * * *" })]).step(forever);
    expect(source.starts).toEqual([]);
    expect(missed()).toEqual([]);
  });
});

describe("a Workday import", () => {
  it("is followed by its results until every user has an outcome", async () => {
    let results: Record<string, unknown>[] = [];
    const source = sourceOf(
      [started("w-1")],
      () => results,
      ["anna", "ben", "eve"].map((name) => worker(name)),
    );
    const { id } = await start(source, { application: undefined, workday: "wd1" });
    const imports = run(source, []);
    const step = async (ms: number) => {
      clock.advance(ms);
      await imports.step(forever);
      return { state: jobs.row(id)!.state, counts: jobs.counts(id) };
    };
    expect(await step(0)).toMatchObject({ state: "running" });
    results = [
      { status: "finished", statusMsg: "created", username: "anna", systemUserId: "u1" },
      { status: "pending", username: "ben" },
    ];
    expect((await step(15_000)).counts).toMatchObject({ created: 1, pending: 2 });
    expect((await step(3 * MINUTE_MS)).state).toBe("quiet");
    results = [
      results[0]!,
      { status: "failed", statusMsg: "email already in use", username: "ben" },
      { status: "finished", statusMsg: "skipped", username: "eve" },
    ];
    expect(await step(15_000)).toMatchObject({
      state: "running",
      counts: { created: 1, failed: 1, skipped: 1, pending: 0 },
    });
    expect((await step(1_000)).state).toBe("finished");
    expect(jobs.job(id)!.summary).toBe("3 offered: 1 created, 1 failed, 1 skipped, 0 unaccounted");
  });

  it.each([
    ["processing", undefined, "pending"],
    ["stuck", undefined, "pending"],
    ["uncreated", undefined, "pending"],
    ["rejected", undefined, "failed"],
    ["creation denied", undefined, "failed"],
    ["finished", "not created: the address is in use", "failed"],
    ["COMPLETED", "created", "created"],
    ["success", undefined, "updated"],
    ["completed", "User could not be created: duplicate email", "failed"],
    ["completed", "Unable to create user", "failed"],
    ["finished", "User was not successfully created", "failed"],
    ["finished", "creation aborted", "failed"],
    ["done", "User creation was unsuccessful", "failed"],
    ["completed", "Invalid email address", "failed"],
    ["finished", "created: 0 errors, no failures", "created"],
    ["processed", undefined, "pending"],
    ["suspended", undefined, "pending"],
    ["IN_PROGRESS", undefined, "pending"],
    ["in-progress", undefined, "pending"],
    ["inProgress", undefined, "pending"],
    ["unprocessable entity", undefined, "failed"],
    ["not created", undefined, "failed"],
    ["creationFailed", undefined, "failed"],
    ["TIMED_OUT", undefined, "failed"],
    ["completed with errors", undefined, "failed"],
    ["completed without errors", undefined, "updated"],
    ["COMPLETED_WITH_NO_ERRORS", undefined, "updated"],
    ["finished", "Imported, no validation errors", "updated"],
    ["finished", "Imported with no validation error", "updated"],
    ["finished", "created without any errors", "created"],
    ["finished", "created, error-free", "created"],
    ["finished", "No users failed, none rejected", "updated"],
    ["finished", "created: 1, failed: 0, errors=none", "created"],
    ["finished", "created: 0 updated: 1 failed: 0", "updated"],
    ["finished", "0 created, 1 updated, 0 skipped", "updated"],
    ["finished", '{"created":1,"errors":0}', "created"],
    ["finished", "Not updated: no changes", "skipped"],
    ["skipped", "not created because the user exists", "skipped"],
    ["finished", "created: 0 failed: 1", "failed"],
    ["finished", "created: 0 errors: the address is in use", "failed"],
    ["finished", "10 errors", "failed"],
    ["finished", "Failed: 0 seats are left", "failed"],
    ["finished", "Failed: no seat is left", "failed"],
    ["finished", "A user without email failed", "failed"],
    ["finished", "User was rejected", "failed"],
    ["finished", "The user couldn’t be imported", "failed"],
    ["finished", "The user hasn't been created", "failed"],
    ["finished", "VALIDATION_ERROR", "failed"],
    ["finished", "The username is already taken", "failed"],
    ["finished", '{"success":false}', "failed"],
  ] as const)(
    'a result with the status "%s" and the message %s is %s',
    async (status, statusMsg, outcome) => {
      const source = sourceOf([started("w-1")], () => [{ status, statusMsg, username: "anna" }], [
        worker("anna"),
      ]);
      const { id } = await start(source, { application: undefined, workday: "wd1" });
      await run(source, []).step(forever);
      expect(jobs.counts(id)).toMatchObject({ [outcome]: 1 });
    },
  );

  it.each([
    [{ success: false }, "failed"],
    [{ statusMsg: "", error: "email already exists" }, "failed"],
    [{ errors: [{ message: "username taken" }] }, "failed"],
    [{ statusMsg: "created", error: null, errors: [], success: true }, "created"],
    [{ statusMsg: "created", errors: 0 }, "created"],
    [{ status: "running", success: false }, "pending"],
    [{ status: "processed", success: false }, "failed"],
    [{ status: "", success: false }, "failed"],
    [{ status: "stuck", success: "false" }, "failed"],
    [{ statusMsg: { created: 1, errors: 0 } }, "created"],
    [{ statusMsg: { created: 0, updated: 1, failed: [], errorMessage: "" } }, "updated"],
    [{ statusMsg: { created: 0, failed: 1 } }, "failed"],
    [{ statusMsg: { code: 409, failureReason: "email in use" } }, "failed"],
    [{ statusMsg: [{ success: false }] }, "failed"],
    [{ statusMsg: "ok", message: "could not be created" }, "failed"],
    [{ statusMsg: "created", errors: { count: 0, list: [] }, error: "none" }, "created"],
    [{ statusMsg: "created", error: "No errors found" }, "created"],
    [{ statusMsg: "created", error: "重複" }, "failed"],
    [{ error: "User not found" }, "failed"],
  ])("a result with %j is %s", async (more, outcome) => {
    const source = sourceOf([started("w-1")], () => [{ status: "finished", username: "anna", ...more }], [
      worker("anna"),
    ]);
    const { id } = await start(source, { application: undefined, workday: "wd1" });
    await run(source, []).step(forever);
    expect(jobs.counts(id)).toMatchObject({ [outcome]: 1 });
  });

  it.each([
    [{ status: "processed" }, "pending", 'the service\'s status is "processed"'],
    [{ status: "queued" }, "pending", null],
    [
      { status: "Unprocessable entity", success: false },
      ...([
        "failed",
        'the service\'s status is "unprocessable entity"; the result says success: false',
      ] as const),
    ],
    [{ success: false }, "failed", "the result says success: false"],
    [{ status: "finished", statusMsg: { code: 409, error: "in use" } }, "failed", "code: 409, error: in use"],
    [{ status: "done", statusMsg: "created", errors: ["no seat"] }, "failed", "created; no seat"],
  ])("a result with %j is %s, with the reason: %s", async (result, outcome, reason) => {
    const source = sourceOf([started("w-1")], () => [{ username: "anna", ...result }], [worker("anna")]);
    const { id } = await start(source, { application: undefined, workday: "wd1" });
    await run(source, []).step(forever);
    expect(jobs.users(id, { limit: 1, offset: 0 })).toMatchObject([{ outcome, reason }]);
  });

  it("names a status that it does not know, and asks again", async () => {
    let status = "stuck";
    const source = sourceOf([started("w-1")], () => [{ status, username: "anna" }], [worker("anna")]);
    const { id } = await start(source, { application: undefined, workday: "wd1" });
    const imports = run(source, []);
    await imports.step(forever);
    expect(jobs.job(id)!.state).toBe("running");
    expect(jobs.users(id, { limit: 1, offset: 0 })[0]!.reason).toBe('the service\'s status is "stuck"');
    status = "error";
    clock.advance(15_000);
    await imports.step(forever);
    expect(jobs.counts(id)).toMatchObject({ failed: 1, pending: 0 });
  });

  it("takes a part for which the service answers with the job of another part", async () => {
    const names = Array.from({ length: 150 }, (_, at) => `w${at}`);
    let done = names.slice(0, 100);
    const source = sourceOf(
      [started("w-1"), started("w-1")],
      () => done.map((username) => ({ status: "finished", statusMsg: "created", username })),
      names.map((name) => worker(name)),
    );
    const { id } = await start(source, { application: undefined, workday: "wd1" });
    expect(source.posted.map(({ length }) => length)).toEqual([100, 50]);
    expect(jobs.job(id)!.parts).toMatchObject([{ state: "taken" }, { state: "taken" }]);
    expect(jobs.counts(id)).toMatchObject({ failed: 0, pending: 150 });
    const imports = run(source, []);
    await imports.step(forever);
    expect(jobs.counts(id)).toMatchObject({ created: 100, pending: 50 });
    // The users of the second part are in the results of the first one's job.
    done = names;
    clock.advance(15_000);
    await imports.step(forever);
    expect(jobs.counts(id)).toMatchObject({ created: 150, pending: 0 });
    clock.advance(1_000);
    await imports.step(forever);
    expect(jobs.row(id)!.state).toBe("finished");
  });

  it("does not take a part for which the service answers with the job of another import", async () => {
    const workday = { application: undefined, workday: "wd1" };
    const source = sourceOf([started("w-1"), started("w-1")]);
    const first = await start(source, workday);
    await resolveJob(startContext(db, source, clock, log), first.id, { ended: true }, "test");
    const second = await start(source, workday);
    expect(jobs.job(second.id)!.parts).toMatchObject([
      { state: "refused", reason: `The service's job w-1 belongs to job ${first.id}.` },
    ]);
  });

  it("believes events more than results", async () => {
    const source = sourceOf(
      [started("w-1")],
      () => [{ status: "finished", statusMsg: "updated", username: "anna" }],
      [worker("anna"), worker("ben")],
    );
    const { id } = await start(source, { application: undefined, workday: "wd1" });
    const imports = run(source, []);
    await imports.apply([event("w-1", "anna", { application: { id: "wd1" } })]);
    await imports.step(forever);
    expect(jobs.counts(id)).toMatchObject({ created: 1, updated: 0 });
  });

  it("goes on when the results cannot be read for a while", async () => {
    let fails = true;
    const source = sourceOf([started("w-1")], () => {
      if (fails) throw new Error("503");
      return [{ status: "finished", statusMsg: "created", username: "anna" }];
    }, [worker("anna")]);
    const { id } = await start(source, { application: undefined, workday: "wd1" });
    const imports = run(source, []);
    await imports.step(forever);
    fails = false;
    clock.advance(15_000);
    await imports.step(forever);
    expect(jobs.counts(id)).toMatchObject({ created: 1 });
  });
});

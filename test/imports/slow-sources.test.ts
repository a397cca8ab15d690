import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createImports, type Imports } from "../../src/imports/create-imports.ts";
import { resolveJob } from "../../src/imports/resolve.ts";
import { orderOf } from "../../src/imports/scheduler.ts";
import type { ImportSource, StartAnswer } from "../../src/imports/source.ts";
import { createJob } from "../../src/imports/start.ts";
import {
  definitionOf,
  type HandClock,
  type HeardLog,
  handClock,
  heardLog,
  type Jobs,
  jobsOf,
  openState,
  sourceOf,
  startContext,
  worker,
} from "./support.ts";

const MINUTE_MS = 60_000;
const started = (serviceJob: string): StartAnswer => ({ kind: "started", serviceJob });
const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });

/** R32: a service that is slow for one job delays that job alone. */
describe("slow sources", () => {
  let db: ReturnType<typeof openState>;
  let clock: HandClock;
  let log: HeardLog;
  let jobs: Jobs;
  let imports: Imports;
  let process: AbortController;

  beforeEach(() => {
    db = openState();
    clock = handClock("2026-02-01T01:00:30Z");
    log = heardLog();
    jobs = jobsOf(db);
    process = new AbortController();
  });
  afterEach(async () => {
    process.abort();
    await imports.settled();
    db.close();
  });

  const fast = definitionOf({ name: "fast", organization: "o2", application: "fast", schedule: "* * * * *" });

  /** `slow` has a job that its sender left; `fast` runs every minute. */
  function run(source: Partial<ImportSource>, slow: Parameters<typeof definitionOf>[0] = {}) {
    const answered = sourceOf([started("f1"), started("f2"), started("f3")], () => [], [worker("ada")]);
    const both: ImportSource = {
      ...answered,
      ...Object.fromEntries(
        Object.entries(source).map(([name, call]) => [
          name,
          (organization: string, ...rest: unknown[]) =>
            (
              (organization === "o1" ? call : answered[name as keyof ImportSource]) as (
                ...all: unknown[]
              ) => unknown
            )(organization, ...rest),
        ]),
      ),
    };
    const definition = definitionOf({ name: "slow", schedule: undefined, ...slow });
    const job = db.change(() => createJob(startContext(db, both, clock, log), orderOf(definition)));
    imports = createImports({
      ...{ db, definitions: [definition, fast], source: () => both, accounts: ["acme"], clock, log },
    });
    return job;
  }

  /** A step of the process, as its loop makes one every second. */
  async function step(ms = 0) {
    clock.advance(ms);
    const beganMs = performance.now();
    await imports.step(process.signal);
    return performance.now() - beganMs;
  }

  async function expectRunsOfFast() {
    await step();
    // The commands' lease is over, so that the process goes on with the job that is slow.
    await step(4 * MINUTE_MS);
    await step(MINUTE_MS);
    await step(MINUTE_MS);
    const runs = jobs.store.runs.list({ import: "fast", limit: 10 });
    expect(runs.map(({ local, outcome }) => [local.slice(11), outcome])).toContainEqual([
      "01:06",
      "overlapped",
    ]);
    expect(runs.filter(({ outcome }) => outcome === "started")).toHaveLength(1);
    expect(await step(1000)).toBeLessThan(500);
  }

  it("a list that does not end keeps no other import from its schedule, and the job says what it waits for", async () => {
    let lists = 0;
    const { id } = await run({
      async *offered(_organization, _offer, signal) {
        lists++;
        for (let at = 0; at < 100; at++) yield worker(`s${at}`);
        clock.advance(15_000);
        yield worker("s100");
        await untilAborted(signal);
      },
    });
    await expectRunsOfFast();
    expect(lists).toBe(1);
    expect(jobs.job(id)).toMatchObject({
      state: "requested",
      offered: null,
      offerNote: "The list of users on offer is being read: 101 so far.",
      counts: { pending: 0 },
    });
  });

  it("a start that is not answered keeps no other import from its schedule", async () => {
    const { id } = await run({
      start: async (_organization, _application, _request, signal) => {
        await untilAborted(signal).catch(() => {});
        return { kind: "uncertain", reason: "the answer broke off" };
      },
    });
    await expectRunsOfFast();
    expect(jobs.job(id)).toMatchObject({ state: "requested", parts: [{ state: "sent" }] });
    process.abort();
    await imports.settled();
    expect(jobs.job(id)).toMatchObject({ state: "uncertain", parts: [{ state: "uncertain" }] });
  });

  it("Workday results that do not come keep no other import from its schedule", async () => {
    const source = {
      // biome-ignore lint/correctness/useYield: no result comes.
      async *workdayResults(_o: unknown, _w: unknown, _j: unknown, signal: AbortSignal) {
        await untilAborted(signal);
      },
    };
    const workday = { application: undefined, workday: "wd1" };
    const { id } = await run({ ...source, startWorkday: async () => started("w1") }, workday);
    await expectRunsOfFast();
    expect(jobs.job(id)).toMatchObject({ state: "quiet", serviceJob: "w1" });
  });

  it("a list that could not be read before the start, and is slow now, keeps no other import from its schedule", async () => {
    let lists = 0;
    const { id } = await run({
      async *offered(_organization, _offer, signal) {
        if (lists++ === 0) throw new Error("500");
        yield worker("s1");
        await untilAborted(signal);
      },
      start: async () => started("s1"),
    });
    await expectRunsOfFast();
    expect(lists).toBe(2);
    expect(jobs.job(id)).toMatchObject({ serviceJob: "s1", offered: null });
  });

  it("a job that a person ends while its list is read is not started", async () => {
    let go = () => {};
    const isAsked = new Promise<void>((resolve) => {
      go = resolve;
    });
    const posts: string[] = [];
    const { id } = await run({
      async *offered() {
        yield worker("s1");
        await isAsked;
      },
      async start(_organization, application) {
        posts.push(application);
        return started("s1");
      },
    });
    await step(4 * MINUTE_MS);
    await resolveJob(startContext(db, sourceOf([]), clock, log), id, { ended: true }, "ann");
    go();
    await imports.settled();
    expect(posts).toEqual([]);
    expect(jobs.job(id)).toMatchObject({ state: "ended", parts: [], counts: { pending: 0 } });
  });

  it("a state file that is busy while a list is read does not make the job fail: the list is read again", async () => {
    const busy = Object.assign(new Error("database is locked"), { code: "SQLITE_BUSY" });
    let tries = 0;
    const { id } = await run(
      {
        async *offered() {
          yield worker("s1");
          if (++tries === 1) throw busy;
        },
        startWorkday: async () => started("w1"),
      },
      { application: undefined, workday: "wd1" },
    );
    await step(4 * MINUTE_MS);
    expect(jobs.job(id)).toMatchObject({ state: "requested", reason: null });
    await step(MINUTE_MS);
    expect(jobs.job(id)).toMatchObject({ serviceJob: "w1", offered: 1 });
  });

  it("work that fails is told, tried again after a minute, and stops no other import", async () => {
    let tries = 0;
    const { id } = await run({
      async start() {
        if (++tries < 3) throw new TypeError("not a function");
        return started("s1");
      },
    });
    await step(4 * MINUTE_MS);
    expect(log.heard).toContainEqual(
      expect.objectContaining({
        level: "error",
        sentence: "Work on an import failed; trying again in a minute.",
      }),
    );
    expect(jobs.job(id)!.reason).toMatch(/tries again every minute: not a function/);
    await step(1000);
    expect(tries).toBe(1);
  });

  it("waits for the work of a step before it is settled, and ends it with the signal", async () => {
    let hasEnded = false;
    await run({
      async *offered(_organization, _offer, signal) {
        yield worker("s1");
        await untilAborted(signal).finally(() => {
          hasEnded = true;
        });
      },
    });
    await step(4 * MINUTE_MS);
    expect(hasEnded).toBe(false);
    process.abort();
    await imports.settled();
    expect(hasEnded).toBe(true);
  });
});

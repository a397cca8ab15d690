import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { importSourceOf } from "../../src/directory/import-source.ts";
import { importCalls } from "../../src/directory/management/import-calls.ts";
import type { ManagementClient } from "../../src/directory/management.ts";
import { createImports } from "../../src/imports/create-imports.ts";
import { orderOf } from "../../src/imports/scheduler.ts";
import type { OfferedUser, StartAnswer } from "../../src/imports/source.ts";
import { startImport } from "../../src/imports/start.ts";
import type { ImportState } from "../../src/imports/store/open.ts";
import {
  definitionOf,
  eventOf,
  forever,
  type HandClock,
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
const WORKDAY = { application: undefined, workday: "wd1" };
const started = (serviceJob: string): StartAnswer => ({ kind: "started", serviceJob });
const users = (count: number, more: Partial<OfferedUser> = {}) =>
  Array.from({ length: count }, (_, at) => worker(`u${at}`, more));

describe("long lists", () => {
  let db: ImportState;
  let clock: HandClock;
  let jobs: Jobs;
  const log = heardLog();

  beforeEach(() => {
    db = openState();
    clock = handClock("2026-02-01T01:00:00Z");
    jobs = jobsOf(db);
  });
  afterEach(() => db.close());

  const start = (source: SourceScript, changes: object = {}, state = db) =>
    startImport(startContext(state, source, clock, log), orderOf(definitionOf(changes)), forever);
  const run = (source: SourceScript, state = db) =>
    createImports({ db: state, definitions: [], source: () => source, accounts: ["acme"], clock, log });
  const stored = (job: number) =>
    db.prepare("SELECT count(*) FROM job_users WHERE job = ?").pluck().get(job) as number;

  /** A process that is killed before a change: nothing is changed from then on. */
  function killedBefore(number: number): ImportState {
    let count = 0;
    const change = <Result>(work: () => Result) =>
      ++count >= number ? Promise.reject<Result>(new Error("killed")) : db.change(work);
    return new Proxy(db, {
      get: (target, name) => {
        if (name === "change") return change;
        const value = Reflect.get(target, name, target) as unknown;
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  }

  it("the attributes of an application's users are not stored, because they are never posted", async () => {
    const attributes = [{ name: "photo", value: "x".repeat(30_000) }];
    const { id } = await start(sourceOf([started("j1")], () => [], users(3, { attributes })));
    expect(jobs.job(id)).toMatchObject({ state: "running", offered: 3 });
    const entries = db.prepare("SELECT entry FROM job_users WHERE job = ?").pluck().all(id);
    expect(entries).toEqual([null, null, null]);
  });

  it("no change stores or fails more than 500 users", async () => {
    const counts: number[] = [0];
    const rows = db.prepare("SELECT total_changes()").pluck();
    const change: ImportState["change"] = (work) =>
      db.change(() => {
        const before = rows.get() as number;
        const result = work();
        counts.push((rows.get() as number) - before);
        return result;
      });
    const refused: StartAnswer = { kind: "refused", about: "request", reason: "403 no" };
    const { id } = await start(
      sourceOf([refused], () => [], users(2100)),
      {},
      Object.assign(Object.create(db) as ImportState, { change, prepare: db.prepare.bind(db) }),
    );
    expect(jobs.job(id)).toMatchObject({ state: "failed", offered: 2100, counts: { failed: 2100 } });
    expect(Math.max(...counts)).toBeLessThanOrEqual(510);
  });

  it.each([
    ["application", {}, [started("j1")]],
    ["Workday", WORKDAY, Array.from({ length: 12 }, (_, at) => started(`j${at}`))],
  ])(
    "R28 a process that is killed while it stores a list leaves no half list: %s",
    async (_, changes, answers) => {
      for (let kill = 2; kill < 9; kill++) {
        const offer = users(1150);
        await expect(
          start(
            sourceOf([], () => [], offer),
            changes,
            killedBefore(kill),
          ),
        ).rejects.toThrow("killed");
        const job = jobs.list({ open: true })[0]!;
        expect(job).toMatchObject({ state: "requested", offered: null, parts: [], counts: { pending: 0 } });
        expect(jobs.users(job.id, { limit: 10, offset: 0 })).toEqual([]);
        // The source has changed meanwhile.
        const source = sourceOf([...answers], () => [], users(1120));
        clock.advance(4 * MINUTE_MS);
        const imports = run(source);
        await imports.step(forever);
        await imports.settled();
        expect(jobs.job(job.id)).toMatchObject({
          state: "running",
          offered: 1120,
          counts: { pending: 1120 },
        });
        expect(stored(job.id)).toBe(1120);
        expect(source.starts.length + source.posted.flat().length).toBe(answers.length === 1 ? 1 : 12 + 1120);
        db.exec("DELETE FROM jobs");
      }
    },
  );

  it("a process that is killed while it stores the list of a running job keeps what events said", async () => {
    for (let kill = 2; kill < 6; kill++) {
      const source = sourceOf([started("j1")]);
      const { id } = await start(source);
      const event = (username: string) =>
        eventOf({
          id: `j1-${username}`,
          timestamp: new Date(clock.now()).toISOString(),
          organization: "o1",
          event_type: "user_create",
          correlation: { id: "j1", type: "user_import" },
          resource: { type: "user", username },
        });
      await run(source).apply([event("u1"), event("elsewhere")]);
      const offering = sourceOf([], () => [], users(1150));
      const killed = run(offering, killedBefore(kill));
      await killed.step(forever).catch(() => {});
      await killed.settled();
      expect(jobs.job(id)).toMatchObject({ offered: null, counts: { created: 2, pending: 0 } });
      await run(source).apply([event("u2")]);
      const imports = run(sourceOf([], () => [], users(1120)));
      await imports.step(forever);
      await imports.settled();
      expect(jobs.job(id)).toMatchObject({ offered: 1120, counts: { created: 3, pending: 1118 } });
      expect(stored(id)).toBe(1121);
      db.exec("DELETE FROM jobs");
    }
  });

  it("a Workday list that is too large for the memory fails, and says what to do", async () => {
    const attributes = [{ name: "note", value: "x".repeat(255 * 1024) }];
    const { id } = await start(
      sourceOf([], () => [], users(600, { attributes })),
      WORKDAY,
    );
    expect(jobs.job(id)).toMatchObject({ state: "failed", offerNote: null });
    expect(jobs.job(id)!.reason).toMatch(
      /the first 51\d workers hold more than 128 MiB.*nothing was posted\. Import them in portions with "only"/,
    );
    // Workers that are left out are not kept.
    const source = sourceOf([started("w1")], () => [], users(600, { attributes }));
    const some = await start(source, { ...WORKDAY, only: ["username=u7"] });
    expect(jobs.job(some.id)).toMatchObject({ state: "running", counts: { pending: 1, skipped: 599 } });
    expect(source.posted.flat()[0]!.attributes).toEqual(attributes);
  });

  it("a worker of more than 256 KiB is skipped with its reason, and the others are posted", async () => {
    const huge = worker("huge", { attributes: [{ name: "scan", value: "x".repeat(300 * 1024) }] });
    const source = sourceOf([started("w1")], () => [], [huge, worker("ada")]);
    const { id } = await start(source, WORKDAY);
    expect(source.posted.flat().map(({ username }) => username)).toEqual(["ada"]);
    expect(jobs.users(id, { outcome: "skipped", limit: 9, offset: 0 })).toMatchObject([
      { username: "huge", reason: "its attributes hold 301 KiB; at most 256 KiB are posted" },
    ]);
  });

  it("an application's list of too many users is not read again every minute", async () => {
    let lists = 0;
    const source = sourceOf([started("j1")]);
    const endless = {
      ...source,
      async *offered() {
        lists++;
        for (let at = 0; at <= 200_000; at++) yield worker("u");
      },
    };
    const { id } = await start(endless);
    const imports = run(endless);
    for (let minute = 0; minute < 3; minute++) {
      await imports.step(forever);
      await imports.settled();
      clock.advance(2 * MINUTE_MS);
    }
    expect(lists).toBe(2);
    expect(jobs.job(id)!.offerNote).toMatch(/more than 200000 users are offered/);
  });

  it("whether users wait is asked of an index", () => {
    const plan = db
      .prepare(
        "EXPLAIN QUERY PLAN SELECT 1 FROM job_users WHERE job = ? AND outcome = 'pending' AND number IS NOT NULL LIMIT 1",
      )
      .all(1) as { detail: string }[];
    expect(plan.map(({ detail }) => detail).join()).toMatch(/COVERING INDEX job_users_by_outcome/);
  });
});

describe("lists of the directory", () => {
  const photo = (at: number) => ({
    attributes: [{ name: "photo", value: `${at}`.repeat(20_000).slice(0, 20_000) }],
  });

  function heapBytes(): number {
    setFlagsFromString("--expose-gc");
    (runInNewContext("gc") as () => void)();
    return process.memoryUsage().heapUsed;
  }

  it("remember of the users that were read no more than a digest", async () => {
    const calls = importCalls(
      async ({ query }) =>
        ({
          users: Array.from({ length: 100 }, (_, at) => ({
            username: `u${Number(query!.skip) + at}`,
            ...photo(at),
          })),
        }) as never,
    );
    const before = heapBytes();
    const list = calls.importUsers("app", {} as never);
    for (let at = 0; at < 2000; at++) await list.next();
    expect(heapBytes() - before).toBeLessThan(15_000_000);
    await list.return();
  });

  const clientOf = (count: number, attributes: object) =>
    ({
      async *users() {
        for (let at = 0; at < count; at++)
          yield {
            _id: `id${at}`,
            username: `u${at}`,
            email: "",
            firstname: "F",
            lastname: "",
            state: "",
            ...attributes,
          };
      },
    }) as unknown as ManagementClient;

  it("keep of the users that exist only what tells them apart, where nothing else is compared", async () => {
    const found = await importSourceOf(clientOf(2, photo(1))).existing(undefined, forever, "names");
    expect(found).toEqual([
      { id: "id0", username: "u0", email: undefined, attributes: [] },
      { id: "id1", username: "u1", email: undefined, attributes: [] },
    ]);
  });

  it("refuse more existing users than the memory holds, and say what to do", async () => {
    const attributes = { attributes: [{ name: "note", value: "x".repeat(1_000_000) }] };
    await expect(importSourceOf(clientOf(200, attributes)).existing(undefined, forever)).rejects.toThrow(
      /the first 13\d users of the organization hold more than 128 MiB.*cannot be compared/,
    );
  });
});

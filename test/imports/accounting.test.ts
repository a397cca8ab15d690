import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Alarm, createAlarms } from "../../src/core/alarms.ts";
import { activateStaged } from "../../src/imports/activate.ts";
import { chooseUsers, compareUsers } from "../../src/imports/choose.ts";
import { createImports } from "../../src/imports/create-imports.ts";
import { choiceSchema } from "../../src/imports/job.ts";
import { resolveJob } from "../../src/imports/resolve.ts";
import { orderOf } from "../../src/imports/scheduler.ts";
import type { OfferedUser, StartAnswer } from "../../src/imports/source.ts";
import { startImport } from "../../src/imports/start.ts";
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
const log = heardLog();
let db: ReturnType<typeof openState>;
let clock: HandClock;
let jobs: Jobs;

beforeEach(() => {
  db = openState();
  clock = handClock("2026-02-01T01:00:00Z");
  jobs = jobsOf(db);
});
afterEach(() => db.close());

const WORKDAY = { application: undefined, workday: "wd1" };
const workers = (count: number) => Array.from({ length: count }, (_, at) => worker(`w${at}`));

/** A service that refuses every request with one of these users, with or without their names. */
function refusing(bad: ReadonlySet<string>, isNamed: boolean, offer: readonly OfferedUser[]): SourceScript {
  let number = 0;
  const source = sourceOf([], () => [], offer);
  return {
    ...source,
    async startWorkday(_organization, _workday, users): Promise<StartAnswer> {
      source.posted.push(users);
      const wrong = users.flatMap(({ username }, index) =>
        bad.has(username!) ? [{ index, reason: "bad" }] : [],
      );
      if (wrong.length === 0) return { kind: "started", serviceJob: `j${++number}` };
      return {
        kind: "refused",
        about: "users",
        reason: "400 not valid",
        ...(isNamed ? { users: wrong } : {}),
      };
    },
  };
}

function run(source: SourceScript, readUntilMs?: () => number | undefined) {
  return createImports({
    ...{ db, definitions: [], source: () => source, accounts: ["acme"], clock, log },
    ...(readUntilMs === undefined ? {} : { readUntilMs }),
  });
}

const start = (source: SourceScript, changes: object = {}, sender?: string) =>
  startImport(startContext(db, source, clock, log, sender), orderOf(definitionOf(changes)), forever);

function created(serviceJob: string, username: string, more: object = {}) {
  return eventOf({
    id: `${serviceJob}-${username}`,
    timestamp: new Date(clock.now()).toISOString(),
    organization: "o1",
    event_type: "user_create",
    correlation: { id: serviceJob, type: "user_import" },
    application: { id: "wd1" },
    resource: { type: "user", id: `id-${username}`, username },
    changes: [{ field: "state", to: "STAGED" }],
    ...more,
  });
}

describe("refused users", () => {
  it.each([
    ["by their names", true],
    ["by halving", false],
  ])("are isolated %s, and block no one", async (_words, isNamed) => {
    const bad = new Set(["w3", "w99", "w100", "w247"]);
    const source = refusing(bad, isNamed, workers(250));
    const { id } = await start(source, WORKDAY);
    const posted = source.posted.filter((users) => !users.some(({ username }) => bad.has(username!))).flat();
    expect(posted).toHaveLength(246);
    const failed = jobs.users(id, { outcome: "failed", limit: 100, offset: 0 });
    expect(failed.map(({ username }) => username).sort()).toEqual([...bad].sort());
    expect(failed[0]!.reason).toMatch(/^refused: /);
    expect(jobs.job(id)).toMatchObject({ state: "running", offered: 250, counts: { pending: 246 } });
    expect(jobs.job(id)!.summary).toBe("250 offered: 4 failed, 246 waiting");
    expect(Math.max(...source.posted.map((users) => users.length))).toBe(100);
  });

  it("fail the job when the service refuses the call itself, and nothing else is sent", async () => {
    const source = sourceOf(
      [{ kind: "refused", about: "request", reason: "403 no" }],
      undefined,
      workers(250),
    );
    const { id } = await start(source, WORKDAY);
    expect(source.starts).toHaveLength(1);
    expect(jobs.job(id)).toMatchObject({ state: "failed", reason: "403 no", counts: { failed: 250 } });
  });
});

describe("the end of a job", () => {
  it("comes when every offered user has an outcome, not with silence", async () => {
    const source = sourceOf([{ kind: "started", serviceJob: "j1" }], undefined, workers(2));
    const imports = run(source);
    const { id } = await start(source, WORKDAY);
    await imports.apply([created("j1", "W0")]);
    await imports.step(forever);
    expect(jobs.row(id)!.state).toBe("running");
    await imports.apply([created("j1", "w1", { success: false, error_message: "no seat" })]);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({ state: "finished", unaccounted: 0, reason: null });
    expect(jobs.job(id)!.summary).toBe("2 offered: 1 created, 1 failed, 0 unaccounted");
  });

  it("comes after silence only as a fallback, which says how many are unaccounted for", async () => {
    const source = sourceOf([{ kind: "started", serviceJob: "j1" }], undefined, workers(3));
    const imports = run(source);
    const { id } = await start(source, WORKDAY);
    await imports.apply([created("j1", "w0")]);
    clock.advance(16 * MINUTE_MS);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({ state: "finished", unaccounted: 2 });
    expect(jobs.job(id)!.summary).toBe("3 offered: 1 created, 2 unaccounted");
    expect(jobs.job(id)!.reason).toBe(
      "Taken for finished because nothing was seen of it for 15m; 2 offered users have no outcome.",
    );
  });

  it("is not silence alone for an application either: its offer is read before the start", async () => {
    const source = sourceOf([{ kind: "started", serviceJob: "j1" }], undefined, workers(1));
    const imports = run(source);
    const { id } = await start(source);
    expect(jobs.job(id)!.summary).toBe("1 offered: 1 waiting");
    await imports.apply([created("j1", "w0")]);
    await imports.step(forever);
    expect(jobs.row(id)!.state).toBe("finished");
  });

  it("waits for silence where an application's list is empty: the service may find users all the same", async () => {
    const source = sourceOf([{ kind: "started", serviceJob: "j1" }], undefined, []);
    const imports = run(source, () => clock.now());
    const { id } = await start(source);
    await imports.step(forever);
    expect(jobs.row(id)!.state).toBe("running");
    clock.advance(60_000);
    await imports.apply([created("j1", "w0", { success: false, error_message: "no seat" })]);
    clock.advance(60_000);
    await imports.step(forever);
    expect(jobs.row(id)!.state).toBe("running");
    clock.advance(60_000);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({ state: "finished", reason: null, counts: { failed: 1 } });
  });

  /** A source whose list follows the filter of the import, or does not. */
  function filtering(follows: boolean): SourceScript {
    const all = [worker("ada"), worker("ben"), worker("abel")];
    return {
      ...sourceOf([{ kind: "started", serviceJob: "j1" }]),
      async *offered(_organization, { query = "" }) {
        yield* all.filter(({ username }) => !follows || username!.startsWith(query));
      },
    };
  }
  const FILTERED = { queryString: "a" };

  it("comes with the last user of a queryString where the source's list follows it", async () => {
    const source = filtering(true);
    const imports = run(source);
    const { id } = await start(source, FILTERED);
    expect(jobs.job(id)).toMatchObject({ summary: "2 offered: 2 waiting", offerNote: null });
    await imports.apply([created("j1", "ada"), created("j1", "abel")]);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({
      ...{ state: "finished", reason: null, summary: "2 offered: 2 created, 0 unaccounted" },
    });
  });

  it("says why it comes by silence where the source's list does not follow queryString", async () => {
    const source = filtering(false);
    const imports = run(source);
    const { id } = await start(source, FILTERED);
    await imports.apply([created("j1", "ada")]);
    clock.advance(16 * MINUTE_MS);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({ state: "finished", unaccounted: null, offered: 3 });
    expect(jobs.job(id)!.summary).toBe(
      "at most 3 offered: 1 created, 2 without an outcome, perhaps left out",
    );
    expect(jobs.job(id)!.reason).toBe(
      "Taken for finished because nothing was seen of it for 15m; 2 listed users have no outcome. The list of users on offer is the same with and without queryString, so it may contain users that the import leaves out.",
    );
  });

  it("comes at once where every user of a list that does not follow queryString has an outcome", async () => {
    const source = filtering(false);
    const imports = run(source);
    const { id } = await start(source, FILTERED);
    await imports.apply([created("j1", "ada"), created("j1", "abel"), created("j1", "ben")]);
    await imports.step(forever);
    expect(jobs.row(id)).toMatchObject({ state: "finished", reason: null });
  });

  it("reads an offer that could not be read again while the job runs, and keeps the outcomes that are known", async () => {
    let isReadable = false;
    const source: SourceScript = {
      ...sourceOf([{ kind: "started", serviceJob: "j1" }]),
      async *offered() {
        if (!isReadable) throw new Error("503 unavailable");
        yield* [worker("ada"), worker("ben")];
      },
    };
    const imports = run(source);
    const { id } = await start(source);
    await imports.apply([created("j1", "ada")]);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({
      ...{ offered: null, summary: "1 created; the number of users offered is not known" },
      offerNote: "The users on offer could not be read: 503 unavailable",
    });
    isReadable = true;
    clock.advance(MINUTE_MS);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({ offerNote: null, summary: "2 offered: 1 created, 1 waiting" });
    await imports.apply([created("j1", "ben")]);
    await imports.step(forever);
    expect(jobs.job(id)!.summary).toBe("2 offered: 2 created, 0 unaccounted");
    expect(jobs.row(id)).toMatchObject({ state: "finished", reason: null });
  });

  it("says why only silence is possible where the offer can never be read", async () => {
    const source = sourceOf([{ kind: "started", serviceJob: "j1" }]);
    const imports = run(source);
    const { id } = await start(source);
    await imports.apply([created("j1", "ada")]);
    clock.advance(16 * MINUTE_MS);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({ state: "finished", offered: null, unaccounted: null });
    expect(jobs.job(id)!.reason).toBe(
      "Taken for finished because nothing was seen of it for 15m. Only silence can end it, because the number of users offered is not known. The users on offer could not be read: 404 no such list",
    );
  });

  it("counts users as skipped whom the operations leave out, where the service lists its users", async () => {
    const source: SourceScript = {
      ...sourceOf([{ kind: "started", serviceJob: "j1" }], undefined, workers(3)),
      existing: async () => [{ ...worker("w1"), id: "u1" }],
    };
    const imports = run(source);
    const { id } = await start(source, { operations: ["users.create"] });
    expect(jobs.job(id)!.summary).toBe("3 offered: 1 skipped, 2 waiting");
    expect(jobs.users(id, { outcome: "skipped", limit: 9, offset: 0 })[0]).toMatchObject({
      ...{ username: "w1", reason: "exists already, and the import only creates" },
    });
    await imports.apply([created("j1", "w0"), created("j1", "w2")]);
    await imports.step(forever);
    expect(jobs.job(id)!.summary).toBe("3 offered: 2 created, 1 skipped, 0 unaccounted");
  });

  it("does not skip users that exist only when the list can be read after the start", async () => {
    let isReadable = false;
    const source: SourceScript = {
      ...sourceOf([{ kind: "started", serviceJob: "j1" }]),
      async *offered() {
        if (!isReadable) throw new Error("503 unavailable");
        yield* workers(3);
      },
      existing: async () => workers(3).map((user, at) => ({ ...user, id: `u${at}` })),
    };
    const imports = run(source);
    const { id } = await start(source, { operations: ["users.create"] });
    isReadable = true;
    clock.advance(MINUTE_MS);
    await imports.step(forever);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({ endedAt: null, summary: "at most 3 offered: 3 waiting" });
    await imports.apply([created("j1", "w1"), created("j1", "w2")]);
    clock.advance(16 * MINUTE_MS);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({
      ...{ state: "finished", unaccounted: null },
      summary: "at most 3 offered: 2 created, 1 without an outcome, perhaps left out",
      reason:
        "Taken for finished because nothing was seen of it for 15m; 1 listed users have no outcome. The list of users on offer could be read only after the start, so it may contain users that the import leaves out: those that exist now may have been created by it.",
    });
  });

  it("gives a reason that is still true when events come after the end", async () => {
    const source = sourceOf([{ kind: "started", serviceJob: "j1" }], undefined, workers(2));
    const imports = run(source);
    const { id } = await start(source);
    clock.advance(16 * MINUTE_MS);
    await imports.step(forever);
    const reason = (users: number) =>
      `Taken for finished because nothing was seen of it for 15m; ${users} offered users have no outcome.`;
    expect(jobs.job(id)).toMatchObject({ state: "finished", reason: reason(2), unaccounted: 2 });
    const early = { timestamp: "2026-02-01T01:01:00Z" };
    await imports.apply([created("j1", "w0", early)]);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({ state: "finished", reason: reason(1), unaccounted: 1 });
    await imports.apply([created("j1", "w1", early)]);
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({ state: "finished", reason: null, unaccounted: 0 });
  });

  it("never calls a job finished that did not start", async () => {
    const { id } = await start(sourceOf([{ kind: "uncertain", reason: "cut" }]));
    await resolveJob({ store: jobs.store, clock, log }, id, { ended: true }, "ann");
    expect(jobs.job(id)).toMatchObject({
      state: "ended",
      reason: "ended by ann; it is not known to have started",
    });
  });
});

describe("a process that ends in the middle", () => {
  it("is replaced by the next one at once: planned parts are sent, the unanswered one is uncertain", async () => {
    const source = sourceOf(
      [
        { kind: "started", serviceJob: "j1" },
        () => new Promise<StartAnswer>(() => {}),
        { kind: "started", serviceJob: "j3" },
      ],
      undefined,
      workers(250),
    );
    void start(source, WORKDAY, "run:earlier");
    await expect.poll(() => source.starts).toHaveLength(2);
    const imports = run(source);
    await imports.step(forever);
    const [job] = jobs.list({});
    expect(job!.parts.map(({ state }) => state)).toEqual(["taken", "uncertain", "taken"]);
    await imports.apply([created("unknown", "w150")]);
    clock.advance(3 * MINUTE_MS);
    await imports.step(forever);
    expect(jobs.list({})[0]!.parts[1]).toMatchObject({ state: "taken", serviceJob: "unknown" });
    expect(jobs.list({})).toHaveLength(1);
    expect(jobs.counts(job!.id).created).toBe(1);
  });

  it("R28 leaves an unanswered part to its events, and sends it again only when none of its users is seen", async () => {
    const source = sourceOf(
      [
        { kind: "uncertain", reason: "cut" },
        { kind: "started", serviceJob: "j2" },
      ],
      undefined,
      workers(2),
    );
    let readUntilMs: number | undefined = clock.now();
    const imports = run(source, () => readUntilMs);
    const { id } = await start(source, WORKDAY);
    clock.advance(10 * MINUTE_MS);
    await imports.step(forever);
    expect(source.starts).toHaveLength(1);
    readUntilMs = undefined;
    await imports.step(forever);
    expect(source.starts).toHaveLength(1);
    readUntilMs = clock.now();
    await imports.step(forever);
    expect(source.starts).toHaveLength(2);
    expect(jobs.row(id)).toMatchObject({ state: "running", service_job: "j2" });
  });

  it("R28 sends no part again whose users are seen under the id that another part got", async () => {
    const source = sourceOf(
      [
        { kind: "uncertain", reason: "cut" },
        { kind: "started", serviceJob: "j1" },
        { kind: "started", serviceJob: "j2" },
      ],
      undefined,
      workers(150),
    );
    const imports = run(source);
    const { id } = await start(source, WORKDAY);
    expect(source.starts).toHaveLength(2);
    await imports.apply([created("j1", "w0")]);
    for (let minute = 1; minute <= 10; minute++) {
      clock.advance(MINUTE_MS);
      await imports.step(forever);
    }
    expect(source.starts).toHaveLength(2);
    expect(jobs.job(id)!.parts.map(({ state }) => state)).toEqual(["taken", "taken"]);
    const others = workers(150).slice(1);
    await imports.apply(others.map(({ username }) => created("j1", username!)));
    await imports.step(forever);
    expect(jobs.job(id)).toMatchObject({ state: "finished", reason: null, counts: { created: 150 } });
  });

  it.each(["1m", "2m"])(
    "R28 sends no part again whose users were seen, with quietAfter %s",
    async (quietAfter) => {
      const source = sourceOf(
        [() => new Promise<StartAnswer>(() => {}), { kind: "started", serviceJob: "j2" }],
        undefined,
        workers(2),
      );
      void start(source, { ...WORKDAY, quietAfter });
      await expect.poll(() => source.starts).toHaveLength(1);
      const imports = run(source);
      for (let minute = 1; minute <= 10; minute++) {
        clock.advance(MINUTE_MS);
        if (minute === 1) await imports.apply([created("sj1", "w0")]);
        await imports.step(forever);
      }
      expect(source.starts).toHaveLength(1);
      expect(jobs.list({})).toHaveLength(1);
      expect(jobs.list({})[0]!.parts).toMatchObject([{ state: "taken", serviceJob: "sj1" }]);
    },
  );

  it("goes on with a job whose offer was not stored yet", async () => {
    const stuck: SourceScript = {
      ...sourceOf([]),
      async *offered() {
        await new Promise(() => {});
      },
    };
    void start(stuck, WORKDAY, "run:earlier");
    await expect.poll(() => jobs.list({})).toHaveLength(1);
    const source = sourceOf([{ kind: "started", serviceJob: "j1" }], undefined, workers(3));
    await run(source).step(forever);
    expect(jobs.list({})).toMatchObject([{ state: "running", offered: 3, serviceJob: "j1" }]);
  });

  it("waits as long as the service asks when a start was certainly not taken, then sends it again", async () => {
    const source = sourceOf(
      [
        { kind: "unavailable", reason: "429", retryAfterMs: 5 * MINUTE_MS },
        { kind: "started", serviceJob: "j1" },
      ],
      undefined,
      workers(1),
    );
    const imports = run(source);
    const { id } = await start(source, WORKDAY);
    expect(jobs.row(id)!.state).toBe("requested");
    clock.advance(4 * MINUTE_MS);
    await imports.step(forever);
    expect(source.starts).toHaveLength(1);
    clock.advance(MINUTE_MS);
    await imports.step(forever);
    expect(jobs.row(id)).toMatchObject({ state: "running", service_job: "j1" });
  });
});

it("R33 tries a start again within ten minutes although the service asks for a day, and says why it waits", async () => {
  const reason = "429 Too Many Requests; the service asks to wait 86400 s";
  const wait = { kind: "unavailable", reason, retryAfterMs: 86_400_000 } as const;
  const source = sourceOf([wait, { kind: "started", serviceJob: "j1" }], undefined, workers(1));
  const imports = run(source);
  const { id } = await start(source, WORKDAY);
  expect(jobs.job(id)!.parts[0]).toMatchObject({ state: "planned", reason });
  clock.advance(10 * MINUTE_MS);
  await imports.step(forever);
  expect(source.starts).toHaveLength(2);
  expect(jobs.row(id)!.state).toBe("running");
});

describe("the choice of workers", () => {
  const choice = (given: object) => choiceSchema.parse(given);
  const ada = worker("ada", { attributes: [{ name: "Department", value: "Sales" }] });
  const ben = worker("ben", { lastname: undefined });
  const existing = [{ ...ada, id: "u1", attributes: [{ name: "department", value: "IT" }] }];

  it("lists a worker without a name and skips it, or posts it on request", () => {
    expect(chooseUsers([ben], choice({}), undefined)[0]!.skipped).toBe("it has no first or no last name");
    expect(chooseUsers([ben], choice({ postNameless: true }), undefined)[0]!.skipped).toBe(null);
  });

  it("filters, excludes, leaves out those who exist, and sets the state", () => {
    const skipped = (given: object) =>
      chooseUsers([ada, ben], choice({ postNameless: true, ...given }), existing).map((one) => one.skipped);
    expect(skipped({ only: ["department=sales"] })).toEqual([null, "does not match department=sales"]);
    expect(skipped({ only: ["BEN@"] })).toEqual(["does not match BEN@", null]);
    expect(skipped({ exclude: ["Ada"] })).toEqual(["excluded", null]);
    expect(skipped({ onlyNew: true })).toEqual(["exists already", null]);
    expect(chooseUsers([ada], choice({ state: "ACTIVATED" }), undefined)[0]!.user.state).toBe("ACTIVATED");
    expect(chooseUsers([ada, ada], choice({}), undefined)[1]!.skipped).toMatch(/more than once/);
    expect(chooseUsers([{ attributes: [] }], choice({}), undefined)[0]!.skipped).toMatch(/neither/);
  });

  it("is compared with the users that exist", () => {
    const chosen = chooseUsers([ada, ben], choice({ postNameless: true }), existing);
    expect(compareUsers(chosen, existing)).toMatchObject([
      { kind: "changed", changes: [{ field: "department", from: "IT", to: "Sales" }] },
      { kind: "new" },
    ]);
    expect(compareUsers(chosen, undefined).map(({ kind }) => kind)).toEqual(["unknown", "unknown"]);
  });

  it("ends a job with nothing to post as finished, with every user accounted for", async () => {
    const source = sourceOf([], undefined, [ben]);
    const { id } = await start(source, WORKDAY);
    expect(jobs.job(id)).toMatchObject({ state: "finished", summary: "1 offered: 1 skipped, 0 unaccounted" });
    expect(source.starts).toEqual([]);
  });
});

it("activates the STAGED users of a job, once each", async () => {
  const source = sourceOf([{ kind: "started", serviceJob: "j1" }], undefined, workers(3));
  const imports = run(source);
  const { id } = await start(source, WORKDAY);
  await imports.apply([
    created("j1", "w0"),
    created("j1", "w1"),
    created("j1", "w2", { changes: [{ field: "state", to: "ACTIVATED" }] }),
  ]);
  expect(jobs.job(id)!.staged).toBe(2);
  const context = startContext(db, source, clock, log);
  expect(await activateStaged(context, id, forever)).toEqual({ activated: 2, failed: [] });
  expect(source.activated.sort()).toEqual(["id-w0", "id-w1"]);
  expect(await activateStaged(context, id, forever)).toEqual({ activated: 0, failed: [] });
});

it("two that activate the users of a job at once share them, and one that failed can be activated again", async () => {
  const source = sourceOf([{ kind: "started", serviceJob: "j1" }], undefined, workers(6));
  const imports = run(source);
  const { id } = await start(source, WORKDAY);
  await imports.apply(Array.from({ length: 6 }, (_, at) => created("j1", `w${at}`)));
  // A claim is void ten minutes later, by the clock of the state file.
  clock.set(new Date().toISOString());
  let isRefused = true;
  const slow = {
    ...source,
    async activate(organization: string | undefined, user: string, signal: AbortSignal) {
      await new Promise((resolve) => setImmediate(resolve));
      if (user === "id-w3" && isRefused) throw new Error("refused");
      return source.activate(organization, user, signal);
    },
  };
  const context = startContext(db, slow, clock, log);
  const both = await Promise.all([1, 2].map(() => activateStaged(context, id, forever)));
  expect(both[0]!.activated + both[1]!.activated).toBe(5);
  expect(source.activated.toSorted()).toEqual(["id-w0", "id-w1", "id-w2", "id-w4", "id-w5"]);
  isRefused = false;
  expect(await activateStaged(context, id, forever)).toEqual({ activated: 1, failed: [] });
});

describe("a user whom events name by id alone, and later by name", () => {
  /** The user's row is joined with the offered one by an event or by a result. */
  const byId = (more: object = {}) =>
    created("j1", "w0", { id: `by-id-${clock.now()}`, resource: { type: "user", id: "id-w0" }, ...more });
  const update = (more: object = {}) =>
    created("j1", "w0", { id: "update", event_type: "user_update", changes: [], ...more });
  const stateTo = (to: string) => ({ changes: [{ field: "state", to }] });
  const shown = (id: number) => jobs.users(id, { limit: 9, offset: 0 });
  /** A job of one user, followed by events and results. */
  async function started(results: () => Record<string, unknown>[] = () => []) {
    clock.set(new Date().toISOString());
    const source = sourceOf([{ kind: "started", serviceJob: "j1" }], results, workers(1));
    const imports = run(source);
    const { id } = await start(source, WORKDAY);
    return { id, imports, source, context: startContext(db, source, clock, log) };
  }
  const RESULT = { status: "finished", statusMsg: "updated", username: "w0", systemUserId: "id-w0" };

  it("is not activated again", async () => {
    const { id, imports, source, context } = await started();
    await imports.apply([byId()]);
    expect(await activateStaged(context, id, forever)).toEqual({ activated: 1, failed: [] });
    clock.advance(1_000);
    await imports.apply([update()]);
    expect(shown(id)).toMatchObject([{ username: "w0", outcome: "created", state: "ACTIVATED" }]);
    // Ten minutes later a claim alone would be void.
    db.prepare("UPDATE job_users SET activated_ms = activated_ms - 3600000").run();
    expect(jobs.job(id)!.staged).toBe(0);
    expect(await activateStaged(context, id, forever)).toEqual({ activated: 0, failed: [] });
    expect(source.activated).toEqual(["id-w0"]);
  });

  it("is not activated again after a result that names both", async () => {
    let results: Record<string, unknown>[] = [];
    const { id, imports, context } = await started(() => results);
    await imports.apply([byId()]);
    await activateStaged(context, id, forever);
    results = [{ ...RESULT, statusMsg: "created" }];
    await imports.step(forever);
    expect(shown(id)).toMatchObject([{ outcome: "created", state: "ACTIVATED" }]);
    expect(jobs.job(id)!.staged).toBe(0);
  });

  it.each([
    ["STAGED", 1],
    ["ACTIVATED", 0],
  ])("keeps the state %s when a result names both", async (state, staged) => {
    const { id, imports } = await started(() => [RESULT]);
    await imports.apply([byId({ event_type: "user_update", ...stateTo(state) })]);
    await imports.step(forever);
    expect(shown(id)).toMatchObject([{ username: "w0", state }]);
    expect(jobs.job(id)!.staged).toBe(staged);
  });

  it("has failed as its event said, whatever a result says that names both", async () => {
    const { id, imports } = await started(() => [RESULT]);
    const failure = { event_type: "user_update", success: false, error_message: "quota" };
    await imports.apply([byId({ ...failure, changes: [] })]);
    await imports.step(forever);
    expect(shown(id)).toMatchObject([{ username: "w0", outcome: "failed", reason: "quota" }]);
  });

  it("keeps the result that named it by its id alone", async () => {
    let results = [
      { status: "failed", statusMsg: "no seat", systemUserId: "id-w0" } as Record<string, unknown>,
    ];
    const { id, imports } = await started(() => results);
    await imports.step(forever);
    results = [{ status: "pending", username: "w0", systemUserId: "id-w0" }];
    clock.advance(15_000);
    await imports.step(forever);
    expect(shown(id)).toMatchObject([{ username: "w0", outcome: "failed", reason: "no seat" }]);
  });

  it.each([
    ["STAGED", "ACTIVATED"],
    ["ACTIVATED", "STAGED"],
  ])(
    "keeps the newer one of two states, also where the older is read last: %s, then %s",
    async (...states) => {
      const { id, imports } = await started();
      const [old, young] = states.map((state, at) => {
        const timestamp = new Date(clock.now() + at * 1_000).toISOString();
        return { timestamp, ...stateTo(state) };
      });
      const isIdYoung = states[1] === "ACTIVATED";
      await imports.apply([byId(isIdYoung ? young : old)]);
      const byName = { id: "named", resource: { type: "user", username: "w0" } };
      await imports.apply([created("j1", "w0", { ...byName, ...(isIdYoung ? old : young) })]);
      await imports.apply([update()]);
      expect(shown(id)).toMatchObject([{ userId: "id-w0", username: "w0", state: states[1] }]);
    },
  );

  it.each([
    ["that succeeds", false],
    ["that fails", true],
  ])("is activated once where both are joined during an activation %s", async (_words, fails) => {
    const { id, imports, source, context } = await started();
    await imports.apply([byId()]);
    let second: unknown;
    const joining = {
      ...source,
      async activate(organization: string | undefined, user: string, signal: AbortSignal) {
        await imports.apply([update({ timestamp: new Date(clock.now() - 1_000).toISOString() })]);
        second = await activateStaged(context, id, forever);
        if (fails) throw new Error("refused");
        await source.activate(organization, user, signal);
      },
    };
    await activateStaged(startContext(db, joining, clock, log), id, forever);
    expect(second).toEqual({ activated: 0, failed: [] });
    expect(shown(id)).toMatchObject([{ username: "w0", state: fails ? "STAGED" : "ACTIVATED" }]);
    const later = db.prepare("UPDATE job_users SET activated_ms = activated_ms - 3600000");
    if (!fails) later.run();
    expect(await activateStaged(context, id, forever)).toEqual({ activated: fails ? 1 : 0, failed: [] });
    expect(source.activated).toEqual(["id-w0"]);
  });

  it.each([
    ["before", false],
    ["while", true],
  ])("is activated once where it is activated %s a start takes its job over", async (_words, isDuring) => {
    clock.set(new Date().toISOString());
    const source = sourceOf([{ kind: "started", serviceJob: "j1" }], undefined, workers(1));
    const imports = run(source);
    await imports.apply([byId()]);
    const found = jobs.list({})[0]!.id;
    let mine = 0;
    const taken = async () => {
      mine = (await start(source, WORKDAY)).id;
    };
    const during = {
      ...source,
      async activate(organization: string | undefined, user: string, signal: AbortSignal) {
        if (isDuring) await taken();
        await source.activate(organization, user, signal);
      },
    };
    expect(await activateStaged(startContext(db, during, clock, log), found, forever)).toMatchObject({
      activated: 1,
    });
    if (!isDuring) await taken();
    await imports.apply([update()]);
    db.prepare("UPDATE job_users SET activated_ms = activated_ms - 3600000").run();
    expect(shown(mine)).toMatchObject([{ username: "w0", state: "ACTIVATED" }]);
    expect(jobs.job(mine)!.staged).toBe(0);
  });

  it("keeps a state that is read during an activation that fails", async () => {
    const { id, imports, source, context } = await started();
    await imports.apply([byId()]);
    const timestamp = new Date(clock.now() + 500).toISOString();
    clock.advance(1_000);
    const failing = {
      ...source,
      async activate() {
        await imports.apply([byId({ id: "early", timestamp, ...stateTo("SUSPENDED") })]);
        throw new Error("refused");
      },
    };
    await activateStaged(startContext(db, failing, clock, log), id, forever);
    expect(shown(id)[0]).toMatchObject({ state: "SUSPENDED" });
    expect(await activateStaged(context, id, forever)).toEqual({ activated: 0, failed: [] });
  });
});

it("raises an alarm for a failed, a missed and an overlapped run, and clears it with a good one", async () => {
  const alarms = createAlarms(clock, log);
  const kinds = () => alarms.list().map(({ kind, subject }: Alarm) => `${kind} ${subject}`);
  const source = sourceOf([
    { kind: "refused", about: "request", reason: "403" },
    { kind: "started", serviceJob: "j2" },
  ]);
  const definitions = [definitionOf({ schedule: "0 2 * * *" })];
  const imports = createImports({
    ...{ db, definitions, source: () => source, accounts: ["acme"], clock, log, alarms },
  });
  await imports.step(forever);
  clock.set("2026-02-01T02:00:00Z");
  await imports.step(forever);
  expect(kinds()).toEqual(["import_failed nightly-hr"]);
  clock.set("2026-02-02T12:00:00Z");
  await imports.step(forever);
  expect(kinds()).toEqual(["import_missed nightly-hr"]);
  clock.set("2026-02-03T02:00:00Z");
  await imports.step(forever);
  expect(kinds()).toEqual([]);
  clock.set("2026-02-04T01:59:59Z");
  await jobs.store.change(() => jobs.store.jobs.touch(jobs.list({})[0]!.id, clock.now(), null, null));
  clock.set("2026-02-04T02:00:00Z");
  await imports.step(forever);
  expect(kinds()).toEqual(["import_overlapped nightly-hr"]);
});

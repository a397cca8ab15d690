import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createImports } from "../../src/imports/create-imports.ts";
import { resolveJob } from "../../src/imports/resolve.ts";
import { orderOf } from "../../src/imports/scheduler.ts";
import type { StartAnswer } from "../../src/imports/source.ts";
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
const LOST: StartAnswer = { kind: "uncertain", reason: "cut" };
const started = (serviceJob: string): StartAnswer => ({ kind: "started", serviceJob });
const workers = (count: number) => Array.from({ length: count }, (_, at) => worker(`w${at}`));

/** The answer to a part of a Workday import is lost. */
describe("a lost answer", () => {
  const log = heardLog();
  let db: ReturnType<typeof openState>;
  let clock: HandClock;
  let jobs: Jobs;
  /** Up to when events are read; up to now without it. */
  let readMs: number | undefined;

  beforeEach(() => {
    db = openState();
    clock = handClock("2026-02-01T01:00:00Z");
    jobs = jobsOf(db);
    readMs = undefined;
  });
  afterEach(() => db.close());

  function run(source: SourceScript) {
    const parts = { db, definitions: [], source: () => source, accounts: ["acme"], clock, log };
    return createImports({ ...parts, readUntilMs: () => readMs ?? clock.now() });
  }

  const start = (source: SourceScript) =>
    startImport(
      startContext(db, source, clock, log),
      orderOf(definitionOf({ application: undefined, workday: "wd1" })),
      forever,
    );

  const created = (
    serviceJob: string,
    resource: { username?: string; email?: string },
    application = "wd1",
  ) =>
    eventOf({
      id: `${serviceJob}-${resource.username ?? resource.email}`,
      timestamp: new Date(clock.now()).toISOString(),
      organization: "o1",
      event_type: "user_create",
      correlation: { id: serviceJob, type: "user_import" },
      application: { id: application },
      resource: { type: "user", ...resource },
    });
  const createdAll = (serviceJob: string, count: number) =>
    workers(count).map(({ username }) => created(serviceJob, { username: username! }));

  async function pass(imports: ReturnType<typeof run>, minutes: number): Promise<void> {
    for (let minute = 1; minute <= minutes; minute++) {
      clock.advance(MINUTE_MS);
      await imports.step(forever);
    }
  }

  const states = (id: number) => jobs.job(id)!.parts.map(({ state }) => state);

  it("R28 sends no part again if two of them got one job id, and both answers were lost", async () => {
    const source = sourceOf([LOST, LOST, started("j2"), started("j3")], undefined, workers(150));
    const imports = run(source);
    const { id } = await start(source);
    await imports.apply(createdAll("j1", 150));
    await pass(imports, 10);
    expect(source.starts).toHaveLength(2);
    expect(states(id)).toEqual(["taken", "taken"]);
    expect(jobs.list({})).toMatchObject([{ id, state: "finished", counts: { created: 150 } }]);
  });

  it("R28 sends no part again whose users are seen by their e-mail addresses alone", async () => {
    const source = sourceOf([LOST, started("j2")], undefined, workers(2));
    const imports = run(source);
    const { id } = await start(source);
    await imports.apply(workers(2).map(({ email }) => created("j1", { email: email!.toUpperCase() })));
    await pass(imports, 10);
    expect(source.starts).toHaveLength(1);
    expect(jobs.list({})).toMatchObject([{ id, state: "finished", counts: { created: 2 } }]);
  });

  it("R28 sends no part again whose users are seen in events that name another id than the integration's", async () => {
    const source = sourceOf([LOST, started("j2")], undefined, workers(2));
    const imports = run(source);
    const { id } = await start(source);
    await imports.apply(workers(2).map(({ username }) => created("j1", { username: username! }, "app1")));
    await pass(imports, 10);
    expect(source.starts).toHaveLength(1);
    expect(jobs.list({})).toMatchObject([{ id, state: "finished", counts: { created: 2 } }]);
  });

  it("R28 sends no part again whose users wait in the results of another part's job", async () => {
    const waiting = workers(150).map(({ username }) => ({ status: "pending", username }));
    const source = sourceOf([started("j1"), LOST, started("j2")], () => waiting, workers(150));
    const imports = run(source);
    const { id } = await start(source);
    await pass(imports, 10);
    expect(source.starts).toHaveLength(2);
    expect(states(id)).toEqual(["taken", "taken"]);
  });

  it("is made up for by sending the part again, also where all silence is read at once", async () => {
    const source = sourceOf([started("j1"), LOST, started("j2")], undefined, workers(150));
    const imports = run(source);
    const { id } = await start(source);
    readMs = clock.now();
    await pass(imports, 30);
    readMs = undefined;
    await imports.step(forever);
    expect(source.starts).toHaveLength(3);
    expect(jobs.job(id)).toMatchObject({ state: "running", reason: null });
  });

  it.each([
    ["another lost one", LOST],
    ["a refusal", { kind: "refused", about: "request", reason: "403" } as const],
  ])("after an outage, together with %s, does not end a job whose events were not read", async (_, last) => {
    const source = sourceOf([started("j1"), wait, wait, last], undefined, workers(150));
    const imports = run(source);
    const { id } = await start(source);
    readMs = clock.now();
    await pass(imports, 21);
    expect(source.starts).toHaveLength(4);
    expect(jobs.row(id)).toMatchObject({ ended_ms: null });
  });

  it("keeps silence from ending the job before every part is judged, also with a short finishAfter", async () => {
    const source = sourceOf([LOST, LOST, LOST, started("j4")], undefined, workers(250));
    const imports = run(source);
    const order = orderOf(
      definitionOf({ application: undefined, workday: "wd1", quietAfter: "5s", finishAfter: "20s" }),
    );
    // Half a minute between the parts.
    const slow = {
      ...source,
      startWorkday: async (...args: Parameters<typeof source.startWorkday>) => {
        const answer = await source.startWorkday(...args);
        if (source.starts.length < 3) clock.advance(MINUTE_MS / 2);
        return answer;
      },
    };
    const { id } = await startImport(startContext(db, slow, clock, log), order, forever);
    const all = workers(250).map(({ username }) => username!);
    await imports.apply(all.slice(0, 100).map((username) => created("j1", { username })));
    await imports.apply(all.slice(100, 200).map((username) => created("j2", { username })));
    for (let second = 0; second < 125; second += 5) {
      clock.advance(5000);
      await imports.step(forever);
    }
    expect(source.starts).toHaveLength(4);
    expect(states(id)).toEqual(["taken", "taken", "taken"]);
    expect(jobs.job(id)!.counts).toMatchObject({ created: 200, pending: 50 });
    await imports.apply(all.slice(200).map((username) => created("j4", { username })));
    await imports.step(forever);
    expect(jobs.list({})).toMatchObject([{ id, state: "finished", counts: { created: 250 } }]);
  });

  it("to a part of a job that a person has ended is no reason to send it again, also when events open the job", async () => {
    let answer = (_: StartAnswer) => {};
    const waits = () => new Promise<StartAnswer>((resolve) => (answer = resolve));
    const source = sourceOf([started("j1"), waits, started("j3")], undefined, workers(250));
    const imports = run(source);
    const command = start(source);
    await expect.poll(() => source.starts).toHaveLength(2);
    await resolveJob({ store: jobs.store, clock, log }, 1, { ended: true }, "ann");
    answer(LOST);
    const { id } = await command;
    expect(states(id)).toEqual(["taken", "uncertain", "refused"]);
    await pass(imports, 5);
    await imports.apply(createdAll("j1", 100));
    await pass(imports, 5);
    expect(jobs.job(id)).toMatchObject({ state: "quiet", counts: { created: 100 } });
    expect(source.starts).toHaveLength(2);
  });

  it("that comes after events have opened the ended job again still gives the part its id", async () => {
    let answer = (_: StartAnswer) => {};
    const waits = () => new Promise<StartAnswer>((resolve) => (answer = resolve));
    const source = sourceOf([started("j1"), waits], undefined, workers(150));
    const imports = run(source);
    const command = start(source);
    await expect.poll(() => source.starts).toHaveLength(2);
    await resolveJob({ store: jobs.store, clock, log }, 1, { ended: true }, "ann");
    clock.advance(1000);
    await imports.apply([created("j1", { username: "w0" })]);
    await imports.step(forever);
    expect(jobs.job(1)!.state).toBe("running");
    answer(started("j2"));
    const { id } = await command;
    expect(states(id)).toEqual(["taken", "taken"]);
  });

  it("that a person calls not started does not end a job whose events were not read", async () => {
    const source = sourceOf([started("j1"), LOST], undefined, workers(150));
    const imports = run(source);
    const { id } = await start(source);
    readMs = clock.now();
    await pass(imports, 20);
    await resolveJob({ store: jobs.store, clock, log }, id, { started: false }, "ann");
    expect(jobs.row(id)).toMatchObject({ ended_ms: null });
  });

  const wait = { kind: "unavailable", reason: "429", retryAfterMs: 10 * MINUTE_MS } as const;

  it("R28 is found by late events while the part waits for another try, which is not made", async () => {
    const source = sourceOf([LOST, wait, started("j2")], undefined, workers(2));
    const imports = run(source);
    const { id } = await start(source);
    const late = createdAll("j1", 2);
    await pass(imports, 10);
    expect(source.starts).toHaveLength(2);
    expect(states(id)).toEqual(["planned"]);
    await imports.apply(late);
    await pass(imports, 20);
    expect(source.starts).toHaveLength(2);
    expect(jobs.list({})).toMatchObject([{ id, state: "finished", counts: { created: 2 } }]);
  });

  it("R28 is found by late events of the first request when the second answer was lost too", async () => {
    const source = sourceOf([LOST, LOST, started("j2")], undefined, workers(2));
    const imports = run(source);
    const { id } = await start(source);
    const late = createdAll("j1", 2);
    while (source.starts.length < 2) await pass(imports, 1);
    await imports.apply(late);
    await pass(imports, 40);
    expect(source.starts).toHaveLength(2);
    expect(jobs.list({})).toMatchObject([{ id, state: "finished", counts: { created: 2 } }]);
  });

  it("R28 leaves the part to a person where late events are of two jobs", async () => {
    const source = sourceOf([LOST, wait, started("j3")], undefined, workers(2));
    const imports = run(source);
    const { id } = await start(source);
    const late = [...createdAll("j1", 2), ...createdAll("j2", 2)];
    await pass(imports, 10);
    await imports.apply(late);
    await pass(imports, 20);
    expect(source.starts).toHaveLength(2);
    expect(jobs.job(id)!.parts).toMatchObject([
      { state: "uncertain", reason: expect.stringContaining("were seen") },
    ]);
  });

  it("R28 is found by late events of the first request also in the halves of a part that was refused", async () => {
    const refused: StartAnswer = { kind: "refused", about: "users", reason: "400" };
    const source = sourceOf([LOST, refused, wait, wait, started("j2"), started("j3")], undefined, workers(2));
    const imports = run(source);
    const firstMs = clock.now();
    const { id } = await start(source);
    const late = createdAll("j1", 2);
    await pass(imports, 10);
    expect(states(id)).toEqual(["refused", "planned", "planned"]);
    const first = db.prepare("SELECT first_sent_ms FROM job_parts WHERE part > 0").pluck().all();
    expect(first).toEqual([firstMs, firstMs]);
    const sent = source.starts.length;
    await imports.apply(late);
    await pass(imports, 20);
    expect(source.starts).toHaveLength(sent);
    expect(jobs.list({})).toMatchObject([{ id, state: "finished", counts: { created: 2 } }]);
  });

  it.each([
    ["refused", [{ kind: "refused", about: "request", reason: "403" }] as const],
    ["never taken", Array.from({ length: 5 }, () => ({ kind: "unavailable", reason: "429" }) as const)],
  ])("stays uncertain where the part is %s when it is sent again", async (_, answers) => {
    const source = sourceOf([LOST, ...answers], undefined, workers(2));
    const imports = run(source);
    const { id } = await start(source);
    await pass(imports, 40);
    expect(source.starts).toHaveLength(1 + answers.length);
    expect(jobs.job(id)).toMatchObject({ state: "uncertain", counts: { failed: 0, pending: 2 } });
  });
});

import { afterEach, describe, expect, it } from "vitest";
import type { Simulator, SimulatorOptions } from "../index.ts";
import { manage, readAll, startStill } from "./support.ts";

describe("import jobs", () => {
  const open: Simulator[] = [];
  afterEach(async () => {
    for (const simulator of open.splice(0)) await simulator.close();
  });
  async function start(imports: NonNullable<SimulatorOptions["imports"]>): Promise<Simulator> {
    const simulator = await startStill({ events: 10, imports });
    open.push(simulator);
    return simulator;
  }
  async function launch(simulator: Simulator, body: object): Promise<string> {
    const application = simulator.control.world.importApplication(simulator.organizations[0]!.id);
    return (
      await manage<{ _id: string }>(simulator, "POST", `/v2/applications/${application}/import/jobs`, body)
    ).body._id;
  }
  async function finish(simulator: Simulator, job: string): Promise<void> {
    simulator.control.clock.advance(3_600_000);
    await expect
      .poll(() => simulator.control.world.importJobs().find(({ id }) => id === job)!.finished)
      .not.toBeNull();
    simulator.control.clock.advance(60_000);
  }
  const told = (simulator: Simulator, job: string) =>
    readAll(
      simulator,
      { service: ["directory"], search_term: { and: [{ "correlation.id": job }] } },
      { "x-org-id": simulator.organizations[0]!.id },
    );

  it("create and update users, some fail, and the events say the same as the truth", async () => {
    const simulator = await start({ sourceUsers: 120, failureShare: 0.2 });
    const job = await launch(simulator, { operations: ["users.create", "users.update"] });
    await finish(simulator, job);
    const truth = simulator.control.world.importJobUsers(job);
    const count = (outcome: string) => truth.filter((user) => user.outcome === outcome).length;
    expect(count("created") + count("updated") + count("failed")).toBe(120);
    for (const outcome of ["created", "updated", "failed"]) expect(count(outcome)).toBeGreaterThan(5);
    const events = await told(simulator, job);
    expect(events).toHaveLength(120);
    for (const event of events) expect(event.correlation).toEqual({ id: job, type: "user_import" });
    const names = (list: readonly { username: string }[]) => list.map(({ username }) => username).sort();
    const failed = events.filter(({ success }) => success === false);
    expect(names(failed.map(({ resource }) => resource))).toEqual(
      names(truth.filter(({ outcome }) => outcome === "failed").map(({ entry }) => entry)),
    );
    for (const { error_message } of failed) expect(error_message).toBeTruthy();
    const created = truth.find(({ outcome }) => outcome === "created")!;
    const user = simulator.control.world
      .users(simulator.organizations[0]!.id)
      .find(({ id }) => id === created.user);
    expect(user).toMatchObject({ state: "STAGED", source: "custom:scim", username: created.entry.username });
  });

  it("run at the pace that is set, on the simulator's clock", async () => {
    const simulator = await start({ sourceUsers: 20, usersPerSecond: 2, failureShare: 0 });
    const job = await launch(simulator, { operations: ["users.create", "users.update"] });
    const done = () =>
      simulator.control.world.importJobUsers(job).filter(({ outcome }) => outcome !== "pending").length;
    expect(done()).toBe(0);
    simulator.control.clock.advance(2_000);
    await expect.poll(done).toBe(4);
    simulator.control.clock.advance(60_000);
    await expect.poll(done).toBe(20);
  });

  it("keep to their operations: without users.create no user is created, without users.update none is updated", async () => {
    const simulator = await start({ sourceUsers: 12, failureShare: 0 });
    const update = await launch(simulator, { operations: ["users.update"] });
    await finish(simulator, update);
    expect(new Set(simulator.control.world.importJobUsers(update).map(({ outcome }) => outcome))).toEqual(
      new Set(["updated", "skipped"]),
    );
    const create = await launch(simulator, { operations: ["users.create"] });
    await finish(simulator, create);
    expect(new Set(simulator.control.world.importJobUsers(create).map(({ outcome }) => outcome))).toEqual(
      new Set(["created", "skipped"]),
    );
  });

  it("pass queryString to the source", async () => {
    const simulator = await start({ sourceUsers: 30, failureShare: 0 });
    const job = await launch(simulator, { operations: ["users.create"], queryString: "1000" });
    const entries = simulator.control.world.importJobUsers(job).map(({ entry }) => entry);
    expect(entries.length).toBeGreaterThan(0);
    expect(entries.length).toBeLessThan(30);
    for (const entry of entries) expect(JSON.stringify(entry)).toContain("1000");
  });

  it("reactivate suspended users only when allowUserReactivation says so", async () => {
    const simulator = await start({ sourceUsers: 3, failureShare: 0 });
    const organization = simulator.organizations[0]!.id;
    const first = await launch(simulator, { operations: ["users.update"] });
    await finish(simulator, first);
    const user = simulator.control.world.importJobUsers(first).find(({ outcome }) => outcome === "updated")!
      .user!;
    const suspended = () =>
      simulator.control.world.users(organization).find(({ id }) => id === user)!.suspended;
    simulator.control.world.suspendUser(organization, user);
    await finish(simulator, await launch(simulator, { operations: ["users.update"] }));
    expect(suspended()).toBe(1);
    await finish(
      simulator,
      await launch(simulator, { operations: ["users.update"], allowUserReactivation: true }),
    );
    expect(suspended()).toBe(0);
  });

  it("create ACTIVATED users where the organization's rule says so", async () => {
    const simulator = await start({ sourceUsers: 6, failureShare: 0, state: "ACTIVATED" });
    const job = await launch(simulator, { operations: ["users.create"] });
    await finish(simulator, job);
    const created = simulator.control.world
      .importJobUsers(job)
      .filter(({ outcome }) => outcome === "created")
      .map(({ user }) => user);
    const users = simulator.control.world
      .users(simulator.organizations[0]!.id)
      .filter(({ id }) => created.includes(id));
    expect(new Set(users.map(({ state }) => state))).toEqual(new Set(["ACTIVATED"]));
  });
});

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Simulator } from "../index.ts";
import { type ScimServer, startScimServer } from "./scim-server.ts";
import { manage, readAll, startStill } from "./support.ts";

describe("outbound provisioning", () => {
  let simulator: Simulator;
  let scim: ScimServer;
  let organization: string;
  let application: string;
  let slug = 0;

  beforeEach(async () => {
    simulator = await startStill({ events: 10, clock: { speed: 1000 }, imports: { failureShare: 0 } });
    scim = await startScimServer();
    organization = simulator.organizations[0]!.id;
    application = await createApplication();
  });
  afterEach(async () => {
    await simulator.close();
    await scim.close();
  });

  async function createApplication(): Promise<string> {
    const config = { scimUrl: { value: scim.url }, scimToken: { value: scim.token } };
    const body = {
      name: "scim",
      displayLabel: "HR",
      displayName: "HR",
      ssoUrl: `scim-${slug++}`,
      config,
    };
    return (await manage<{ _id: string }>(simulator, "POST", "/applications", body)).body._id;
  }
  const bind = (op: "add" | "remove", type: "user" | "user_group", id: string) =>
    manage(simulator, "POST", `/v2/applications/${application}/associations`, { op, type, id });
  const person = (index = 0) => simulator.control.world.users(organization)[index]!;
  const remote = (username: string) => [...scim.users.values()].find((user) => user.userName === username);
  const settled = () => simulator.control.world.provisioned();

  it("creates a bound, activated user by a real call, with its token", async () => {
    expect((await bind("add", "user", person().id)).status).toBe(204);
    await settled();
    expect(remote(person().username)).toMatchObject({
      active: true,
      emails: [{ value: person().email }],
      externalId: person().id,
    });
    expect(scim.calls).toEqual(["POST /scim/Users"]);
  });

  it("creates the members of a bound group, and of one that joins later", async () => {
    const group = simulator.control.world.groups(organization).find(({ name }) => name === "contractors")!;
    const members = simulator.control.world.users(organization);
    await bind("add", "user_group", group.id);
    await settled();
    const before = scim.users.size;
    expect(before).toBeGreaterThan(0);
    expect(before).toBeLessThan(members.length);
    const outsider = members.find(({ username }) => remote(username) === undefined)!;
    simulator.control.world.setGroupMember(organization, group.id, outsider.id, true);
    await settled();
    expect(remote(outsider.username)).toMatchObject({ active: true });
    simulator.control.world.setGroupMember(organization, group.id, outsider.id, false);
    await settled();
    expect(remote(outsider.username)).toMatchObject({ active: false });
  });

  it("skips a STAGED user until it is activated, and then updates it", async () => {
    const workday = `/v2/workdays/${simulator.control.world.workday(organization)}/import`;
    const entry = {
      email: "staged@example.test",
      username: "staged.user",
      firstname: "Old",
      lastname: "Name",
      state: "STAGED",
    };
    await manage(simulator, "POST", workday, [entry]);
    const find = () =>
      simulator.control.world.users(organization).find(({ username }) => username === entry.username);
    await expect.poll(find).toBeDefined();
    await bind("add", "user", find()!.id);
    await settled();
    expect(scim.calls).toEqual([]);
    await manage(simulator, "POST", `/systemusers/${find()!.id}/state/activate`);
    await settled();
    expect(remote("staged.user")).toMatchObject({ active: true, name: { givenName: "Old" } });
    await manage(simulator, "POST", workday, [{ ...entry, firstname: "New" }]);
    await expect.poll(() => find()!.firstname).toBe("New");
    await settled();
    expect(remote("staged.user")).toMatchObject({ name: { givenName: "New" } });
  });

  it("deactivates when the binding ends, and when the user is suspended or deleted; a suspended one can come back", async () => {
    const [one, two, three] = [person(0), person(1), person(2)];
    for (const { id } of [one, two, three]) await bind("add", "user", id);
    await settled();
    await bind("remove", "user", one.id);
    simulator.control.world.suspendUser(organization, two.id);
    simulator.control.world.deleteUser(organization, three.id);
    await settled();
    for (const { username } of [one, two, three]) expect(remote(username)).toMatchObject({ active: false });
    simulator.control.world.unsuspendUser(organization, two.id);
    await settled();
    expect(remote(two.username)).toMatchObject({ active: true });
    expect(scim.users.size).toBe(3);
  });

  it("deactivates everybody when the application is deleted or made inactive", async () => {
    await bind("add", "user", person().id);
    await settled();
    const { body } = await manage<Record<string, unknown>>(simulator, "GET", `/applications/${application}`);
    await manage(simulator, "PUT", `/applications/${application}`, { ...body, active: false });
    await settled();
    expect(remote(person().username)).toMatchObject({ active: false });
    await manage(simulator, "PUT", `/applications/${application}`, { ...body, active: true });
    await settled();
    expect(remote(person().username)).toMatchObject({ active: true });
    await manage(simulator, "DELETE", `/applications/${application}`);
    await settled();
    expect(remote(person().username)).toMatchObject({ active: false });
  });

  it("tries again when the endpoint fails, takes over a user that exists, and gives up on a refusal", async () => {
    scim.failures.push(503, 429);
    await bind("add", "user", person(0).id);
    await settled();
    expect(remote(person(0).username)).toBeDefined();
    scim.users.set("theirs", { id: "theirs", userName: person(1).username });
    await bind("add", "user", person(1).id);
    await settled();
    expect(scim.users.get("theirs")).toMatchObject({ active: true, externalId: person(1).id });
    scim.failures.push(400);
    await bind("add", "user", person(2).id);
    await settled();
    expect(remote(person(2).username)).toBeUndefined();
  });

  it("leaves events of what it did, failures included", async () => {
    await bind("add", "user", person(0).id);
    await settled();
    scim.failures.push(400);
    await bind("add", "user", person(1).id);
    await settled();
    await bind("remove", "user", person(0).id);
    await settled();
    simulator.control.clock.advance(5_000);
    const events = await readAll(
      simulator,
      { service: ["directory"], start_time: "2025-03-01T12:00:00Z" },
      { "x-org-id": organization },
    );
    const told = events
      .filter(({ event_type }) => event_type?.endsWith("_provision"))
      .map(({ event_type, success }) => [event_type, success]);
    expect(told).toEqual([
      ["user_create_provision", true],
      ["user_update_provision", false],
      ["user_delete_provision", true],
    ]);
  });
});

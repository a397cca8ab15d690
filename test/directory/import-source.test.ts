import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Simulator, startSimulator } from "../../simulator/index.ts";
import { systemClock } from "../../src/core/clock.ts";
import { secretOf } from "../../src/core/secret.ts";
import { importSourceOf, offeredUser } from "../../src/directory/import-source.ts";
import { type ManagementClient, openManagement } from "../../src/directory/management.ts";

const forever = new AbortController().signal;

describe("users on offer", () => {
  let simulator: Simulator;
  let client: ManagementClient;
  let organization: string;
  beforeAll(async () => {
    simulator = await startSimulator({
      ...{ organizations: 1, events: 0 },
      imports: { sourceUsers: 230, badWorkers: 3, usersShape: "object", listUsers: true, previewQuery: true },
    });
    organization = simulator.organizations[0]!.id;
    client = openManagement(
      {
        name: "acme",
        insightsUrl: simulator.insightsUrl,
        managementUrl: simulator.managementUrl,
        credentials: { apiKey: secretOf(simulator.apiKey) },
        ...{ headersTimeoutMs: 5_000, bodyTimeoutMs: 5_000, bodyBytesMax: 10_000_000 },
      },
      { clock: systemClock },
    );
  });
  afterAll(async () => {
    await client.close();
    await simulator.close();
  });

  const workday = () => simulator.control.world.workday(organization);
  async function offered(kind: "application" | "workday", source: string, query?: string) {
    const users = [];
    for await (const user of importSourceOf(client).offered(organization, { kind, source, query }, forever))
      users.push(user);
    return users;
  }

  it("are read whole, from an array that pages by skip and from an object that pages by cursor and session", async () => {
    const workers = await offered("workday", workday());
    const application = simulator.control.world.importApplication(organization);
    expect([workers.length, (await offered("application", application)).length]).toEqual([230, 230]);
    for (const worker of workers) {
      expect(worker.firstname).toEqual(expect.any(String));
      expect(worker.lastname).toEqual(expect.any(String));
      expect(worker.attributes.length).toBeGreaterThan(0);
    }
    const asked = simulator.control.requests().map(({ path }) => path);
    expect(asked.filter((path) => path.endsWith("/import/users"))).toHaveLength(3);
  });

  it("are those that the filter of the import selects, where the preview passes it to the source", async () => {
    const application = simulator.control.world.importApplication(organization);
    const some = await offered("application", application, "i11");
    expect(some.length).toBeGreaterThan(1);
    expect(some.length).toBeLessThan(100);
    for (const user of some) expect(user.username).toContain("i11");
  });

  it("have names and attributes in either spelling", () => {
    const expected = {
      email: "a@b.c",
      firstname: "Ada",
      lastname: "L",
      attributes: [{ name: "team", value: "x" }],
    };
    const list = [{ name: "team", value: "x" }];
    expect(offeredUser({ email: "a@b.c", firstname: "Ada", lastname: "L", attributes: list })).toMatchObject(
      expected,
    );
    const camel = { email: "a@b.c", firstName: "Ada", lastName: "L", attributes: { team: "x" } };
    expect(offeredUser(camel)).toMatchObject(expected);
    expect(offeredUser({ email: "", firstname: 7, attributes: null })).toEqual({
      ...{
        username: undefined,
        email: undefined,
        firstname: undefined,
        lastname: undefined,
        state: undefined,
      },
      attributes: [],
    });
  });

  it("are refused by their place where the answer names them", async () => {
    const workers = await offered("workday", workday());
    const answer = await importSourceOf(client).startWorkday(organization, workday(), workers, forever);
    expect(answer).toMatchObject({ kind: "refused", about: "users" });
    const named = answer.kind === "refused" ? answer.users! : [];
    expect(named.map(({ index }) => workers[index]!.email)).toEqual([
      "no address",
      "no address",
      "no address",
    ]);
    expect(named[0]!.reason).toBe("email: is not an e-mail address");
    const rest = workers.filter(({ email }) => email !== "no address");
    const taken = await importSourceOf(client).startWorkday(organization, workday(), rest, forever);
    expect(taken.kind).toBe("started");
  });

  it("can be compared with the users that exist, where the service lists them", async () => {
    // The import of the test before may still add users.
    const before = simulator.control.world.users(organization).map(({ id }) => id);
    const existing = await importSourceOf(client).existing(organization, forever);
    expect(before.length).toBeGreaterThan(100);
    expect(existing!.map(({ id }) => id)).toEqual(expect.arrayContaining(before));
  });
});

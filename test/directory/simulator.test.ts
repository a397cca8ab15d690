import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Simulator, startSimulator } from "../../simulator/index.ts";
import { systemClock } from "../../src/core/clock.ts";
import { secretOf } from "../../src/core/secret.ts";
import {
  BadRequestError,
  CutOffError,
  type DirectoryError,
  ForbiddenError,
  HeadersTooLargeError,
  NotEntitledError,
  NotFoundError,
  ThrottledError,
  UnauthorizedError,
  UnavailableError,
  UnknownOrganizationError,
} from "../../src/directory/errors.ts";
import { type InsightsClient, type InsightsQuery, openInsights } from "../../src/directory/insights.ts";
import { type ManagementClient, openManagement, openSystem } from "../../src/directory/management.ts";
import { systemIdentityOf } from "../../src/directory/signature.ts";
import { caught, connectionTo, forever } from "./support.ts";

let simulator: Simulator;
let client: ManagementClient;
let insights: InsightsClient;
let organization: string;
const closers: (() => Promise<void>)[] = [];

beforeAll(async () => {
  simulator = await startSimulator({
    organizations: 130,
    events: 2500,
    days: 5,
    lateness: "none",
    headerBytesMax: 4096,
    pageLimit: { default: 1000, maximum: 1000 },
    imports: { usersPerSecond: 1000, sourceUsers: 120, failureShare: 0.1 },
  });
  organization = simulator.organizations[0]!.id;
  client = managementAs(simulator.apiKey);
  insights = insightsAs(simulator.apiKey);
});

afterAll(async () => {
  for (const close of closers) await close();
  await simulator.close();
});

function connectionAs(key: string) {
  return connectionTo(simulator.url, {
    managementUrl: simulator.managementUrl,
    insightsUrl: simulator.insightsUrl,
    credentials: { apiKey: secretOf(key) },
  });
}

function managementAs(key: string): ManagementClient {
  const opened = openManagement(connectionAs(key), { clock: systemClock });
  closers.push(() => opened.close());
  return opened;
}

function insightsAs(key: string): InsightsClient {
  const opened = openInsights(connectionAs(key), { clock: systemClock });
  closers.push(() => opened.close());
  return opened;
}

const options = () => ({ organization, signal: forever });

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = [];
  for await (const item of items) list.push(item);
  return list;
}

describe("Insights", () => {
  const query = { service: ["all"], startTime: "2020-01-01T00:00:00Z", limit: 300 };

  it("pages through everything, byte for byte", async () => {
    const scope = { organizations: [organization] };
    const seen: unknown[] = [];
    let text = "";
    let searchAfter: string | undefined;
    for (let page = 0; page < 50; page++) {
      const answer = await insights.events(query, scope, { signal: forever, searchAfter });
      const body = (await answer.body()).bytes.toString();
      const events = JSON.parse(body) as unknown[];
      text += body;
      expect(answer.head.resultCount).toBe(events.length);
      seen.push(...events);
      if (answer.head.resultCount! < answer.head.limit!) break;
      searchAfter = answer.head.searchAfter;
    }
    const served = [...simulator.control.allEvents({ organization })].map((bytes) =>
      Buffer.from(bytes).toString(),
    );
    expect(seen).toHaveLength(served.length);
    expect(served.filter((event) => !text.includes(event))).toEqual([]);
  });

  it("reads several organizations and the provider's portal", async () => {
    const ids = simulator.organizations.slice(0, 20).map(({ id }) => id);
    const group = await insights.events(query, { organizations: ids }, { signal: forever });
    const owners = (JSON.parse((await group.body()).bytes.toString()) as { organization: string }[]).map(
      (e) => e.organization,
    );
    expect(owners.every((owner) => ids.includes(owner))).toBe(true);
    const portal = await insights.events(query, { provider: simulator.providerId }, { signal: forever });
    await portal.body();
    expect(portal.head.status).toBe(200);
  });

  const failures: [string, unknown, () => Promise<unknown>][] = [
    ["an empty list of fields", BadRequestError, () => ask({ ...query, fields: [] })],
    ["a start in the future", BadRequestError, () => ask({ ...query, startTime: "2999-01-01T00:00:00Z" })],
    ["an end before the start", BadRequestError, () => ask({ ...query, endTime: "2019-01-01T00:00:00Z" })],
    ["a malformed organization", BadRequestError, () => ask(query, ["xyz"])],
    ["no organization header", UnauthorizedError, () => ask(query, [])],
    ["an unknown organization", UnknownOrganizationError, () => ask(query, ["0".repeat(24)])],
    [
      "too many organizations",
      HeadersTooLargeError,
      () =>
        ask(
          query,
          simulator.organizations.map(({ id }) => id),
        ),
    ],
  ];
  const ask = (asked: InsightsQuery, organizations = [organization], as = insights) =>
    as.events(asked, { organizations }, { signal: forever }).then((answer) => answer.body());

  it.each(failures)("answers %s as its type with the service's words", async (_words, type, call) => {
    const error = (await caught(call())) as DirectoryError;
    expect(error).toBeInstanceOf(type);
    expect(error.serviceMessage).toBeTruthy();
  });

  it("tells a wrong key, a command runner, a missing entitlement, throttling and absence apart", async () => {
    const runner = simulator.keys.find(({ role }) => role === "command_runner")!.key;
    expect(await caught(ask(query, [organization], insightsAs("wrong")))).toBeInstanceOf(UnauthorizedError);
    expect(await caught(ask(query, [organization], insightsAs(runner)))).toBeInstanceOf(ForbiddenError);
    const other = simulator.organizations[1]!.id;
    for (const [status, type] of [
      [402, NotEntitledError],
      [403, ForbiddenError],
    ] as const) {
      simulator.control.refuseOrganization(other, status);
      expect(await caught(ask(query, [other]))).toBeInstanceOf(type);
    }
    simulator.control.refuseOrganization(other, null);
    for (const [fault, type] of [
      [{ kind: "status", status: 429, retryAfter: 3 }, ThrottledError],
      [{ kind: "status", status: 503 }, UnavailableError],
      [{ kind: "cut_headers" }, CutOffError],
      [{ kind: "cut_body" }, CutOffError],
    ] as const) {
      simulator.control.faults.set([fault]);
      expect(await caught(ask(query))).toBeInstanceOf(type);
    }
    simulator.control.faults.clear();
  });
});

describe("an OAuth service account", () => {
  it("reads with a token that it gets for its client", async () => {
    const { clientId, clientSecret, tokenUrl } = simulator.oauth;
    const credentials = { clientId, clientSecret: secretOf(clientSecret), tokenUrl };
    const byToken = openInsights({ ...connectionAs("none"), credentials }, { clock: systemClock });
    const managing = openManagement({ ...connectionAs("none"), credentials }, { clock: systemClock });
    closers.push(
      () => byToken.close(),
      () => managing.close(),
    );
    const query = { service: ["all"], startTime: "2020-01-01T00:00:00Z" };
    const answer = await byToken.events(query, { organizations: [organization] }, { signal: forever });
    expect((await answer.body()).bytes.length).toBeGreaterThan(2);
    expect((await all(managing.applications(options()))).length).toBeGreaterThan(0);
  });
});

describe("the management API", () => {
  it("lists all organizations, page by page", async () => {
    const found = await all(client.organizations(forever));
    expect(found.map(({ _id }) => _id).sort()).toEqual(simulator.organizations.map(({ id }) => id).sort());
  });

  it("lists directories", async () => {
    expect((await client.directories(organization, forever)).length).toBeGreaterThan(0);
  });

  it("makes, reads, lists, changes, replaces and deletes an application", async () => {
    const [template] = await all(client.applicationTemplates(options()));
    expect(await client.applicationTemplate(template!._id, options())).toMatchObject({
      name: template!.name,
    });
    const made = await client.createApplication(
      {
        name: template!.name ?? "",
        displayLabel: "Test",
        displayName: "Test",
        ssoUrl: "test-slug",
        config: { acsUrl: { value: "https://sp.example/acs" }, spEntityId: { value: "sp" } },
      },
      options(),
    );
    await client.updateApplication(
      made._id,
      { description: "kept", config: { spEntityId: { value: "sp2" } } },
      options(),
    );
    const changed = await client.updateApplication(made._id, { displayLabel: "Changed" }, options());
    expect(changed).toMatchObject({ description: "kept", displayLabel: "Changed", ssoUrl: "test-slug" });
    expect(changed.config).toMatchObject({
      acsUrl: { value: "https://sp.example/acs" },
      spEntityId: { value: "sp2" },
    });
    expect((await all(client.applications(options()))).map(({ _id }) => _id)).toContain(made._id);
    const { name, displayLabel, displayName, ssoUrl, config } = changed;
    const replaced = await client.replaceApplication(
      made._id,
      { name, displayLabel, displayName, ssoUrl, config },
      options(),
    );
    expect(replaced.description ?? "").toBe("");
    await client.deleteApplication(made._id, options());
    expect(await caught(client.application(made._id, options()))).toBeInstanceOf(NotFoundError);
  });

  it("binds groups and users, and lists who is bound", async () => {
    const [application] = await all(client.applications(options()));
    const id = application!._id;
    const [group] = simulator.control.world.groups(organization);
    const [user] = simulator.control.world.users(organization);
    await client.associateApplication(id, "add", { type: "user_group", id: group!.id }, options());
    await client.associateApplication(id, "add", { type: "user", id: user!.id }, options());
    const bound = await client.applicationAssociations(id, "user_group", options());
    expect(bound.map(({ to }) => to.id)).toContain(group!.id);
    const seeing = await all(client.applicationUsers(id, options()));
    expect(JSON.stringify(seeing)).toContain(user!.id);
    await client.associateApplication(id, "remove", { type: "user", id: user!.id }, options());
    expect(await client.applicationAssociations(id, "user", options())).toEqual([]);
  });

  it("previews and starts an import", async () => {
    const application = simulator.control.world.importApplication(organization);
    expect(await all(client.importUsers(application, options()))).toHaveLength(120);
    const job = await client.startImport(application, { operations: ["users.create"] }, options());
    expect(simulator.control.world.importJobs().map(({ id }) => id)).toContain(job);
  });

  it("imports workers from Workday and reads the results", async () => {
    const workday = simulator.control.world.workday(organization);
    const workers = await all(client.workdayWorkers(workday, options()));
    expect(workers).toHaveLength(120);
    const job = await client.startWorkdayImport(
      workday,
      [{ email: "new@example.org", username: "new.worker", state: "STAGED" }],
      options(),
    );
    const results = await all(client.workdayResults(workday, job, options()));
    expect(results).toMatchObject([{ username: "new.worker" }]);
  });

  it("activates users now and later", async () => {
    const user = simulator.control.world.users(organization).at(-1)!;
    await client.activateUser(user.id, options());
    expect(simulator.control.world.users(organization).find(({ id }) => id === user.id)).toMatchObject({
      state: "ACTIVATED",
    });
    const startDate = new Date(simulator.control.clock.read().nowMs + 3_600_000).toISOString();
    const scheduled = await client.scheduleStates(
      { userIds: [user.id], state: "ACTIVATED", startDate },
      options(),
    );
    expect(scheduled).toMatchObject([{ systemUserId: user.id, state: "ACTIVATED" }]);
  });

  it("answers every documented refusal as its type with the service's words", async () => {
    const application = simulator.control.world.importApplication(organization);
    const refusals: [() => Promise<unknown>, unknown, RegExp][] = [
      [
        () => client.application(application, { organization: "xyz", signal: forever }),
        BadRequestError,
        /malformed/,
      ],
      [() => client.application(application, { signal: forever }), UnauthorizedError, /x-org-id/],
      [
        () => client.application(application, { organization: "0".repeat(24), signal: forever }),
        UnknownOrganizationError,
        /organization/i,
      ],
      [() => client.replaceApplication(application, { active: "maybe" }, options()), BadRequestError, /./],
      [() => client.startImport(application, { operations: [] }, options()), BadRequestError, /./],
      [() => all(client.workdayResults("0".repeat(24), "1", options())), NotFoundError, /./],
      [() => managementAs("wrong").application(application, options()), UnauthorizedError, /./],
    ];
    for (const [call, type, words] of refusals) {
      const error = (await caught(call())) as DirectoryError;
      expect(error).toBeInstanceOf(type);
      expect(error.serviceMessage).toMatch(words);
      expect(error.status).toBeGreaterThanOrEqual(400);
      expect(error.code).toBeTruthy();
    }
  });
});

describe("system context", () => {
  function asSystem(system: { id: string; privateKey: string | null }) {
    const identity = systemIdentityOf(JSON.stringify({ systemKey: system.id }), system.privateKey!);
    const opened = openSystem(connectionAs("none"), identity, { clock: systemClock });
    closers.push(() => opened.close());
    return opened;
  }

  it("signs every request so that the service accepts it", async () => {
    const system = simulator.control.world.addSystem(organization);
    const self = asSystem(system);
    const mine = { signal: forever };
    expect(await self.system(system.id, mine)).toMatchObject({ _id: system.id });
    expect(await self.updateSystem(system.id, { displayName: "renamed" }, mine)).toMatchObject({
      displayName: "renamed",
    });
    await self.replaceSystem(system.id, { displayName: "again" }, mine);
    await self.changeGroupMember(system.systemGroup, "add", system.id, mine);
    expect((await self.systemGroups(system.id, mine)).map(({ id }) => id)).toEqual([system.systemGroup]);
    const [user] = simulator.control.world.users(organization);
    await self.associateSystem(system.id, "add", { type: "user", id: user!.id }, mine);
    expect(await self.systemAssociations(system.id, "user", mine)).toMatchObject([{ to: { id: user!.id } }]);
    expect(await self.systemUsers(system.id, mine)).toMatchObject([{ id: user!.id }]);
    await self.deleteSystem(system.id, mine);
    expect(await caught(self.system(system.id, mine))).toBeInstanceOf(UnauthorizedError);
  });

  it("arrives as a type when it is refused", async () => {
    const mine = { signal: forever };
    const system = simulator.control.world.addSystem(organization);
    const other = simulator.control.world.addSystem(organization);
    const stolen = { id: system.id, privateKey: other.privateKey };
    expect(await caught(asSystem(stolen).system(system.id, mine))).toBeInstanceOf(UnauthorizedError);
    expect(await caught(asSystem(system).system(other.id, mine))).toBeInstanceOf(UnauthorizedError);
    const refused = asSystem(system).changeGroupMember(system.systemGroup, "add", other.id, mine);
    expect(await caught(refused)).toBeInstanceOf(ForbiddenError);
    const portal = simulator.control.world.addSystem(organization, { enrollment: "portal" });
    expect(await caught(asSystem(portal).system(portal.id, mine))).toBeInstanceOf(ForbiddenError);
  });
});

import { expect } from "vitest";
import type { Simulator } from "../../index.ts";
import { call, manage, startTime } from "../support.ts";
import type { Rule } from "./rule.ts";

interface Listed {
  readonly results: Record<string, unknown>[];
  readonly totalCount: number;
}

interface Bound {
  readonly id: string;
  readonly paths: unknown;
}

type Settings = Record<string, Record<string, unknown>>;

let slug = 0;

function draft(more: object = {}) {
  slug++;
  return {
    name: "slack",
    displayLabel: "Chat",
    displayName: "Chat",
    ssoUrl: `chat-${slug}`,
    config: { acsUrl: { value: "https://acs.test" } },
    ...more,
  };
}

async function create(
  simulator: Simulator,
  more: object = {},
): Promise<Record<string, unknown> & { _id: string }> {
  const { status, body } = await manage<Record<string, unknown> & { _id: string }>(
    simulator,
    "POST",
    "/applications",
    draft(more),
  );
  expect(status).toBe(200);
  return body;
}

const templates = "Endpoints: application templates";
const applications = "Endpoints: applications";
const lists = "Endpoints: shared query parameters";
const imports = "Endpoints: identity-management import";
const associations = "Endpoints: associations";
const others = "Endpoints: organizations and others";

export const managementRules: readonly Rule[] = [
  {
    part: templates,
    rule: "GET /application-templates gives the list wrapper, GET /application-templates/{id} one template",
    async check(simulator) {
      const { body } = await manage<Listed>(simulator, "GET", "/application-templates?limit=100");
      expect(body.totalCount).toBe(body.results.length);
      const first = body.results[0]!;
      expect(Object.keys(first).sort()).toEqual(["_id", "config", "displayName", "name"]);
      expect((await manage(simulator, "GET", `/application-templates/${first._id}`)).body).toEqual(first);
      const narrow = await manage(simulator, "GET", `/application-templates/${first._id}?fields=name`);
      expect(narrow.body).toEqual({ _id: first._id, name: first.name });
      expect((await manage(simulator, "GET", "/application-templates/none")).status).toBe(404);
    },
  },
  {
    part: applications,
    rule: "POST creates with name, displayLabel, displayName, ssoUrl and config; every field of the record is there",
    async check(simulator) {
      const body = await create(simulator);
      const fields = [
        "_id",
        "active",
        "beta",
        "color",
        "config",
        "created",
        "databaseAttributes",
        "description",
        "displayLabel",
        "displayName",
        "learnMore",
        "logo",
        "name",
        "organization",
        "sso",
        "ssoUrl",
        "parentApp",
        "referenceApplications",
        "aiReady",
      ];
      expect(Object.keys(body).sort()).toEqual([...fields].sort());
      expect((await manage(simulator, "GET", `/applications/${body._id}`)).body).toEqual(body);
    },
  },
  {
    part: applications,
    rule: "400 when a required field is missing or a value has the wrong type",
    choice: "also for an unknown template name and an ssoUrl that is taken",
    async check(simulator) {
      for (const field of ["name", "displayLabel", "displayName", "ssoUrl", "config"]) {
        expect(
          (await manage(simulator, "POST", "/applications", draft({ [field]: undefined }))).status,
          field,
        ).toBe(400);
      }
      for (const wrong of [{ active: "yes" }, { config: [] }, { name: "no-such-template" }]) {
        expect((await manage(simulator, "POST", "/applications", draft(wrong))).status).toBe(400);
      }
      const taken = await create(simulator);
      expect((await manage(simulator, "POST", "/applications", draft({ ssoUrl: taken.ssoUrl }))).status).toBe(
        400,
      );
    },
  },
  {
    part: "Resources: application",
    rule: "a config entry of a create request may carry only its value; the rest comes from the template",
    async check(simulator) {
      const body = await create(simulator, {
        config: { acsUrl: { value: "https://mine.test" }, signResponse: { value: true } },
      });
      const config = body.config as Record<string, Record<string, unknown>>;
      expect(config.acsUrl).toMatchObject({
        value: "https://mine.test",
        label: "ACS URL",
        position: 0,
        readOnly: false,
        visible: true,
      });
      expect(config.signResponse).toMatchObject({ value: true, type: "checkbox" });
      expect(config.idpEntityId).toMatchObject({ value: "directory" });
    },
  },
  {
    part: applications,
    rule: "PUT resets or creates any field not provided with its default value",
    choice: "the template stays when name is not given",
    async check(simulator) {
      const before = await create(simulator, { description: "mine", color: "red", active: false });
      const { status, body } = await manage<Record<string, unknown>>(
        simulator,
        "PUT",
        `/applications/${before._id}`,
        { displayLabel: "New" },
      );
      expect(status).toBe(200);
      expect(body).toMatchObject({
        _id: before._id,
        name: "slack",
        displayLabel: "New",
        displayName: "Slack",
        description: "",
        color: "",
        active: true,
      });
      expect((body.config as Record<string, { value: string }>).acsUrl!.value).toBe(
        "https://slack.example.test/acs",
      );
      expect((await manage(simulator, "PUT", `/applications/${before._id}`, { active: 1 })).status).toBe(400);
    },
  },
  {
    part: applications,
    rule: "DELETE answers 200 with the application, which is gone then",
    async check(simulator) {
      const application = await create(simulator);
      expect(await manage(simulator, "DELETE", `/applications/${application._id}`)).toMatchObject({
        status: 200,
        body: { _id: application._id },
      });
      expect((await manage(simulator, "GET", `/applications/${application._id}`)).status).toBe(404);
    },
  },
  {
    part: lists,
    rule: "fields: space-separated names to include",
    async check(simulator) {
      const { body } = await manage<Listed>(simulator, "GET", "/applications?fields=name%20displayLabel");
      for (const row of body.results)
        expect(Object.keys(row).sort()).toEqual(["_id", "displayLabel", "name"]);
    },
  },
  {
    part: lists,
    rule: "limit and skip page through the records; totalCount counts all",
    choice: "limit 10 by default, 100 at most; nonsense is a 400",
    async check(simulator) {
      const whole = (await manage<Listed>(simulator, "GET", "/applications?limit=100&sort=_id")).body;
      const pages: unknown[] = [];
      for (let skip = 0; skip < whole.totalCount; skip += 3) {
        pages.push(
          ...(await manage<Listed>(simulator, "GET", `/applications?limit=3&skip=${skip}&sort=_id`)).body
            .results,
        );
      }
      expect(pages).toEqual(whole.results);
      expect((await manage(simulator, "GET", "/applications?limit=x")).status).toBe(400);
    },
  },
  {
    part: lists,
    rule: "sort: ascending by default, - for descending, several fields; applications by name",
    async check(simulator) {
      const names = async (query: string) =>
        (await manage<Listed>(simulator, "GET", `/applications?limit=100${query}`)).body.results.map(
          (row) => row.name as string,
        );
      const ascending = await names("");
      expect(ascending).toEqual([...ascending].sort());
      expect(await names("&sort=-name")).toEqual([...ascending].sort().reverse());
      const both = (await manage<Listed>(simulator, "GET", "/applications?limit=100&sort=name%20-_id")).body
        .results;
      for (const [index, row] of both.slice(1).entries()) {
        const previous = both[index]!;
        if (previous.name === row.name) expect(String(previous._id) > String(row._id)).toBe(true);
      }
    },
  },
  {
    part: lists,
    rule: "filter: an expression whose syntax is not shown",
    choice: "field:$eq:value, $ne, $gt, $lt, or field:value, joined by &&; anything else is a 400",
    async check(simulator) {
      const { body } = await manage<Listed>(
        simulator,
        "GET",
        `/applications?filter=${encodeURIComponent("name:$eq:custom_import")}`,
      );
      expect(body.results.map((row) => row.name)).toEqual(["custom_import"]);
      expect((await manage(simulator, "GET", "/applications?filter=???")).status).toBe(400);
    },
  },
  {
    part: imports,
    rule: "GET import/users gives the user records that the source offers, with limit",
    choice: "an array with limit and skip; usersShape gives the object seen in the field",
    async check(simulator) {
      const application = simulator.control.world.importApplication(simulator.organizations[0]!.id);
      const path = `/v2/applications/${application}/import/users`;
      const all = await manage<{ id: string }[]>(simulator, "GET", `${path}?limit=100`);
      expect(all.body).toHaveLength(25);
      expect((await manage<unknown[]>(simulator, "GET", `${path}?limit=4&skip=2`)).body).toEqual(
        all.body.slice(2, 6),
      );
    },
  },
  {
    part: imports,
    rule: "POST import/jobs needs operations out of users.create and users.update and answers 200 with _id",
    async check(simulator) {
      const application = simulator.control.world.importApplication(simulator.organizations[0]!.id);
      const path = `/v2/applications/${application}/import/jobs`;
      const good = await manage<{ _id: string }>(simulator, "POST", path, {
        operations: ["users.create", "users.update"],
        allowUserReactivation: true,
        queryString: "no such user",
      });
      expect(good.status).toBe(200);
      expect(good.body._id).toMatch(/^[0-9a-f]{24}$/);
      for (const body of [
        {},
        { operations: [] },
        { operations: ["users.delete"] },
        { operations: ["users.create"], allowUserReactivation: "yes" },
      ]) {
        expect((await manage(simulator, "POST", path, body)).status).toBe(400);
      }
    },
  },
  {
    part: imports,
    rule: "the application must be an active custom-protocol integration",
    choice: "400 otherwise; it is one when its template is custom_import",
    async check(simulator) {
      const saml = await create(simulator);
      const idle = await create(simulator, { name: "custom_import", active: false });
      for (const { _id } of [saml, idle]) {
        expect(
          (
            await manage(simulator, "POST", `/v2/applications/${_id}/import/jobs`, {
              operations: ["users.create"],
            })
          ).status,
        ).toBe(400);
        expect((await manage(simulator, "GET", `/v2/applications/${_id}/import/users`)).status).toBe(400);
      }
      expect(
        (
          await manage(simulator, "POST", "/v2/applications/none/import/jobs", {
            operations: ["users.create"],
          })
        ).status,
      ).toBe(404);
    },
  },
  {
    part: imports,
    rule: "Workday: workers, import with 201 and a job id, results",
    choice: "{jobId, _id}; a result names status, statusMsg, systemUserId, username, email",
    async check(simulator) {
      const base = `/v2/workdays/${simulator.control.world.workday(simulator.organizations[0]!.id)}`;
      expect((await manage<unknown[]>(simulator, "GET", `${base}/workers?limit=5`)).body).toHaveLength(5);
      const entry = {
        email: "new@example.test",
        firstname: "New",
        lastname: "One",
        username: `new.${slug++}`,
        state: "STAGED",
        attributes: [{ name: "team", value: "x" }],
      };
      const started = await manage<{ jobId: string }>(simulator, "POST", `${base}/import`, [entry]);
      expect(started.status).toBe(201);
      const results = await manage<{ username: string; status: string }[]>(
        simulator,
        "GET",
        `${base}/import/${started.body.jobId}/results`,
      );
      expect(results).toMatchObject({ status: 200, body: [{ username: entry.username, status: "pending" }] });
      for (const bad of [[], {}, [{ ...entry, email: "x" }], [{ ...entry, state: "GONE" }]])
        expect((await manage(simulator, "POST", `${base}/import`, bad)).status).toBe(400);
      expect((await manage(simulator, "GET", "/v2/workdays/none/workers")).status).toBe(404);
    },
  },
  {
    part: imports,
    rule: "POST /v2/bulk/userstates creates a scheduled user state job",
    choice:
      "{user_ids, state, start_date}; 201 with one {scheduledJobId, scheduledDate, state, systemUserId} per user",
    async check(simulator) {
      const [user] = simulator.control.world.users(simulator.organizations[0]!.id);
      const body = { user_ids: [user!.id], state: "SUSPENDED", start_date: "2025-03-09T00:00:00Z" };
      const reply = await manage(simulator, "POST", "/v2/bulk/userstates", body);
      expect(reply).toMatchObject({
        status: 201,
        body: [{ state: "SUSPENDED", systemUserId: user!.id, scheduledDate: "2025-03-09T00:00:00.000Z" }],
      });
      for (const bad of [
        { ...body, state: "X" },
        { ...body, start_date: "2025-01-01T00:00:00Z" },
        { ...body, user_ids: [] },
      ]) {
        expect((await manage(simulator, "POST", "/v2/bulk/userstates", bad)).status).toBe(400);
      }
    },
  },
  {
    part: associations,
    rule: "POST binds and unbinds a user or a group with op, type and id, and answers 204 without a body",
    async check(simulator) {
      const organization = simulator.organizations[0]!.id;
      const { _id } = await create(simulator);
      const path = `/v2/applications/${_id}/associations`;
      const [user] = simulator.control.world.users(organization);
      const reply = await manage(simulator, "POST", path, { op: "add", type: "user", id: user!.id });
      expect([reply.status, reply.text]).toEqual([204, ""]);
      expect((await manage(simulator, "GET", `${path}?targets=user`)).body).toEqual([
        { to: { type: "user", id: user!.id } },
      ]);
      expect(
        (await manage(simulator, "POST", path, { op: "remove", type: "user", id: user!.id })).status,
      ).toBe(204);
      expect((await manage(simulator, "GET", `${path}?targets=user`)).body).toEqual([]);
      for (const bad of [
        { type: "user", id: user!.id },
        { op: "add", id: user!.id },
        { op: "add", type: "user" },
        { op: "grant", type: "user", id: user!.id },
      ]) {
        expect((await manage(simulator, "POST", path, bad)).status).toBe(400);
      }
      expect((await manage(simulator, "POST", path, { op: "add", type: "user", id: "none" })).status).toBe(
        404,
      );
    },
  },
  {
    part: associations,
    rule: "GET associations requires targets, user_group or user",
    async check(simulator) {
      const { _id } = await create(simulator);
      for (const query of ["", "?targets=system"])
        expect((await manage(simulator, "GET", `/v2/applications/${_id}/associations${query}`)).status).toBe(
          400,
        );
      expect(
        (await manage(simulator, "GET", `/v2/applications/${_id}/associations?targets=user_group`)).body,
      ).toEqual([]);
    },
  },
  {
    part: associations,
    rule: "GET users gives the bound users, directly and by group, with limit",
    async check(simulator) {
      const organization = simulator.organizations[0]!.id;
      const { _id } = await create(simulator);
      const group = simulator.control.world.groups(organization).find(({ name }) => name === "everyone")!;
      await manage(simulator, "POST", `/v2/applications/${_id}/associations`, {
        op: "add",
        type: "user_group",
        id: group.id,
      });
      const all = simulator.control.world.users(organization).filter(({ source }) => source === "console");
      const path = `/v2/applications/${_id}/users`;
      const found: Bound[] = [];
      for (let skip = 0; skip === found.length; skip += 100)
        found.push(...(await manage<Bound[]>(simulator, "GET", `${path}?limit=100&skip=${skip}`)).body);
      expect(new Set(found.map(({ id }) => id))).toEqual(new Set(all.map(({ id }) => id)));
      expect(found[0]!.paths).toEqual([
        [
          { to: { type: "user_group", id: group.id, attributes: null } },
          { to: { type: "user", id: found[0]!.id, attributes: null } },
        ],
      ]);
      expect((await manage<unknown[]>(simulator, "GET", `${path}?limit=2`)).body).toHaveLength(2);
    },
  },
  {
    part: associations,
    rule: "lists of workers, results, associations, bound users and directories come in pages",
    choice: "10 rows unless limit asks for more, at most 100",
    async check(simulator) {
      const organization = simulator.organizations[0]!.id;
      const workday = `/v2/workdays/${simulator.control.world.workday(organization)}`;
      for (const path of [`${workday}/workers`, "/v2/directories"]) {
        const [first, second] = [
          (await manage<unknown[]>(simulator, "GET", path)).body,
          (await manage<unknown[]>(simulator, "GET", `${path}?skip=10`)).body,
        ];
        expect([first.length, second.length > 0], path).toEqual([10, true]);
        expect(second[0]).not.toEqual(first[0]);
      }
    },
  },
  {
    part: applications,
    rule: "config entries, sso and ssoUrl have the members and types that are listed; other types are refused",
    choice: "certificates expire after five years; ssoUrl is a slug",
    async check(simulator) {
      const { body } = await manage<{ config: Settings; sso: Settings; ssoUrl: string }>(
        simulator,
        "GET",
        `/applications/${(await create(simulator))._id}`,
      );
      expect(body.config.acsUrl!.tooltip).toMatchObject({ template: expect.any(String), variables: {} });
      expect(Object.keys(body.config.authClaimConfiguration!)).toEqual([
        "type",
        "visible",
        "sendAmrClaim",
        "authnContextMode",
        "singleAuthnContextValue",
        "authnContextMappings",
      ]);
      expect(Date.parse(String(body.sso.idpCertExpirationAt))).toBeGreaterThan(Date.parse(startTime));
      expect(body.ssoUrl).toMatch(/^[\w.~-]+$/);
      const wrong: object[] = [
        { config: { signAssertion: { value: "yes" } } },
        { config: { acsUrl: { value: 7 } } },
        { config: { acsUrl: { tooltip: "text" } } },
        { config: { constantAttributes: { value: "a" } } },
        { config: { authClaimConfiguration: { sendAmrClaim: { value: "true" } } } },
        { sso: { idpCertExpirationAt: "soon" } },
        { ssoUrl: "https://sso.example.test/a b" },
        { logo: "red" },
      ];
      for (const change of wrong) {
        const refused = await manage(
          simulator,
          "PUT",
          `/applications/${(await create(simulator))._id}`,
          change,
        );
        expect(refused.status, JSON.stringify(change)).toBe(400);
      }
    },
  },
  {
    part: others,
    rule: "GET /organizations/ returns all managed organizations to the primary organization's key",
    choice: "the list wrapper of {_id, displayName, logoUrl}; without x-org-id",
    async check(simulator) {
      const { status, body } = await call<Listed>("GET", `${simulator.managementUrl}/organizations/`, {
        "x-api-key": simulator.apiKey,
      });
      expect([status, body.totalCount]).toEqual([200, simulator.organizations.length]);
      expect(new Set(body.results.map((row) => row._id))).toEqual(
        new Set(simulator.organizations.map(({ id }) => id)),
      );
    },
  },
  {
    part: others,
    rule: "GET /v2/directories carries x-org-id",
    async check(simulator) {
      const { status, body } = await manage<unknown[]>(simulator, "GET", "/v2/directories");
      expect([status, body.length > 0]).toEqual([200, true]);
    },
  },
  {
    part: others,
    rule: "endpoints that are not shown do not exist",
    choice: "404; a known path with another method is a 405",
    async check(simulator) {
      for (const path of ["/commands", "/systemusers", "/v2/nonsense"])
        expect((await manage(simulator, "GET", path)).status).toBe(404);
      expect((await manage(simulator, "DELETE", "/applications")).status).toBe(405);
    },
  },
];

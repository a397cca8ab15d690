import { generateKeyPairSync } from "node:crypto";
import { request as httpRequest } from "node:http";
import { expect } from "vitest";
import type { Simulator, SystemOption } from "../../index.ts";
import { ask, call, manage, readAll, sign, startTime } from "../support.ts";
import type { Rule } from "./rule.ts";

const part = "Authentication";
const errors = "Errors";
const unknownId = "ffffffffffffffffffffffff";

function key(simulator: Simulator, role: string): string {
  return simulator.keys.find((entry) => entry.role === role && entry.key !== simulator.apiKey)!.key;
}

/** Raw repeated headers: fetch and its kin join them, HTTP/1.1 clients send them one by one. */
function askRepeated(simulator: Simulator, organizations: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      `${simulator.insightsUrl}/insights/directory/v1/events`,
      {
        method: "POST",
        headers: {
          "x-api-key": simulator.apiKey,
          "x-org-id": [...organizations],
          "content-type": "application/json",
        },
      },
      (response) => {
        response.resume();
        response.on("end", () => resolve(String(response.headers["x-result-count"] ?? response.statusCode)));
      },
    );
    request.on("error", reject);
    request.end(JSON.stringify({ service: ["all"], start_time: "2025-01-01T00:00:00Z", limit: 10_000 }));
  });
}

export const accessRules: readonly Rule[] = [
  {
    part,
    rule: "both APIs take x-api-key; a missing or unknown key fails",
    choice: "401",
    async check(simulator) {
      for (const headers of [{ "x-api-key": "wrong" }, { "x-api-key": "" }]) {
        expect((await ask(simulator, {}, headers)).status).toBe(401);
        expect((await manage(simulator, "GET", "/applications", undefined, headers)).status).toBe(401);
      }
    },
  },
  {
    part,
    rule: "resetting the key makes all calls with the previous key fail",
    async check(simulator) {
      simulator.control.resetKey("the-next-key");
      try {
        expect((await ask(simulator, {})).status).toBe(401);
        expect((await manage(simulator, "GET", "/applications")).status).toBe(401);
        expect(
          (await manage(simulator, "GET", "/applications", undefined, { "x-api-key": "the-next-key" }))
            .status,
        ).toBe(200);
      } finally {
        simulator.control.resetKey(simulator.apiKey);
      }
    },
  },
  {
    part,
    rule: "Insights is for administrator roles; a command runner receives 403",
    async check(simulator) {
      expect((await ask(simulator, {}, { "x-api-key": key(simulator, "command_runner") })).status).toBe(403);
      expect((await ask(simulator, {})).status).toBe(200);
    },
  },
  {
    part,
    rule: "x-org-id selects the organization of a management request",
    async check(simulator) {
      const [first, second] = simulator.organizations;
      const one = await manage<{ results: { organization: string }[] }>(
        simulator,
        "GET",
        "/applications",
        undefined,
        { "x-org-id": first!.id },
      );
      const two = await manage<{ results: { organization: string }[] }>(
        simulator,
        "GET",
        "/applications",
        undefined,
        { "x-org-id": second!.id },
      );
      expect(new Set(one.body.results.map(({ organization }) => organization))).toEqual(new Set([first!.id]));
      expect(new Set(two.body.results.map(({ organization }) => organization))).toEqual(
        new Set([second!.id]),
      );
    },
  },
  {
    part,
    rule: "x-org-id is not required for single-tenant administrators",
    async check(simulator) {
      const { body, status } = await call<{ organization: string }[]>(
        "POST",
        `${simulator.insightsUrl}/insights/directory/v1/events`,
        { "x-api-key": "single-tenant" },
        { service: ["all"], start_time: "2025-01-01T00:00:00Z" },
      );
      expect(status).toBe(200);
      expect(new Set(body.map(({ organization }) => organization))).toEqual(
        new Set([simulator.organizations[1]!.id]),
      );
      expect(
        (await call("GET", `${simulator.managementUrl}/v2/directories`, { "x-api-key": "single-tenant" }))
          .status,
      ).toBe(200);
    },
  },
  {
    part,
    rule: "Insights takes x-org-id repeated once per organization",
    async check(simulator) {
      const [first, second] = simulator.organizations.map(({ id }) => id) as [string, string];
      const events = await readAll(simulator, { limit: 10_000 }, { "x-org-id": [first, second] });
      expect(new Set(events.map(({ organization }) => organization))).toEqual(new Set([first, second]));
      expect(await askRepeated(simulator, [first, second])).toBe(String(events.length));
    },
  },
  {
    part: "Limits",
    rule: "the number of x-org-id values is not limited",
    async check(simulator) {
      const ids = simulator.organizations.map(({ id }) => id);
      const all = await ask(simulator, { limit: 10_000 });
      const many = Array.from({ length: 12_000 }, (_, index) => ids[index % ids.length]!);
      expect(await askRepeated(simulator, many)).toBe(String(all.body.length));
    },
  },
  {
    part,
    rule: "x-provider-id instead of x-org-id gives the events of the multi-tenant portal only",
    choice: "both headers together are a 400, an unknown provider a 404",
    async check(simulator) {
      const { body, status } = await ask(
        simulator,
        { limit: 10_000 },
        { "x-provider-id": simulator.providerId },
      );
      expect(status).toBe(200);
      expect(body.length).toBeGreaterThan(0);
      for (const event of body)
        expect([event.provider, event.organization]).toEqual([simulator.providerId, null]);
      const both = { "x-provider-id": simulator.providerId, "x-org-id": simulator.organizations[0]!.id };
      expect((await ask(simulator, {}, both)).status).toBe(400);
      expect((await ask(simulator, {}, { "x-provider-id": unknownId })).status).toBe(404);
    },
  },
  {
    part,
    rule: "each operation lists its scopes; how they are tied to a key is not shown",
    choice: "a key of the options may have scopes; without one that the operation lists it gets 403",
    async check(simulator) {
      const headers = { "x-api-key": "templates-only" };
      expect((await manage(simulator, "GET", "/application-templates", undefined, headers)).status).toBe(200);
      expect((await manage(simulator, "GET", "/applications", undefined, headers)).status).toBe(403);
    },
  },
  {
    part: errors,
    rule: "400: x-org-id malformed",
    async check(simulator) {
      for (const id of ["abc", `${unknownId}0`, "zzzzzzzzzzzzzzzzzzzzzzzz"]) {
        expect((await ask(simulator, {}, { "x-org-id": id })).status).toBe(400);
        expect((await manage(simulator, "GET", "/applications", undefined, { "x-org-id": id })).status).toBe(
          400,
        );
      }
    },
  },
  {
    part: errors,
    rule: "400: x-org-id differs from the organization ID in the path",
    async check(simulator) {
      const [first, second] = simulator.organizations;
      expect(
        (await manage(simulator, "GET", `/organizations/${second!.id}`, undefined, { "x-org-id": first!.id }))
          .status,
      ).toBe(400);
      expect(
        (await manage(simulator, "GET", `/organizations/${first!.id}`, undefined, { "x-org-id": first!.id }))
          .status,
      ).toBe(200);
    },
  },
  {
    part: errors,
    rule: "401: a multi-tenant administrator sent no x-org-id",
    async check(simulator) {
      const headers = { "x-api-key": simulator.apiKey };
      expect((await call("GET", `${simulator.managementUrl}/applications`, headers)).status).toBe(401);
      expect(
        (
          await call("POST", `${simulator.insightsUrl}/insights/directory/v1/events`, headers, {
            service: ["all"],
            start_time: startTime,
          })
        ).status,
      ).toBe(401);
    },
  },
  {
    part: errors,
    rule: "403: x-org-id sent on an unsupported route",
    choice: "the list of such routes is not shown: /organizations/, settable with routesWithoutOrgId",
    async check(simulator) {
      const { status, body } = await manage<{ message: string }>(simulator, "GET", "/organizations/");
      expect(status).toBe(403);
      expect(body.message).toContain("included on unsupported route");
    },
  },
  {
    part: errors,
    rule: "404: organization ID not found",
    choice: "an organization that exists but is not the key's is a 403",
    async check(simulator) {
      expect((await ask(simulator, {}, { "x-org-id": unknownId })).status).toBe(404);
      expect(
        (await manage(simulator, "GET", "/applications", undefined, { "x-org-id": unknownId })).status,
      ).toBe(404);
      const foreign = { "x-api-key": "single-tenant", "x-org-id": simulator.organizations[0]!.id };
      expect((await ask(simulator, {}, foreign)).status).toBe(403);
    },
  },
  {
    part: errors,
    rule: "400: an empty fields list or one with no known field",
    async check(simulator) {
      for (const fields of [[], ["no_such_field"], "id", [1]])
        expect((await ask(simulator, { fields })).status).toBe(400);
    },
  },
  {
    part: errors,
    rule: "400: missing or invalid dates, start_time in the future, end_time before start_time, with a message",
    async check(simulator) {
      const queries = [
        { start_time: undefined },
        { start_time: "x" },
        { start_time: "2026-01-01T00:00:00Z" },
        { end_time: "2020-01-01T00:00:00Z" },
      ];
      for (const query of queries) {
        const { status, body } = await ask(simulator, query);
        expect(status).toBe(400);
        expect((body as unknown as { message: string }).message).toMatch(/time/i);
      }
    },
  },
  {
    part: errors,
    rule: "an unknown service value: the response lists the supported values",
    choice: "400",
    async check(simulator) {
      const { status, body } = await ask(simulator, { service: ["sso", "nonsense"] });
      expect(status).toBe(400);
      expect((body as unknown as { message: string }).message).toContain(
        "access_management, alert, all, directory",
      );
    },
  },
  {
    part: errors,
    rule: "a nonsensical limit silently gives 1000 rows, a nonsensical sort ascending order",
    async check(simulator) {
      for (const limit of [0, -5, 1.5, "many", null, {}])
        expect((await ask(simulator, { limit })).headers["x-limit"]).toBe("1000");
      for (const sort of ["up", 1, null, {}])
        expect((await ask(simulator, { sort, limit: 1 })).headers["x-sort"]).toBe("ASC");
    },
  },
  {
    part: errors,
    rule: "the shape of error bodies is not shown",
    choice: "{message} on Insights, {code, message, status} on the management API",
    async check(simulator) {
      expect((await ask(simulator, {}, { "x-org-id": unknownId })).body).toEqual({
        message: "Organization ID not found",
      });
      const managed = await manage(simulator, "GET", "/applications", undefined, { "x-org-id": unknownId });
      expect(managed.body).toEqual({ code: 404, message: "Organization ID not found", status: "NOT_FOUND" });
    },
  },
];

const signed = "Authentication: system context";

const keys = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
});

/** A system that signs with the one key pair of these tests: making one takes time. */
function enroll(simulator: Simulator, organization: string, option: SystemOption = {}) {
  const system = simulator.control.world.addSystem(organization, { ...option, publicKey: keys.publicKey });
  return { ...system, privateKey: keys.privateKey };
}

async function asSystem(
  simulator: Simulator,
  system: { id: string; privateKey: string | null },
  method: "GET" | "PUT" | "DELETE" | "POST",
  path: string,
  body?: unknown,
  change: Record<string, string> = {},
) {
  const headers = { ...sign(system, method, `/api${path}`, new Date(startTime)), ...change };
  return call(method, simulator.managementUrl + path, headers, body);
}

export const systemRules: readonly Rule[] = [
  {
    part: signed,
    rule: "a Linux system reads and alters its own metadata with a signature over request line and Date",
    async check(simulator) {
      const system = enroll(simulator, simulator.organizations[0]!.id);
      const path = `/systems/${system.id}`;
      expect((await asSystem(simulator, system, "GET", path)).status).toBe(200);
      const put = await asSystem(simulator, system, "PUT", path, { displayName: "renamed" });
      expect([put.status, (put.body as { displayName: string }).displayName]).toEqual([200, "renamed"]);
    },
  },
  {
    part: signed,
    rule: "memberof, associations (read, alter), users and systemgroup members work for the system itself",
    async check(simulator) {
      const organization = simulator.organizations[0]!.id;
      const system = enroll(simulator, organization);
      const [user] = simulator.control.world.users(organization);
      const base = `/v2/systems/${system.id}`;
      const join = { op: "add", type: "system", id: system.id };
      expect(
        (await asSystem(simulator, system, "POST", `/v2/systemgroups/${system.systemGroup}/members`, join))
          .status,
      ).toBe(204);
      expect((await asSystem(simulator, system, "GET", `${base}/memberof`)).body).toMatchObject([
        { id: system.systemGroup },
      ]);
      expect(
        (
          await asSystem(simulator, system, "POST", `${base}/associations`, {
            op: "add",
            type: "user",
            id: user!.id,
          })
        ).status,
      ).toBe(204);
      expect((await asSystem(simulator, system, "GET", `${base}/associations`)).body).toEqual([
        { to: { type: "user", id: user!.id } },
      ]);
      expect((await asSystem(simulator, system, "GET", `${base}/users`)).body).toEqual([
        { id: user!.id, type: "user" },
      ]);
    },
  },
  {
    part: signed,
    rule: "a system deletes itself from the organization",
    async check(simulator) {
      const system = enroll(simulator, simulator.organizations[0]!.id);
      expect((await asSystem(simulator, system, "DELETE", `/systems/${system.id}`)).status).toBe(200);
      expect((await asSystem(simulator, system, "GET", `/systems/${system.id}`)).status).toBe(401);
    },
  },
  {
    part: signed,
    rule: "systemgroup membership of a different system is rejected",
    choice: "403; any other path about a different system is a 401",
    async check(simulator) {
      const organization = simulator.organizations[0]!.id;
      const [one, other] = [enroll(simulator, organization), enroll(simulator, organization)];
      const join = { op: "add", type: "system", id: other.id };
      expect(
        (await asSystem(simulator, one, "POST", `/v2/systemgroups/${one.systemGroup}/members`, join)).status,
      ).toBe(403);
      expect((await asSystem(simulator, one, "GET", `/systems/${other.id}`)).status).toBe(401);
    },
  },
  {
    part: signed,
    rule: "any other endpoint returns 401",
    async check(simulator) {
      const system = enroll(simulator, simulator.organizations[0]!.id);
      for (const path of ["/applications", "/v2/directories", "/organizations/"]) {
        expect((await asSystem(simulator, system, "GET", path)).status).toBe(401);
      }
    },
  },
  {
    part: signed,
    rule: "method, URL and Date sent must equal those that were signed; algorithm and headers are fixed",
    async check(simulator) {
      const system = enroll(simulator, simulator.organizations[0]!.id);
      const path = `/systems/${system.id}`;
      const good = sign(system, "GET", `/api${path}`, new Date(startTime));
      const other = { ...sign(system, "PUT", `/api${path}`, new Date(startTime)) };
      expect((await call("GET", simulator.managementUrl + path, other)).status).toBe(401);
      expect((await call("GET", `${simulator.managementUrl}${path}?x=1`, good)).status).toBe(401);
      expect(
        (
          await call("GET", simulator.managementUrl + path, {
            ...good,
            date: new Date(Date.parse(startTime) + 1000).toUTCString(),
          })
        ).status,
      ).toBe(401);
      for (const [from, to] of [
        ["rsa-sha256", "hmac-sha256"],
        ["request-line date", "date"],
        [`signature="`, `signature="AA`],
      ] as const) {
        const authorization = good.authorization!.replace(from, to);
        expect(
          (await call("GET", simulator.managementUrl + path, { ...good, authorization })).status,
          to,
        ).toBe(401);
      }
      expect((await call("GET", simulator.managementUrl + path, good)).status).toBe(200);
    },
  },
  {
    part: signed,
    rule: "Date has the form of HTTP and must be near the service's time",
    choice: "five minutes either way",
    async check(simulator) {
      const system = enroll(simulator, simulator.organizations[0]!.id);
      const path = `/systems/${system.id}`;
      const at = (ms: number) =>
        call(
          "GET",
          simulator.managementUrl + path,
          sign(system, "GET", `/api${path}`, new Date(Date.parse(startTime) + ms)),
        );
      expect((await at(-299_000)).status).toBe(200);
      expect((await at(-301_000)).status).toBe(401);
      expect((await at(301_000)).status).toBe(401);
    },
  },
  {
    part: signed,
    rule: "only Linux systems, not those enrolled automatically or by the user portal, are eligible",
    choice: "403",
    async check(simulator) {
      const organization = simulator.organizations[0]!.id;
      for (const option of [
        { os: "darwin" },
        { enrollment: "ade" as const },
        { enrollment: "portal" as const },
      ]) {
        const system = enroll(simulator, organization, option);
        expect((await asSystem(simulator, system, "GET", `/systems/${system.id}`)).status).toBe(403);
      }
    },
  },
];

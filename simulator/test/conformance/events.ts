import { expect } from "vitest";
import type { Simulator } from "../../index.ts";
import { type ScimServer, startScimServer } from "../scim-server.ts";
import { type AnyEvent, ask, manage, readAll } from "../support.ts";
import { capitals, documentedFields } from "./documented-fields.ts";
import type { Rule } from "./rule.ts";

const resources = "Resources: Directory Insights event";
const events = "Events";
const states = "States and transitions";

const shownTypes: Readonly<Record<string, readonly string[]>> = {
  alert: ["alert_created"],
  directory: ["systemuser_update"],
  password_vault: ["passwordvault_enable"],
  sso: ["sso_auth"],
  radius: ["radius_auth"],
  systems: ["user_login"],
  software: ["software_add"],
  ldap: ["ldap_bind"],
  mdm: ["mdm_command_result"],
  notifications: ["notification_channel_created"],
  object_storage: ["object_storage_create"],
  saas_app_management: [
    "saas_management_enable",
    "saas_management_account_discover",
    "saas_management_login_event",
  ],
  access_management: ["access_management_access_request"],
  reports: ["report_run"],
};

const known = new WeakMap<Simulator, Promise<AnyEvent[]>>();

function everything(simulator: Simulator): Promise<AnyEvent[]> {
  if (!known.has(simulator)) known.set(simulator, readEverything(simulator));
  return known.get(simulator)!;
}

async function readEverything(simulator: Simulator): Promise<AnyEvent[]> {
  const portal = await readAll(simulator, { limit: 10_000 }, { "x-provider-id": simulator.providerId });
  return [...(await readAll(simulator, { limit: 10_000 })), ...portal];
}

/** Events of the first organization that a change through the management API has produced, once they are indexed. */
async function toldBy(simulator: Simulator, change: () => Promise<unknown>): Promise<AnyEvent[]> {
  const before = new Date(simulator.control.clock.read().nowMs).toISOString();
  await change();
  simulator.control.clock.advance(2_000);
  const organization = simulator.organizations[0]!.id;
  return (
    await ask(simulator, { service: ["directory"], start_time: before }, { "x-org-id": organization })
  ).body.filter((event) => event.trace_context === undefined);
}

/** A user that waits for activation. */
async function staged(simulator: Simulator, username: string): Promise<string> {
  const organization = simulator.organizations[0]!.id;
  const base = `/v2/workdays/${simulator.control.world.workday(organization)}`;
  await manage(simulator, "POST", `${base}/import`, [
    { email: `${username}@example.test`, username, state: "STAGED" },
  ]);
  simulator.control.clock.advance(60_000);
  await expect
    .poll(() => simulator.control.world.users(organization).some((user) => user.username === username))
    .toBe(true);
  return simulator.control.world.users(organization).find((user) => user.username === username)!.id;
}

interface Named {
  readonly field: string;
}

/** False for events that other rules have added by hand. */
function isMade(event: AnyEvent): boolean {
  return event.trace_context !== undefined || event["@version"] === 1;
}

/** Portal events are of service directory; their fields are listed apart. */
function serviceOf(event: AnyEvent): string {
  return event.organization === null ? "portal" : event.service;
}

function valuesAt(value: unknown, path: readonly string[]): unknown[] {
  if (path.length === 0) return value === undefined ? [] : [value];
  if (Array.isArray(value)) return value.flatMap((item) => valuesAt(item, path));
  if (typeof value !== "object" || value === null) return [];
  return valuesAt((value as Record<string, unknown>)[path[0]!], path.slice(1));
}

function hasType(value: unknown, type: string | undefined, path: string): boolean {
  if (type === "v") return true;
  if (type === "b") return typeof value === "boolean";
  if (type === "i") return Number.isInteger(value);
  if (type === "l") return Array.isArray(value) || (path === "error_chain" && value === null);
  if (type === "o") return typeof value === "object" && value !== null;
  return typeof value === "string";
}

function leavesOf(value: unknown): unknown[] {
  if (typeof value !== "object" || value === null) return [value];
  return Object.values(value).flatMap(leavesOf);
}

export const eventRules: readonly Rule[] = [
  {
    part: resources,
    rule: "every event has a timestamp in RFC 3339, UTC",
    choice: "0, 3, 8 or 9 fractional digits, as seen in the field",
    async check(simulator) {
      const digits = new Set<number>();
      for (const { timestamp } of await everything(simulator)) {
        if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(timestamp)) expect.fail(timestamp);
        digits.add((timestamp.split(".")[1] ?? "Z").length - 1);
      }
      expect([...digits].sort()).toEqual([0, 3, 8, 9]);
    },
  },
  {
    part: resources,
    rule: "every field that the specification lists for a service occurs, with its type, and dot notation reaches it",
    choice:
      "useragent is text or an object, provider is text, empty or null; ids are hexadecimal or UUIDs in either case",
    async check(simulator) {
      const all = await everything(simulator);
      for (const [service, fields] of Object.entries(documentedFields)) {
        const own = all.filter((event) => serviceOf(event) === service);
        for (const field of fields) {
          const [path, type] = field.split(":") as [string, string?];
          const values = own.flatMap((event) => valuesAt(event, path.split(".")));
          expect(values.length, `${service}: ${path} never occurs`).toBeGreaterThan(0);
          const wrong = values.find((value) => !hasType(value, type, path));
          expect(wrong, `${service}: ${path} has another type`).toBe(undefined);
        }
      }
    },
  },
  {
    part: resources,
    rule: "@version is an integer, or a string where noted; changes is a list of field, from, to",
    choice: "from is often absent; alert and notifications list no @version and have none",
    async check(simulator) {
      const strings = ["password_vault", "access_management", "reports"];
      for (const event of await everything(simulator)) {
        const version = event["@version"];
        const isListed = documentedFields[event.service] !== undefined;
        if (isListed && ["alert", "notifications"].includes(event.service)) expect(version).toBe(undefined);
        else if (isListed) expect(version, event.service).toBe(strings.includes(event.service) ? "1" : 1);
        for (const change of event.changes ?? []) {
          expect(typeof change.field).toBe("string");
          expect(["field", "from", "to"]).toEqual(expect.arrayContaining(Object.keys(change)));
        }
      }
    },
  },
  {
    part: resources,
    rule: "field values are in lower case",
    choice: `except in ${capitals.join(", ")}, as seen in the field`,
    async check(simulator) {
      const made = (await everything(simulator)).filter(isMade);
      for (const event of made) {
        for (const [name, value] of Object.entries(event)) {
          if (capitals.includes(name)) continue;
          const text = JSON.stringify(leavesOf(value));
          if (text !== text.toLowerCase()) expect.fail(`${event.service}.${name}: ${text}`);
        }
      }
    },
  },
  {
    part: resources,
    rule: "association, changes, auth_context.system and mdm_device_id occur in the shapes of the field",
    async check(simulator) {
      const all = await everything(simulator);
      const associations = all.flatMap(({ association }) => (association?.connection ? [association] : []));
      const operations = new Set(associations.map(({ op }) => op));
      expect([...operations].sort()).toEqual(["add", "remove", "update"]);
      const pairs = new Set(
        associations.map(({ connection }) => `${connection.from.type}>${connection.to.type}`.toLowerCase()),
      );
      for (const pair of ["user_group>user", "system_group>system", "user>system", "user_group>application"])
        expect([...pairs]).toContain(pair);
      expect(associations.some(({ attributes }) => attributes?.sudo?.enabled === true)).toBe(true);
      expect(all.some(({ association }) => association?.email !== undefined)).toBe(true);
      const changed = new Set(all.flatMap(({ changes }) => (changes ?? []).map(({ field }: Named) => field)));
      for (const field of ["suspended", "mfa", "mfa.exclusion", "totp_enabled", "sudo", "roleName", "email"])
        expect([...changed], field).toContain(field);
      const sso = all.filter(({ service }) => service === "sso");
      const managed = sso.filter(({ auth_context }) => auth_context.system !== undefined).length;
      expect(managed / sso.length).toBeGreaterThan(0.4);
      expect(managed / sso.length).toBeLessThan(0.8);
      const mdm = all.filter(({ service }) => service === "mdm");
      expect(mdm.some((event) => event.mdm_device_id !== undefined)).toBe(true);
      expect(mdm.some((event) => event.device_object_id !== undefined)).toBe(true);
    },
  },
  {
    part: resources,
    rule: "ldap events have no id, and operation_number starts at 0",
    async check(simulator) {
      const ldap = await readAll(simulator, { service: ["ldap"], limit: 10_000 });
      expect(ldap.some((event) => event.operation_number === 0)).toBe(true);
      for (const event of ldap) expect(event).not.toHaveProperty("id");
    },
  },
  {
    part: resources,
    rule: "multi-tenant portal events are of service directory, with provider, and organization null when absent",
    async check(simulator) {
      const portal = await readAll(simulator, { limit: 10_000 }, { "x-provider-id": simulator.providerId });
      for (const event of portal)
        expect(event).toMatchObject({
          service: "directory",
          provider: simulator.providerId,
          organization: null,
          "@version": 1,
        });
    },
  },
  {
    part: events,
    rule: "every event_type that the specification shows occurs",
    choice: "about one sso event in a hundred is of the newer type sso_auth_failed",
    async check(simulator) {
      const all = await everything(simulator);
      for (const [service, types] of Object.entries(shownTypes)) {
        const found = new Set(
          all.filter((event) => event.service === service).map(({ event_type }) => event_type),
        );
        for (const type of types) expect([...found], service).toContain(type);
      }
      const sso = all.filter(({ service }) => service === "sso").map(({ event_type }) => event_type);
      expect(sso.filter((type) => type === "sso_auth").length / sso.length).toBeGreaterThan(0.97);
    },
  },
  {
    part: events,
    rule: "the multi-tenant portal's event_type values occur",
    async check(simulator) {
      const portal = await readAll(simulator, { limit: 10_000 }, { "x-provider-id": simulator.providerId });
      const found = new Set(portal.map(({ event_type }) => event_type));
      const shown = [
        "admin_password_reset_request",
        "admin_login_attempt",
        "admin_lockout",
        "admin_update",
        "admin_create",
        "admin_unsuspend",
        "admin_suspended",
        "admin_password_change",
        "organization_create",
        "organization_update",
        "provider_update",
      ];
      for (const type of found) expect(shown).toContain(type);
      expect(found.size).toBeGreaterThan(6);
    },
  },
  {
    part: "Limits",
    rule: "events are retained for 90 days",
    async check(simulator) {
      const old = { service: "alert", event_type: "old", timestamp: "2024-11-30T00:00:00Z" };
      simulator.control.append(simulator.organizations[2]!.id, [old]);
      const found = await ask(simulator, {
        start_time: "2024-11-29T00:00:00Z",
        service: ["alert"],
        limit: 10_000,
      });
      expect(found.status).toBe(200);
      expect(found.body.some(({ event_type }) => event_type === "old")).toBe(false);
    },
  },
  {
    part: events,
    rule: "changes through the management API appear in Insights",
    choice:
      "application_create, application_update, application_delete, association_change, after indexingDelayMs",
    async check(simulator) {
      const body = {
        name: "zoom",
        displayLabel: "Calls",
        displayName: "Calls",
        ssoUrl: "calls-events",
        config: {},
      };
      let id = "";
      const told = await toldBy(simulator, async () => {
        id = (await manage<{ _id: string }>(simulator, "POST", "/applications", body)).body._id;
        await manage(simulator, "PUT", `/applications/${id}`, { ...body, description: "x" });
        await manage(simulator, "DELETE", `/applications/${id}`);
      });
      expect(told.filter((event) => event.resource.id === id).map(({ event_type }) => event_type)).toEqual([
        "application_create",
        "application_update",
        "application_delete",
      ]);
    },
  },
  {
    part: events,
    rule: "an import job is followed by events with correlation {id, type: user_import}",
    async check(simulator) {
      const organization = simulator.organizations[0]!.id;
      const path = `/v2/applications/${simulator.control.world.importApplication(organization)}/import/jobs`;
      const job = (
        await manage<{ _id: string }>(simulator, "POST", path, {
          operations: ["users.create", "users.update"],
        })
      ).body._id;
      simulator.control.clock.advance(600_000);
      await expect
        .poll(() => simulator.control.world.importJobs().find(({ id }) => id === job)?.finished)
        .not.toBeNull();
      simulator.control.clock.advance(2_000);
      const search_term = { and: [{ "correlation.id": job }, { "correlation.type": "user_import" }] };
      const told = await readAll(
        simulator,
        { service: ["directory"], search_term, limit: 100 },
        { "x-org-id": organization },
      );
      const truth = simulator.control.world.importJobUsers(job);
      expect(told).toHaveLength(truth.length);
      expect(told.filter((event) => event.success === false)).toHaveLength(
        truth.filter(({ outcome }) => outcome === "failed").length,
      );
    },
  },
  {
    part: states,
    rule: "(none) → STAGED or as determined, by import; the creation source is set",
    choice: "STAGED unless the entry's state or the option imports.state says otherwise; <vendor>:scim",
    async check(simulator) {
      const id = await staged(simulator, "state.import");
      const user = simulator.control.world
        .users(simulator.organizations[0]!.id)
        .find((entry) => entry.id === id);
      expect(user).toMatchObject({ state: "STAGED", source: "workday:scim" });
    },
  },
  {
    part: states,
    rule: "STAGED → ACTIVATED by POST /systemusers/{id}/state/activate",
    choice: "200 {_id, state}; again is harmless; a suspended user is a 400",
    async check(simulator) {
      const id = await staged(simulator, "state.activate");
      const told = await toldBy(simulator, async () => {
        expect(await manage(simulator, "POST", `/systemusers/${id}/state/activate`)).toMatchObject({
          status: 200,
          body: { state: "ACTIVATED" },
        });
        expect((await manage(simulator, "POST", `/systemusers/${id}/state/activate`)).status).toBe(200);
      });
      const moves = told.filter(
        ({ event_type, resource }) => resource.id === id && event_type !== "user_create",
      );
      expect(moves).toMatchObject([
        { event_type: "user_activated", changes: [{ field: "state", from: "STAGED", to: "ACTIVATED" }] },
      ]);
      simulator.control.world.suspendUser(simulator.organizations[0]!.id, id);
      expect((await manage(simulator, "POST", `/systemusers/${id}/state/activate`)).status).toBe(400);
      expect((await manage(simulator, "POST", "/systemusers/none/state/activate")).status).toBe(404);
    },
  },
  {
    part: states,
    rule: "a scheduled user state job activates in the future",
    async check(simulator) {
      const organization = simulator.organizations[0]!.id;
      const id = await staged(simulator, "state.scheduled");
      const at = simulator.control.clock.read().nowMs + 3_600_000;
      await manage(simulator, "POST", "/v2/bulk/userstates", {
        user_ids: [id],
        state: "ACTIVATED",
        start_date: new Date(at).toISOString(),
      });
      const state = () => simulator.control.world.users(organization).find((user) => user.id === id)!.state;
      simulator.control.clock.set(at - 1_000);
      expect(state()).toBe("STAGED");
      simulator.control.clock.set(at);
      await expect.poll(state).toBe("ACTIVATED");
    },
  },
  {
    part: states,
    rule: "STAGED, bound to an application with outbound SCIM: stays bound, skipped for export until activated",
    async check(simulator) {
      const id = await staged(simulator, "state.bound");
      await withScim(simulator, async (application, scim) => {
        await bind(simulator, application, "add", id);
        const bound = await manage<{ id: string }[]>(
          simulator,
          "GET",
          `/v2/applications/${application}/users`,
        );
        expect([bound.body.map((user) => user.id), scim.users.size]).toEqual([[id], 0]);
        await manage(simulator, "POST", `/systemusers/${id}/state/activate`);
        await simulator.control.world.provisioned();
        expect([...scim.users.values()]).toMatchObject([{ userName: "state.bound", active: true }]);
      });
    },
  },
  {
    part: states,
    rule: "ACTIVATED, bound directly or by group: provisioned asynchronously to the SCIM endpoint",
    choice: "the endpoint is config.scimUrl.value of the application, with scimToken and scimEnabled",
    async check(simulator) {
      const organization = simulator.organizations[0]!.id;
      const group = simulator.control.world.groups(organization).find(({ name }) => name === "contractors")!;
      await withScim(simulator, async (application, scim) => {
        await bind(simulator, application, "add", group.id, "user_group");
        const { body } = await manage<{ username: string }[]>(
          simulator,
          "GET",
          `/v2/applications/${application}/users?limit=100`,
        );
        const names = body.map(({ username }) => username).sort();
        expect([...scim.users.values()].map((user) => String(user.userName)).sort()).toEqual(names);
      });
    },
  },
  {
    part: states,
    rule: "ACTIVATED, binding removed, or user suspended or deleted: deprovisioned at the service provider",
    choice: "deactivated by PATCH active=false; suspending and deleting is done by the control endpoints",
    async check(simulator) {
      const organization = simulator.organizations[0]!.id;
      const [one, two, three] = simulator.control.world
        .users(organization)
        .filter(({ state, suspended }) => state === "ACTIVATED" && suspended === 0);
      await withScim(simulator, async (application, scim) => {
        for (const user of [one!, two!, three!]) await bind(simulator, application, "add", user.id);
        expect([...scim.users.values()].map(({ active }) => active)).toEqual([true, true, true]);
        simulator.control.world.suspendUser(organization, one!.id);
        simulator.control.world.deleteUser(organization, two!.id);
        await bind(simulator, application, "remove", three!.id);
        expect([...scim.users.values()].map(({ active }) => active)).toEqual([false, false, false]);
      });
    },
  },
];

/** An application whose users go to a SCIM endpoint, for the time of a check. */
async function withScim(
  simulator: Simulator,
  check: (application: string, scim: ScimServer) => Promise<void>,
): Promise<void> {
  const scim = await startScimServer();
  const config = { scimUrl: { value: scim.url }, scimToken: { value: scim.token } };
  const body = {
    name: "scim",
    displayLabel: "Out",
    displayName: "Out",
    ssoUrl: `scim-${new URL(scim.url).port}`,
    config,
  };
  const { _id } = (await manage<{ _id: string }>(simulator, "POST", "/applications", body)).body;
  try {
    await check(_id, scim);
  } finally {
    await manage(simulator, "DELETE", `/applications/${_id}`);
    await simulator.control.world.provisioned();
    await scim.close();
  }
}

async function bind(
  simulator: Simulator,
  application: string,
  op: "add" | "remove",
  id: string,
  type = "user",
): Promise<void> {
  await manage(simulator, "POST", `/v2/applications/${application}/associations`, { op, type, id });
  await simulator.control.world.provisioned();
}

import { expect } from "vitest";
import { ask, call, readAll, startTime } from "../support.ts";
import { documentedFields } from "./documented-fields.ts";
import type { Rule } from "./rule.ts";

const part = "Endpoints: Directory Insights query";
const services = [
  "access_management",
  "alert",
  "all",
  "directory",
  "ldap",
  "mdm",
  "notifications",
  "password_manager",
  "password_vault",
  "object_storage",
  "radius",
  "reports",
  "software",
  "sso",
  "systems",
  "asset_management",
  "genai",
  "aigw",
  "ai_admin",
  "generic_di",
];

export const insightsRules: readonly Rule[] = [
  {
    part,
    rule: "POST {insights_url}/insights/directory/v1/events answers 200 with a JSON array ordered by timestamp",
    async check(simulator) {
      const { status, headers, body } = await ask(simulator, { limit: 500 });
      expect(status).toBe(200);
      expect(headers["content-type"]).toBe("application/json");
      expect(body).toHaveLength(500);
      const times = body.map(({ timestamp }) => Date.parse(timestamp));
      expect(times).toEqual([...times].sort((a, b) => a - b));
    },
  },
  {
    part,
    rule: "the array may be empty",
    async check(simulator) {
      const { status, body } = await ask(simulator, {
        start_time: "2024-12-20T00:00:00Z",
        end_time: "2024-12-21T00:00:00Z",
      });
      expect([status, body]).toEqual([200, []]);
    },
  },
  {
    part,
    rule: "service is required and is an array of strings",
    async check(simulator) {
      for (const service of [undefined, "directory", [], [1]])
        expect((await ask(simulator, { service })).status).toBe(400);
    },
  },
  {
    part,
    rule: "every listed service value is accepted and gives events of that service only",
    choice:
      "password_manager and password_vault give the same events, generic_di gives di_events, alert also alerts",
    async check(simulator) {
      const own: Record<string, string[]> = {
        password_manager: ["password_vault"],
        generic_di: ["di_events"],
        alert: ["alert", "alerts"],
      };
      for (const service of services.filter((name) => name !== "all")) {
        const { status, body } = await ask(simulator, { service: [service], limit: 10_000 });
        expect(status, service).toBe(200);
        expect(body.length, service).toBeGreaterThan(0);
        for (const event of body) expect(own[service] ?? [service]).toContain(event.service);
      }
    },
  },
  {
    part,
    rule: "all gives every service, those without a value of their own included",
    async check(simulator) {
      const found = new Set((await ask(simulator, { limit: 10_000 })).body.map(({ service }) => service));
      for (const service of ["directory", "sso", "saas_app_management", "workflows", "pam"])
        expect(found).toContain(service);
    },
  },
  {
    part,
    rule: "start_time is required, RFC 3339, inclusive",
    choice: "inclusive; fractions and offsets are accepted, a trailing newline is not",
    async check(simulator) {
      const [first] = (await ask(simulator, { limit: 1 })).body;
      const again = await ask(simulator, { start_time: first!.timestamp, limit: 1 });
      expect(again.body[0]).toEqual(first);
      expect((await ask(simulator, { start_time: "2025-02-20T01:00:00.5+01:00" })).status).toBe(200);
      for (const bad of [
        undefined,
        "yesterday",
        "2025-02-30T00:00:00Z",
        "2025-02-20",
        "2025-02-20T00:00:00Z\n",
        1740000000,
      ]) {
        expect((await ask(simulator, { start_time: bad })).status, String(bad)).toBe(400);
      }
    },
  },
  {
    part,
    rule: "start_time must not be in the future",
    async check(simulator) {
      expect((await ask(simulator, { start_time: "2025-03-01T12:00:01Z" })).status).toBe(400);
      expect((await ask(simulator, { start_time: startTime })).status).toBe(200);
    },
  },
  {
    part,
    rule: "end_time is optional and must be after start_time",
    choice: "an event exactly at end_time belongs to the answer; endTimeInclusive turns that off",
    async check(simulator) {
      const [, , third, fourth] = (await ask(simulator, { service: ["sso"], limit: 4 })).body;
      const until = await ask(simulator, { service: ["sso"], end_time: third!.timestamp });
      expect(until.body.map(({ id }) => id)).toContain(third!.id);
      expect(until.body.map(({ id }) => id)).not.toContain(fourth!.id);
      expect((await ask(simulator, { end_time: "2024-01-01T00:00:00Z" })).status).toBe(400);
      expect((await ask(simulator, { start_time: startTime, end_time: startTime })).status).toBe(400);
      expect((await ask(simulator, { end_time: "later" })).status).toBe(400);
    },
  },
  {
    part,
    rule: "limit: default 1000, maximum 10000",
    choice: "more than the maximum gives the maximum, as X-Limit says",
    async check(simulator) {
      expect((await ask(simulator, {})).headers["x-limit"]).toBe("1000");
      expect((await ask(simulator, { limit: 7 })).body).toHaveLength(7);
      expect((await ask(simulator, { limit: 10_000 })).headers["x-limit"]).toBe("10000");
      expect((await ask(simulator, { limit: 10_001 })).headers["x-limit"]).toBe("10000");
    },
  },
  {
    part,
    rule: "sort: ASC or DESC, case-insensitive, default ASC",
    async check(simulator) {
      const up = await readAll(simulator, { limit: 1000, service: ["radius"] });
      const down = await readAll(simulator, { limit: 1000, service: ["radius"], sort: "dEsC" });
      expect(down).toEqual([...up].reverse());
      expect((await ask(simulator, { sort: "desc" })).headers["x-sort"]).toBe("DESC");
      expect((await ask(simulator, { sort: "asc" })).headers["x-sort"]).toBe("ASC");
      expect((await ask(simulator, {})).headers["x-sort"]).toBe("ASC");
    },
  },
  {
    part,
    rule: "fields restricts the returned fields, with dot notation",
    choice: "only what was asked for is returned; values keep their spelling",
    async check(simulator) {
      const { body } = await ask(simulator, {
        service: ["sso"],
        fields: ["id", "application.name", "initiated_by.username"],
        limit: 3,
      });
      for (const event of body) {
        expect(Object.keys(event).sort()).toEqual(["application", "id", "initiated_by"]);
        expect(Object.keys(event.application)).toEqual(["name"]);
      }
      const mixed = await ask(simulator, { service: ["sso"], fields: ["id", "no_such_field"], limit: 1 });
      expect(Object.keys(mixed.body[0]!)).toEqual(["id"]);
    },
  },
  {
    part,
    rule: "fields takes every documented path of every service",
    async check(simulator) {
      const paths = Object.values(documentedFields)
        .flat()
        .map((field) => field.split(":")[0]!);
      for (const path of new Set(paths)) {
        const { status } = await ask(simulator, { fields: [path], limit: 1 });
        expect(status, path).toBe(200);
      }
      const changed = { service: ["directory"], fields: ["changes.field"], limit: 1_000 };
      const events = (await ask(simulator, changed)).body.filter(({ changes }) => changes !== undefined);
      expect(events.length).toBeGreaterThan(0);
      for (const { changes } of events)
        for (const change of changes) expect(Object.keys(change)).toEqual(["field"]);
    },
  },
  {
    part,
    rule: "an optional field that is JSON null is as absent",
    async check(simulator) {
      const query = {
        end_time: null,
        limit: null,
        sort: null,
        fields: null,
        search_after: null,
        search_term: null,
      };
      const asked = await ask(simulator, query);
      expect(asked.status).toBe(200);
      expect(asked.text).toBe((await ask(simulator, {})).text);
    },
  },
  {
    part,
    rule: "search_after takes the X-Search_after of the page before; pages neither overlap nor leave gaps",
    async check(simulator) {
      const whole = await ask(simulator, { limit: 10_000 });
      for (const limit of [450, 1000]) expect(await readAll(simulator, { limit })).toEqual(whole.body);
      const down = await readAll(simulator, { limit: 1500, sort: "DESC" });
      expect(down).toEqual([...whole.body].reverse());
    },
  },
  {
    part,
    rule: "search_after belongs to the identical query",
    choice: "for another query, or made up, it is a 400; limit may differ",
    async check(simulator) {
      const { headers } = await ask(simulator, { limit: 5 });
      const search_after = JSON.parse(headers["x-search_after"]!);
      expect((await ask(simulator, { limit: 6, search_after })).status).toBe(200);
      const others = [
        { service: ["sso"] },
        { start_time: "2025-01-02T00:00:00Z" },
        { end_time: startTime },
        { sort: "DESC" },
        { search_term: { and: [{ success: true }] } },
        { fields: ["id"] },
      ];
      for (const other of others)
        expect((await ask(simulator, { limit: 5, search_after, ...other })).status).toBe(400);
      const one = { "x-org-id": simulator.organizations[0]!.id };
      expect((await ask(simulator, { limit: 5, search_after }, one)).status).toBe(400);
      for (const made of ["x", [], [1, "DZrPyW8BNsa9iKWoOm7h"], [search_after[0] + 1, search_after[1]]]) {
        expect((await ask(simulator, { limit: 5, search_after: made })).status).toBe(400);
      }
    },
  },
  {
    part,
    rule: "X-Result-Count is the number of elements, X-Limit the rows per call, X-Sort the direction, X-Request-Id a tracing id",
    async check(simulator) {
      const [one, two] = [await ask(simulator, { limit: 12 }), await ask(simulator, { limit: 12 })];
      expect(one.headers["x-result-count"]).toBe(String(one.body.length));
      expect(one.headers["x-limit"]).toBe("12");
      expect(one.headers["x-sort"]).toBe("ASC");
      expect(one.headers["x-request-id"]).toMatch(/^[0-9a-f-]{36}$/);
      expect(two.headers["x-request-id"]).not.toBe(one.headers["x-request-id"]);
    },
  },
  {
    part,
    rule: "X-Search_after is an array of mixed types, always present, even on the last page, and changes on every response",
    async check(simulator) {
      const last = { start_time: "2024-12-20T00:00:00Z", end_time: "2024-12-21T00:00:00Z" };
      const tokens = new Set<string>();
      for (const query of [{ limit: 5 }, { limit: 5 }, { limit: 10_000 }, last, last]) {
        const token = (await ask(simulator, query)).headers["x-search_after"]!;
        expect(token).toMatch(/^\[\d+,"[\w-]{14,64}"\]$/);
        tokens.add(token);
      }
      expect(tokens.size).toBe(5);
    },
  },
  {
    part,
    rule: "X-Result-Count below X-Limit means the last page; equal means that there may be more, even when there are none",
    async check(simulator) {
      const total = (await ask(simulator, { limit: 10_000 })).body.length;
      const exact = await ask(simulator, { limit: total });
      expect(exact.headers["x-result-count"]).toBe(exact.headers["x-limit"]);
      const after = await ask(simulator, {
        limit: total,
        search_after: JSON.parse(exact.headers["x-search_after"]!),
      });
      expect(after.headers["x-result-count"]).toBe("0");
    },
  },
  {
    part,
    rule: "the body is a JSON object sent as application/json",
    choice: "anything else is a 400",
    async check(simulator) {
      const url = `${simulator.insightsUrl}/insights/directory/v1/events`;
      const headers = { "x-api-key": simulator.apiKey, "x-org-id": simulator.organizations[0]!.id };
      for (const body of ["", "{", "[]", "1"])
        expect((await call("POST", url, headers, body)).status).toBe(400);
      const typed = await call("POST", url, { ...headers, "content-type": "text/plain" }, "{}");
      expect(typed.status).toBe(400);
    },
  },
];

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, test } from "vitest";
import { accessRules } from "../../simulator/test/conformance/access.ts";
import { insightsRules } from "../../simulator/test/conformance/insights.ts";
import { searchRules } from "../../simulator/test/conformance/search.ts";
import { ask, call, readAll } from "../../simulator/test/support.ts";
import { UsageError } from "../../src/core/errors.ts";
import type { View } from "../../src/core/view.ts";
import { insightsRoutes } from "../../src/search/http/insights-routes.ts";
import { pageRoutes } from "../../src/search/http/page-routes.ts";
import { createSearchService } from "../../src/search/service/service.ts";
import { serve } from "../server/start.ts";
import { skipUnless } from "../support/components.ts";
import { type InsightsWorld, openInsightsWorld } from "./insights-world.ts";
import { DUCKDB_REMEDY, duckdb } from "./support.ts";

const skips = skipUnless("duckdb", duckdb, DUCKDB_REMEDY);

/** Rules of the simulator's own keys, of the management API, and the one limit of our server's headers. */
const OTHERS = [
  "resetting the key makes",
  "x-org-id selects the organization of a management request",
  "the number of x-org-id values is not limited",
  "each operation lists its scopes",
  "x-org-id differs from the organization ID in the path",
  "x-org-id sent on an unsupported route",
  "the shape of error bodies",
];
const rules = [...insightsRules, ...searchRules, ...accessRules].filter(
  ({ rule }) => !OTHERS.some((other) => rule.includes(other)),
);

let world: InsightsWorld;
beforeAll(async () => {
  if (!skips) world = await openInsightsWorld(3000);
});
afterAll(() => world?.close());

describe.skipIf(skips)("the Insights interface over everything held keeps the specification", () => {
  expect(rules.length).toBeGreaterThan(40);
  for (const { part, rule, check } of rules) it(`${part}: ${rule}`, () => check(world.archived), 900_000);
});

const query = { service: ["all"], start_time: "2025-01-01T00:00:00Z" };
const url = () => `${world.archived.insightsUrl}/insights/directory/v1/events`;

describe.skipIf(skips)("the Insights interface over everything held", () => {
  test("gives the same events as the service, byte for byte, over closed and open days", async () => {
    const one = await readAll(world.simulator, { limit: 997 });
    const other = await readAll(world.archived, { limit: 997, end_time: "2025-03-01T11:59:50Z" });
    const texts = (events: readonly object[]) => events.map((event) => JSON.stringify(event)).toSorted();
    const wanted = one.filter(({ timestamp }) => timestamp <= "2025-03-01T11:59:50Z");
    expect(texts(other)).toEqual(texts(wanted));
    const { snapshot } = await world.own.search.sync(new AbortController().signal);
    expect(snapshot.parts.length).toBeGreaterThan(5);
    expect(snapshot.pages.length).toBeGreaterThan(0);
  });

  test("count, interval and distinct agree with the service", async () => {
    const end_time = "2025-03-01T11:00:00Z";
    for (const more of [
      {},
      { search_term: { and: [{ success: true }] } },
      {
        service: ["sso"],
        search_term: { or: [{ "application.name": "slack" }, { event_type: "sso_auth" }] },
      },
    ]) {
      const operations = [
        ["count", {}],
        ["interval", { interval_unit: "d", interval_value: 1, timezone: "+0530" }],
        ["distinct", { field: "event_type" }],
        ["distinct", { field: "initiated_by.type" }],
      ] as const;
      for (const [operation, own] of operations) {
        const at = (base: string) =>
          call("POST", `${base}/insights/directory/v1/events/${operation}`, headers(), {
            ...query,
            end_time,
            ...more,
            ...own,
          });
        const [one, other] = [await at(world.simulator.insightsUrl), await at(world.archived.insightsUrl)];
        expect({ operation, status: one.status }).toEqual({ operation, status: 200 });
        expect(other.body).toEqual(one.body);
      }
    }
  });

  test("tokens expire and are revoked, only their hash is stored, and every query leaves an access entry", async () => {
    const { id } = world.simulator.organizations[2]!;
    const make = (name: string, expiresMs: number | null) =>
      world.tokens.create({ name, organizations: [id], rights: ["insights"], expiresMs });
    const valid = make("auditor", Date.now() + 3_600_000);
    const expired = make("late", Date.now() - 1);
    const asked = (secret: string) => call("POST", url(), { "x-api-key": secret }, query);
    const answer = await asked(valid.secret);
    expect(answer.status).toBe(200);
    expect((await asked(expired.secret)).status).toBe(401);
    const entry = world.accesses.list(2)[0]!;
    expect(entry).toMatchObject({
      who: "auditor",
      operation: "insights page",
      organizations: [id],
      status: 200,
    });
    expect(entry).toMatchObject({ query, events: (answer.body as unknown[]).length, address: "127.0.0.1" });
    expect(world.accesses.list(1)[0]).toMatchObject({ who: "unknown", status: 401, events: 0 });
    world.tokens.revoke("auditor");
    expect((await asked(valid.secret)).status).toBe(401);
    const stored = readdirSync(join(world.own.world.folder, "tokens"))
      .map((name) => readFileSync(join(world.own.world.folder, "tokens", name), "utf8"))
      .join();
    expect(stored).not.toContain(valid.secret);
    expect(() => world.tokens.revoke("auditor")).toThrow(/no valid token/);
  });

  test("a token of one tenant sees no other's events: every operation, sort, term, header and error", async () => {
    const [mine, other] = world.simulator.organizations as unknown as [{ id: string }, { id: string }];
    const { secret } = world.tokens.create({
      name: "tenant",
      organizations: [mine.id],
      rights: ["insights", "search"],
      expiresMs: null,
    });
    const foreign = await readAll(world.archived, { limit: 10_000 }, { "x-org-id": other.id });
    const secrets = new Set(foreign.slice(0, 50).map(({ id }) => id!));
    const own = await readAll(world.archived, { limit: 10_000 }, { "x-org-id": mine.id });
    const unknown = "ffffffffffffffffffffffff";
    const leaks = (text: string) => [...secrets].some((id) => text.includes(id)) || text.includes(other.id);
    const terms = [
      undefined,
      { and: [{ organization: other.id }] },
      { or: [{ organization: other.id }, { success: true }, { success: false }] },
      { and: [{ id: [...secrets] }] },
      { and: [{ field: "organization", operator: "ne", value: mine.id }] },
      { and: [{ field: "id", operator: "contains", value: "' OR 1=1 --" }] },
      { and: [{ 'id" IS NULL OR "organization': other.id }] },
    ];
    const allowed = [{}, { "x-org-id": mine.id.toUpperCase() }];
    const refusedScopes = [
      { "x-org-id": other.id },
      { "x-org-id": unknown },
      { "x-org-id": [mine.id, other.id] },
      { "x-org-id": `${mine.id},${other.id}` },
      { "x-org-id": `${mine.id}' OR '1'='1` },
      { "x-provider-id": world.simulator.providerId },
      { "x-provider-id": unknown },
    ];
    const { headers: given } = await ask(world.archived, { limit: 5 }, { "x-org-id": other.id });
    const search_after = JSON.parse(given["x-search_after"]!);
    const ask2 = (scope: object, operation: string, more: object) =>
      call<{ count: number }>(
        "POST",
        url() + operation,
        { "x-api-key": secret, ...scope },
        { ...query, field: "organization", interval_unit: "d", limit: 10_000, ...more },
      );
    for (const operation of ["", "/count", "/interval", "/distinct"]) {
      for (const scope of refusedScopes) {
        const answer = await ask2(scope, operation, {});
        expect({ scope, refused: [400, 403].includes(answer.status) }).toEqual({ scope, refused: true });
        expect(leaks(answer.text)).toBe(false);
      }
      const variants =
        operation === ""
          ? [{}, { sort: "DESC" }, { fields: ["id", "organization"] }, { search_after }]
          : [{}];
      for (const scope of allowed)
        for (const search_term of terms)
          for (const more of variants) {
            const answer = await ask2(scope, operation, { ...more, search_term });
            const where = JSON.stringify({ scope, operation, search_term, more });
            expect({ where, leaks: leaks(answer.text) }).toEqual({ where, leaks: false });
            if (answer.status === 200 && operation === "/count")
              expect(answer.body.count, where).toBeLessThanOrEqual(own.length);
          }
    }
    // An organization of another and one that does not exist are refused in the same words.
    const refused = await Promise.all(
      [other.id, unknown].map((id) => call("POST", url(), { "x-api-key": secret, "x-org-id": id }, query)),
    );
    expect(refused.map(({ status }) => status)).toEqual([403, 403]);
    expect(refused[0]!.text).toBe(refused[1]!.text);
    // The page's operations under the same token.
    for (const path of ["events", "event", "story"])
      for (const params of [
        `organization=${other.id}`,
        `id=${[...secrets][0]}`,
        `name=${foreign.find(({ initiated_by }) => initiated_by?.email)?.initiated_by.email}`,
        `text=${[...secrets][0]}`,
        "",
        `organization=${mine.id}&organization=${other.id}`,
        `organization=${encodeURIComponent(`x') OR true --`)}`,
      ]) {
        const page = await call("GET", `${world.archived.insightsUrl}/api/search/${path}?${params}`, {
          authorization: `Bearer ${secret}`,
        });
        expect({ path, params, leaks: leaks(page.text) }).toEqual({ path, params, leaks: false });
      }
    expect((await call("GET", `${world.archived.insightsUrl}/api/search/events`, {})).status).toBe(401);
  }, 900_000);

  test("times, terms and numbers at the edge of what can be written get an answer", async () => {
    const count = async (more: object) => {
      const answer = await call<{ count: number }>("POST", `${url()}/count`, headers(), {
        ...query,
        ...more,
      });
      return answer.status === 200 ? answer.body.count : answer.status;
    };
    const all = await count({});
    expect(all).toBeGreaterThan(1000);
    expect(
      await count({ start_time: "0001-01-01T00:00:00Z", end_time: "9999-12-31T23:59:59.999999999Z" }),
    ).toBe(all);
    expect(await count({ start_time: "2025-01-01T05:30:00+05:30" })).toBe(all);
    expect(await count({ start_time: "2025-01-01T00:00:00" })).toBe(400);
    for (const value of [
      "\u0000",
      "\ud800",
      "%",
      "'; DROP VIEW events; --",
      "\u{1f600}",
      "x".repeat(100_000),
      "\\",
      '"',
      " ",
    ])
      for (const operator of ["eq", "contains", "startsWith"]) {
        const found = await count({ search_term: { and: [{ field: "username", operator, value }] } });
        expect({ value: value.slice(0, 20), operator, found: found === 400 || found < all }).toMatchObject({
          found: true,
        });
      }
    const many = Array.from({ length: 900 }, (_, at) => `nobody ${at}`);
    expect(await count({ search_term: { and: [{ field: "username", operator: "in", value: many }] } })).toBe(
      0,
    );
    for (const params of [
      "from=-8000000000000000&to=8000000000000000",
      "text=%00",
      "user=%F0%9F%98%80&ip=%27",
      "limit=1&after=1.zz",
    ]) {
      const page = await call("GET", `${world.archived.insightsUrl}/api/search/events?${params}`, {
        authorization: `Bearer ${world.simulator.apiKey}`,
      });
      expect({ params, status: page.status }).toEqual({
        params,
        status: params.includes("after") ? 400 : 200,
      });
    }
  });

  test("a failure names no path and no other tenant to a limited token, and leaves an access entry", async () => {
    const [mine, other] = world.simulator.organizations.map(({ id }) => id) as [string, string];
    const rights = ["insights", "search"] as const;
    const token = (name: string, organizations: string[] | null) =>
      world.tokens.create({ name, organizations, rights: [...rights], expiresMs: null }).secret;
    const [limited, whole] = [token("limited", [mine]), token("whole", null)];
    const words = `/archive/events/x.zst is damaged at ${other}`;
    const failing = { error: new Error(words) as Error };
    const context = {
      service: { answer: () => Promise.reject(failing.error) },
      ...{ tokens: world.tokens, accesses: world.accesses, timeoutMs: 60_000 },
    };
    const server = await serve({} as View, {
      rawRoutes: [...insightsRoutes(context), ...pageRoutes(context)],
    });
    try {
      const asked = async (secret: string) => [
        await call(
          "POST",
          `${server.url}insights/directory/v1/events`,
          { "x-api-key": secret, "x-org-id": mine },
          query,
        ),
        await call("GET", `${server.url}api/search/events`, { authorization: `Bearer ${secret}` }),
      ];
      for (const answer of await asked(limited)) {
        expect(answer.status).toBe(500);
        expect(answer.text).not.toContain(other);
      }
      expect(world.accesses.list(2)).toMatchObject([
        { who: "limited", operation: "insights page", status: 500 },
        { who: "limited", operation: "page events", status: 500 },
      ]);
      failing.error = new UsageError(words);
      for (const { status, text } of await asked(limited)) {
        expect(status).toBe(503);
        expect(text).not.toContain(other);
        expect(text).not.toContain("/archive");
      }
      for (const { status, text } of await asked(whole))
        expect([status, text.includes(words)]).toEqual([503, true]);
    } finally {
      await server.close();
    }
  });

  test("a search_term that is nested beyond reason is refused with 400, in words", async () => {
    const deep = (levels: number) => `${'{"and":['.repeat(levels)}${"]}".repeat(levels)}`;
    const bodyOf = (levels: number) =>
      `{"service":["all"],"start_time":"2025-01-01T00:00:00Z","search_term":${deep(levels)}}`;
    for (const levels of [1000, 20_000])
      expect(await call("POST", url(), headers(), bodyOf(levels))).toMatchObject({
        status: 400,
        text: expect.stringContaining("nested more than 500 levels deep"),
      });
  });

  test("distinct counts from the index, or says what reading the events would cost", async () => {
    const small = createSearchService({
      ...{ describe: undefined as never, facts: undefined as never, search: world.own.search },
      ...{ scanMax: 1000, cursorSecret: "x", nowMs: Date.now },
    });
    const owners = world.simulator.organizations.map(({ id }) => id);
    const distinct = (field: string, more: object = {}) =>
      small.answer(
        { kind: "insights", operation: "distinct", owners, body: { ...query, ...more, field } },
        new AbortController().signal,
      );
    for (const field of ["event_type", "service"]) {
      const { status, body } = await distinct(field);
      expect(status).toBe(200);
      expect((JSON.parse(body.toString()) as { buckets: object[] }).buckets.length).toBeGreaterThan(5);
    }
    const { status, body } = await distinct("initiated_by.type");
    expect(status).toBe(400);
    expect(body.toString()).toMatch(
      /too broad.*events.*would have to be read.*Ask for a shorter time.*event_type, service and id are counted from the index/,
    );
    const none = await distinct("initiated_by.type", {
      start_time: "2001-01-01T00:00:00Z",
      end_time: "2001-01-02T00:00:00Z",
    });
    expect([none.status, none.body.toString()]).toEqual([200, '{"buckets":[]}']);
  });

  test("a search_term that would read too much is refused with its cost", async () => {
    const service = { ...query, search_term: { and: [{ field: "username", operator: "ne", value: "x" }] } };
    const small = createSearchService({
      describe: undefined as never,
      facts: undefined as never,
      search: world.own.search,
      scanMax: 1000,
      cursorSecret: "x",
      nowMs: Date.now,
    });
    const owners = world.simulator.organizations.map(({ id }) => id);
    const answer = await small.answer(
      { kind: "insights", operation: "page", owners, body: service },
      new AbortController().signal,
    );
    expect(answer.status).toBe(400);
    expect(answer.body.toString()).toMatch(
      /too broad.*events.*would have to be read.*Ask for a shorter time/,
    );
  });
});

function headers() {
  return {
    "x-api-key": world.simulator.apiKey,
    "x-org-id": world.simulator.organizations.map(({ id }) => id),
  };
}

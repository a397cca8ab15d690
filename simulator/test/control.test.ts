import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Simulator } from "../index.ts";
import { ask, call, readAll, sign, startStill, startTime, texts } from "./support.ts";

describe("the control endpoints", () => {
  let simulator: Simulator;
  beforeAll(async () => {
    simulator = await startStill({ events: 400 });
  });
  afterAll(() => simulator.close());

  const control = <T>(
    method: "GET" | "POST" | "PUT" | "DELETE",
    path: string,
    body?: unknown,
    headers = {},
  ) => call<T>(method, `${simulator.url}/_control${path}`, headers, body);

  it("give the exact bytes of every event, per organization and in all", async () => {
    const { text, headers } = await control("GET", "/events");
    expect(headers["content-type"]).toBe("application/x-ndjson");
    expect(text.trimEnd().split("\n")).toEqual(texts(simulator.control.allEvents()));
    const organization = simulator.organizations[1]!.id;
    const own = await control("GET", `/events?organization=${organization}`);
    expect(own.text.trimEnd().split("\n")).toEqual(texts(simulator.control.allEvents({ organization })));
    expect(
      (await control<{ count: number }>("GET", `/events/count?organization=${organization}`)).body.count,
    ).toBe(simulator.control.countEvents({ organization }));
  });

  it("equal what Insights serves, byte for byte", async () => {
    const organization = simulator.organizations[0]!.id;
    const { text } = await ask(simulator, { limit: 10_000 }, { "x-org-id": organization });
    const truth = texts(simulator.control.allEvents({ organization })).sort();
    const served = texts(simulator.control.allEvents({ organization }))
      .filter((event) => text.includes(event))
      .sort();
    expect(served).toEqual(truth);
    expect(text.length).toBe(truth.join(",").length + 2);
  });

  it("add events, exactly as they are or completed", async () => {
    const organization = simulator.organizations[2]!.id;
    const exact =
      '{"timestamp":"2025-02-28T00:00:00.123456789Z", "service":"radius","big":12345678901234567890,"x":1.0,"x":2.0}';
    const added = await control("POST", `/events?organization=${organization}`, `${exact}\n`, {
      "content-type": "application/x-ndjson",
    });
    expect(added.body).toEqual({ added: 1 });
    const { text } = await ask(
      simulator,
      { service: ["radius"], start_time: "2025-02-28T00:00:00.123456789Z", limit: 1 },
      { "x-org-id": organization },
    );
    expect(text).toBe(`[${exact}]`);
    await control("POST", "/events", { organization, events: [{ event_type: "mine" }] });
    const mine = await readAll(simulator, { search_term: { and: [{ event_type: "mine" }] } });
    expect(mine).toMatchObject([
      { organization, service: "directory", timestamp: "2025-03-01T12:00:00.000Z" },
    ]);
    await control("POST", "/events", { organization: "provider", events: [{ event_type: "portal_mine" }] });
    expect(
      (await ask(simulator, { start_time: startTime }, { "x-provider-id": simulator.providerId })).body,
    ).toMatchObject([{ event_type: "portal_mine" }]);
  });

  it("refuse events that Insights could not have", async () => {
    const organization = simulator.organizations[2]!.id;
    for (const bad of ["not json", "[]", '{"service":"sso"}', '{"timestamp":"yesterday"}']) {
      expect((await control("POST", `/events?organization=${organization}`, bad)).status).toBe(400);
    }
    expect((await control("POST", "/events?organization=ffffffffffffffffffffffff", "{}")).status).toBe(404);
  });

  it("set faults, one or all, and clear them", async () => {
    expect((await control("PUT", "/faults", [{ kind: "status", status: 503 }])).body).toEqual([
      { kind: "status", status: 503, struck: 0 },
    ]);
    expect((await ask(simulator, {})).status).toBe(503);
    await control("POST", "/faults", { kind: "latency", ms: 1 });
    expect((await control<unknown[]>("GET", "/faults")).body).toHaveLength(2);
    expect((await control("DELETE", "/faults")).body).toEqual([]);
    expect((await ask(simulator, {})).status).toBe(200);
    for (const bad of [{ kind: 1 }, [{ kind: "no_such_kind" }]]) {
      expect((await control("PUT", "/faults", bad)).status).toBe(400);
    }
  });

  it("count requests, refusals, what was served and how many came at once", async () => {
    await control("DELETE", "/statistics");
    await Promise.all(Array.from({ length: 5 }, () => ask(simulator, { limit: 3 })));
    await ask(simulator, { service: [] });
    const { body } = await control<Record<string, unknown>>("GET", "/statistics");
    expect(body).toMatchObject({
      requests: 6,
      insightsRequests: 6,
      refused: 1,
      eventsServed: 15,
      concurrent: 0,
      byStatus: { 200: 5, 400: 1 },
    });
    expect(body.concurrentMax).toBeGreaterThanOrEqual(1);
    const log = await control<{ query: { limit: number }; status: number; events: number }[]>(
      "GET",
      "/requests",
    );
    expect(log.body[0]).toMatchObject({ status: 200, events: 3, query: { limit: 3 } });
  });

  it("move the clock, make traffic, reset the key and refuse organizations", async () => {
    const other = await startStill({ events: 5 });
    const steer = (path: string, body: unknown) =>
      call<Record<string, unknown>>("POST", `${other.url}/_control${path}`, {}, body);
    try {
      expect((await steer("/clock", { advanceMs: 60_000 })).body).toMatchObject({
        now: "2025-03-01T12:01:00.000Z",
        speed: 0,
      });
      expect(
        (await steer("/clock", { set: "2025-03-05T00:00:00Z", skewMs: 0, speed: 0 })).body,
      ).toMatchObject({ now: "2025-03-05T00:00:00.000Z" });
      expect((await steer("/clock", { sett: 1 })).status).toBe(400);
      expect((await steer("/traffic", { burst: 20 })).body).toEqual({ events: 25 });
      await steer("/refusals", { organization: other.organizations[0]!.id, status: 402 });
      expect((await ask(other, {})).status).toBe(402);
      await steer("/refusals", { organization: other.organizations[0]!.id, status: null });
      expect((await steer("/key", { key: "fresh" })).body).toEqual({ apiKey: "fresh" });
      expect((await ask(other, {})).status).toBe(401);
      expect(
        (await ask(other, {}, { "x-api-key": "fresh", "x-org-id": other.organizations[0]!.id })).status,
      ).toBe(200);
    } finally {
      await other.close();
    }
  });

  it("enroll systems, and show users, groups, integrations and jobs", async () => {
    const organization = simulator.organizations[0]!.id;
    const { body: system } = await control<{ id: string; privateKey: string }>("POST", "/systems", {
      organization,
    });
    const headers = sign(system, "GET", `/api/systems/${system.id}`, new Date(startTime));
    expect((await call("GET", `${simulator.managementUrl}/systems/${system.id}`, headers)).status).toBe(200);
    const { body: users } = await control<{ id: string; suspended: number }[]>(
      "GET",
      `/users?organization=${organization}`,
    );
    expect(
      (await control("POST", "/users", { organization, user: users[0]!.id, action: "suspend" })).body,
    ).toMatchObject({ suspended: 1 });
    const { body: integrations } = await control<{ importApplication: string }>(
      "GET",
      `/integrations?organization=${organization}`,
    );
    expect(integrations.importApplication).toBe(simulator.control.world.importApplication(organization));
    expect((await control<unknown[]>("GET", `/groups?organization=${organization}`)).body).toHaveLength(3);
    expect((await control<unknown[]>("GET", "/import-jobs")).body).toEqual([]);
  });

  it("answer 404 for what they do not know", async () => {
    expect((await control("GET", "/nonsense")).status).toBe(404);
  });
});

describe("the optional endpoints", () => {
  const post = (simulator: Simulator, name: string, body: object) =>
    call<{ count: number; buckets: { key: unknown; doc_count: number }[] }>(
      "POST",
      `${simulator.insightsUrl}/insights/directory/v1/events/${name}`,
      { "x-api-key": simulator.apiKey, "x-org-id": simulator.organizations[0]!.id },
      { service: ["all"], start_time: "2025-01-01T00:00:00Z", ...body },
    );

  it("are not there unless they are switched on", async () => {
    const simulator = await startStill({ events: 5 });
    for (const name of ["count", "interval", "distinct"])
      expect((await post(simulator, name, {})).status).toBe(404);
    await simulator.close();
  });

  it("count, spread over time and list distinct values when they are", async () => {
    const simulator = await startStill({ events: 2_000, optionalEndpoints: true });
    try {
      const events = await readAll(
        simulator,
        { limit: 10_000 },
        { "x-org-id": simulator.organizations[0]!.id },
      );
      expect((await post(simulator, "count", {})).body).toEqual({ count: events.length });
      const failed = events.filter(({ success }) => success === false).length;
      expect((await post(simulator, "count", { search_term: { and: [{ success: false }] } })).body).toEqual({
        count: failed,
      });
      const days = (await post(simulator, "interval", { interval_unit: "d", interval_value: "1" })).body
        .buckets;
      expect(days.reduce((sum, { doc_count }) => sum + doc_count, 0)).toBe(events.length);
      expect(days[0]).toMatchObject({
        key: expect.any(Number),
        key_as_string: expect.stringMatching(/T00:00:00\.000Z$/),
      });
      const kinds = (await post(simulator, "distinct", { field: "service" })).body.buckets;
      expect(kinds.find(({ key }) => key === "sso")!.doc_count).toBe(
        events.filter(({ service }) => service === "sso").length,
      );
      expect((await post(simulator, "interval", { interval_unit: "y" })).status).toBe(400);
      expect((await post(simulator, "distinct", {})).status).toBe(400);
    } finally {
      await simulator.close();
    }
  });
});

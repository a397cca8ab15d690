import { gunzipSync } from "node:zlib";
import { request } from "undici";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Fault, Simulator } from "../index.ts";
import { ask, call, manage, readAll, startStill } from "./support.ts";

describe("the simulator fails on demand", () => {
  let simulator: Simulator;
  beforeAll(async () => {
    simulator = await startStill({ events: 500 });
  });
  afterEach(() => simulator.control.faults.clear());
  afterAll(() => simulator.close());

  const fail = (...faults: Fault[]) => simulator.control.faults.set(faults);

  it("answers 429 with Retry-After so many times, and is well again", async () => {
    fail({ kind: "status", status: 429, retryAfter: 3, times: 2 });
    const replies = [await ask(simulator, {}), await ask(simulator, {}), await ask(simulator, {})];
    expect(replies.map(({ status }) => status)).toEqual([429, 429, 200]);
    expect(replies[0]!.headers["retry-after"]).toBe("3");
    expect(replies[0]!.body).toHaveProperty("message");
  });

  it("answers 429 without Retry-After, 500 and 503", async () => {
    for (const status of [429, 500, 503]) {
      fail({ kind: "status", status });
      const reply = await ask(simulator, {});
      expect([reply.status, reply.headers["retry-after"]]).toEqual([status, undefined]);
    }
  });

  it("strikes one API, one organization, requests with a cursor, or after some have passed", async () => {
    const [first, second] = simulator.organizations.map(({ id }) => ({ "x-org-id": id }));
    fail({ kind: "status", status: 503, api: "management" });
    expect((await ask(simulator, {})).status).toBe(200);
    expect((await manage(simulator, "GET", "/applications")).status).toBe(503);
    fail({ kind: "status", status: 503, organization: first!["x-org-id"]! });
    expect([(await ask(simulator, {}, first)).status, (await ask(simulator, {}, second)).status]).toEqual([
      503, 200,
    ]);
    fail({ kind: "status", status: 500, cursor: true });
    const page = await ask(simulator, { limit: 5 });
    expect(
      (await ask(simulator, { limit: 5, search_after: JSON.parse(page.headers["x-search_after"]!) })).status,
    ).toBe(500);
    fail({ kind: "status", status: 500, skip: 1 });
    expect([(await ask(simulator, {})).status, (await ask(simulator, {})).status]).toEqual([200, 500]);
  });

  it("strikes by chance, with the same dice for the same seed", async () => {
    fail({ kind: "status", status: 500, share: 0.5 });
    const replies = await Promise.all(Array.from({ length: 60 }, () => ask(simulator, { limit: 1 })));
    const failed = replies.filter(({ status }) => status === 500).length;
    expect(failed).toBeGreaterThan(10);
    expect(failed).toBeLessThan(50);
  });

  it("refuses the key from a moment of its clock on", async () => {
    const { nowMs } = simulator.control.clock.read();
    fail({ kind: "unauthorized", fromMs: nowMs + 1000 });
    expect((await ask(simulator, {})).status).toBe(200);
    simulator.control.clock.advance(1000);
    expect((await ask(simulator, {})).status).toBe(401);
  });

  it("refuses every cursor, and reads without one go on", async () => {
    fail({ kind: "refused_cursor" });
    const page = await ask(simulator, { limit: 5 });
    expect(page.status).toBe(200);
    expect(
      (await ask(simulator, { limit: 5, search_after: JSON.parse(page.headers["x-search_after"]!) })).status,
    ).toBe(400);
  });

  it("cuts the connection in the headers and in the body", async () => {
    fail({ kind: "cut_headers", times: 1 });
    await expect(ask(simulator, {})).rejects.toThrow();
    fail({ kind: "cut_body", times: 1 });
    await expect(ask(simulator, {})).rejects.toThrow();
    fail({ kind: "cut_body", afterBytes: 0, times: 1 });
    await expect(ask(simulator, {})).rejects.toThrow();
    expect((await ask(simulator, {})).status).toBe(200);
  });

  it("waits before it answers, and drips", async () => {
    const started = performance.now();
    fail({ kind: "latency", ms: 80 });
    expect((await ask(simulator, { limit: 1 })).status).toBe(200);
    expect(performance.now() - started).toBeGreaterThanOrEqual(79);
    const { text } = await ask(simulator, { limit: 1 });
    fail({ kind: "drip", bytesPerSecond: text.length * 4 });
    const before = performance.now();
    expect((await ask(simulator, { limit: 1 })).text).toBe(text);
    expect(performance.now() - before).toBeGreaterThan(150);
  });

  it("lies about the count", async () => {
    fail({ kind: "wrong_count", by: -2 });
    const { headers, body } = await ask(simulator, { limit: 10 });
    expect([headers["x-result-count"], body.length]).toEqual(["8", 10]);
  });

  it("repeats or leaves out the page token", async () => {
    const token = (await ask(simulator, { limit: 5 })).headers["x-search_after"]!;
    fail({ kind: "same_token" });
    expect(
      (await ask(simulator, { limit: 5, search_after: JSON.parse(token) })).headers["x-search_after"],
    ).toBe(token);
    fail({ kind: "missing_token" });
    expect((await ask(simulator, { limit: 5 })).headers).not.toHaveProperty("x-search_after");
  });

  it("adds an event of a foreign organization, or breaks the JSON", async () => {
    const [first] = simulator.organizations;
    fail({ kind: "foreign_event", times: 1 });
    const page = await ask(simulator, { limit: 5 }, { "x-org-id": first!.id });
    expect(page.body).toHaveLength(6);
    expect(page.body.filter(({ organization }) => organization !== first!.id)).toHaveLength(1);
    fail({ kind: "broken_json", times: 1 });
    await expect(ask(simulator, { limit: 5 })).rejects.toThrow(SyntaxError);
  });

  it("compresses where the client accepts it, unless a fault forbids it", async () => {
    const read = async (encoding: string) => {
      const response = await request(`${simulator.insightsUrl}/insights/directory/v1/events`, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          "x-api-key": simulator.apiKey,
          "x-org-id": simulator.organizations[0]!.id,
          "accept-encoding": encoding,
        },
        body: JSON.stringify({ service: ["all"], start_time: "2025-01-01T00:00:00Z" }),
      });
      const bytes = Buffer.from(await response.body.arrayBuffer());
      return { encoding: response.headers["content-encoding"], bytes };
    };
    const plain = await read("identity");
    const packed = await read("br, gzip");
    expect([plain.encoding, packed.encoding]).toEqual([undefined, "gzip"]);
    expect(gunzipSync(packed.bytes).equals(plain.bytes)).toBe(true);
    fail({ kind: "gzip", on: false });
    expect((await read("gzip")).encoding).toBeUndefined();
  });

  it("throttles at a fixed rate, and refuses header blocks that are too large", async () => {
    const strict = await startStill({
      events: 10,
      throttle: { requestsPerSecond: 3, retryAfterSeconds: 1 },
      headerBytesMax: 2_000,
    });
    try {
      const many = await ask(
        strict,
        {},
        { "x-org-id": Array.from({ length: 200 }, () => strict.organizations[0]!.id) },
      );
      expect(many.status).toBe(431);
      const statuses = (await Promise.all(Array.from({ length: 10 }, () => ask(strict, {})))).map(
        ({ status }) => status,
      );
      expect(statuses.filter((status) => status === 200).length).toBeLessThanOrEqual(4);
      expect(statuses).toContain(429);
      expect(strict.control.statistics()).toMatchObject({ requests: 11, insightsRequests: 11 });
    } finally {
      await strict.close();
    }
  });

  it("refuses an organization that is not entitled, alone and in a group", async () => {
    const [first, second] = simulator.organizations.map(({ id }) => id) as [string, string];
    simulator.control.refuseOrganization(second, 402);
    expect((await ask(simulator, {}, { "x-org-id": [first, second] })).status).toBe(402);
    expect((await ask(simulator, {}, { "x-org-id": first })).status).toBe(200);
    simulator.control.refuseOrganization(second, null);
    expect((await ask(simulator, {}, { "x-org-id": second })).status).toBe(200);
  });

  it("forgets the previous key when it is reset", async () => {
    const other = await startStill({ events: 10 });
    try {
      const next = other.control.resetKey();
      expect((await ask(other, {})).status).toBe(401);
      expect(
        (await readAll(other, {}, { "x-api-key": next, "x-org-id": other.organizations[0]!.id })).length,
      ).toBeGreaterThan(0);
    } finally {
      await other.close();
    }
  });

  it("claims a larger X-Limit than was asked, or sends none", async () => {
    fail({ kind: "wrong_limit", value: 10_000, times: 1 }, { kind: "wrong_limit", value: null, times: 2 });
    const larger = await ask(simulator, { limit: 5 });
    expect([larger.body.length, larger.headers["x-limit"]]).toEqual([5, "10000"]);
    const none = await ask(simulator, { limit: 5 });
    expect([none.body.length, none.headers["x-limit"]]).toEqual([5, undefined]);
  });

  it("caps its pages below what was asked and says so, and pages go on without a gap", async () => {
    const all = await readAll(simulator, { limit: 10_000 });
    fail({ kind: "page_cap", events: 70 });
    const page = await ask(simulator, { limit: 1_000 });
    expect([page.body.length, page.headers["x-limit"]]).toEqual([70, "70"]);
    expect(await readAll(simulator, { limit: 1_000 })).toEqual(all);
  });

  it("sends a byte order mark before the body", async () => {
    fail({ kind: "byte_order_mark" });
    const response = await request(`${simulator.insightsUrl}/insights/directory/v1/events`, {
      method: "POST",
      headers: { "x-api-key": simulator.apiKey, "x-org-id": simulator.organizations[0]!.id },
      body: JSON.stringify({ service: ["all"], start_time: "2025-01-01T00:00:00Z", limit: 2 }),
    });
    const bytes = Buffer.from(await response.body.arrayBuffer());
    expect([...bytes.subarray(0, 4)]).toEqual([0xef, 0xbb, 0xbf, 0x5b]);
  });

  it("adds a malformed element to a page", async () => {
    fail({ kind: "malformed_event", text: '{"value":NaN}' });
    const spoiled = await raw(simulator, { limit: 3 });
    expect(spoiled.text.endsWith(',{"value":NaN}]')).toBe(true);
    expect(spoiled.headers["x-result-count"]).toBe("4");
  });

  it("keeps a malformed event at its place in time, and answers for the others", async () => {
    const world = await startStill({ events: 300 });
    try {
      const organization = world.organizations[1]!.id;
      const bytes = '{"id":"x","deep":[[[';
      world.control.appendMalformed(organization, bytes, { timestamp: "2025-02-20T10:00:00Z" });
      const around = { start_time: "2025-02-20T09:59:59Z", end_time: "2025-02-20T10:00:01Z" };
      expect((await raw(world, around)).text).toContain(bytes);
      expect((await ask(world, { start_time: "2025-02-20T10:00:01Z" })).status).toBe(200);
      const search = { search_term: { and: [{ service: "directory" }] } };
      const found = await ask(world, { ...search, limit: 10_000 });
      expect(found.body.length).toBeGreaterThan(10);
      expect((await raw(world, { ...around, fields: ["id"] })).text).toContain(bytes);
    } finally {
      await world.close();
    }
  });

  it("answers 500 for one tenant, and for every query that includes it", async () => {
    const [first, second] = simulator.organizations.map(({ id }) => id);
    simulator.control.refuseOrganization(first!, 500);
    const asked = [[first!], [second!], [first!, second!]];
    const replies = await Promise.all(asked.map((ids) => ask(simulator, {}, { "x-org-id": ids })));
    simulator.control.refuseOrganization(first!, null);
    expect(replies.map(({ status }) => status)).toEqual([500, 200, 500]);
  });

  it("limits a plan's history with 402 until the limit is lifted", async () => {
    const organization = simulator.organizations[0]!.id;
    const asked = (start: string) => ask(simulator, { start_time: start }, { "x-org-id": organization });
    simulator.control.limitHistory(organization, 15);
    const [old, recent] = [await asked("2025-02-10T00:00:00Z"), await asked("2025-02-20T00:00:00Z")];
    expect([old.status, recent.status]).toEqual([402, 200]);
    expect(old.text).toContain("15 days");
    simulator.control.limitHistory(organization, null);
    expect((await asked("2025-02-10T00:00:00Z")).status).toBe(200);
  });

  it("asks to wait for a whole day", async () => {
    fail({ kind: "status", status: 429, retryAfter: 86_400, times: 1 });
    expect((await ask(simulator, {})).headers["retry-after"]).toBe("86400");
    expect((await ask(simulator, {})).status).toBe(200);
  });

  it("takes all of these as control calls over HTTP", async () => {
    const control = `${simulator.url}/_control`;
    const organization = simulator.organizations[2]!.id;
    const faults = [
      { kind: "wrong_limit", value: 10_000 },
      { kind: "page_cap", events: 3 },
      { kind: "byte_order_mark" },
      { kind: "malformed_event" },
    ];
    expect((await call("PUT", `${control}/faults`, {}, faults)).body).toMatchObject(faults);
    await call("DELETE", `${control}/faults`, {});
    const days = { organization, days: 15 };
    expect((await call("POST", `${control}/history-limits`, {}, days)).body).toEqual(days);
    const headers = { "x-org-id": organization };
    expect((await ask(simulator, {}, headers)).status).toBe(402);
    await call("POST", `${control}/history-limits`, {}, { organization, days: null });
    await call("POST", `${control}/refusals`, {}, { organization, status: 500 });
    expect((await ask(simulator, {}, headers)).status).toBe(500);
    await call("POST", `${control}/refusals`, {}, { organization, status: null });
    const place = `organization=${organization}&timestamp=2025-02-22T10:00:00Z`;
    expect((await call("POST", `${control}/events?${place}`, {}, "{broken")).body).toEqual({ added: 1 });
    const around = { start_time: "2025-02-22T10:00:00Z", end_time: "2025-02-22T10:00:01Z" };
    expect((await raw(simulator, around, headers)).text).toContain("{broken");
  });
});

/** An answer whose body need not be JSON. */
async function raw(simulator: Simulator, query: object, headers: Record<string, string> = {}) {
  const response = await request(`${simulator.insightsUrl}/insights/directory/v1/events`, {
    method: "POST",
    headers: { "x-api-key": simulator.apiKey, "x-org-id": simulator.organizations[1]!.id, ...headers },
    body: JSON.stringify({ service: ["all"], start_time: "2025-01-01T00:00:00Z", ...query }),
  });
  return { text: await response.body.text(), headers: response.headers };
}

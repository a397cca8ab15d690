import { gunzipSync } from "node:zlib";
import { request } from "undici";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Fault, Simulator } from "../index.ts";
import { ask, manage, readAll, startStill } from "./support.ts";

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

  it("compresses where the client accepts it, unless it is told not to", async () => {
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
});

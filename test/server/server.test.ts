// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { connect as connectTo } from "node:net";
import { gunzipSync } from "node:zlib";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { defineRoute, RouteError } from "../../src/core/route.ts";
import { secretOf } from "../../src/core/secret.ts";
import { statusSchema } from "../../src/core/view/status.ts";
import type { View } from "../../src/core/view.ts";
import { createView } from "../../src/journal/view/view.ts";
import { loadAssets } from "../../src/server/assets.ts";
import { serverSchema } from "../../src/server/config.ts";
import { ask, bearer, serve, type TestServer } from "./start.ts";
import { fillSmall, liveOf, makeState, organizationId, type TestState } from "./state.ts";

const TOKEN = "write-token-0123456789";
const READ_TOKEN = "read-token-0123456789";
const tokens = { token: secretOf(TOKEN), readToken: secretOf(READ_TOKEN) };
const READS = [
  "/metrics",
  "/api/status",
  "/api/rates",
  "/api/organizations",
  "/api/calendar",
  `/api/windows?account=acme&organization=${organizationId(1)}`,
  "/api/sinks",
  "/api/dead-letters",
  "/api/alarms",
  "/api/drift",
  "/api/recent",
  "/api/openapi.json",
];
const CONTENT = "/api/dead-letters/1";
const WRITES = [
  { method: "POST", path: "/api/dead-letters/replay", body: { ids: [1] } },
  { method: "DELETE", path: "/api/dead-letters?ids=1,2" },
  { method: "POST", path: "/api/sinks/siem/retry" },
  { method: "POST", path: "/api/sinks/siem/resume", body: { from: "now" } },
  { method: "POST", path: "/api/poll" },
];

let state: TestState;
let view: View;
const open: TestServer[] = [];
const start: typeof serve = async (...args) => {
  const server = await serve(...args);
  open.push(server);
  return server;
};
beforeAll(async () => {
  state = makeState();
  await fillSmall(state);
  view = createView(state.db, liveOf(state.clock), state.options);
});
afterEach(async () => {
  for (const server of open.splice(0)) await server.close();
});
afterAll(() => state.close());

describe("who may read and change", () => {
  it("answers reads on this machine without a token, and refuses every change and every event's content", async () => {
    const server = await start(view);
    for (const path of READS) expect([path, (await ask(server, path)).status]).toEqual([path, 200]);
    const body = await ask(server, CONTENT);
    expect([body.status, body.json.error.message]).toEqual([403, expect.stringContaining("server.token")]);
    for (const { path, ...options } of WRITES) {
      const answer = await ask(server, path, options);
      expect(answer.status).toBe(403);
      expect(answer.json.error.message).toContain("server.token");
    }
    expect(server.asked).toEqual([]);
  });

  it("shows what a destination has quoted from an event to holders of a token alone", async () => {
    const reason = "answered 400: cannot read 'jo.doe'";
    const answer = "preview of the value: jo.doe";
    const { groups, letters, total } = await view.deadLetters({ limit: 9 });
    const quoted: View = {
      ...view,
      deadLetters: async () => ({
        total,
        groups: groups.map((group) => ({ ...group, example: { ...group.example, reason, answer } })),
        letters: letters.map((letter) => ({ ...letter, reason, answer })),
      }),
    };
    const free = await ask(await start(quoted), "/api/dead-letters");
    expect(JSON.stringify(free.json)).not.toContain("jo.doe");
    expect(free.json.letters[0]).toMatchObject({ reason: 'answered 400: cannot read "…"', answer: null });
    const server = await start(quoted, { config: tokens });
    for (const token of [TOKEN, READ_TOKEN]) {
      const { json } = await ask(server, "/api/dead-letters", { headers: bearer(token) });
      expect(json.letters[0]).toMatchObject({ reason, answer });
      expect(json.groups[0].example).toMatchObject({ reason, answer });
    }
  });

  it.each([
    { forwarded: "for=192.0.2.60" },
    { "x-forwarded-for": "192.0.2.60" },
    { "x-forwarded-proto": "https" },
    { "x-real-ip": "192.0.2.60" },
    { via: "1.1 proxy" },
  ])(
    "refuses reads without a token that a proxy has forwarded: %j",
    async (headers: Record<string, string>) => {
      const server = await start(view);
      for (const path of [...READS, CONTENT, "/api/events"]) {
        const answer = await ask(server, path, { headers });
        expect([path, answer.status, answer.json.error.message]).toEqual([
          path,
          403,
          expect.stringContaining("server.token"),
        ]);
      }
      expect((await ask(server, "/livez", { headers })).status).toBe(200);
    },
  );

  it("refuses reads without a token by HTTP/1.0, which a plain nginx speaks", async () => {
    const server = await start(view);
    const socket = connectTo(server.port, "127.0.0.1");
    socket.end("GET /api/status HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
    const chunks: Buffer[] = [];
    for await (const chunk of socket) chunks.push(chunk as Buffer);
    expect(Buffer.concat(chunks).toString()).toContain(" 403 ");
  });

  it("asks for the token for reads on this machine too when one is set", async () => {
    const server = await start(view, { config: { token: secretOf(TOKEN) } });
    for (const path of [...READS, CONTENT, "/api/events"])
      expect([path, (await ask(server, path)).status]).toEqual([path, 401]);
    for (const path of [...READS, CONTENT])
      expect([path, (await ask(server, path, { headers: bearer(TOKEN) })).status]).toEqual([path, 200]);
  });

  it("stays reachable while one address holds more idle connections than it may", async () => {
    const server = await start(view);
    const askTwenty = async () => {
      const begunMs = performance.now();
      for (let at = 0; at < 20; at++) expect((await ask(server, "/livez")).status).toBe(200);
      return performance.now() - begunMs;
    };
    const usualMs = await askTwenty();
    const idle = Array.from({ length: 1200 }, () =>
      connectTo(server.port, "127.0.0.1").on("error", () => {}),
    );
    await Promise.all(idle.map((socket) => once(socket, "connect").catch(() => {})));
    // One that had to wait until an idle one is dropped would wait for 5 s.
    expect(await askTwenty()).toBeLessThan(4500 + 20 * usualMs);
    for (const socket of idle) socket.destroy();
  });

  it("refuses to start beyond this machine without a token", async () => {
    await expect(serve(view, { config: { host: "0.0.0.0" } })).rejects.toThrow(/no server\.token/);
    await expect(serve(view, { config: { host: "::" } })).rejects.toThrow(/no server\.token/);
  });

  it("refuses a token that is easily guessed, and one token for both scopes", async () => {
    await expect(serve(view, { config: { token: secretOf("short") } })).rejects.toThrow(/at least 16/);
    const same = { token: secretOf(TOKEN), readToken: secretOf(TOKEN) };
    await expect(serve(view, { config: same })).rejects.toThrow(/the same/);
  });

  it("asks for a token for every read when others can reach it", async () => {
    const server = await start(view, { config: { host: "0.0.0.0", ...tokens } });
    for (const path of [...READS, "/api/events"]) {
      const refused = await ask(server, path);
      expect([path, refused.status]).toEqual([path, 401]);
      expect(refused.headers["www-authenticate"]).toContain("Bearer");
      expect((await ask(server, path, { headers: bearer("wrong-token-0123456789") })).status).toBe(401);
    }
    for (const path of READS) {
      expect((await ask(server, path, { headers: bearer(READ_TOKEN) })).status).toBe(200);
      expect((await ask(server, path, { headers: bearer(TOKEN) })).status).toBe(200);
    }
  });

  it("asks for a token for reads on this machine too when one for reading is set", async () => {
    const server = await start(view, { config: tokens });
    expect((await ask(server, "/api/status")).status).toBe(401);
    expect((await ask(server, "/api/status", { headers: bearer(READ_TOKEN) })).status).toBe(200);
  });

  it("refuses a wrong token even where none is needed", async () => {
    const server = await start(view);
    expect((await ask(server, "/api/status", { headers: bearer("anything-at-all") })).status).toBe(401);
  });

  it("changes things for the token alone, not for the one that reads", async () => {
    const server = await start(view, { config: tokens });
    for (const { path, ...options } of WRITES) {
      expect((await ask(server, path, options)).status).toBe(401);
      expect((await ask(server, path, { ...options, headers: bearer(READ_TOKEN) })).status).toBe(403);
    }
    expect(server.asked).toEqual([]);
    for (const { path, ...options } of WRITES)
      expect((await ask(server, path, { ...options, headers: bearer(TOKEN) })).status).toBe(200);
    expect(server.asked).toEqual([
      ["replay", { ids: [1] }],
      ["drop", { ids: [1, 2] }],
      ["retry", { sink: "siem" }],
      ["resume", { sink: "siem", from: "now" }],
      ["poll", {}],
    ]);
  });

  it("gives the page and the health checks to anybody, for they hold no data", async () => {
    const server = await start(view, { config: { host: "0.0.0.0", ...tokens } });
    expect((await ask(server, "/")).headers["content-type"]).toContain("text/html");
    expect((await ask(server, "/livez")).json).toEqual({ status: "alive" });
    expect((await ask(server, "/readyz")).json).toEqual({ status: "degraded" });
    expect((await ask(server, "/api/access")).json).toEqual({ readNeedsToken: true, changes: true });
  });
});

describe("what is refused", () => {
  it("answers to addresses, localhost and the names of the config, and to no other", async () => {
    const server = await start(view, { config: { hosts: ["tidemark.example"] } });
    const statusFor = async (host: string) =>
      (await ask(server, "/api/status", { headers: { host } })).status;
    for (const host of [
      "127.0.0.1:9464",
      "localhost",
      "LOCALHOST:1",
      "[::1]:9464",
      "tidemark.example",
      "10.1.2.3",
    ])
      expect([host, await statusFor(host)]).toEqual([host, 200]);
    for (const host of ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "a:b:c"])
      expect([host, await statusFor(host)]).toEqual([host, 421]);
  });

  it("lets no other origin read, and carries its headers on every answer", async () => {
    const server = await start(view);
    for (const path of ["/", "/api/status", "/nothing", "/livez"]) {
      const { headers } = await ask(server, path, { headers: { origin: "https://evil.example" } });
      expect(headers["access-control-allow-origin"]).toBeUndefined();
      expect(headers["content-security-policy"]).toContain("default-src 'none'");
      expect(headers["content-security-policy"]).not.toContain("unsafe");
      expect(headers["x-content-type-options"]).toBe("nosniff");
      expect(headers["cross-origin-resource-policy"]).toBe("same-origin");
      expect(headers["x-frame-options"]).toBe("DENY");
    }
    const preflight = await ask(server, "/api/poll", { method: "OPTIONS" });
    expect(preflight.status).toBe(404);
  });

  it("slows down an address that asks too often", async () => {
    const server = await start(view, {
      config: { requestsPerSecond: 1 },
      clock: { ...state.clock, now: () => 1_000_000 },
    });
    const statuses = [];
    for (let at = 0; at < 6; at++) statuses.push((await ask(server, "/livez")).status);
    expect(statuses).toEqual([200, 200, 200, 200, 429, 429]);
    expect((await ask(server, "/livez")).headers["retry-after"]).toBe("1");
  });

  it("refuses large bodies, other content types and what does not fit", async () => {
    const server = await start(view, { config: tokens });
    const replay = (options: object) =>
      ask(server, "/api/dead-letters/replay", { method: "POST", headers: bearer(TOKEN), ...options });
    expect((await replay({ body: { sink: "x".repeat(300_000) } })).status).toBe(413);
    const plain = { ...bearer(TOKEN), "content-type": "text/plain" };
    expect((await replay({ headers: plain, body: { ids: [1] } })).status).toBe(415);
    expect((await replay({ body: { ids: ["1"] } })).status).toBe(400);
    expect((await replay({ body: {} })).status).toBe(400);
    expect((await replay({})).status).toBe(400);
    const limit = await ask(server, "/api/organizations?limit=100000", { headers: bearer(TOKEN) });
    expect(limit.json.error).toMatchObject({ status: 400, message: expect.stringContaining("limit") });
    expect((await ask(server, "/api/drift?nonsense=1", { headers: bearer(TOKEN) })).status).toBe(400);
    expect((await ask(server, "/api/dead-letters/99", { headers: bearer(TOKEN) })).status).toBe(404);
    const unknown = { method: "POST", headers: bearer(TOKEN) };
    expect((await ask(server, "/api/sinks/nobody/retry", unknown)).status).toBe(404);
    expect((await ask(server, "/api/poll?account=nobody", unknown)).status).toBe(404);
    expect(server.asked).toEqual([
      ["retry", { sink: "nobody" }],
      ["poll", { account: "nobody" }],
    ]);
  });

  it("does not read the body of a stranger", async () => {
    const server = await start(view, { config: tokens });
    const answer = await ask(server, "/api/dead-letters/replay", {
      method: "POST",
      body: { sink: "x".repeat(300_000) },
    }).catch(() => undefined);
    // The connection may be cut while the rest is still being sent.
    expect(answer?.status ?? 401).toBe(401);
  });

  it("tells a client nothing of what failed inside", async () => {
    const failing: View = { ...view, drift: () => Promise.reject(new Error("secret path /var/lib")) };
    const answer = await ask(await start(failing), "/api/drift");
    expect(answer.status).toBe(500);
    expect(answer.text).not.toContain("secret path");
  });
});

describe("what is answered", () => {
  it("gives the view's own figures", async () => {
    const server = await start(view);
    const { json } = await ask(server, "/api/status");
    expect(statusSchema.parse(json)).toEqual(await view.status());
    const { json: organizations } = await ask(server, "/api/organizations?search=bank&limit=5");
    expect(organizations.rows.map(({ name }: { name: string }) => name)).toEqual(["Borealis Bank"]);
    expect((await ask(server, "/api/sinks")).json).toEqual(await view.sinks());
  });

  it("compresses what is large", async () => {
    const server = await start(view);
    const answer = await ask(server, "/api/calendar", { headers: { "accept-encoding": "gzip" } });
    expect(answer.headers["content-encoding"]).toBe("gzip");
  });

  it("is not ready when the state cannot be read", async () => {
    const broken: View = { ...view, status: () => Promise.reject(new Error("disk")) };
    const server = await start(broken);
    expect((await ask(server, "/readyz")).status).toBe(503);
    expect((await ask(server, "/livez")).status).toBe(200);
  });

  it("stops with its signal", async () => {
    const stop = new AbortController();
    const server = await start(view, { signal: stop.signal });
    expect((await ask(server, "/livez")).status).toBe(200);
    stop.abort();
    await server.close();
    await expect(ask(server, "/livez")).rejects.toThrow();
  });

  it("describes every operation in OpenAPI, those of other parts too", async () => {
    const extra = defineRoute({
      method: "POST",
      path: "/api/things/:id",
      summary: "Does a thing.",
      scope: "write",
      params: z.strictObject({ id: z.coerce.number().int().meta({ description: "Its number." }) }),
      query: z.strictObject({}),
      body: z.strictObject({ word: z.string() }),
      response: z.strictObject({ said: z.string(), by: z.string() }),
      status: 201,
      async run({ params, body, caller }) {
        if (params.id === 404) throw new RouteError(409, "There was one already.");
        return { said: `${body.word} ${params.id}`, by: caller };
      },
    });
    const server = await start(view, { config: { token: secretOf(TOKEN) }, routes: [extra] });
    const { json } = await ask(server, "/api/openapi.json", { headers: bearer(TOKEN) });
    expect(json.openapi).toBe("3.1.0");
    const operation = json.paths["/api/things/{id}"].post;
    expect(operation.parameters).toEqual([
      expect.objectContaining({ name: "id", in: "path", required: true, description: "Its number." }),
    ]);
    expect(operation.requestBody.content["application/json"].schema.properties.word.type).toBe("string");
    expect(operation.security).toEqual([{ token: [] }]);
    const limit = json.paths["/api/organizations"].get.parameters.find(
      ({ name }: { name: string }) => name === "limit",
    );
    expect(limit).toMatchObject({ required: false, schema: { type: "integer", default: 100 } });
    const write = { method: "POST", body: { word: "hello" }, headers: bearer(TOKEN) };
    const answer = await ask(server, "/api/things/7", write);
    expect([answer.status, answer.json]).toEqual([201, { said: "hello 7", by: "token" }]);
    const refused = await ask(server, "/api/things/404", write);
    expect([refused.status, refused.json.error.message]).toEqual([409, "There was one already."]);
  });

  it("serves the whole page in under 100 KB compressed, with nothing from elsewhere", async () => {
    const assets = loadAssets();
    let bytes = 0;
    for (const [path, { gzip, plain, type }] of assets) {
      if (path === "/index.html") continue;
      bytes += gzip.length;
      if (!path.startsWith("/uplot") && /html|css|javascript/.test(type))
        expect(plain.toString()).not.toMatch(/(src|href|url\(|import|from)\s*[=(]?\s*["']?https?:/);
    }
    expect(bytes).toBeLessThan(100_000);
    const server = await start(view);
    const plain = await ask(server, "/");
    expect(plain.headers.etag).toBeDefined();
    const again = await ask(server, "/", { headers: { "if-none-match": String(plain.headers.etag) } });
    expect(again.status).toBe(304);
    expect(gunzipSync(assets.get("/")!.gzip).toString()).toBe(plain.text);
  });

  it("describes every field of its config", () => {
    for (const [name, field] of Object.entries(serverSchema.shape)) {
      const inner = field instanceof z.ZodOptional ? field.unwrap() : field;
      const description = z.globalRegistry.get(inner as z.ZodType)?.description;
      expect([name, description]).toEqual([name, expect.any(String)]);
    }
  });
});

describe("the live stream", () => {
  it("ends the answer to HEAD", async () => {
    const server = await start(view);
    const answer = await ask(server, "/api/events", { method: "HEAD" });
    expect([answer.status, answer.text]).toEqual([200, ""]);
    expect(answer.headers["content-type"]).toContain("text/event-stream");
  });

  const connect = (server: TestServer, headers = {}) =>
    new Promise<IncomingMessage>((resolve, reject) => {
      get({ host: "127.0.0.1", port: server.port, path: "/api/events", headers, agent: false }, resolve).on(
        "error",
        reject,
      );
    });

  async function textUntil(response: IncomingMessage, isEnough: (text: string) => boolean): Promise<string> {
    let text = "";
    for await (const chunk of response) {
      text += chunk;
      if (isEnough(text)) break;
    }
    return text;
  }

  it("sends status, sinks, rates and recent events at once, and goes on", async () => {
    let ticks = 0;
    const clock = {
      now: () => Date.now(),
      sleep: async (_: number, signal: AbortSignal) => {
        signal.throwIfAborted();
        if (++ticks > 2) await once(signal, "abort");
      },
    };
    const server = await start(view, { clock });
    const response = await connect(server);
    expect(response.headers["content-type"]).toContain("text/event-stream");
    const text = await textUntil(response, (all) => all.split("event: status").length > 3);
    expect(text).toContain("event: sinks");
    expect(text).toContain("event: rates");
    const recent = /event: recent\ndata: (.*)\n/.exec(text)![1]!;
    expect(JSON.parse(recent).events).toHaveLength(40);
    const status = /event: status\ndata: (.*)\n/.exec(text)![1]!;
    expect(statusSchema.parse(JSON.parse(status)).totals.events).toBe(40);
  });

  it("takes a bounded number of clients", async () => {
    const server = await start(view, { config: { clients: 2 } });
    const [first] = [await connect(server), await connect(server)];
    expect((await connect(server)).statusCode).toBe(503);
    first.destroy();
    await expect.poll(async () => (await connect(server)).statusCode).toBe(200);
  });
});

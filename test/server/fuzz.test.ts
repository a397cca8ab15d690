// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { secretOf } from "../../src/core/secret.ts";
import type { RoutesContext } from "../../src/imports/route-context.ts";
import { importRoutes } from "../../src/imports/routes.ts";
import { createView } from "../../src/journal/view/view.ts";
import type { Token } from "../../src/search/access/tokens.ts";
import type { HttpContext } from "../../src/search/http/callers.ts";
import { insightsRoutes } from "../../src/search/http/insights-routes.ts";
import { pageRoutes } from "../../src/search/http/page-routes.ts";
import { actionRoutes, peersRoute, viewRoutes } from "../../src/server/routes.ts";
import { ask, serve, type TestServer } from "./start.ts";
import { fillSmall, liveOf, makeState, type TestState } from "./state.ts";

const TOKEN = "write-token-0123456789";
const READ_TOKEN = "read-token-0123456789";
const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
const CREDENTIALS: Readonly<Record<string, Record<string, string>>> = {
  none: {},
  wrong: { authorization: "Bearer wrong-token-0123456789" },
  empty: { authorization: "Bearer " },
  basic: { authorization: `Basic ${Buffer.from(`tidemark:${TOKEN}`).toString("base64")}` },
  cookie: { cookie: `token=${TOKEN}` },
  read: { authorization: `Bearer ${READ_TOKEN}` },
  write: { authorization: `Bearer ${TOKEN}` },
  forwarded: { "x-forwarded-for": "192.0.2.60" },
};
const PUBLIC = /^\/($|livez$|readyz$|api\/access$|[a-z-]+\.(js|css|svg|html)$)/;
const SETUPS = {
  "two tokens": { token: secretOf(TOKEN), readToken: secretOf(READ_TOKEN) },
  "no token": {},
} as const;

/** Tokens of the search and of the Insights interface, each where it belongs and where it does not. */
const SEARCH_CREDENTIALS: Readonly<Record<string, Record<string, string>>> = {
  ...CREDENTIALS,
  searchBearer: { authorization: "Bearer search-secret-0123456789" },
  searchKey: { "x-api-key": "search-secret-0123456789" },
  insightsBearer: { authorization: "Bearer insights-secret-0123456789" },
  insightsKey: { "x-api-key": "insights-secret-0123456789" },
  serverKey: { "x-api-key": TOKEN },
  twoKeys: { "x-api-key": "insights-secret-0123456789, other" },
};
const ORGANIZATION = "5f0c8a1b2c3d4e5f60718293";
const tokenOf = (right: Token["rights"][number]): Token => ({
  ...{ id: right, name: right, sha256: "", organizations: [ORGANIZATION], rights: [right] },
  ...{ createdMs: 0, expiresMs: null, revokedMs: null },
});

/** Every route × method × credential: nothing is shown or changed without the token that it needs. */
describe.each(Object.keys(SETUPS) as (keyof typeof SETUPS)[])("the HTTP surface with %s", (setup) => {
  let state: TestState;
  let server: TestServer;
  /** Questions that reached the search. */
  let questions = 0;
  const rawRoutes = searchRoutes(() => questions++);
  let paths: { readonly path: string; readonly scopes: ReadonlyMap<string, string> }[];
  beforeAll(async () => {
    state = makeState();
    await fillSmall(state);
    const view = createView(state.db, liveOf(state.clock), state.options);
    const context = { store: {}, definitions: [], accounts: [] } as unknown as RoutesContext;
    const routes = importRoutes(context);
    const config = { ...SETUPS[setup], requestsPerSecond: 10_000 };
    server = await serve(view, { config, routes, rawRoutes });
    const peers = peersRoute(() => Promise.reject(new Error("not asked here")));
    const all = [...viewRoutes(view), peers, ...actionRoutes({} as never), ...routes];
    const names = new Set(all.map(({ path }) => path.replace(/:\w+/g, "1")));
    paths = [
      ...names,
      "/metrics",
      "/api/events",
      "/api/openapi.json",
      "/",
      "/livez",
      "/nothing",
      "/..%2f",
    ].map((path) => ({
      path,
      scopes: new Map(
        all
          .filter((route) => route.path.replace(/:\w+/g, "1") === path)
          .map(({ method, scope }) => [method as string, scope as string]),
      ),
    }));
  });
  afterAll(async () => {
    await server.close();
    state.close();
  });

  function mayAnswer(path: string, method: string, credential: string, scope: string | undefined): boolean {
    if (PUBLIC.test(path)) return true;
    const kind = method === "HEAD" ? "read" : (scope ?? "read");
    if (credential === "write") return setup === "two tokens";
    if (credential === "read") return setup === "two tokens" && kind !== "write";
    if (setup === "two tokens") return false;
    return kind === "read" && !["wrong", "forwarded"].includes(credential);
  }

  async function judge(
    { path, scopes }: (typeof paths)[number],
    method: string,
    credential: string,
  ): Promise<number> {
    const scope = scopes.get(method === "HEAD" ? "GET" : method);
    const isAllowed = mayAnswer(path, method, credential, scope);
    // The live stream does not end; only its refusals are tested here.
    if (path === "/api/events" && method === "GET" && isAllowed) return 0;
    const name = `${method} ${path} as ${credential}`;
    const answer = ask(server, path, { method, headers: CREDENTIALS[credential]! });
    const { status, text } = await within(30_000, answer, name);
    const what = `${name}: ${status} ${text.slice(0, 80)}`;
    if (!isAllowed && scope !== undefined) expect([401, 403], what).toContain(status);
    if (status >= 500) expect(path.startsWith("/api/imports"), what).toBe(true);
    expect(text, what).not.toContain("write-token");
    return 1;
  }

  it("answers only callers that may see or change it", async () => {
    let tried = 0;
    for (const entry of paths)
      for (const method of METHODS) {
        const credentials = Object.keys(CREDENTIALS);
        const counts = await Promise.all(credentials.map((credential) => judge(entry, method, credential)));
        tried += counts.reduce((sum, count) => sum + count, 0);
      }
    expect(tried).toBeGreaterThan(1000);
    process.stderr.write(`HTTP surface with ${setup}: ${tried} requests\n`);
  });

  it("lets a question reach the search with the right token in the right header alone", async () => {
    const body = JSON.stringify({ service: ["all"], start_time: "2026-01-01T00:00:00Z" });
    for (const { path } of rawRoutes.filter((route) => !route.path.endsWith("/access")))
      for (const method of METHODS)
        for (const [credential, headers] of Object.entries(SEARCH_CREDENTIALS)) {
          const before = questions;
          const hasBody = !["GET", "HEAD", "OPTIONS"].includes(method);
          const { status } = await ask(server, path, {
            method,
            headers: { ...headers, ...(hasBody && { "content-type": "application/json" }) },
            ...(hasBody && { body }),
          });
          const isInsights = path.startsWith("/insights/");
          const isMethod = isInsights ? method === "POST" : method === "GET" || method === "HEAD";
          const mayAsk = isInsights
            ? credential === "insightsKey"
            : credential === "searchBearer" || (credential === "write" && setup === "two tokens");
          const what = `${method} ${path} as ${credential}: ${status}`;
          expect(questions - before, what).toBe(isMethod && mayAsk ? 1 : 0);
          if (!isMethod || !mayAsk) expect([400, 401, 403, 404, 405], what).toContain(status);
        }
  });

  it("refuses hostile requests in words, and goes on", async () => {
    const write = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
    for (const [path, options, statuses] of [
      ["/insights/directory/v1/events", { method: "POST", body: "x".repeat(2_000_000) }, [413]],
      ["/insights/directory/v1/events", { method: "POST", body: "{", headers: { "x-api-key": "x" } }, [401]],
      ["/api/search/events?limit=1000000000", {}, [400, 401]],
      ["/api/search/events?after=%00%ff&user=%ff", {}, [200, 401]],
      [`/api/search/events?${"user=a&".repeat(1000)}`, {}, [200, 401]],
      ["/api/search/events?__proto__[x]=1&constructor=1", {}, [200, 401]],
      ["/%c0%ae%c0%ae/", {}, [400]],
      ["/..%2f..%2fpackage.json", {}, [404]],
      ["//evil.example/api/status", {}, [404]],
    ] as const) {
      const { status, text } = await ask(server, path, { headers: write, ...options });
      expect(statuses, `${path.slice(0, 60)}: ${status} ${text.slice(0, 100)}`).toContain(status);
    }
    expect((await ask(server, "/livez")).status).toBe(200);
  });

  it("cuts off a caller that sends its headers slowly", async () => {
    const socket = connect(server.port, "127.0.0.1");
    let answer = "";
    socket.on("data", (data) => {
      answer += data;
    });
    socket.on("error", () => {});
    const ended = new Promise((resolve) => socket.once("close", resolve));
    socket.write("GET /livez HTTP/1.1\r\nHost: localhost\r\n");
    const timer = setInterval(() => socket.writable && socket.write("X: y\r\n"), 100);
    await within(30_000, ended, "slow headers");
    clearInterval(timer);
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
  });
});

/** The routes of the search over a service that only counts what reaches it. */
function searchRoutes(reached: () => void) {
  const context: HttpContext = {
    service: {
      async answer() {
        reached();
        return { status: 200, headers: {}, body: Buffer.from("[]"), events: 0 };
      },
    },
    tokens: {
      admit: (secret: string) =>
        ({
          "search-secret-0123456789": tokenOf("search"),
          "insights-secret-0123456789": tokenOf("insights"),
        })[secret],
    } as HttpContext["tokens"],
    accesses: { append: () => {} },
    timeoutMs: 5_000,
  };
  return [...insightsRoutes(context), ...pageRoutes(context)];
}

function within<Result>(ms: number, work: Promise<Result>, what: string): Promise<Result> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer: ${what}`)), ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

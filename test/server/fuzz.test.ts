// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { secretOf } from "../../src/core/secret.ts";
import type { RoutesContext } from "../../src/imports/route-context.ts";
import { importRoutes } from "../../src/imports/routes.ts";
import { createView } from "../../src/journal/view/view.ts";
import { actionRoutes, viewRoutes } from "../../src/server/routes.ts";
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

/** Every route × method × credential: nothing is shown or changed without the token that it needs. */
describe.each(Object.keys(SETUPS) as (keyof typeof SETUPS)[])("the HTTP surface with %s", (setup) => {
  let state: TestState;
  let server: TestServer;
  let paths: { readonly path: string; readonly scopes: ReadonlyMap<string, string> }[];
  beforeAll(async () => {
    state = makeState();
    await fillSmall(state);
    const view = createView(state.db, liveOf(state.clock), state.options);
    const context = { store: {}, definitions: [], accounts: [] } as unknown as RoutesContext;
    const routes = importRoutes(context);
    const config = { ...SETUPS[setup], requestsPerSecond: 10_000 };
    server = await serve(view, { config, routes });
    const all = [...viewRoutes(view), ...actionRoutes({} as never), ...routes];
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

  it("answers only callers that may see or change it", { timeout: 300_000 }, async () => {
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
});

function within<Result>(ms: number, work: Promise<Result>, what: string): Promise<Result> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer: ${what}`)), ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

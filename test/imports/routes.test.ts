import { afterEach, beforeEach, expect, it } from "vitest";
import { z } from "zod";
import { silentLog } from "../../src/core/log.ts";
import { type Route, RouteError } from "../../src/core/route.ts";
import { createImports, type Imports } from "../../src/imports/create-imports.ts";
import type { Job } from "../../src/imports/job.ts";
import {
  definitionOf,
  eventOf,
  forever,
  type HandClock,
  handClock,
  openState,
  type SourceScript,
  sourceOf,
} from "./support.ts";

let db: ReturnType<typeof openState>;
let clock: HandClock;
let imports: Imports;
let source: SourceScript;

beforeEach(() => {
  db = openState();
  clock = handClock("2026-02-01T10:00:00Z");
  source = sourceOf([
    { kind: "started", serviceJob: "j1" },
    { kind: "uncertain", reason: "the answer broke off" },
  ]);
  imports = createImports({
    db,
    definitions: [definitionOf()],
    source: () => source,
    accounts: ["acme"],
    clock,
    log: silentLog,
  });
});
afterEach(() => db.close());

/** Calls a route as the server does: parse, run, and check the answer by its schema. */
async function call<T>(
  method: string,
  path: string,
  input: { params?: object; query?: object; body?: unknown; signal?: AbortSignal } = {},
): Promise<T> {
  const route = imports.routes.find(
    (candidate) => candidate.method === method && candidate.path === path,
  ) as Route;
  const answer = await route.run({
    params: route.params.parse(input.params ?? {}),
    query: route.query.parse(input.query ?? {}),
    body: route.body?.parse(input.body),
    caller: "tests",
    signal: input.signal ?? forever,
    stopped: forever,
  });
  return route.response.parse(answer) as T;
}

it("starts an import by its name, and refuses a second one", async () => {
  const job = await call<Job>("POST", "/api/imports", { body: { import: "nightly-hr" } });
  expect(job).toMatchObject({
    id: 1,
    origin: "api",
    requestedBy: "tests",
    state: "running",
    serviceJob: "j1",
  });
  await expect(call("POST", "/api/imports", { body: { import: "nightly-hr" } })).rejects.toMatchObject({
    status: 409,
  });
  expect(source.starts).toEqual(["app1"]);
});

it("goes on with a start whose client goes away", async () => {
  let wasAborted: boolean | undefined;
  const start = source.start;
  Object.assign(source, {
    start: (...args: Parameters<typeof start>) => {
      wasAborted = args[3].aborted;
      return start(...args);
    },
  });
  const body = { import: "nightly-hr" };
  expect(await call<Job>("POST", "/api/imports", { body, signal: AbortSignal.abort() })).toMatchObject({
    state: "running",
  });
  expect(wasAborted).toBe(false);
});

it("starts any other import by account and application, and resolves it when it is uncertain", async () => {
  await call("POST", "/api/imports", { body: { import: "nightly-hr" } });
  const body = { account: "acme", organization: "o2", application: "app9", operations: ["users.create"] };
  const refused = call<Job>("POST", "/api/imports", { body });
  await expect(refused).rejects.toMatchObject({
    status: 502,
    message: expect.stringContaining("may not have started"),
  });
  const { job } = (await refused.catch((error: RouteError) => error.body)) as { job: Job };
  expect(job).toMatchObject({
    state: "uncertain",
    reason: "the answer broke off",
    request: { operations: ["users.create"] },
  });
  const params = { id: String(job.id) };
  const resolved = await call<Job>("POST", "/api/imports/:id/resolve", {
    params,
    body: { serviceJob: "j9" },
  });
  expect(resolved).toMatchObject({ state: "running", serviceJob: "j9" });
  await expect(
    call("POST", "/api/imports/:id/resolve", { params, body: { started: false } }),
  ).rejects.toMatchObject({ status: 409 });
});

it("lists jobs, shows one, its users and its timeline", async () => {
  const { id } = await call<Job>("POST", "/api/imports", { body: { import: "nightly-hr" } });
  await imports.apply([
    eventOf({
      id: "e1",
      timestamp: "2026-02-01T10:00:01Z",
      event_type: "user_create",
      correlation: { id: "j1", type: "user_import" },
      resource: { type: "user", username: "anna" },
    }),
    eventOf({
      id: "e2",
      timestamp: "2026-02-01T10:00:02Z",
      event_type: "user_create",
      correlation: { id: "j1" },
      success: false,
      error_message: "no",
      resource: { type: "user", username: "ben" },
    }),
  ]);
  const params = { id };
  expect(await call("GET", "/api/imports", { query: { state: "running" } })).toMatchObject({
    jobs: [{ id }],
  });
  expect(await call("GET", "/api/imports", { query: { state: "failed" } })).toEqual({ jobs: [] });
  expect(await call("GET", "/api/imports/:id", { params })).toMatchObject({
    counts: { created: 1, failed: 1, events: 2 },
  });
  expect(await call("GET", "/api/imports/:id/users", { params, query: { outcome: "failed" } })).toMatchObject(
    {
      users: [{ username: "ben", reason: "no", event: "e2" }],
    },
  );
  expect(
    await call("GET", "/api/imports/:id/timeline", { params, query: { limit: "1", offset: "1" } }),
  ).toMatchObject({
    events: [{ eventId: "e2", username: "ben", outcome: "failed" }],
  });
});

it("answers 422 with the job when the service refuses the start, and 502 when it cannot be reached", async () => {
  source = sourceOf([
    { kind: "refused", about: "request", reason: "404 no such application" },
    { kind: "unavailable", reason: "connect ECONNREFUSED" },
  ]);
  const answer = async (body: object) =>
    (await call("POST", "/api/imports", { body }).catch((error: unknown) => error)) as RouteError;
  const other = { account: "acme", organization: "o2", application: "app9" };
  const [refused, unreachable] = [await answer({ import: "nightly-hr" }), await answer(other)];
  expect(refused).toMatchObject({ status: 422, body: { job: { state: "failed" } } });
  expect(refused.message).toContain("404 no such application");
  expect(unreachable).toMatchObject({ status: 502, body: { job: { state: "requested" } } });
});

it("lists scheduled runs, whatever became of them, and the last and next run of each import", async () => {
  source = sourceOf([{ kind: "refused", about: "request", reason: "403" }]);
  await imports.step(forever);
  clock.set("2026-02-02T02:00:00Z");
  await imports.step(forever);
  const { runs } = await call<{ runs: object[] }>("GET", "/api/imports/runs");
  expect(runs).toMatchObject([
    {
      import: "nightly-hr",
      local: "2026-02-02T02:00",
      outcome: "refused",
      jobState: "failed",
      reason: "403",
    },
  ]);
  const { imports: definitions } = await call<{ imports: object[] }>("GET", "/api/imports/definitions");
  expect(definitions).toMatchObject([
    { nextRunAt: "2026-02-03T02:00:00.000Z", lastRun: { outcome: "refused" } },
  ]);
});

it("activates the staged users of a job when their number is confirmed", async () => {
  const { id } = await call<Job>("POST", "/api/imports", { body: { import: "nightly-hr" } });
  await imports.apply([
    eventOf({
      id: "e1",
      timestamp: "2026-02-01T10:00:01Z",
      event_type: "user_create",
      correlation: { id: "j1", type: "user_import" },
      resource: { type: "user", id: "u1", username: "anna" },
      changes: [{ field: "state", to: "STAGED" }],
    }),
  ]);
  const activate = (users: number) =>
    call("POST", "/api/imports/:id/activate", { params: { id: String(id) }, body: { users } });
  await expect(activate(2)).rejects.toMatchObject({ status: 409 });
  expect(await activate(1)).toEqual({ activated: 1, failed: [] });
  expect(source.activated).toEqual(["u1"]);
});

it("tells when each import of the config runs next", async () => {
  expect(await call("GET", "/api/imports/definitions")).toMatchObject({
    imports: [{ name: "nightly-hr", schedule: "0 2 * * *", nextRunAt: "2026-02-02T02:00:00.000Z" }],
  });
});

it.each([
  ["GET", "/api/imports/:id", { params: { id: "7" } }, 404],
  ["GET", "/api/imports/:id/users", { params: { id: "7" } }, 404],
  ["POST", "/api/imports", { body: { import: "unknown" } }, 404],
  ["POST", "/api/imports", { body: { account: "unknown", application: "a" } }, 404],
  ["POST", "/api/imports", { body: { account: "acme" } }, 400],
])("refuses %s %s %j with %i", async (method, path, input, status) => {
  const error = await call(method, path, input).catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(RouteError);
  expect(error).toMatchObject({ status });
});

it("describes every operation for an OpenAPI document, and lets only writes change anything", () => {
  for (const route of imports.routes) {
    expect(route.scope).toBe(route.method === "GET" ? "read" : "write");
    expect(route.summary).toMatch(/^[A-Z].*\.$/);
    for (const schema of [route.params, route.query, route.body, route.response]) {
      if (schema !== undefined) expect(z.toJSONSchema(schema, { io: "input" })).toBeTypeOf("object");
    }
    const names = [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => name);
    expect(Object.keys((route.params as z.ZodObject).shape)).toEqual(names);
  }
});

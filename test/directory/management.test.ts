import type { ServerResponse } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import {
  BadRequestError,
  CutOffError,
  ForbiddenError,
  NonsenseError,
  NotFoundError,
  ThrottledError,
  UnauthorizedError,
  UnavailableError,
  UnknownOrganizationError,
} from "../../src/directory/errors.ts";
import { importSourceOf } from "../../src/directory/import-source.ts";
import { type ManagementClient, openManagement } from "../../src/directory/management.ts";
import {
  caught,
  connectionTo,
  forever,
  KEY,
  patientClock,
  type SeenRequest,
  serve,
  type TestServer,
} from "./support.ts";

let server: TestServer;
let client: ManagementClient;
let clock: ReturnType<typeof patientClock>;

afterEach(async () => {
  await client.close();
  await server.close();
});

async function open(answer: (request: SeenRequest, response: ServerResponse) => void): Promise<void> {
  server = await serve(answer);
  clock = patientClock();
  client = openManagement(connectionTo(server.url), { clock });
}

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = [];
  for await (const item of items) list.push(item);
  return list;
}

const IMPORT = { operations: ["users.create"], allowUserReactivation: false } as const;
const OPTIONS = { organization: "o1", signal: forever };
const APPLICATION = { _id: "a1", name: "saml", active: true, config: { acsUrl: { value: "x" } }, extra: 1 };

/** call, method and path, request body, answer's status and body, result */
const CALLS: [
  (client: ManagementClient) => Promise<unknown>,
  string,
  unknown,
  [number, unknown?],
  unknown,
][] = [
  [
    (c) => c.application("a1", OPTIONS),
    "GET /api/applications/a1",
    undefined,
    [200, APPLICATION],
    APPLICATION,
  ],
  [
    (c) =>
      c.createApplication(
        { name: "n", displayLabel: "l", displayName: "d", ssoUrl: "s", config: {} },
        OPTIONS,
      ),
    "POST /api/applications",
    { name: "n", displayLabel: "l", displayName: "d", ssoUrl: "s", config: {} },
    [200, APPLICATION],
    APPLICATION,
  ],
  [
    (c) => c.replaceApplication("a1", { name: "n" }, OPTIONS),
    "PUT /api/applications/a1",
    { name: "n" },
    [200, APPLICATION],
    APPLICATION,
  ],
  [
    (c) => c.deleteApplication("a1", OPTIONS),
    "DELETE /api/applications/a1",
    undefined,
    [200, APPLICATION],
    APPLICATION,
  ],
  [
    (c) => c.applicationTemplate("t/1", { ...OPTIONS, fields: ["name"] }),
    "GET /api/application-templates/t%2F1?fields=_id+name",
    undefined,
    [200, { _id: "t/1", name: "saml" }],
    { _id: "t/1", name: "saml" },
  ],
  [
    (c) =>
      c.startImport(
        "a1",
        { operations: ["users.create"], allowUserReactivation: true, queryString: "q" },
        OPTIONS,
      ),
    "POST /api/v2/applications/a1/import/jobs",
    { operations: ["users.create"], allowUserReactivation: true, queryString: "q" },
    [200, { _id: "j1" }],
    "j1",
  ],
  [(c) => c.activateUser("u1", OPTIONS), "POST /api/systemusers/u1/state/activate", {}, [200], undefined],
  [
    (c) => all(c.workdayWorkers("w1", OPTIONS)),
    "GET /api/v2/workdays/w1/workers?limit=100&skip=0",
    undefined,
    [200, [{ email: "a@b.c" }]],
    [{ email: "a@b.c" }],
  ],
  [
    (c) => c.startWorkdayImport("w1", [{ email: "a@b.c", state: "STAGED" }], OPTIONS),
    "POST /api/v2/workdays/w1/import",
    [{ email: "a@b.c", state: "STAGED" }],
    [201, { jobId: "j2" }],
    "j2",
  ],
  [
    (c) => all(c.workdayResults("w1", "j2", OPTIONS)),
    "GET /api/v2/workdays/w1/import/j2/results?limit=100&skip=0",
    undefined,
    [200, { results: [{ status: "ok" }] }],
    [{ status: "ok" }],
  ],
  [
    (c) =>
      c.scheduleStates({ userIds: ["u1"], state: "ACTIVATED", startDate: "2026-05-01T00:00:00Z" }, OPTIONS),
    "POST /api/v2/bulk/userstates",
    { user_ids: ["u1"], state: "ACTIVATED", start_date: "2026-05-01T00:00:00Z" },
    [201, [{ scheduledJobId: "s1", scheduledDate: "2026-05-01", state: "ACTIVATED", systemUserId: "u1" }]],
    [{ scheduledJobId: "s1", scheduledDate: "2026-05-01", state: "ACTIVATED", systemUserId: "u1" }],
  ],
  [
    (c) => c.associateApplication("a1", "add", { type: "user_group", id: "g1" }, OPTIONS),
    "POST /api/v2/applications/a1/associations",
    { op: "add", type: "user_group", id: "g1" },
    [204],
    undefined,
  ],
  [
    (c) => c.applicationAssociations("a1", "user", OPTIONS),
    "GET /api/v2/applications/a1/associations?targets=user&limit=100&skip=0",
    undefined,
    [200, [{ to: { type: "user", id: "u1" } }]],
    [{ to: { type: "user", id: "u1" } }],
  ],
  [
    (c) => c.directories("o1", forever),
    "GET /api/v2/directories?limit=100&skip=0",
    undefined,
    [200, [{ id: "d1", name: "Google", type: "g_suite" }]],
    [{ id: "d1", name: "Google", type: "g_suite" }],
  ],
  [(c) => c.system("s1", OPTIONS), "GET /api/systems/s1", undefined, [200, { _id: "s1" }], { _id: "s1" }],
  [
    (c) => c.replaceSystem("s1", { displayName: "n" }, OPTIONS),
    "PUT /api/systems/s1",
    { displayName: "n" },
    [200, { _id: "s1" }],
    { _id: "s1" },
  ],
  [(c) => c.deleteSystem("s1", OPTIONS), "DELETE /api/systems/s1", undefined, [200, {}], undefined],
  [
    (c) => c.systemGroups("s1", OPTIONS),
    "GET /api/v2/systems/s1/memberof?limit=100&skip=0",
    undefined,
    [200, [{ id: "g1" }]],
    [{ id: "g1" }],
  ],
  [
    (c) => c.systemAssociations("s1", "user", OPTIONS),
    "GET /api/v2/systems/s1/associations?targets=user&limit=100&skip=0",
    undefined,
    [200, []],
    [],
  ],
  [
    (c) => c.associateSystem("s1", "remove", { type: "user", id: "u1" }, OPTIONS),
    "POST /api/v2/systems/s1/associations",
    { op: "remove", type: "user", id: "u1" },
    [204],
    undefined,
  ],
  [
    (c) => c.systemUsers("s1", OPTIONS),
    "GET /api/v2/systems/s1/users?limit=100&skip=0",
    undefined,
    [200, [{ id: "u1" }]],
    [{ id: "u1" }],
  ],
  [
    (c) => c.changeGroupMember("g1", "add", "s1", OPTIONS),
    "POST /api/v2/systemgroups/g1/members",
    { op: "add", type: "system", id: "s1" },
    [204],
    undefined,
  ],
];

describe("calls", () => {
  const named = CALLS.map(([call, expected, ...rest]) => [expected, call, ...rest] as const);

  it.each(named)("%s", async (expected, call, body, [status, answer], result) => {
    await open((_request, response) =>
      response.writeHead(status).end(answer === undefined ? undefined : JSON.stringify(answer)),
    );
    expect(await call(client)).toEqual(result);
    const [request] = server.seen;
    expect(`${request!.method} ${request!.url}`).toBe(expected);
    expect(request!.headers).toMatchObject({ "x-api-key": KEY, "x-org-id": "o1" });
    expect(request!.body.length === 0 ? undefined : JSON.parse(request!.body.toString())).toEqual(body);
    expect(request!.headers["content-type"]).toBe(body === undefined ? undefined : "application/json");
  });

  it("keeps a record whose odd fields are of other types than specified", async () => {
    await open((_request, response) =>
      response.end(JSON.stringify({ _id: "a1", active: "yes", config: [], odd: {} })),
    );
    expect(await client.application("a1", OPTIONS)).toEqual({
      _id: "a1",
      active: undefined,
      config: undefined,
      odd: {},
    });
  });

  it("refuses an id that would lead to another path", async () => {
    await open((_request, response) => response.end("{}"));
    await expect(async () => client.application("..", OPTIONS)).rejects.toThrow(/is no id/);
    expect(server.seen).toEqual([]);
  });
});

describe("paging", () => {
  const RECORDS = Array.from({ length: 250 }, (_, at) => ({ _id: `id${String(at).padStart(3, "0")}` }));
  const slice = (request: SeenRequest, wrap: boolean) => {
    const query = new URL(request.url, "http://x").searchParams;
    const skip = Number(query.get("skip"));
    const results = RECORDS.slice(skip, skip + Number(query.get("limit")));
    return JSON.stringify(wrap ? { results, totalCount: RECORDS.length } : results);
  };
  const lists: [string, (client: ManagementClient) => AsyncIterable<unknown>][] = [
    ["/api/organizations/", (c) => c.organizations(forever)],
    ["/api/applications", (c) => c.applications(OPTIONS)],
    ["/api/application-templates", (c) => c.applicationTemplates(OPTIONS)],
    ["/api/v2/applications/a1/users", (c) => c.applicationUsers("a1", OPTIONS)],
  ];

  it.each(lists)("%s gives every record once, from a wrapper and from an array", async (path, list) => {
    for (const wrap of [true, false]) {
      await open((request, response) => response.end(slice(request, wrap)));
      expect(await all(list(client))).toEqual(RECORDS);
      // Without a total, only a page that is smaller than the service's default is the last.
      const pages = wrap ? 3 : 4;
      expect(server.seen.map((request) => request.url.split("?")[0])).toEqual(Array(pages).fill(path));
      if (!path.includes("/v2/")) expect(server.seen[0]!.url).toContain("sort=_id");
      await client.close();
      await server.close();
    }
  });

  it("asks for organizations without an organization header", async () => {
    await open((_request, response) => response.end('{"results":[{"_id":"o1"}],"totalCount":1}'));
    expect(await all(client.organizations(forever))).toEqual([{ _id: "o1" }]);
    expect(server.seen[0]!.headers["x-org-id"]).toBeUndefined();
  });

  it("reads every record of a service that gives 10 at a time, whatever was asked", async () => {
    await open((request, response) => {
      const skip = Number(new URL(request.url, "http://x").searchParams.get("skip"));
      response.end(JSON.stringify(RECORDS.slice(skip, skip + 10)));
    });
    for (const list of [
      () => client.applicationUsers("a1", OPTIONS),
      () => client.workdayWorkers("w1", OPTIONS),
      () => client.importUsers("a1", OPTIONS),
    ])
      expect(await all<unknown>(list())).toEqual(RECORDS);
    expect(await all(client.workdayResults("w1", "j1", OPTIONS))).toEqual(RECORDS);
  });

  it("reads results once where the service ignores skip and every answer has another time in its rows", async () => {
    let requests = 0;
    await open((_request, response) => {
      requests++;
      const rows = RECORDS.slice(0, 40).map((_, at) => ({
        ...{ username: `u${at}`, status: at === 0 && requests === 1 ? "pending" : "done" },
        updatedAt: `${requests}-${at}`,
      }));
      response.end(JSON.stringify(rows));
    });
    const rows = await all(client.workdayResults("w1", "j1", OPTIONS));
    // The row that changed meanwhile is told again, with its new status.
    expect(rows.map(({ username, status }) => [username, status])).toContainEqual(["u0", "done"]);
    expect(new Set(rows.map(({ username }) => username)).size).toBe(40);
    expect(requests).toBe(3);
  });

  it("keeps results apart that name their users in nested fields alone", async () => {
    await open((_request, response) => {
      const rows = [1, 2, 3].map((at) => ({
        ...{ id: "j1", status: "finished", statusMsg: "created" },
        persistedFields: { username: `u${at}` },
      }));
      response.end(JSON.stringify(rows));
    });
    expect(await all(client.workdayResults("w1", "j1", OPTIONS))).toHaveLength(3);
  });

  const sorted: [string, (client: ManagementClient) => AsyncIterable<unknown>][] = [
    lists[0]!,
    lists[1]!,
    ["workers", (c) => c.workdayWorkers("w1", OPTIONS)],
  ];
  it.each(
    sorted.flatMap(([path, list]) =>
      [1, 2, 60, 120].flatMap((gone) => [true, false].map((wrap) => ({ path, list, gone, wrap }))),
    ),
  )(
    "$path: $gone deleted between the pages hide no other record, total $wrap",
    async ({ list, gone, wrap }) => {
      let rest = RECORDS;
      await open((request, response) => {
        const query = new URL(request.url, "http://x").searchParams;
        const skip = Number(query.get("skip"));
        // Before the second page, and again before the third.
        if (server.seen.length === 2) rest = RECORDS.slice(gone);
        if (server.seen.length === 3) rest = rest.filter((_, at) => at < 20 || at > 25);
        const results = rest.slice(skip, skip + Number(query.get("limit")));
        response.end(JSON.stringify(wrap ? { results, totalCount: rest.length } : results));
      });
      const read = await all(list(client));
      expect(new Set(read).size).toBe(read.length);
      expect(read).toEqual(expect.arrayContaining(rest));
      expect(server.seen.length).toBeLessThan(12);
    },
  );

  it("gives a list up that comes in another order each time", async () => {
    let from = 0;
    await open((_request, response) => {
      const results = RECORDS.map((_, at) => ({ _id: `id${from + at}` })).slice(0, 100);
      from += 100;
      response.end(JSON.stringify({ results, totalCount: 250 }));
    });
    await expect(all(client.applications(OPTIONS))).rejects.toThrow(/another order/);
  });

  it.each([
    ["objects", `{"results":[${"{},".repeat(150_000)}{}]}`],
    ["keys", `{"results":{${Array.from({ length: 250_000 }, (_, at) => `"${at}":0`).join(",")}}}`],
  ])("refuses an answer of very many %s before it is parsed", async (_, text) => {
    await open((_, response) => response.writeHead(200).end(text));
    const error = await caught(client.application("a1", OPTIONS));
    expect(error).toBeInstanceOf(NonsenseError);
    expect((error as Error).message).toMatch(/more than 200,000 values/);
  });

  it("names the first problems of an answer that is wrong in many places", async () => {
    await open((_, response) => response.writeHead(200).end(`{"results":[${"{},".repeat(50_000)}{}]}`));
    const error = await caught(all(client.applications(OPTIONS)));
    expect(error).toBeInstanceOf(NonsenseError);
    expect((error as Error).message).toMatch(/not the answer that was expected/);
    expect((error as Error).message.length).toBeLessThan(1000);
  });

  it("ends when a service ignores skip or repeats records", async () => {
    await open((_request, response) =>
      response.end(JSON.stringify({ results: RECORDS, totalCount: 100_000 })),
    );
    expect(await all(client.applications(OPTIONS))).toHaveLength(250);
    expect(server.seen).toHaveLength(2);
  });

  it.each([
    ["is empty", { results: [], totalCount: 0 }, "empty list of organizations"],
    ["is an empty array", [], "empty list of organizations"],
    ["is shorter than it says", { results: RECORDS, totalCount: 251 }, "250 organizations, although"],
  ])("refuses a list of organizations that %s", async (_name, answer, message) => {
    await open((_request, response) => response.end(JSON.stringify(answer)));
    const error = await caught(all(client.organizations(forever)));
    expect(error).toBeInstanceOf(NonsenseError);
    expect(String(error)).toContain(message);
  });
});

describe("a list of organizations of a hostile service", () => {
  const answerOf = (skip: number, limit: number, name: number, id: number) => ({
    results: Array.from({ length: limit }, (_, at) => ({
      _id: String(skip + at).padStart(id, "0"),
      displayName: "n".repeat(name),
      more: "m".repeat(name),
    })),
    totalCount: 1e9,
  });
  const serve = (name: number, id: number) =>
    open((request, response) => {
      const { searchParams } = new URL(request.url!, "http://x");
      const [skip, limit] = [Number(searchParams.get("skip")), Number(searchParams.get("limit"))];
      response.end(JSON.stringify(answerOf(skip, limit, name, id)));
    });

  it("is given up where it does not end", async () => {
    await serve(10, 50_000);
    const error = await caught(all(client.organizations(forever)));
    expect(error).toBeInstanceOf(NonsenseError);
    expect(String(error)).toContain("does not end");
    expect(server.seen.length).toBeLessThan(10);
  });

  it("keeps no more of an organization than is used", async () => {
    await serve(5000, 24);
    const found = client.organizations(forever);
    expect((await found.next()).value).toEqual({ _id: "0".repeat(24), displayName: "n".repeat(256) });
    await found.return();
  });
});

describe("a list of organizations with a repeated row", () => {
  const rowsOf = (count: number) =>
    Array.from({ length: count }, (_, at) => ({ _id: String(at).padStart(24, "0") }));
  it.each([
    ["in the middle of a page", 40],
    ["over the edge of two pages", 99],
    ["at the end", 249],
  ])("takes it once, %s", async (_name, at) => {
    const rows = rowsOf(250);
    const listed = [...rows.slice(0, at + 1), ...rows.slice(at)];
    await open((request, response) => {
      const { searchParams } = new URL(request.url!, "http://x");
      const [skip, limit] = [Number(searchParams.get("skip")), Number(searchParams.get("limit"))];
      const results = listed.slice(skip, skip + limit);
      response.end(JSON.stringify({ results, totalCount: listed.length }));
    });
    expect(await all(client.organizations(forever))).toEqual(rows);
  });
});

describe("the preview of an import", () => {
  const USERS = Array.from({ length: 230 }, (_, at) => ({ email: `u${at}@x.y` }));

  it("reads the specification's array by skip", async () => {
    await open((request, response) => {
      const query = new URL(request.url, "http://x").searchParams;
      response.end(JSON.stringify(USERS.slice(Number(query.get("skip")), Number(query.get("skip")) + 100)));
    });
    expect(await all(client.importUsers("a1", OPTIONS))).toEqual(USERS);
    expect(server.seen[0]!.url).toBe("/api/v2/applications/a1/import/users?limit=100&skip=0");
  });

  it("reads the object that is seen in the field by its cursor and session", async () => {
    await open((request, response) => {
      const query = new URL(request.url, "http://x").searchParams;
      const from = Number(query.get("cursor") ?? "0");
      if (from > 0) expect(query.get("session_id")).toBe("s-1");
      const next = from + 100 < USERS.length ? String(from + 100) : "";
      response.end(
        JSON.stringify({
          users: USERS.slice(from, from + 100),
          cursor: next,
          session_id: "s-1",
          total_count: 230,
        }),
      );
    });
    expect(await all(client.importUsers("a1", OPTIONS))).toEqual(USERS);
    expect(server.seen).toHaveLength(3);
  });

  it("goes on behind a page without users that has another cursor, and ends behind ten of them", async () => {
    const pages = new Map([
      ["", { users: USERS.slice(0, 100), cursor: "a" }],
      ["a", { users: [], cursor: "b" }],
      ["b", { users: USERS.slice(100, 150), cursor: "" }],
    ]);
    await open((request, response) => {
      const cursor = new URL(request.url, "http://x").searchParams.get("cursor") ?? "";
      response.end(JSON.stringify(pages.get(cursor) ?? { users: [], cursor: `${cursor}x` }));
    });
    expect(await all(client.importUsers("a1", OPTIONS))).toEqual(USERS.slice(0, 150));
    pages.set("a", { users: [], cursor: "endless" });
    expect(await all(client.importUsers("a1", OPTIONS))).toEqual(USERS.slice(0, 100));
    expect(server.seen).toHaveLength(4 + 11);
  });

  it("is no whole list where the service says that there are more users than it lists", async () => {
    await open((_request, response) =>
      response.end(JSON.stringify({ users: USERS.slice(0, 100), total_count: 230 })),
    );
    const words = "The service says that its list has 230 users, and lists 100 of them.";
    await expect(all(client.importUsers("a1", OPTIONS))).rejects.toThrow(words);
    // The number may be that of the list without the query.
    expect(await all(client.importUsers("a1", OPTIONS, "a"))).toHaveLength(100);
  });
});

describe("a safe update", () => {
  it("changes only what is named, because PUT resets what is not given", async () => {
    const stored = {
      _id: "a1",
      name: "saml",
      active: true,
      config: { acsUrl: { value: "old", label: "ACS" }, list: [1, 2] },
      unknown: { kept: true },
    };
    await open((request, response) =>
      response.end(request.method === "GET" ? JSON.stringify(stored) : request.body),
    );
    await client.updateApplication(
      "a1",
      { active: false, config: { acsUrl: { value: "new" }, list: [3] } },
      OPTIONS,
    );
    expect(server.seen.map((request) => request.method)).toEqual(["GET", "PUT"]);
    expect(JSON.parse(server.seen[1]!.body.toString())).toEqual({
      ...stored,
      active: false,
      config: { acsUrl: { value: "new", label: "ACS" }, list: [3] },
    });
  });
});

describe("errors", () => {
  it.each([
    [400, "x-org-id malformed", BadRequestError],
    [401, "no x-org-id", UnauthorizedError],
    [403, "included on unsupported route", ForbiddenError],
    [404, "organization ID not found", UnknownOrganizationError],
    [404, "no such application", NotFoundError],
    [409, "ssoUrl is taken", BadRequestError],
  ])("%i %s arrives as its type with code and message", async (status, message, type) => {
    await open((_request, response) =>
      response.writeHead(status).end(JSON.stringify({ code: 17, message, status: "FAILED" })),
    );
    const error = await caught(client.application("a1", OPTIONS));
    expect(error).toBeInstanceOf(type);
    expect(error).toMatchObject({ status, code: "17", serviceMessage: message });
    expect(error instanceof UnknownOrganizationError).toBe(type === UnknownOrganizationError);
    expect(server.seen).toHaveLength(1);
  });

  it("repeats reads with growing waits while the service is away, and honours Retry-After", async () => {
    await open((_request, response) => {
      const attempt = server.seen.length;
      if (attempt === 1) return response.writeHead(503).end();
      if (attempt === 2) return response.writeHead(429, { "retry-after": "9" }).end();
      if (attempt === 3) return response.destroy();
      return response.end(JSON.stringify(APPLICATION));
    });
    expect(await client.application("a1", OPTIONS)).toMatchObject({ _id: "a1" });
    expect(clock.waits).toHaveLength(3);
    expect(clock.waits[0]).toBeGreaterThanOrEqual(250);
    expect(clock.waits[1]).toBe(9_000);
    expect(clock.waits[2]).toBeGreaterThanOrEqual(1_000);
  });

  it("asks again after an answer whose header block is too large", async () => {
    await open((_request, response) => {
      const isFirst = server.seen.length === 1;
      response.writeHead(200, isFirst ? { "x-padding": "x".repeat(300_000) } : {}).end('{"_id":"a1"}');
    });
    expect(await client.application("a1", OPTIONS)).toMatchObject({ _id: "a1" });
    expect(server.seen).toHaveLength(2);
  });

  it("gives up after five attempts", async () => {
    await open((_request, response) => response.writeHead(503).end());
    expect(await caught(client.application("a1", OPTIONS))).toBeInstanceOf(UnavailableError);
    expect(server.seen).toHaveLength(5);
  });

  it("repeats a write that was throttled, but never one whose fate is unknown", async () => {
    const start = () => client.startImport("a1", { operations: ["users.create"] }, OPTIONS);
    await open((_request, response) =>
      server.seen.length === 1 ? response.writeHead(429).end() : response.end('{"_id":"j1"}'),
    );
    expect(await start()).toBe("j1");
    expect(server.seen).toHaveLength(2);
    for (const [fate, type] of [
      [(response: ServerResponse) => response.destroy(), CutOffError],
      [(response: ServerResponse) => response.writeHead(503).end(), UnavailableError],
      [(response: ServerResponse) => response.writeHead(200).end("{}"), NonsenseError],
    ] as const) {
      await client.close();
      await server.close();
      await open((_request, response) => fate(response));
      expect(await caught(start())).toBeInstanceOf(type);
      expect(server.seen).toHaveLength(1);
    }
  });

  it("R33 leaves a Retry-After of a day to its caller: no read and no start of an import waits for it", async () => {
    await open((_request, response) => response.writeHead(429, { "retry-after": "86400" }).end());
    const error = await caught(client.application("a1", OPTIONS));
    expect(error).toBeInstanceOf(ThrottledError);
    expect(error).toMatchObject({ retryAfterMs: 86_400_000 });
    const start = importSourceOf(client).start("o1", "a1", IMPORT, OPTIONS.signal);
    expect(await start).toMatchObject({ kind: "unavailable", retryAfterMs: 86_400_000 });
    expect(clock.waits).toEqual([]);
    expect(server.seen).toHaveLength(2);
  });

  it("says what is wrong with an answer of another shape", async () => {
    await open((_request, response) => response.end('{"name":"no id"}'));
    const error = await caught(client.application("a1", OPTIONS));
    expect(error).toBeInstanceOf(NonsenseError);
    expect((error as Error).message).toContain("_id");
  });
});

import type { ServerResponse } from "node:http";
import { inspect } from "node:util";
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import type { ServiceConnection } from "../../src/directory/account.ts";
import {
  BadRequestError,
  BodyTooLargeError,
  CutOffError,
  type DirectoryError,
  ForbiddenError,
  HeadersTooLargeError,
  NonsenseError,
  NotEntitledError,
  ThrottledError,
  UnauthorizedError,
  UnavailableError,
  UnknownOrganizationError,
} from "../../src/directory/errors.ts";
import { type InsightsClient, type InsightsQuery, openInsights } from "../../src/directory/insights.ts";
import { caught, connectionTo, forever, KEY, type SeenRequest, serve, type TestServer } from "./support.ts";

const QUERY: InsightsQuery = { service: ["all"], startTime: "2026-01-01T00:00:00Z" };

let server: TestServer | undefined;
let client: InsightsClient | undefined;

afterEach(async () => {
  await client?.close();
  await server?.close();
});

async function open(
  answer: (request: SeenRequest, response: ServerResponse) => void,
  changes: Partial<ServiceConnection> = {},
): Promise<InsightsClient> {
  server = await serve(answer);
  client = openInsights(connectionTo(server.url, changes), { clock: systemClock });
  return client;
}

function page(response: ServerResponse, body: string | Buffer, headers: Record<string, string> = {}): void {
  response.writeHead(200, {
    "X-Result-Count": "1",
    "X-Limit": "1000",
    "X-Search_after": '[1576181718000,"DZrPyW8BNsa9iKWoOm7h"]',
    "X-Request-Id": "r-1",
    ...headers,
  });
  response.end(body);
}

describe("events", () => {
  it("sends the whole query and gives the headers and the exact bytes of the body", async () => {
    const body = '[ {"id":"1","n":12345678901234567890, "x":1.0} ]';
    const insights = await open((_request, response) => page(response, body));
    const answer = await insights.events(
      {
        service: ["sso", "directory"],
        startTime: "2026-01-01T00:00:00Z",
        endTime: "2026-01-02T00:00:00Z\n",
        limit: 500,
        sort: "DESC",
        fields: ["id", "initiated_by.email"],
        searchTerm: { and: [{ event_type: "sso_auth" }] },
      },
      {},
      { signal: forever },
    );
    expect(answer.head).toMatchObject({
      status: 200,
      resultCount: 1,
      limit: 1000,
      searchAfter: '[1576181718000,"DZrPyW8BNsa9iKWoOm7h"]',
      requestId: "r-1",
    });
    expect(Math.abs(answer.head.dateMs! - Date.now())).toBeLessThan(60_000);
    expect((await answer.body()).bytes.toString()).toBe(body);
    const [request] = server!.seen;
    expect(request).toMatchObject({ method: "POST", url: "/insights/directory/v1/events" });
    expect(request!.headers).toMatchObject({ "x-api-key": KEY, "content-type": "application/json" });
    expect(JSON.parse(request!.body.toString())).toEqual({
      service: ["sso", "directory"],
      start_time: "2026-01-01T00:00:00Z",
      end_time: "2026-01-02T00:00:00Z",
      limit: 500,
      sort: "DESC",
      fields: ["id", "initiated_by.email"],
      search_term: { and: [{ event_type: "sso_auth" }] },
    });
  });

  it("sends one x-org-id line per organization on the wire, or a provider, or neither", async () => {
    const insights = await open((_request, response) => page(response, "[]"));
    const organizations = Array.from({ length: 300 }, (_, at) => at.toString(16).padStart(24, "0"));
    for (const scope of [{ organizations }, { provider: "p1" }, {}]) {
      await (await insights.events(QUERY, scope, { signal: forever })).body();
    }
    const lines = server!.seen.map(({ rawHeaders }) =>
      rawHeaders.flatMap((name, at) =>
        at % 2 === 0 && /^x-(org|provider)-id$/i.test(name) ? [[name, rawHeaders[at + 1]]] : [],
      ),
    );
    expect(lines[0]).toEqual(organizations.map((id) => ["x-org-id", id]));
    expect(lines[1]).toEqual([["x-provider-id", "p1"]]);
    expect(lines[2]).toEqual([]);
  });

  it("hands the token back byte for byte, odd spacing, big numbers and bytes beyond ASCII included", async () => {
    const token = Buffer.from('[ 12345678901234567890, 1.0 ,"\u00e9\u4e16"]', "utf8");
    const insights = await open((_request, response) =>
      page(response, "[]", { "X-Search_after": token.toString("latin1") }),
    );
    const first = await insights.events(QUERY, {}, { signal: forever });
    await insights.events(QUERY, {}, { signal: forever, searchAfter: first.head.searchAfter });
    const { body } = server!.seen[1]!;
    expect(body.includes(Buffer.concat([Buffer.from('"search_after":'), token, Buffer.from("}")]))).toBe(
      true,
    );
    expect(JSON.parse(body.toString()).search_after[2]).toBe("\u00e9\u4e16");
  });

  it("gives the headers while the body is still on its way", async () => {
    let finish = () => {};
    const insights = await open((_request, response) => {
      response.writeHead(200, { "X-Result-Count": "0", "X-Limit": "5" });
      response.write("[");
      finish = () => response.end("]");
    });
    const answer = await insights.events(QUERY, {}, { signal: forever });
    expect(answer.head.limit).toBe(5);
    finish();
    expect((await answer.body()).bytes.toString()).toBe("[]");
  });

  it("decompresses gzip, in many pieces, to the very same bytes", async () => {
    const body = Buffer.from(
      JSON.stringify(Array.from({ length: 40_000 }, (_, id) => ({ id, text: Math.random().toString(36) }))),
    );
    const insights = await open((_request, response) =>
      page(response, gzipSync(body), { "Content-Encoding": "gzip" }),
    );
    const answer = await insights.events(QUERY, {}, { signal: forever });
    expect((await answer.body()).bytes.equals(body)).toBe(true);
    expect(server!.seen[0]!.headers["accept-encoding"]).toBe("gzip");
  });

  it("R8 gives a body above the limit up, whether its length is announced, streamed or hidden by compression", async () => {
    const body = Buffer.alloc(300_000, " ");
    const ways: ((response: ServerResponse) => void)[] = [
      (response) => page(response, body, { "Content-Length": String(body.length) }),
      (response) => {
        response.writeHead(200);
        response.write(body);
        response.end();
      },
      (response) => page(response, gzipSync(body), { "Content-Encoding": "gzip" }),
    ];
    const insights = await open((_request, response) => ways[server!.seen.length - 1]!(response));
    for (const _way of ways) {
      const error = await caught(
        insights
          .events(QUERY, {}, { signal: forever, bodyBytesMax: 100_000 })
          .then((answer) => answer.body()),
      );
      expect(error).toBeInstanceOf(BodyTooLargeError);
    }
  });

  it("stops at once with the signal's reason, before, during and after the headers", async () => {
    let talking = false;
    const insights = await open((_request, response) => {
      if (talking) response.writeHead(200).write("[");
    });
    const early = new AbortController();
    const pending = caught(insights.events(QUERY, {}, { signal: early.signal }));
    early.abort(new Error("enough"));
    expect(await pending).toMatchObject({ message: "enough" });
    expect(await caught(insights.events(QUERY, {}, { signal: early.signal }))).toMatchObject({
      message: "enough",
    });
    talking = true;
    const late = new AbortController();
    const answer = await insights.events(QUERY, {}, { signal: late.signal });
    late.abort(new Error("too late"));
    expect(await caught(answer.body())).toMatchObject({ message: "too late" });
  });

  it("frees the connection of a body that is discarded", async () => {
    server = await serve((_request, response) => {
      response.writeHead(200).write("[");
    });
    client = openInsights(connectionTo(server.url), { clock: systemClock, connectionsMax: 1 });
    for (let round = 0; round < 3; round++) {
      const answer = await client.events(QUERY, {}, { signal: forever });
      answer.discard();
      expect(await caught(answer.body())).toBeInstanceOf(Error);
    }
  });
});

describe("errors", () => {
  const refusals: [number, unknown][] = [
    [400, BadRequestError],
    [401, UnauthorizedError],
    [402, NotEntitledError],
    [403, ForbiddenError],
    [404, UnknownOrganizationError],
    [422, BadRequestError],
    [429, ThrottledError],
    [431, HeadersTooLargeError],
    [500, UnavailableError],
    [503, UnavailableError],
  ];
  it.each(refusals)("%i arrives as its type with the service's words", async (status, type) => {
    const insights = await open((_request, response) => {
      response.writeHead(status, { "x-request-id": "r-7" });
      response.end(JSON.stringify({ message: "Start Time not after End Time", code: 3 }));
    });
    const error = (await caught(insights.events(QUERY, {}, { signal: forever }))) as DirectoryError;
    expect(error).toBeInstanceOf(type);
    expect(error).toMatchObject({
      status,
      serviceMessage: "Start Time not after End Time",
      code: "3",
      requestId: "r-7",
    });
    expect(Math.abs(error.dateMs! - Date.now())).toBeLessThan(60_000);
  });

  it("reads Retry-After in seconds and as a date by the service's own clock", async () => {
    const dateMs = Date.parse("Fri, 02 Jan 2026 03:04:05 GMT");
    const answers = ["7", new Date(dateMs + 90_000).toUTCString(), "soon"];
    const insights = await open((_request, response) => {
      response.writeHead(429, {
        date: new Date(dateMs).toUTCString(),
        "retry-after": answers[server!.seen.length - 1],
      });
      response.end();
    });
    for (const retryAfterMs of [7_000, 90_000, undefined]) {
      const error = await caught(insights.events(QUERY, {}, { signal: forever }));
      expect(error).toMatchObject({ retryAfterMs, dateMs });
    }
  });

  it("calls half a body, cut connections and silence cut off, and an absent server unavailable", async () => {
    const ways: ((response: ServerResponse) => void)[] = [
      (response) => response.destroy(),
      (response) => {
        response.writeHead(200, { "content-length": "100" });
        response.write("[1,", () => response.destroy());
      },
      (response) => {
        response.writeHead(200);
        response.write("[1,", () => response.destroy());
      },
      (response) => {
        const half = gzipSync(Buffer.alloc(100_000, "[")).subarray(0, 60);
        page(response, half, { "content-encoding": "gzip" });
      },
      () => {},
      (response) => response.writeHead(200).write("["),
    ];
    const insights = await open((_request, response) => ways[server!.seen.length - 1]!(response), {
      headersTimeoutMs: 100,
      bodyTimeoutMs: 100,
    });
    for (const _way of ways) {
      const error = await caught(
        insights.events(QUERY, {}, { signal: forever }).then((answer) => answer.body()),
      );
      expect(error).toBeInstanceOf(CutOffError);
    }
    await server!.close();
    const error = await caught(insights.events(QUERY, {}, { signal: forever }));
    expect([UnavailableError, CutOffError].some((type) => error instanceof type)).toBe(true);
  });

  it("calls what is no array, no count and no token nonsense, and says what came", async () => {
    const ways: [(response: ServerResponse) => void, RegExp][] = [
      [(response) => page(response, "<html>Log in</html>"), /begins "<html>Log in/],
      [(response) => page(response, '{"message":"hello"}'), /begins "\{/],
      [(response) => page(response, ""), /an empty body/],
      [(response) => page(response, "[]", { "X-Result-Count": "many" }), /x-result-count is "many"/],
      [(response) => page(response, "[]", { "X-Search_after": "abc" }), /X-Search_after is "abc"/],
      [(response) => page(response, "[]", { "Content-Encoding": "br" }), /encoding "br"/],
      [(response) => response.writeHead(204).end(), /204/],
    ];
    const insights = await open((_request, response) => ways[server!.seen.length - 1]![0](response));
    for (const [, words] of ways) {
      const error = await caught(
        insights.events(QUERY, {}, { signal: forever }).then((answer) => answer.body()),
      );
      expect(error).toBeInstanceOf(NonsenseError);
      expect((error as Error).message).toMatch(words);
    }
  });

  it("never takes the key to another origin, and follows a redirect inside it", async () => {
    const other = await serve((_request, response) => page(response, "[]"));
    const insights = await open((request, response) => {
      if (request.url === "/moved") return page(response, "[2]");
      const location = server!.seen.length === 1 ? `${other.url}/elsewhere` : "/moved";
      response.writeHead(307, { location }).end();
    });
    const error = await caught(insights.events(QUERY, {}, { signal: forever }));
    expect(error).toBeInstanceOf(NonsenseError);
    expect((error as Error).message).toContain(other.url);
    expect(other.seen).toEqual([]);
    const answer = await insights.events(QUERY, {}, { signal: forever });
    expect((await answer.body()).bytes.toString()).toBe("[2]");
    expect(server!.seen[2]).toMatchObject({ method: "POST" });
    await other.close();
  });

  it("never shows the key, even when the service repeats it", async () => {
    const insights = await open((_request, response) => {
      if (server!.seen.length === 1) return page(response, `key ${KEY}`);
      response.writeHead(401).end(JSON.stringify({ message: `bad key ${KEY}` }));
    });
    for (const words of ["key [secret]", "bad key [secret]"]) {
      const error = await caught(
        insights.events(QUERY, {}, { signal: forever }).then((answer) => answer.body()),
      );
      expect((error as Error).message).toContain(words);
      expect(inspect(error, { depth: 10, showHidden: true })).not.toContain(KEY);
    }
  });

  it("refuses an organization that would split the header block", async () => {
    const insights = await open((_request, response) => page(response, "[]"));
    const scope = { organizations: ["a\r\nx-api-key: b"] };
    expect(await caught(insights.events(QUERY, scope, { signal: forever }))).toBeInstanceOf(BadRequestError);
    expect(server!.seen).toEqual([]);
  });
});

describe("count", () => {
  it("asks the optional endpoint with the same query", async () => {
    const insights = await open((_request, response) => response.end('{"count":12}'));
    expect(
      await insights.count({ ...QUERY, limit: 5, sort: "ASC" }, { organizations: ["o1"] }, forever),
    ).toBe(12);
    expect(server!.seen[0]!.url).toBe("/insights/directory/v1/events/count");
    expect(JSON.parse(server!.seen[0]!.body.toString())).toEqual({
      service: ["all"],
      start_time: QUERY.startTime,
    });
  });

  it("tries once and works without it where the path does not exist", async () => {
    const insights = await open((_request, response) =>
      response.writeHead(404).end('{"message":"Not Found"}'),
    );
    expect(await insights.count(QUERY, {}, forever)).toBeUndefined();
    expect(await insights.count(QUERY, {}, forever)).toBeUndefined();
    expect(server!.seen).toHaveLength(1);
  });

  it("tells an unknown organization from a missing path, and goes on afterwards", async () => {
    const insights = await open((_request, response) => {
      if (server!.seen.length > 1) return response.end('{"count":0}');
      return response.writeHead(404).end('{"message":"organization not found"}');
    });
    expect(await caught(insights.count(QUERY, {}, forever))).toBeInstanceOf(UnknownOrganizationError);
    expect(await insights.count(QUERY, {}, forever)).toBe(0);
  });
});

describe("headerBytes", () => {
  it("is the size of the header block that is really sent", async () => {
    const insights = await open((_request, response) => page(response, "[]"));
    for (const scope of [
      {},
      { provider: "p".repeat(24) },
      { organizations: ["a".repeat(24), "b".repeat(24)] },
    ]) {
      server!.seen.length = 0;
      await (await insights.events(QUERY, scope, { signal: forever })).body();
      const { rawHeaders, method, url } = server!.seen[0]!;
      const lines = rawHeaders.reduce((bytes, text) => bytes + text.length + 2, 0);
      const sent = `${method} ${url} HTTP/1.1`.length + 2 + lines + 2;
      expect(insights.headerBytes(scope)).toBeGreaterThanOrEqual(sent);
      expect(insights.headerBytes(scope)).toBeLessThan(sent + 10);
    }
  });
});

import type { ServerResponse } from "node:http";
import { inspect } from "node:util";
import { afterEach, expect, it } from "vitest";
import type { Clock } from "../../src/core/clock.ts";
import { secretOf } from "../../src/core/secret.ts";
import { NonsenseError, UnauthorizedError, UnavailableError } from "../../src/directory/errors.ts";
import { type InsightsClient, openInsights } from "../../src/directory/insights.ts";
import {
  caught,
  connectionTo,
  forever,
  patientClock,
  type SeenRequest,
  serve,
  type TestServer,
} from "./support.ts";

const QUERY = { service: ["all"], startTime: "2026-01-01T00:00:00Z" };
const SECRET = "the client's own secret";
const START_MS = Date.parse("2026-03-01T00:00:00Z");

let server: TestServer;
let client: InsightsClient;

afterEach(async () => {
  await client.close();
  await server.close();
});

/** Tokens t1, t2, …; `answers` of the API get the number of the token that was sent. */
async function open(
  clock: Clock,
  answer: (tokenNumber: number, response: ServerResponse) => void,
  issue: (request: SeenRequest, response: ServerResponse, tokenNumber: number) => void = (
    _request,
    response,
    number,
  ) => response.end(JSON.stringify({ access_token: `t${number}`, expires_in: 3600, token_type: "bearer" })),
): Promise<void> {
  server = await serve((request, response) => {
    if (request.url === "/oauth2/token") return issue(request, response, tokenRequests().length);
    answer(Number(/^Bearer t(\d+)$/.exec(request.headers.authorization ?? "")?.[1]), response);
  });
  const credentials = {
    clientId: "c1",
    clientSecret: secretOf(SECRET),
    tokenUrl: `${server.url}/oauth2/token`,
  };
  client = openInsights(connectionTo(server.url, { credentials }), { clock });
}

const tokenRequests = () => server.seen.filter((request) => request.url === "/oauth2/token");
const ask = async () =>
  (await (await client.events(QUERY, { organizations: ["o"] }, { signal: forever })).body()).bytes.toString();

it("asks for a token with client credentials and uses it until shortly before it expires", async () => {
  const clock = patientClock(START_MS);
  await open(clock, (number, response) => response.end(`[${number}]`));
  expect([await ask(), await ask()]).toEqual(["[1]", "[1]"]);
  const [request] = tokenRequests();
  expect(request!.headers.authorization).toBe(`Basic ${Buffer.from(`c1:${SECRET}`).toString("base64")}`);
  expect(request!.body.toString()).toBe("grant_type=client_credentials&scope=api");
  expect(request!.headers["content-type"]).toBe("application/x-www-form-urlencoded");
  clock.advance(54 * 60_000);
  expect(await ask()).toBe("[1]");
  clock.advance(2 * 60_000);
  expect(await ask()).toBe("[2]");
  expect(server.seen.every((seen) => seen.headers["x-api-key"] === undefined)).toBe(true);
});

it("renews once for all who ask at the same time", async () => {
  await open(patientClock(START_MS), (number, response) => response.end(`[${number}]`));
  expect(await Promise.all([ask(), ask(), ask(), ask()])).toEqual(["[1]", "[1]", "[1]", "[1]"]);
  expect(tokenRequests()).toHaveLength(1);
});

it("renews once after a 401 and then gives up", async () => {
  await open(patientClock(START_MS), (number, response) =>
    number === 1 ? response.writeHead(401).end() : response.end("[]"),
  );
  expect(await ask()).toBe("[]");
  expect(tokenRequests()).toHaveLength(2);
  await client.close();
  await server.close();
  await open(patientClock(START_MS), (_number, response) => response.writeHead(401).end('{"message":"no"}'));
  expect(await caught(ask())).toBeInstanceOf(UnauthorizedError);
  expect(tokenRequests()).toHaveLength(2);
});

it("goes on with the old token while it lives and the renewal fails", async () => {
  const clock = patientClock(START_MS);
  await open(
    clock,
    (number, response) => response.end(`[${number}]`),
    (_request, response, number) =>
      number === 1 ? response.end('{"access_token":"t1","expires_in":3600}') : response.writeHead(503).end(),
  );
  expect(await ask()).toBe("[1]");
  clock.advance(58 * 60_000);
  expect(await ask()).toBe("[1]");
  clock.advance(5 * 60_000);
  expect(await caught(ask())).toBeInstanceOf(UnavailableError);
});

it.each([
  [
    401,
    '{"error":"invalid_client","error_description":"no such client"}',
    UnauthorizedError,
    "no such client",
  ],
  [400, '{"error":"invalid_client"}', UnauthorizedError, "invalid_client"],
  [200, "{}", NonsenseError, "no access_token"],
  [200, "<html>", NonsenseError, "no access_token"],
])("tells a refused client by the answer %i %s, without its secret", async (status, body, type, words) => {
  await open(
    patientClock(START_MS),
    (_number, response) => response.end("[]"),
    (_request, response) =>
      response.writeHead(status).end(body.replace("no such client", `no such client ${SECRET}`)),
  );
  const error = await caught(ask());
  expect(error).toBeInstanceOf(type);
  expect((error as Error).message).toContain(words);
  expect(inspect(error, { depth: 10 })).not.toContain(SECRET);
});

it("lets one caller stop waiting for a token without ending it for the others", async () => {
  let issueNow = () => {};
  const asked = new Promise<void>((resolve) => {
    void open(
      patientClock(START_MS),
      (number, response) => response.end(`[${number}]`),
      (_request, response) => {
        issueNow = () => response.end('{"access_token":"t1","expires_in":3600}');
        resolve();
      },
    ).then(() => {
      stopped = caught(client.events(QUERY, {}, { signal: stop.signal }));
      patient = ask();
    });
  });
  const stop = new AbortController();
  let stopped: Promise<unknown> | undefined;
  let patient: Promise<string> | undefined;
  await asked;
  stop.abort(new Error("enough"));
  expect(await stopped).toMatchObject({ message: "enough" });
  issueNow();
  expect(await patient).toBe("[1]");
});

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { headerValues } from "../access.ts";
import type { SimulatorClock } from "../clock.ts";
import type { Insights } from "../insights/insights.ts";
import type { Management } from "../management/management.ts";
import type { Oauth } from "../oauth.ts";
import type { Settings } from "../options.ts";
import { type Answer, deliver, json, parseJson, problemAnswer, readBody } from "./exchange.ts";
import type { Effects, Faults } from "./faults.ts";
import { Problem } from "./problem.ts";
import type { Ongoing, Statistics } from "./statistics.ts";
import { createThrottle } from "./throttle.ts";

export interface ServerParts {
  readonly settings: Settings;
  readonly clock: SimulatorClock;
  readonly faults: Faults;
  readonly statistics: Statistics;
  readonly insights: Insights;
  readonly management: Management;
  readonly oauth: Oauth;
  readonly control: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
}

/** Organizations that a record of the log names. */
const loggedMax = 50;

/** Both APIs and the control endpoints behind one port. Listens before it returns. */
export async function openServer(parts: ServerParts): Promise<{ url: string; close(): Promise<void> }> {
  const { settings } = parts;
  const answer = createEdge(parts);
  const server = createServer(
    { maxHeaderSize: 64 << 20, requestTimeout: 0, keepAliveTimeout: 60_000 },
    (request, response) => {
      answer(request, response).catch((error: unknown) => fail(response, error));
    },
  );
  // The number of x-org-id headers is not limited; Node would drop those after the 2,000th.
  server.maxHeadersCount = 0;
  await listen(server, settings.port, settings.host);
  const { address, port } = server.address() as AddressInfo;
  const host = address.includes(":") ? `[${address}]` : address === "0.0.0.0" ? "127.0.0.1" : address;
  return { url: `http://${host}:${port}`, close: () => close(server) };
}

function createEdge(parts: ServerParts) {
  const { settings, clock, faults, statistics } = parts;
  const throttle = createThrottle(settings.throttle);

  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = pathOf(request);
    if (path.startsWith("/_control/")) return parts.control(request, response);
    const ongoing = statistics.begin({ method: request.method ?? "", path });
    response.once("close", ongoing.closed);
    const organizations = headerValues(request, "x-org-id").map((id) => id.toLowerCase());
    ongoing.note({
      organizations: organizations.slice(0, loggedMax),
      organizationCount: organizations.length,
    });
    let effects: Effects | null = null;
    let answer: Answer;
    try {
      const body = await readBody(request);
      const api = path.startsWith("/insights/") ? "insights" : "management";
      const cursor = api === "insights" && body.includes('"search_after"');
      effects = faults.strike({ api, path, organizations, cursor, nowMs: clock.now() });
      await suffer(effects);
      if (settings.headerBytesMax !== null && headerBytes(request) > settings.headerBytesMax) {
        throw new Problem(431, "Request header fields too large");
      }
      throttle();
      answer = await route(parts, { request, path, body, effects, ongoing });
    } catch (error) {
      answer = problemAnswer(error);
    }
    await deliver(
      { request, response, effects, ongoing, gzip: settings.gzip },
      answer,
      new Date(clock.now()).toUTCString(),
    );
  };
}

interface Call {
  readonly request: IncomingMessage;
  readonly path: string;
  readonly body: Buffer;
  readonly effects: Effects;
  readonly ongoing: Ongoing;
}

async function route(parts: ServerParts, call: Call): Promise<Answer> {
  const { request, path, body, effects, ongoing } = call;
  const parseBody = () => parseJson(request, body);
  if (path.startsWith("/insights/")) return parts.insights({ request, path, parseBody, effects, ongoing });
  if (path.startsWith("/api/")) return parts.management({ request, path, parseBody });
  if (path === "/oauth2/token") return parts.oauth.issue(request, body);
  return json(404, { message: "Not found" });
}

/** Faults that come before the answer. */
async function suffer(effects: Effects): Promise<void> {
  const latency = effects.get("latency");
  if (latency !== undefined) await sleep(latency.ms);
  if (effects.get("unauthorized") !== undefined) throw new Problem(401, "Unauthorized");
  const status = effects.get("status");
  if (status === undefined) return;
  const headers: Record<string, string> =
    status.retryAfter === undefined ? {} : { "Retry-After": String(status.retryAfter) };
  throw new Problem(status.status, status.message ?? `Simulated status ${status.status}`, { headers });
}

function headerBytes(request: IncomingMessage): number {
  const fields = request.rawHeaders.reduce((sum, part) => sum + part.length, 0);
  return (
    fields + request.rawHeaders.length * 2 + (request.method?.length ?? 0) + (request.url?.length ?? 0) + 12
  );
}

function pathOf(request: IncomingMessage): string {
  const url = request.url ?? "/";
  const question = url.indexOf("?");
  return question === -1 ? url : url.slice(0, question);
}

/** A bug of the simulator is an answer of 500 that says so, never a hanging request. */
function fail(response: ServerResponse, error: unknown): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  response.writeHead(500, { "Content-Type": "application/json" });
  response.end(
    JSON.stringify({
      message: "The simulator failed",
      detail: error instanceof Error ? error.stack : String(error),
    }),
  );
}

function listen(server: Server, port: number, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

import { createSign } from "node:crypto";
import { request } from "undici";
import { type Simulator, type SimulatorOptions, startSimulator } from "../index.ts";

export const startTime = "2025-03-01T12:00:00Z";

/** A world that stands still, so that nothing depends on when a test looks. */
export function startStill(options: SimulatorOptions = {}): Promise<Simulator> {
  return startSimulator({
    seed: 7,
    organizations: 4,
    events: 6_000,
    days: 20,
    lateness: "none",
    ...options,
    clock: { start: startTime, speed: 0, ...options.clock },
  });
}

export interface Reply<T = unknown> {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  readonly body: T;
}

type Headers = Readonly<Record<string, string | string[]>>;

export async function call<T = unknown>(
  method: "GET" | "POST" | "PUT" | "DELETE" | "PATCH",
  url: string,
  headers: Headers,
  body?: unknown,
): Promise<Reply<T>> {
  const response = await request(url, {
    method,
    headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const text = await response.body.text();
  return {
    status: response.statusCode,
    headers: response.headers as Record<string, string>,
    text,
    body: (text === "" || !/[/+]json/.test(String(response.headers["content-type"]))
      ? text
      : JSON.parse(text)) as T,
  };
}

export interface AnyEvent {
  readonly id?: string;
  readonly timestamp: string;
  readonly service: string;
  readonly organization: string | null;
  readonly event_type?: string;
  // biome-ignore lint/suspicious/noExplicitAny: events are open records, and tests reach into them freely.
  readonly [field: string]: any;
}

/** Asks Insights about every organization, unless the headers say otherwise. */
export function ask(simulator: Simulator, query: object, headers: Headers = {}): Promise<Reply<AnyEvent[]>> {
  const whose: Headers =
    "x-org-id" in headers || "x-provider-id" in headers
      ? {}
      : { "x-org-id": simulator.organizations.map(({ id }) => id) };
  const body = { service: ["all"], start_time: "2025-01-01T00:00:00Z", ...query };
  return call(
    "POST",
    `${simulator.insightsUrl}/insights/directory/v1/events`,
    { "x-api-key": simulator.apiKey, ...whose, ...headers },
    body,
  );
}

/** Every event of a query, page by page, each as its JSON text. */
export async function readAll(
  simulator: Simulator,
  query: object,
  headers: Headers = {},
): Promise<AnyEvent[]> {
  const events: AnyEvent[] = [];
  for (let after: unknown; ; ) {
    const page = await ask(
      simulator,
      after === undefined ? query : { ...query, search_after: after },
      headers,
    );
    if (page.status !== 200) throw new Error(`${page.status} ${page.text}`);
    events.push(...page.body);
    if (Number(page.headers["x-result-count"]) < Number(page.headers["x-limit"])) return events;
    after = JSON.parse(page.headers["x-search_after"]!);
  }
}

/** Calls the management API for the first organization, unless the headers say otherwise. */
export function manage<T = unknown>(
  simulator: Simulator,
  method: "GET" | "POST" | "PUT" | "DELETE",
  path: string,
  body?: unknown,
  headers: Headers = {},
): Promise<Reply<T>> {
  const base = { "x-api-key": simulator.apiKey, "x-org-id": simulator.organizations[0]!.id };
  return call<T>(method, simulator.managementUrl + path, { ...base, ...headers }, body);
}

/** Signs as the agent of a system does. */
export function sign(
  system: { id: string; privateKey: string | null },
  method: string,
  path: string,
  date: Date,
): Record<string, string> {
  const text = date.toUTCString();
  const signature = createSign("RSA-SHA256")
    .update(`${method} ${path} HTTP/1.1\ndate: ${text}`)
    .sign(system.privateKey!, "base64");
  return {
    date: text,
    authorization: `Signature keyId="system/${system.id}",headers="request-line date",algorithm="rsa-sha256",signature="${signature}"`,
  };
}

export function texts(events: Iterable<Uint8Array>): string[] {
  return Array.from(events, (event) => Buffer.from(event).toString());
}

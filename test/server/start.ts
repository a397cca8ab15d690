import { request } from "node:http";
import { type Actions, UnknownNameError } from "../../src/core/actions.ts";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { silentLog } from "../../src/core/log.ts";
import type { RawRoute } from "../../src/core/raw-route.ts";
import type { Route } from "../../src/core/route.ts";
import type { View } from "../../src/core/view.ts";
import { type ServerConfig, serverSchema } from "../../src/server/config.ts";
import { type Server, type ServerOptions, startServer } from "../../src/server/server.ts";

export interface TestServer extends Server {
  /** The actions that were asked for, in order. */
  readonly asked: readonly unknown[];
}

/** A server on a free port over a view; what it is asked to change is written down. */
export async function serve(
  view: View,
  more: {
    readonly config?: Partial<ServerConfig>;
    readonly routes?: readonly Route[];
    readonly rawRoutes?: readonly RawRoute[];
    readonly actions?: Partial<Actions>;
    readonly clock?: Clock;
    readonly signal?: AbortSignal;
    readonly others?: ServerOptions["others"];
  } = {},
): Promise<TestServer> {
  const asked: unknown[] = [];
  const note = async (name: string, what: unknown, count: number) => {
    asked.push([name, what]);
    if (count === 0) throw new UnknownNameError(`There is no ${JSON.stringify(what)}.`);
    return { count, message: `${name} was done.` };
  };
  const server = await startServer({
    config: { ...serverSchema.parse({ port: 0 }), ...more.config },
    version: "1.2.3",
    view,
    actions: {
      replay: (filter) => note("replay", filter, filter.ids?.length ?? 2),
      drop: (filter) => note("drop", filter, filter.ids?.length ?? 2),
      retry: (body) => note("retry", body, body.sink === "siem" ? 1 : 0),
      resume: (body) => note("resume", body, body.sink === "siem" ? 1 : 0),
      poll: (body) => note("poll", body, [undefined, "acme"].includes(body.account) ? 1 : 0),
      ...NOT_OVER_HTTP,
      ...more.actions,
    },
    routes: more.routes ?? [],
    rawRoutes: more.rawRoutes ?? [],
    others: more.others,
    clock: more.clock ?? systemClock,
    log: silentLog,
    metricsText: async () => "# TYPE tidemark_alarms gauge\ntidemark_alarms 1\n",
    signal: more.signal ?? new AbortController().signal,
  });
  return { ...server, asked };
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
  readonly json: any;
}

/** One request with exactly these headers, the Host included. */
export function ask(
  server: Pick<Server, "port">,
  path: string,
  options: { method?: string; headers?: Record<string, string>; body?: unknown } = {},
): Promise<Answer> {
  const body = options.body === undefined ? undefined : JSON.stringify(options.body);
  const headers: Record<string, string> = {
    ...(body === undefined ? {} : { "content-type": "application/json" }),
    ...options.headers,
  };
  return new Promise((resolve, reject) => {
    const sent = request(
      { host: "127.0.0.1", port: server.port, path, method: options.method ?? "GET", headers, agent: false },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("error", reject);
        response.on("end", () => {
          const text = Buffer.concat(chunks).toString();
          const isJson = (response.headers["content-type"] ?? "").includes("json");
          const json =
            isJson && text !== "" && !response.headers["content-encoding"] ? JSON.parse(text) : undefined;
          resolve({ status: response.statusCode!, headers: response.headers, text, json });
        });
      },
    );
    sent.on("error", reject);
    sent.end(body);
  });
}

export const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

const refuse = async () => {
  throw new Error("There is no route for this action.");
};
const NOT_OVER_HTTP = {
  archive: refuse,
  rename: refuse,
  forget: refuse,
  backfill: refuse,
  reconcile: refuse,
};

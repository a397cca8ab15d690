import type { z } from "zod";

/**
 * One operation of the HTTP API, defined by the part that owns it. The server mounts it: it parses params,
 * query and body with these schemas, checks the token, and generates the OpenAPI document from them.
 */
export interface Route<Params = unknown, Query = unknown, Body = unknown, Response = unknown> {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Parameters are written as `:name`. */
  readonly path: string;
  readonly summary: string;
  /** content: it shows the contents of events. */
  readonly scope: "read" | "content" | "write";
  readonly params: z.ZodType<Params>;
  readonly query: z.ZodType<Query>;
  /** undefined: the operation takes no body. */
  readonly body: z.ZodType<Body> | undefined;
  readonly response: z.ZodType<Response>;
  /** The status code of a success; 200 when absent. */
  readonly status?: number | undefined;
  run(input: RouteInput<Params, Query, Body>): Promise<Response>;
}

export interface RouteInput<Params, Query, Body> {
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  /** The caller, for the log: the token's name, or the remote address. */
  readonly caller: string;
  /** Aborts when the client goes away or the server stops. */
  readonly signal: AbortSignal;
  /** Aborts when the server stops: for work that a client which goes away must not break off. */
  readonly stopped: AbortSignal;
}

/** An error for the client, with this status and message. Any other error that `run` throws becomes a 500. */
export class RouteError extends Error {
  override readonly name = "RouteError";
  readonly status: number;
  /** Further members of the answer, beside `error`. */
  readonly body: Readonly<Record<string, unknown>>;

  constructor(
    status: number,
    message: string,
    options: { cause?: unknown; body?: Readonly<Record<string, unknown>> } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.status = status;
    this.body = options.body ?? {};
  }
}

export function defineRoute<Params, Query, Body, Response>(
  route: Route<Params, Query, Body, Response>,
): Route {
  // The server parses the input with these schemas before it calls `run`, so the cast is safe.
  return route as unknown as Route;
}

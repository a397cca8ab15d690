import type { z } from "zod";

/**
 * One operation of the HTTP API, as its part gives it. The server mounts it: it parses params, query and body
 * by these schemas, asks for the token where the scope is `write`, and writes the OpenAPI document from them.
 */
export interface Route<Params = unknown, Query = unknown, Body = unknown, Response = unknown> {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Parameters stand as `:name`. */
  readonly path: string;
  readonly summary: string;
  readonly scope: "read" | "write";
  readonly params: z.ZodType<Params>;
  readonly query: z.ZodType<Query>;
  /** undefined: the operation takes no body. */
  readonly body: z.ZodType<Body> | undefined;
  readonly response: z.ZodType<Response>;
  /** The status of success; 200 when absent. */
  readonly status?: number | undefined;
  run(input: RouteInput<Params, Query, Body>): Promise<Response>;
}

export interface RouteInput<Params, Query, Body> {
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  /** Who asks, for the record: the token's name, or the remote address. */
  readonly caller: string;
  /** Aborts when the client goes away or the server stops. */
  readonly signal: AbortSignal;
}

/** A refusal that the client is told: 404, 409, … with these words. Anything else that `run` throws is a 500. */
export class RouteError extends Error {
  override readonly name = "RouteError";
  readonly status: number;

  constructor(status: number, message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.status = status;
  }
}

export function defineRoute<Params, Query, Body, Response>(
  route: Route<Params, Query, Body, Response>,
): Route {
  // The server parses by these very schemas before `run` sees the input, so the wider type is safe.
  return route as unknown as Route;
}

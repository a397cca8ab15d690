import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ZodError } from "zod";
import { UnknownNameError } from "../core/actions.ts";
import { UsageError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import { type Route, RouteError } from "../core/route.ts";
import type { createAccess, Scope } from "./access.ts";

export interface MountContext {
  readonly app: FastifyInstance;
  readonly access: ReturnType<typeof createAccess>;
  readonly log: Log;
  /** Aborts when the server stops. */
  readonly signal: AbortSignal;
}

/** Serves a route: token, params, query and body are checked before it runs. */
export function mountRoute(context: MountContext, route: Route): void {
  context.app.route({
    method: route.method,
    url: route.path,
    preParsing: async (request) => admit(context, request, route.scope),
    async handler(request, reply) {
      const response = await route.run({
        params: route.params.parse(request.params),
        query: route.query.parse(request.query),
        body: route.body?.parse(request.body),
        caller: callers.get(request)!,
        signal: AbortSignal.any([context.signal, goneSignal(reply)]),
        stopped: context.signal,
      });
      reply.code(route.status ?? 200);
      return response ?? null;
    },
  });
}

const callers = new WeakMap<FastifyRequest, string>();

/** Before the body is read: a stranger's bytes are not even parsed. */
export function admit({ access }: Pick<MountContext, "access">, request: FastifyRequest, scope: Scope): void {
  const admitted = access.admit(request.raw, request.ip, scope);
  if ("caller" in admitted) callers.set(request, admitted.caller);
  else throw new RouteError(admitted.status, admitted.message);
}

export function goneSignal(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once("close", () => {
    if (!reply.raw.writableFinished) gone.abort(new Error("The client went away."));
  });
  return gone.signal;
}

/** Every refusal has the same shape: `{ error: { status, message } }`, with further members where a route adds them. */
export function answerErrors({ app, log }: Pick<MountContext, "app" | "log">): void {
  app.setErrorHandler((error, request, reply) => {
    const { status, message } = refusalOf(error);
    if (status === 401) reply.header("www-authenticate", 'Bearer realm="tidemark"');
    if (status >= 500)
      log.error({ err: error, method: request.method, url: request.url }, "A request failed.");
    const more = error instanceof RouteError ? error.body : {};
    reply
      .code(status)
      .type("application/json")
      .send({ error: { status, message }, ...more });
  });
  app.setNotFoundHandler((_, reply) => {
    reply.code(404).send({ error: { status: 404, message: "There is nothing here." } });
  });
}

function refusalOf(error: unknown): { status: number; message: string } {
  if (error instanceof RouteError) return { status: error.status, message: error.message };
  if (error instanceof ZodError) {
    const problems = error.issues.map(({ path, message }) =>
      path.length > 0 ? `${path.join(".")}: ${message}` : message,
    );
    return { status: 400, message: problems.join("; ") };
  }
  if (error instanceof UnknownNameError) return { status: 404, message: error.message };
  if (error instanceof UsageError) return { status: 400, message: error.message };
  const { statusCode, message } = error as { statusCode?: number; message?: string };
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500)
    return { status: statusCode, message: message ?? "The request is refused." };
  return { status: 500, message: "The request failed inside; the log says why." };
}

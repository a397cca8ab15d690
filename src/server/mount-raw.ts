import type { FastifyReply, FastifyRequest } from "fastify";
import type { RawRoute } from "../core/raw-route.ts";
import { goneSignal, type MountContext } from "./mount.ts";

/** Serves routes that read bytes. They have a scope of their own, because bodies are not parsed there. */
export function mountRawRoutes({ app, access, signal }: MountContext, routes: readonly RawRoute[]): void {
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", { parseAs: "buffer" }, (_, body, done) => done(null, body));
    for (const route of routes) {
      const handler = async (request: FastifyRequest, reply: FastifyReply) => {
        const admitted = access.admit(request.raw, request.ip, "write");
        const { status, headers, body } = await route.run({
          rawHeaders: request.raw.rawHeaders,
          query: request.query as Record<string, unknown>,
          body: Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0),
          isAdministrator: "caller" in admitted && admitted.caller === "token",
          address: request.ip,
          signal: AbortSignal.any([signal, goneSignal(reply)]),
        });
        return reply.code(status).headers(headers).send(body);
      };
      scope.route({ method: route.method, url: route.path, handler });
      if (route.method === "POST")
        scope.route({
          method: ["GET", "PUT", "DELETE"],
          url: route.path,
          handler: (_, reply) =>
            reply.code(405).header("allow", "POST").send(Buffer.from('{"message":"Method not allowed"}')),
        });
    }
  });
}

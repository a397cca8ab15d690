import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import fastify, { type FastifyInstance } from "fastify";
import type { Actions } from "../core/actions.ts";
import type { Clock } from "../core/clock.ts";
import { UsageError } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { RawRoute } from "../core/raw-route.ts";
import { type Route, RouteError } from "../core/route.ts";
import type { PeersView } from "../core/view/peers.ts";
import type { View } from "../core/view.ts";
import { createAccess, createHostCheck } from "./access.ts";
import { mountAssets } from "./assets.ts";
import type { ServerConfig } from "./config.ts";
import { SECURITY_HEADERS } from "./headers.ts";
import { createRateLimit, limitConnections } from "./limits.ts";
import { createLiveStream } from "./live-stream.ts";
import { admit, answerErrors, type MountContext, mountRoute } from "./mount.ts";
import { mountRawRoutes } from "./mount-raw.ts";
import { openapiOf } from "./openapi.ts";
import { createPeers, type Peers } from "./peers.ts";
import { actionRoutes, peersRoute, viewRoutes } from "./routes.ts";

export interface ServerOptions {
  readonly config: ServerConfig;
  readonly version: string;
  readonly view: View;
  readonly actions: Actions;
  /** Further operations, of other parts. */
  readonly routes: readonly Route[];
  /** Further operations that read bytes. */
  readonly rawRoutes?: readonly RawRoute[] | undefined;
  /** The other processes, where they are not those of config.peers. */
  readonly others?: ((signal: AbortSignal) => Promise<PeersView>) | undefined;
  readonly clock: Clock;
  readonly log: Log;
  /** The metrics in Prometheus' text format. */
  metricsText(): Promise<string>;
  /** Stops the server. */
  readonly signal: AbortSignal;
}

export interface Server {
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
}

const BODY_BYTES_MAX = 262_144;
const HEADER_BYTES_MAX = 16_384;
const HEADERS_MS_MAX = 5000;
const KEEP_ALIVE_MS = 5000;
const CHECK_MS = 1000;
const REQUEST_MS_MAX = 30_000;
const COMPRESS_BYTES_MIN = 1400;

/** Starts the server; refuses a config under which strangers could read or change something. */
export async function startServer(options: ServerOptions): Promise<Server> {
  const { config, clock, log } = options;
  const access = createAccess(config);
  const app = fastify({
    logger: false,
    bodyLimit: BODY_BYTES_MAX,
    requestTimeout: REQUEST_MS_MAX,
    forceCloseConnections: true,
    return503OnClosing: true,
    keepAliveTimeout: KEEP_ALIVE_MS,
    http: {
      maxHeaderSize: HEADER_BYTES_MAX,
      headersTimeout: HEADERS_MS_MAX,
      connectionsCheckingInterval: CHECK_MS,
    },
    routerOptions: { maxParamLength: 200 },
  });
  limitConnections(app.server);
  app.removeContentTypeParser("text/plain");
  const stopping = new AbortController();
  const signal = AbortSignal.any([options.signal, stopping.signal]);
  const stream = createLiveStream({ view: options.view, clock, log, clientsMax: config.clients, signal });
  const context: MountContext = { app, access, log, signal };
  guard(app, config, clock);
  answerErrors(context);
  mountAssets(app);
  mountHealth(app, options, signal);
  const peers = createPeers(config.peers, options.view, clock);
  mountApi(context, options, stream, peers);
  mountRawRoutes(context, options.rawRoutes ?? []);
  await listen(app, config);
  const { port } = app.server.address() as AddressInfo;
  const url = `http://${config.host.includes(":") ? `[${config.host}]` : config.host}:${port}/`;
  log.info(
    { url, tokenForReading: !access.readsAreFree, changes: access.writes },
    "The status page is available.",
  );
  const close = async () => {
    stopping.abort(new Error("The server stops."));
    stream.close();
    await peers.close();
    return app.close();
  };
  options.signal.addEventListener("abort", () => void close(), { once: true });
  return { url, port, close };
}

/** Checks of every request (its host name, its rate) and headers of every answer. */
function guard(app: FastifyInstance, config: ServerConfig, clock: Clock): void {
  const isOurName = createHostCheck(config);
  const waitSeconds = createRateLimit(clock, config.requestsPerSecond);
  const compress = promisify(gzip);
  app.addHook("onRequest", async (request, reply) => {
    reply.headers(SECURITY_HEADERS);
    if (!isOurName(request.headers.host))
      throw new RouteError(
        421,
        "The server does not answer to this host name: add it to server.hosts in the config, or use an address.",
      );
    const seconds = waitSeconds(request.ip);
    if (seconds > 0) {
      reply.header("retry-after", seconds);
      throw new RouteError(429, "Too many requests. Wait a moment.");
    }
  });
  app.addHook("onSend", async (request, reply, payload) => {
    if (typeof payload !== "string" || payload.length < COMPRESS_BYTES_MIN) return payload;
    if (!/\bgzip\b/.test(request.headers["accept-encoding"] ?? "")) return payload;
    reply.header("content-encoding", "gzip").header("vary", "accept-encoding").removeHeader("content-length");
    return compress(payload, { level: 4 });
  });
}

/** Alive: the process answers. Ready: it can read its state and is not stopping. Problems elsewhere make it degraded. */
function mountHealth(app: FastifyInstance, { view, log }: ServerOptions, signal: AbortSignal): void {
  app.get("/livez", async () => ({ status: "alive" }));
  app.get("/readyz", async (_, reply) => {
    if (signal.aborted) return reply.code(503).send({ status: "stopping" });
    try {
      const { health } = await view.status();
      return { status: health === "good" ? "ready" : "degraded" };
    } catch (error) {
      log.error({ err: error }, "The state cannot be read.");
      return reply.code(503).send({ status: "failing" });
    }
  });
}

function mountApi(
  context: MountContext,
  options: ServerOptions,
  stream: ReturnType<typeof createLiveStream>,
  peers: Peers,
): void {
  const { app, access } = context;
  const routes = [
    ...viewRoutes(options.view),
    // Others may be waiting for the same answer, so it does not end with the one who asked first.
    peersRoute(() => (options.others ?? peers.list)(context.signal)),
    ...actionRoutes(options.actions),
    ...options.routes,
  ];
  for (const route of routes) mountRoute(context, route);
  const read = {
    preParsing: async (request: Parameters<typeof admit>[1]) => admit(context, request, "read"),
  };
  app.get("/metrics", read, async (_, reply) => {
    reply.type("text/plain; version=0.0.4; charset=utf-8");
    return options.metricsText();
  });
  const openapi = openapiOf(routes, options.version);
  app.get("/api/openapi.json", read, async () => openapi);
  app.get("/api/access", async () => ({ readNeedsToken: !access.readsAreFree, changes: access.writes }));
  app.get("/api/events", read, async (request, reply) => {
    // The headers are the whole answer to HEAD.
    if (request.method === "HEAD") return reply.type("text/event-stream; charset=utf-8").send();
    await stream.join(reply.raw);
    return reply.hijack();
  });
}

async function listen(app: FastifyInstance, { host, port }: ServerConfig): Promise<void> {
  try {
    await app.listen({ host, port, exclusive: true });
  } catch (error) {
    await app.close();
    throw new UsageError(
      `The server cannot listen on ${host} port ${port} (${(error as Error).message}). Choose another server.port, or stop the program that uses it.`,
      { cause: error },
    );
  }
}

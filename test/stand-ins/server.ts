import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";

/** A request as the stand-ins see it: whole, and decompressed. */
export interface Received {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The length on the wire, before decompression. */
  readonly wireBytes: number;
}

export interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON unless it is a string or a buffer. */
  readonly body?: unknown;
}

/** Faults that a server of this kind can be made to show. */
export interface StandInServer {
  readonly url: string;
  /** Every request that was read, answered or not. */
  readonly received: readonly Received[];
  /** The next requests are read and never answered; resolves when the first one is in flight. */
  hang(): Promise<void>;
  /** The next request with events in it is handled as always, and then its connection is cut instead of answered. */
  cutNext(): void;
  /** Answers every request like this instead, after so many that are still handled as always, until `normal`. */
  answerAll(reply: Reply, after?: number): void;
  normal(): void;
  close(): Promise<void>;
}

/** The request that a sink sends at open is shorter than any batch of the tests. */
const PROBE_BYTES_MAX = 300;

/** An HTTP server on a free port that answers as `respond` says. */
export async function startServer(
  respond: (received: Received) => Reply | Promise<Reply>,
): Promise<StandInServer> {
  const received: Received[] = [];
  let override: { readonly reply: Reply; readonly from: number } | undefined;
  let isCutting = false;
  let onHang: (() => void) | undefined;

  const server = createServer(async (request, response) => {
    const read = await readRequest(request);
    if (!read) return;
    received.push(read);
    if (onHang) return onHang();
    const reply = override && received.length > override.from ? override.reply : await respond(read);
    if (isCutting && read.body.length > PROBE_BYTES_MAX) {
      isCutting = false;
      request.socket.destroy();
      return;
    }
    send(response, reply);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    hang: () =>
      new Promise((resolve) => {
        onHang = resolve;
      }),
    cutNext() {
      isCutting = true;
    },
    answerAll(reply, after = 0) {
      override = { reply, from: received.length + after };
    },
    normal() {
      onHang = undefined;
      isCutting = false;
      override = undefined;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function readRequest(request: IncomingMessage): Promise<Received | undefined> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of request) chunks.push(chunk as Buffer);
  } catch {
    return undefined;
  }
  const wire = Buffer.concat(chunks);
  const url = new URL(request.url ?? "/", "http://stand-in");
  return {
    method: request.method ?? "",
    path: url.pathname,
    query: url.searchParams,
    headers: request.headers,
    body: request.headers["content-encoding"] === "gzip" ? gunzipSync(wire) : wire,
    wireBytes: wire.length,
  };
}

function send(response: ServerResponse, reply: Reply): void {
  const isReady = typeof reply.body === "string" || Buffer.isBuffer(reply.body);
  const body = isReady ? reply.body : JSON.stringify(reply.body ?? {});
  response.writeHead(reply.status, { "content-type": "application/json", ...reply.headers });
  response.end(reply.status === 204 ? undefined : body);
}

import { createServer, type IncomingHttpHeaders, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";

/** One exchange with the service behind the proxy. */
export interface Exchange {
  readonly path: string;
  readonly organizations: readonly string[];
  readonly query: { readonly limit?: number; readonly search_after?: unknown; readonly fields?: unknown };
  status: number;
  headers: Record<string, string>;
  body: Buffer;
  /** Ends the connection after so many bytes of the body. */
  cutAt?: number;
  /** Nothing is sent after so many bytes of the body. */
  stallsAt?: number;
  /** Nothing is sent. */
  hangs?: boolean;
}

/** Changes answers of a real server on their way: what no well-behaved service sends. */
export interface AnswerProxy {
  readonly url: string;
  readonly exchanges: readonly Exchange[];
  /** undefined lets everything pass. */
  change: ((exchange: Exchange) => void) | undefined;
  /** Changes the query that the server is asked; undefined leaves it as it is. */
  ask: ((query: Record<string, unknown>) => Record<string, unknown>) | undefined;
  close(): Promise<void>;
}

export async function startProxy(target: string): Promise<AnswerProxy> {
  const exchanges: Exchange[] = [];
  const server = createServer((incoming, outgoing) => {
    const parts: Buffer[] = [];
    incoming.on("data", (part: Buffer) => parts.push(part));
    incoming.on("end", () => {
      const asked = Buffer.concat(parts);
      const isChanged = proxy.ask !== undefined && asked.length > 0;
      const body = isChanged ? Buffer.from(JSON.stringify(proxy.ask!(JSON.parse(asked.toString())))) : asked;
      const { "content-length": _, ...headers } = incoming.headers;
      const upstream = request(
        new URL(incoming.url!, target),
        {
          method: incoming.method!,
          headers: { ...headers, host: new URL(target).host, "content-length": body.length },
        },
        (answer) => {
          const chunks: Buffer[] = [];
          answer.on("data", (chunk: Buffer) => chunks.push(chunk));
          answer.on("end", () => {
            const exchange: Exchange = {
              path: incoming.url!,
              organizations: listOf(incoming.headers["x-org-id"]),
              query: asked.length === 0 ? {} : JSON.parse(asked.toString()),
              status: answer.statusCode!,
              ...plain(answer.headers, Buffer.concat(chunks)),
            };
            exchanges.push(exchange);
            proxy.change?.(exchange);
            if (!exchange.hangs) send(outgoing, exchange);
          });
        },
      );
      upstream.on("error", () => outgoing.destroy());
      upstream.end(body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const proxy: AnswerProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    exchanges,
    change: undefined,
    ask: undefined,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  return proxy;
}

function listOf(value: string | string[] | undefined): string[] {
  return (Array.isArray(value) ? value.join(",") : (value ?? "")).split(/,\s*/).filter((id) => id !== "");
}

function plain(headers: IncomingHttpHeaders, body: Buffer): Pick<Exchange, "headers" | "body"> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers))
    if (!/^(content-length|transfer-encoding|content-encoding|connection|keep-alive)$/.test(name))
      kept[name] = String(value);
  return { headers: kept, body: headers["content-encoding"] === "gzip" ? gunzipSync(body) : body };
}

function send(outgoing: ServerResponse, { status, headers, body, cutAt, stallsAt }: Exchange): void {
  outgoing.writeHead(status, { ...headers, "content-length": String(body.length) });
  if (stallsAt !== undefined) outgoing.write(body.subarray(0, stallsAt));
  else if (cutAt === undefined) outgoing.end(body);
  else outgoing.write(body.subarray(0, cutAt), () => outgoing.destroy());
}

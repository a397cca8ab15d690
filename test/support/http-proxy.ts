import { createServer, type IncomingHttpHeaders, request } from "node:http";
import type { AddressInfo } from "node:net";

export interface ProxiedRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  /** From 1, among the requests with this method. */
  readonly number: number;
  /** Of the body. */
  readonly bytes: number;
}

/** pass: forwarded · cut: forwarded, and the connection is cut instead of answered · otherwise this answer instead */
export type Fate =
  | "pass"
  | "cut"
  | { readonly status: number; readonly headers?: Readonly<Record<string, string>>; readonly body?: string };

export interface HttpProxy {
  readonly url: string;
  /** All requests, with the status that the service gave; undefined where it was not asked. */
  readonly seen: (ProxiedRequest & { readonly status: number | undefined })[];
  decide(fate: (request: ProxiedRequest) => Fate): void;
  close(): Promise<void>;
}

/** An HTTP proxy on a free port that decides about each request. Headers stay as they are, so signatures stay valid. */
export async function startHttpProxy(target: string): Promise<HttpProxy> {
  const { hostname, port } = new URL(target);
  const seen: HttpProxy["seen"] = [];
  const numbers = new Map<string, number>();
  let fateOf: (request: ProxiedRequest) => Fate = () => "pass";

  const server = createServer(async (incoming, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const { method = "", url: path = "" } = incoming;
    const number = (numbers.get(method) ?? 0) + 1;
    numbers.set(method, number);
    const bytes = chunks.reduce((sum, { length }) => sum + length, 0);
    const fate = fateOf({ method, path, number, bytes });
    if (typeof fate === "object") {
      seen.push({ method, path, number, bytes, status: undefined });
      response.writeHead(fate.status, fate.headers).end(fate.body);
      return;
    }
    const headers = without(incoming.headers, "expect");
    const outgoing = request({ hostname, port, method, path, headers }, (answer) => {
      seen.push({ method, path, number, bytes, status: answer.statusCode });
      if (fate === "cut") {
        answer.resume();
        incoming.socket.destroy();
        return;
      }
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    outgoing.on("error", () => incoming.socket.destroy());
    outgoing.end(Buffer.concat(chunks));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    decide(fate) {
      fateOf = fate;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function without(headers: IncomingHttpHeaders, name: string): IncomingHttpHeaders {
  const { [name]: _, ...others } = headers;
  return others;
}

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";

/**
 * A destination to practise with: it takes events over HTTP as a SIEM would, answers 401 for a wrong token, and
 * refuses batches with an event type that it does not know.
 *
 * - `POST /events` with `Authorization: Bearer …`: a JSON array or one event per line, plain or gzip.
 * - `GET /`: how many events it took, and which types it refuses.
 * - `DELETE /refused`: it refuses nothing any more.
 */
export interface Receiver {
  readonly url: string;
  readonly token: string;
  received(): number;
  close(): Promise<void>;
}

export interface ReceiverOptions {
  readonly port?: number;
  readonly host?: string;
  readonly token?: string;
  readonly refuses?: readonly string[];
}

const BODY_BYTES_MAX = 64 * 1024 * 1024;

export async function startReceiver(options: ReceiverOptions = {}): Promise<Receiver> {
  const token = options.token ?? "practice-token";
  const refused = new Set(options.refuses);
  const identities = new Set<string>();
  let received = 0;

  async function take(request: IncomingMessage): Promise<[number, object]> {
    const events = eventsOf(await bodyOf(request));
    if (events === undefined) return [400, { title: "the body is neither a JSON array nor lines of JSON" }];
    const unknown = events.find(({ event_type }) => refused.has(String(event_type)));
    if (unknown !== undefined)
      return [422, { title: `event_type ${unknown.event_type} is not in the schema` }];
    // A batch whose answer was lost is sent again with the same key.
    const key = String(request.headers["idempotency-key"] ?? "");
    if (key === "" || !identities.has(key)) received += events.length;
    identities.add(key);
    return [200, { taken: events.length }];
  }

  async function answer(request: IncomingMessage): Promise<[number, object]> {
    const { pathname } = new URL(request.url ?? "/", "http://receiver");
    if (pathname === "/events") {
      if (request.headers.authorization !== `Bearer ${token}`)
        return [401, { title: "the token is not known here" }];
      return request.method === "POST" ? take(request) : [200, { title: "POST events here" }];
    }
    if (pathname === "/refused" && request.method === "DELETE") refused.clear();
    else if (pathname !== "/") return [404, { title: "POST /events, GET / or DELETE /refused" }];
    return [200, { events: received, refuses: [...refused] }];
  }

  const server = createServer((request, response) => {
    answer(request)
      .catch((error: Error): [number, object] => [400, { title: error.message }])
      .then(([status, body]) => send(response, status, body));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port ?? 0, options.host ?? "127.0.0.1", resolve);
  });
  return {
    url: `http://${options.host ?? "127.0.0.1"}:${(server.address() as AddressInfo).port}`,
    token,
    received: () => received,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(`${JSON.stringify(body)}\n`);
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > BODY_BYTES_MAX) throw new Error("the body is too large");
    chunks.push(chunk);
  }
  const body = Buffer.concat(chunks);
  const isPacked = request.headers["content-encoding"] === "gzip";
  return (isPacked ? gunzipSync(body, { maxOutputLength: BODY_BYTES_MAX }) : body).toString("utf8");
}

type AnyEvent = Readonly<Record<string, unknown>>;

function eventsOf(text: string): readonly AnyEvent[] | undefined {
  try {
    if (text.startsWith("[")) return JSON.parse(text) as AnyEvent[];
    return text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as AnyEvent);
  } catch {
    return undefined;
  }
}

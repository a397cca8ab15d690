import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface ScimServer {
  readonly url: string;
  readonly token: string;
  readonly users: Map<string, Record<string, unknown>>;
  /** Method and path of every call, in order. */
  readonly calls: string[];
  /** Answers that come before the real ones. */
  readonly failures: number[];
  close(): Promise<void>;
}

/** A small SCIM 2.0 service provider: Users with create, replace, patch of active, and a filter by userName. */
export async function startScimServer(): Promise<ScimServer> {
  const users = new Map<string, Record<string, unknown>>();
  const calls: string[] = [];
  const failures: number[] = [];
  const token = "scim-secret";
  let next = 1;

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url!, "http://scim");
    const pieces: Buffer[] = [];
    for await (const piece of request as AsyncIterable<Buffer>) pieces.push(piece);
    const body =
      pieces.length === 0 ? {} : (JSON.parse(Buffer.concat(pieces).toString()) as Record<string, unknown>);
    calls.push(`${request.method} ${url.pathname}`);
    const send = (status: number, value: unknown) => {
      response.writeHead(status, { "content-type": "application/scim+json" });
      response.end(JSON.stringify(value));
    };
    const failure = failures.shift();
    if (failure !== undefined) return send(failure, { detail: "as told" });
    if (request.headers.authorization !== `Bearer ${token}`) return send(401, {});
    const id = url.pathname.split("/")[3];
    if (request.method === "GET") {
      const name = /^userName eq "(.*)"$/.exec(url.searchParams.get("filter") ?? "")?.[1];
      return send(200, { Resources: [...users.values()].filter((user) => user.userName === name) });
    }
    if (request.method === "POST") {
      if ([...users.values()].some((user) => user.userName === body.userName)) return send(409, {});
      const created = { ...body, id: `remote-${next++}` };
      users.set(created.id, created);
      return send(201, created);
    }
    const user = users.get(id!);
    if (user === undefined) return send(404, {});
    if (request.method === "PUT") users.set(id!, { ...body, id });
    if (request.method === "PATCH") {
      for (const { path, value } of body.Operations as { path: string; value: unknown }[]) user[path] = value;
    }
    return send(200, users.get(id!));
  }

  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/scim/`,
    token,
    users,
    calls,
    failures,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

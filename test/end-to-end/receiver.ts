import { createHash } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** A small HTTP server that takes lines of events. */
export interface Receiver {
  readonly port: number;
  readonly url: string;
  /** The lines that were taken, in arrival order. */
  readonly lines: string[];
  readonly requests: number;
  /** Milliseconds that every request takes. */
  delayMs: number;
  /** A request with such a line is refused whole, with 422. */
  refuses: (line: string) => boolean;
  close(): Promise<void>;
}

export async function startReceiver(port = 0): Promise<Receiver> {
  const lines: string[] = [];
  let requests = 0;
  const receiver = { delayMs: 0, refuses: (_line: string) => false };
  const server: Server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    requests++;
    if (receiver.delayMs > 0) await sleep(receiver.delayMs);
    const sent = Buffer.concat(chunks).toString().split("\n").slice(0, -1);
    if (sent.some((line) => receiver.refuses(line))) {
      response.writeHead(422, { "content-type": "application/json" }).end('{"title":"it holds a bad event"}');
      return;
    }
    lines.push(...sent);
    response.writeHead(200).end();
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const bound = (server.address() as AddressInfo).port;
  return Object.assign(receiver, {
    port: bound,
    url: `http://127.0.0.1:${bound}/events`,
    lines,
    get requests() {
      return requests;
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  });
}

/** About every hundredth event, always the same ones. */
export function isHundredth(line: string): boolean {
  return createHash("sha256").update(line).digest().readUInt16LE(0) % 100 === 0;
}

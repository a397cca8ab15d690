import { connect, createServer, type Socket } from "node:net";

export interface TcpProxy {
  readonly port: number;
  /** Reads and drops what clients send; resolves when the first of it arrives. */
  hang(): Promise<void>;
  /** The next request whose head matches is passed on, and its connection is cut when the answer comes. */
  cutAnswerTo(head: RegExp): void;
  normal(): void;
  close(): Promise<void>;
}

/** A TCP proxy on a free port that can be made to misbehave; it does not look into TLS. */
export async function startTcpProxy(targetPort: number): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let cutHead: RegExp | undefined;
  let onHang: (() => void) | undefined;

  const server = createServer((client) => {
    const upstream = connect(targetPort, "127.0.0.1");
    let isCutting = false;
    const end = () => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", end);
      socket.on("close", () => {
        sockets.delete(socket);
        end();
      });
    }
    client.on("data", (chunk) => {
      if (onHang) return onHang();
      if (cutHead?.test(chunk.toString("latin1"))) {
        cutHead = undefined;
        isCutting = true;
      }
      upstream.write(chunk);
    });
    upstream.on("data", (chunk) => {
      // An interim answer (100 Continue) must pass, or the body never comes.
      if (isCutting && !chunk.toString("latin1").startsWith("HTTP/1.1 100")) end();
      else client.write(chunk);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));

  return {
    port: (server.address() as { port: number }).port,
    hang: () =>
      new Promise((resolve) => {
        onHang = resolve;
      }),
    cutAnswerTo(head) {
      cutHead = head;
    },
    normal() {
      // A connection whose bytes were swallowed is of no use any more.
      if (onHang) for (const socket of sockets) socket.destroy();
      onHang = undefined;
      cutHead = undefined;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

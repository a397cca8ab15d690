import type { Socket } from "node:net";
import { type ConnectionOptions, guarded, isStanding, openSocket, writeTo } from "./socket.ts";

/** A connection to a receiver that never answers; made anew whenever it is gone. */
export interface SyslogConnection {
  connect(signal: AbortSignal): Promise<void>;
  /** Resolves when the bytes count as delivered. */
  send(bytes: Uint8Array, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

/** One connection for as long as it holds. Bytes count as delivered when the kernel has taken them. */
export function makeLasting(options: ConnectionOptions): SyslogConnection {
  let socket: Socket | undefined;

  async function connected(signal: AbortSignal): Promise<Socket> {
    if (socket && isStanding(socket)) return socket;
    socket?.destroy();
    socket = await openSocket(options, signal, { isAccepted: true });
    return socket;
  }

  /** A step that fails leaves half a message behind: the socket goes. */
  function step<Result>(signal: AbortSignal, work: (inner: AbortSignal) => Promise<Result>): Promise<Result> {
    return guarded(options, signal, work).catch((error: unknown) => {
      socket?.destroy();
      socket = undefined;
      throw error;
    });
  }

  return {
    connect: (signal) => step(signal, async (inner) => void (await connected(inner))),
    send: (bytes, signal) => step(signal, async (inner) => writeTo(await connected(inner), bytes, inner)),
    async close() {
      const open = socket;
      socket = undefined;
      if (!open || open.destroyed) return;
      await new Promise<void>((resolve) => {
        open.once("close", resolve);
        open.end();
        open.destroySoon();
      });
    },
  };
}

import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../core/clock.ts";

const ADDRESSES_MAX = 10_000;
const BURST_SECONDS = 4;
const CONNECTIONS_MAX = 512;
const CONNECTIONS_PER_ADDRESS_MAX = 128;

/** A token bucket for each address; the addresses that were silent longest are forgotten first. */
export function createRateLimit(clock: Clock, perSecond: number) {
  const buckets = new Map<string, { left: number; ms: number }>();
  const most = perSecond * BURST_SECONDS;

  /** Seconds to wait, or 0 when the request may go on. */
  return (address: string): number => {
    const nowMs = clock.now();
    const bucket = buckets.get(address) ?? { left: most, ms: nowMs };
    buckets.delete(address);
    bucket.left = Math.min(most, bucket.left + (Math.max(0, nowMs - bucket.ms) / 1000) * perSecond);
    bucket.ms = nowMs;
    buckets.set(address, bucket);
    if (buckets.size > ADDRESSES_MAX) buckets.delete(buckets.keys().next().value!);
    if (bucket.left < 1) return Math.max(1, Math.ceil((1 - bucket.left) / perSecond));
    bucket.left--;
    return 0;
  };
}

/**
 * Bounds the open connections, in all and for one address. Beyond the bound the oldest connection without a
 * request is closed, so that idle connections never keep a new request out.
 */
export function limitConnections(server: Server): void {
  /** Open sockets in the order of their arrival, with the number of requests in work. */
  const sockets = new Map<Socket, { readonly address: string; requests: number }>();

  server.on("connection", (socket: Socket) => {
    const address = socket.remoteAddress ?? "";
    sockets.set(socket, { address, requests: 0 });
    socket.once("close", () => sockets.delete(socket));
    const sameAddress = [...sockets].filter(([, entry]) => entry.address === address);
    if (sameAddress.length > CONNECTIONS_PER_ADDRESS_MAX) closeOldest(sameAddress, socket);
    else if (sockets.size > CONNECTIONS_MAX) closeOldest([...sockets], socket);
  });
  server.on("request", ({ socket }: IncomingMessage, response: ServerResponse) => {
    const entry = sockets.get(socket);
    if (entry === undefined) return;
    entry.requests++;
    response.once("close", () => entry.requests--);
  });

  function closeOldest(
    candidates: readonly (readonly [Socket, { readonly requests: number }])[],
    newest: Socket,
  ): void {
    const idle = candidates.find(([socket, { requests }]) => requests === 0 && socket !== newest);
    (idle?.[0] ?? newest).destroy();
  }
}

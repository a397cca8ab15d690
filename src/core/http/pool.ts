import type { Agent } from "undici";
import { type TlsOptions, VERIFIED } from "./tls.ts";

export interface PoolOptions {
  /** Connections to one origin. */
  readonly connections: number;
  readonly connectTimeoutMs: number;
  /** 0: the caller has a deadline of its own. */
  readonly headersTimeoutMs: number;
  /** Between two pieces of a body; 0: the caller has a deadline of its own. */
  readonly bodyTimeoutMs: number;
  readonly tls?: Partial<TlsOptions>;
}

/**
 * A pool of keep-alive connections. undici is loaded here and nowhere else, when the first pool is opened:
 * that takes about as long as loading the rest of a command, and most commands need no HTTP.
 */
export async function openPool(options: PoolOptions): Promise<Agent> {
  const { Agent } = await import("undici");
  return new Agent({
    connections: options.connections,
    pipelining: 1,
    headersTimeout: options.headersTimeoutMs,
    bodyTimeout: options.bodyTimeoutMs,
    keepAliveTimeout: 10_000,
    keepAliveMaxTimeout: 60_000,
    maxHeaderSize: 256 * 1024,
    connect: { timeout: options.connectTimeoutMs, ...options.tls, ...VERIFIED },
  });
}

import { hash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { UsageError } from "../core/errors.ts";
import type { ServerConfig } from "./config.ts";

/** content: a read that shows the contents of events. */
export type Scope = "read" | "content" | "write";

/** The caller, or the refusal to answer with. */
export type Access = { readonly caller: string } | { readonly status: 401 | 403; readonly message: string };

const TOKEN_LENGTH_MIN = 16;

/**
 * Writes and the contents of events always need a token. Other reads are free only where no token is
 * configured, on a loopback address, and for requests that no proxy has forwarded: a proxy on this machine
 * would publish them. A token that is presented and wrong is always refused.
 */
export function createAccess(config: ServerConfig) {
  refuseUnsafe(config);
  const write = config.token && digestOf(config.token.reveal());
  const read = config.readToken && digestOf(config.readToken.reveal());
  const hasToken = write !== undefined || read !== undefined;

  return {
    readsAreFree: !hasToken,
    writes: write !== undefined,
    admit(request: Pick<IncomingMessage, "headers" | "httpVersion">, address: string, scope: Scope): Access {
      const { headers } = request;
      const presented = /^Bearer +(\S+)$/i.exec(headers.authorization ?? "")?.[1];
      if (presented !== undefined) {
        // Digests have one length, and both are always compared, so that the time says nothing.
        const digest = digestOf(presented);
        const mayWrite = timingSafeEqual(digest, write ?? NO_DIGEST) && write !== undefined;
        const mayRead = timingSafeEqual(digest, read ?? NO_DIGEST) && read !== undefined;
        if (mayWrite) return { caller: "token" };
        if (mayRead && scope !== "write") return { caller: "readToken" };
        if (mayRead) return { status: 403, message: "This token may only read." };
        return { status: 401, message: "The token is wrong." };
      }
      if (hasToken && (scope !== "write" || write !== undefined))
        return { status: 401, message: "A token is needed: send it as Authorization: Bearer TOKEN." };
      if (scope !== "read") return { status: 403, message: NEEDS[scope] };
      if (wasForwarded(request)) return { status: 403, message: FORWARDED };
      return { caller: address };
    },
  };
}

/** Whether a caller that was admitted has presented a token, and may see the contents of events. */
export function isTokenHolder(caller: string): boolean {
  return caller === "token" || caller === "readToken";
}

const NEEDS = {
  write: "Changes need a token: set server.token in the config.",
  content: "The contents of events need a token: set server.token in the config.",
};
const FORWARDED =
  "This request came through a proxy, and without a token everybody could read: set server.token in the config.";

/** Proxies say so in headers; those that do not (a plain nginx) speak HTTP/1.0, which browsers and tools do not. */
function wasForwarded({ headers, httpVersion }: Pick<IncomingMessage, "headers" | "httpVersion">): boolean {
  if (httpVersion === "1.0") return true;
  return Object.keys(headers).some(
    (name) =>
      name === "forwarded" || name === "via" || name.startsWith("x-forwarded") || name === "x-real-ip",
  );
}

/**
 * Only addresses, localhost and the names of the config are answered: a web page can make its own name point
 * here (DNS rebinding).
 */
export function createHostCheck(config: ServerConfig): (host: string | undefined) => boolean {
  const names = new Set(["localhost", config.host, ...config.hosts].map((name) => name.toLowerCase()));
  return (host) => {
    if (host === undefined) return false;
    const match = /^(?:\[([0-9a-f:.]+)\]|([^:[\]]+))(?::\d{1,5})?$/i.exec(host);
    if (match === null) return false;
    const name = (match[1] ?? match[2]!).toLowerCase().replace(/\.$/, "");
    return isIP(name) !== 0 || names.has(name);
  };
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host);
}

const NO_DIGEST = Buffer.alloc(32);

function digestOf(token: string): Buffer {
  return Buffer.from(hash("sha256", token, "hex"), "hex");
}

/** Throws UsageError for a config under which strangers could read or change something. */
export function refuseUnsafe(config: ServerConfig): void {
  if (config.token === undefined && !isLoopback(config.host)) {
    throw new UsageError(
      `server.host is ${config.host}, which other machines can reach, and there is no server.token. Set one, or listen on 127.0.0.1.`,
    );
  }
  for (const name of ["token", "readToken"] as const) {
    const length = config[name]?.reveal().length ?? TOKEN_LENGTH_MIN;
    if (length < TOKEN_LENGTH_MIN) {
      throw new UsageError(
        `server.${name} has ${length} characters and needs at least ${TOKEN_LENGTH_MIN}. Make one with "openssl rand -hex 24".`,
      );
    }
  }
  if (config.token !== undefined && config.token.reveal() === config.readToken?.reveal())
    throw new UsageError("server.token and server.readToken are the same: give each its own value.");
}

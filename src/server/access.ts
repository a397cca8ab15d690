import { hash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { isIP } from "node:net";
import { UsageError } from "../core/errors.ts";
import type { ServerConfig } from "./config.ts";

export type Scope = "read" | "write";

/** Who asks; or the refusal to answer with. */
export type Access = { readonly caller: string } | { readonly status: 401 | 403; readonly message: string };

const TOKEN_LENGTH_MIN = 16;

/**
 * Writes always need the token. Reads need a token when the server listens beyond this machine, or when a
 * token for reading is set. A token that is presented and wrong is refused in any case.
 */
export function createAccess(config: ServerConfig) {
  checkConfig(config);
  const write = config.token && digestOf(config.token.reveal());
  const read = config.readToken && digestOf(config.readToken.reveal());
  const readsAreFree = isLoopback(config.host) && read === undefined;

  return {
    readsAreFree,
    writes: write !== undefined,
    admit(headers: IncomingHttpHeaders, address: string, scope: Scope): Access {
      const presented = /^Bearer +(\S+)$/i.exec(headers.authorization ?? "")?.[1];
      if (presented !== undefined) {
        // Digests have one length, and comparing both always takes the same time.
        const digest = digestOf(presented);
        const mayWrite = timingSafeEqual(digest, write ?? NOBODY) && write !== undefined;
        const mayRead = timingSafeEqual(digest, read ?? NOBODY) && read !== undefined;
        if (mayWrite) return { caller: "token" };
        if (mayRead && scope === "read") return { caller: "readToken" };
        if (mayRead) return { status: 403, message: "This token may only read." };
        return { status: 401, message: "The token is wrong." };
      }
      if (scope === "read" && readsAreFree) return { caller: address };
      if (scope === "write" && write === undefined)
        return { status: 403, message: "Changes need a token: set server.token in the config." };
      return { status: 401, message: "A token is needed: send it as Authorization: Bearer TOKEN." };
    },
  };
}

/**
 * A page elsewhere can make a name of its own point here (DNS rebinding): only addresses, localhost and the
 * names of the config are answered.
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

export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host);
}

const NOBODY = Buffer.alloc(32);

function digestOf(token: string): Buffer {
  return Buffer.from(hash("sha256", token, "hex"), "hex");
}

function checkConfig(config: ServerConfig): void {
  if (config.token === undefined && !isLoopback(config.host)) {
    throw new UsageError(
      `server.host is ${config.host}, which others can reach, and there is no server.token: set one, or listen on 127.0.0.1.`,
    );
  }
  for (const name of ["token", "readToken"] as const) {
    const length = config[name]?.reveal().length ?? TOKEN_LENGTH_MIN;
    if (length < TOKEN_LENGTH_MIN) {
      throw new UsageError(
        `server.${name} has ${length} characters and needs at least ${TOKEN_LENGTH_MIN}: make one with "openssl rand -hex 24".`,
      );
    }
  }
  if (config.token !== undefined && config.token.reveal() === config.readToken?.reveal())
    throw new UsageError("server.token and server.readToken are the same: give each its own value.");
}

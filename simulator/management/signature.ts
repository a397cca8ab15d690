import { createPublicKey, verify } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { Problem } from "../http/problem.ts";
import type { Db } from "../world/database.ts";

export interface SigningSystem {
  readonly id: string;
  readonly organization: string;
}

/** How far the Date header may be from the service's clock. */
const windowMs = 5 * 60_000;
const datePattern = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

export function isSigned(request: IncomingMessage): boolean {
  return /^signature\b/i.test(request.headers.authorization ?? "");
}

/** The system that signed the request: real RSA over the request line and the Date header. Anything amiss is a 401. */
export function verifySignature(db: Db, request: IncomingMessage, nowMs: number): SigningSystem {
  const parameters = parseAuthorization(request.headers.authorization ?? "");
  if (parameters.algorithm !== "rsa-sha256") throw refused("algorithm must be rsa-sha256");
  if (parameters.headers?.toLowerCase() !== "request-line date")
    throw refused("headers must be request-line date");
  const key = /^system\/([0-9a-f]{24})$/i.exec(parameters.keyId ?? "")?.[1];
  if (key === undefined) throw refused("keyId must be system/<system key>");
  const date = request.headers.date ?? "";
  if (!datePattern.test(date)) throw refused("the Date header is missing or malformed");
  if (!(Math.abs(Date.parse(date) - nowMs) <= windowMs))
    throw refused("the Date header is too far from the service's clock");
  const system = db
    .prepare<
      [string],
      { id: string; organization: string; os: string; enrollment: string; public_key: string | null }
    >("SELECT * FROM systems WHERE id = ?")
    .get(key.toLowerCase());
  if (system === undefined || system.public_key === null) throw refused("there is no such system");
  const signed = Buffer.from(`${request.method} ${request.url} HTTP/${request.httpVersion}\ndate: ${date}`);
  const signature = Buffer.from(parameters.signature ?? "", "base64");
  if (!verify("rsa-sha256", signed, createPublicKey(system.public_key), signature))
    throw refused("the signature does not fit the request");
  if (system.os !== "linux" || system.enrollment !== "agent")
    throw new Problem(403, "The system is not eligible for system context");
  return { id: system.id, organization: system.organization };
}

function parseAuthorization(header: string): Record<string, string> {
  const parameters: Record<string, string> = {};
  for (const [, name, value] of header.matchAll(/(\w+)="([^"]*)"/g)) parameters[name!] = value!;
  return parameters;
}

function refused(reason: string): Problem {
  return new Problem(401, `Unauthorized: ${reason}`);
}

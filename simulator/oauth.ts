import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Caller } from "./access.ts";
import { type Answer, json } from "./http/exchange.ts";
import { Problem } from "./http/problem.ts";

/** A service account: client credentials for a token that lives for a while on the simulator's clock. */
export interface Oauth {
  readonly clientId: string;
  readonly clientSecret: string;
  /** POST /oauth2/token with HTTP Basic and the form scope=api&grant_type=client_credentials. */
  issue(request: IncomingMessage, body: Buffer): Answer;
  /** The service account behind a live bearer token; x-org-id is then mandatory. */
  callerOf(token: string): Caller | undefined;
}

const caller: Caller = {
  key: "oauth",
  role: "administrator",
  organizations: null,
  multiTenant: true,
  scopes: null,
};

export function createOauth(parts: { seed: number; tokenSeconds: number; now: () => number }): Oauth {
  const derive = (what: string) =>
    createHash("sha256").update(`${parts.seed} ${what}`).digest("hex").slice(0, 32);
  const [clientId, clientSecret] = [derive("client"), derive("secret")];
  const expiry = new Map<string, number>();
  let issued = 0;

  return {
    clientId,
    clientSecret,
    issue(request, body) {
      const basic = `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString("base64")}`;
      if (request.method !== "POST")
        throw new Problem(405, "Method not allowed", { headers: { Allow: "POST" } });
      if (request.headers.authorization !== basic) return json(401, { error: "invalid_client" });
      const form = new URLSearchParams(body.toString());
      if (form.get("grant_type") !== "client_credentials")
        return json(400, { error: "unsupported_grant_type" });
      if (form.get("scope") !== "api") return json(400, { error: "invalid_scope" });
      const token = derive(`token ${issued++}`);
      expiry.set(token, parts.now() + parts.tokenSeconds * 1000);
      return json(200, {
        access_token: token,
        expires_in: parts.tokenSeconds,
        scope: "api",
        token_type: "bearer",
      });
    },
    callerOf(token) {
      return (expiry.get(token) ?? 0) > parts.now() ? caller : undefined;
    },
  };
}

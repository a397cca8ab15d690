import type { Clock } from "../../core/clock.ts";
import { PausedError, RetryableError } from "../../core/errors.ts";
import type { Secret } from "../../core/secret.ts";
import type { Answer, Requester } from "../request.ts";
import { isSuccess, jsonOf, saying, statusError } from "../status.ts";

export interface TokenConfig {
  readonly tenantId: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  readonly authority: string;
  readonly scope: string;
}

export interface Tokens {
  /** A token that is valid for a while yet. */
  get(signal: AbortSignal): Promise<string>;
  forget(): void;
}

/** A token is renewed so long before it ends. */
const RENEWAL_MS = 5 * 60_000;

/** Tokens of Entra by client credentials. */
export function makeTokens(requester: Requester, clock: Clock, config: TokenConfig): Tokens {
  const url = `${config.authority.replace(/\/+$/, "")}/${config.tenantId}/oauth2/v2.0/token`;
  let current: { readonly token: string; readonly renewAtMs: number } | undefined;

  return {
    async get(signal) {
      if (current && clock.now() < current.renewAtMs) return current.token;
      const body = new URLSearchParams({
        grant_type: "client_credentials",
        client_id: config.clientId,
        client_secret: config.clientSecret.reveal(),
        scope: config.scope,
      });
      const headers = { "content-type": "application/x-www-form-urlencoded" };
      const answer = await requester.send({ url, headers, body: body.toString() }, signal);
      const { access_token: token, expires_in: seconds } = jsonOf(answer) ?? {};
      if (!isSuccess(answer) || typeof token !== "string") throw tokenError(answer, url);
      const lifeMs = Number(seconds ?? 3600) * 1000;
      current = { token, renewAtMs: clock.now() + Math.max(lifeMs - RENEWAL_MS, lifeMs / 2) };
      return token;
    },
    forget() {
      current = undefined;
    },
  };
}

function tokenError(answer: Answer, url: string): Error {
  const destination = `Entra at ${new URL(url).origin}`;
  const { error, error_description: description } = jsonOf(answer) ?? {};
  // The description goes on with trace ids and the time after its first line.
  const said = saying(error, typeof description === "string" ? description.split(/\r?\n/, 1)[0] : undefined);
  const remedy = "Correct tenantId, clientId and clientSecret; a client secret may have expired.";
  if (isSuccess(answer)) return new RetryableError(`${destination} answered without a token.`);
  const meaning = statusError(answer, { destination, said, remedy });
  return (
    meaning ??
    new PausedError(`${destination} answered ${answer.status}: ${said ?? "no reason given"}`, remedy)
  );
}

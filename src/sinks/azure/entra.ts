import type { Clock } from "../../core/clock.ts";
import { PausedError, RetryableError } from "../../core/errors.ts";
import { clientCredentials, type Tokens } from "../../core/http/client-credentials.ts";
import type { Answer, Requester } from "../../core/http/requester.ts";
import type { Secret } from "../../core/secret.ts";
import { isSuccess, jsonOf, saying, statusError } from "../over-http/status.ts";

export interface EntraClient {
  readonly tenantId: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  readonly authority: string;
  readonly scope: string;
}

/** Tokens of Entra by client credentials. */
export function entraTokens(requester: Requester, clock: Clock, config: EntraClient): Tokens {
  const { clientId, clientSecret, scope } = config;
  const tokenUrl = `${config.authority.replace(/\/+$/, "")}/${config.tenantId}/oauth2/v2.0/token`;
  return clientCredentials({
    client: { tokenUrl, clientId, clientSecret, scope, login: "body" },
    clock,
    send: (request) => requester.send(request, new AbortController().signal),
    refused: (answer) => tokenError(answer as Answer, tokenUrl),
  });
}

function tokenError(answer: Answer, url: string): Error {
  const destination = `Entra at ${new URL(url).origin}`;
  const { error, error_description: description } = jsonOf(answer) ?? {};
  // Trace ids and the time follow after the first line of the description.
  const said = saying(error, typeof description === "string" ? description.split(/\r?\n/, 1)[0] : undefined);
  const remedy = "Correct tenantId, clientId and clientSecret; a client secret may have expired.";
  if (isSuccess(answer)) return new RetryableError(`${destination} answered without a token.`);
  return (
    statusError(answer, { destination, said, remedy }) ??
    new PausedError(`${destination} answered ${answer.status}: ${said ?? "no reason given"}`, remedy)
  );
}

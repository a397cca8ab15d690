import type { Clock } from "../../core/clock.ts";
import { PausedError, RetryableError } from "../../core/errors.ts";
import { clientCredentials } from "../../core/http/client-credentials.ts";
import { makeRequester } from "../../core/http/requester.ts";
import type { Secret } from "../../core/secret.ts";

const TIMEOUT_MS = 10_000;

interface Client {
  readonly tokenUrl: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  readonly scope?: string | undefined;
}

/** The token that kafkajs asks for before every login. */
export function tokenProvider(
  client: Client,
  clock: Clock,
  signal: AbortSignal,
): () => Promise<{ value: string }> {
  const tokens = clientCredentials({
    client: { ...client, login: "basic_encoded" },
    clock,
    async send({ url, headers, body }) {
      // A token lasts for an hour or so: no connection is kept for it.
      const requester = await makeRequester({
        destination: "the authorization server",
        clock,
        timeoutMs: TIMEOUT_MS,
        secrets: [client.clientSecret],
      });
      try {
        return await requester.send({ url, headers, body }, signal);
      } finally {
        await requester.close();
      }
    },
    refused: ({ status }) => refusalOf(status),
  });
  return async () => ({ value: await tokens.get(signal) });
}

function refusalOf(status: number): Error {
  if (status === 200)
    return new PausedError(
      "The authorization server's answer holds no access_token.",
      "check tokenUrl under sasl",
    );
  const message = `The authorization server answered ${status}.`;
  if (status === 408 || status === 429 || status >= 500) return new RetryableError(message);
  return new PausedError(message, "check tokenUrl, clientId, clientSecret and scope under sasl");
}

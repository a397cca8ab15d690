import { z } from "zod";
import type { Clock } from "../../core/clock.ts";
import { PausedError, RetryableError } from "../../core/errors.ts";
import type { Secret } from "../../core/secret.ts";
import { timeoutSignal } from "../../core/timeout.ts";

const TIMEOUT_MS = 10_000;
/** A token is asked for anew this long before it ends. */
const MARGIN_MS = 30_000;

const answerSchema = z.object({ access_token: z.string().min(1), expires_in: z.number().optional() });

interface Client {
  readonly tokenUrl: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  readonly scope?: string | undefined;
}

/** Tokens by the client credentials grant (RFC 6749, 4.4), each used until shortly before its end. */
export function tokenProvider(
  client: Client,
  clock: Clock,
  signal: AbortSignal,
): () => Promise<{ value: string }> {
  let token: { readonly value: string; readonly endsAtMs: number } | undefined;
  return async () => {
    if (token === undefined || token.endsAtMs <= clock.now()) token = await fetchToken(client, clock, signal);
    return { value: token.value };
  };
}

async function fetchToken(client: Client, clock: Clock, signal: AbortSignal) {
  const response = await ask(client, signal);
  if (response.status === 408 || response.status === 429 || response.status >= 500) {
    throw new RetryableError(`The authorization server answered ${response.status}.`);
  }
  if (!response.ok) {
    throw new PausedError(
      `The authorization server answered ${response.status}.`,
      "check tokenUrl, clientId, clientSecret and scope under sasl",
    );
  }
  const answer = answerSchema.safeParse(await response.json().catch(() => undefined));
  if (!answer.success) {
    throw new PausedError(
      "The authorization server's answer holds no access_token.",
      "check tokenUrl under sasl",
    );
  }
  const lifeMs = (answer.data.expires_in ?? 60) * 1000;
  return {
    value: answer.data.access_token,
    endsAtMs: clock.now() + Math.max(lifeMs - MARGIN_MS, lifeMs / 2),
  };
}

async function ask(
  { tokenUrl, clientId, clientSecret, scope }: Client,
  signal: AbortSignal,
): Promise<Response> {
  const login = `${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret.reveal())}`;
  try {
    return await fetch(tokenUrl, {
      method: "POST",
      // The secret follows no redirect.
      redirect: "error",
      headers: {
        authorization: `Basic ${Buffer.from(login).toString("base64")}`,
        "content-type": "application/x-www-form-urlencoded",
      },
      body: new URLSearchParams({ grant_type: "client_credentials", ...(scope !== undefined && { scope }) }),
      signal: AbortSignal.any([signal, timeoutSignal(TIMEOUT_MS)]),
    });
  } catch (error) {
    throw new RetryableError("The authorization server cannot be reached.", { cause: error });
  }
}

import { z } from "zod";
import type { Clock } from "../clock.ts";
import type { Secret } from "../secret.ts";

/** A client of an authorization server (RFC 6749, section 4.4). */
export interface Client {
  readonly tokenUrl: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  readonly scope?: string | undefined;
  /**
   * How the client logs in: by Basic authentication, with id and secret as they are or percent-encoded as the
   * RFC asks, or by fields of the body.
   */
  readonly login: "basic" | "basic_encoded" | "body";
}

export interface TokenRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface TokenAnswer {
  readonly status: number;
  readonly text: string;
}

export interface Tokens {
  /** A token that is valid for a while yet. */
  get(signal: AbortSignal): Promise<string>;
  /** Asks for a new token next time, unless another one was fetched since. */
  forget(token: string): void;
  /** The newest token, if there is one. */
  current(): string | undefined;
}

export interface TokenOptions {
  readonly client: Client;
  readonly clock: Clock;
  /** Sends one request with a deadline of its own; all callers share the answer, so it takes no signal. */
  send(request: TokenRequest): Promise<TokenAnswer>;
  /** The error for an answer without a token. */
  refused(answer: TokenAnswer): Error;
}

/** Longer answers have no token in them. Parsing millions of keys would stop the program for seconds. */
export const TOKEN_ANSWER_BYTES_MAX = 65_536;

const answerSchema = z.looseObject({
  access_token: z.string().regex(/^[\x21-\x7e]{1,16384}$/),
  expires_in: z.coerce.number().positive().max(31_536_000).catch(3600),
});

interface Token {
  readonly value: string;
  /** It is renewed before use from here on; until `expiresMs` it still works. */
  readonly renewMs: number;
  readonly expiresMs: number;
}

/** A token is renewed this long before its end, or after four fifths of a short life. */
const RENEWAL_MS_MAX = 300_000;

/** Tokens by client credentials. */
export function clientCredentials({ client, clock, send, refused }: TokenOptions): Tokens {
  return renewedTokens({ clock, ask: () => send(tokenRequest(client)), refused });
}

export interface RenewedTokensOptions {
  readonly clock: Clock;
  /** Asks for a token, with a deadline of its own; all callers share the answer. */
  ask(): Promise<TokenAnswer>;
  /** The error for an answer without a token. */
  refused(answer: TokenAnswer): Error;
}

/** Tokens that are renewed before they expire, with one request at a time for all callers. */
export function renewedTokens({ clock, ask, refused }: RenewedTokensOptions): Tokens {
  let token: Token | undefined;
  let renewal: Promise<Token> | undefined;

  async function fetchToken(): Promise<Token> {
    const askedMs = clock.now();
    const answer = await ask();
    const parsed = answerSchema.safeParse(answer.status === 200 ? jsonOf(answer.text) : undefined);
    if (!parsed.success) throw refused(answer);
    const livesMs = parsed.data.expires_in * 1000;
    return {
      value: parsed.data.access_token,
      renewMs: askedMs + livesMs - Math.min(RENEWAL_MS_MAX, livesMs / 5),
      expiresMs: askedMs + livesMs,
    };
  }

  function renewed(): Promise<Token> {
    renewal ??= fetchToken()
      .then((fresh) => {
        token = fresh;
        return fresh;
      })
      .finally(() => {
        renewal = undefined;
      });
    return renewal;
  }

  return {
    async get(signal) {
      if (token && clock.now() < token.renewMs) return token.value;
      const stillValid = token && clock.now() < token.expiresMs ? token : undefined;
      try {
        return (await unlessAborted(renewed(), signal)).value;
      } catch (error) {
        if (stillValid && !signal.aborted) return stillValid.value;
        throw error;
      }
    },
    forget(value) {
      if (token?.value === value) token = undefined;
    },
    current: () => token?.value,
  };
}

function tokenRequest({ tokenUrl, clientId, clientSecret, scope, login }: Client): TokenRequest {
  const secret = clientSecret.reveal();
  const fields = { grant_type: "client_credentials", ...(scope !== undefined && { scope }) };
  const headers = { "content-type": "application/x-www-form-urlencoded", accept: "application/json" };
  if (login === "body") {
    const body = new URLSearchParams({ ...fields, client_id: clientId, client_secret: secret });
    return { url: tokenUrl, headers, body: body.toString() };
  }
  const encode = login === "basic_encoded" ? encodeURIComponent : (text: string) => text;
  const basic = Buffer.from(`${encode(clientId)}:${encode(secret)}`).toString("base64");
  return {
    url: tokenUrl,
    headers: { ...headers, authorization: `Basic ${basic}` },
    body: new URLSearchParams(fields).toString(),
  };
}

function jsonOf(text: string): unknown {
  if (text.length > TOKEN_ANSWER_BYTES_MAX) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The shared request continues for the other callers when one stops waiting. */
function unlessAborted<Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

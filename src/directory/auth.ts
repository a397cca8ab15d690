import { z } from "zod";
import type { Clock } from "../core/clock.ts";
import type { Credentials } from "./account.ts";
import { type DirectoryError, NonsenseError, refusalOf, UnauthorizedError } from "./errors.ts";
import { factsOf } from "./facts.ts";
import { type SystemIdentity, signedHeaders } from "./signature.ts";
import type { Transport } from "./transport.ts";

/** Who we are to the service. */
export interface Auth {
  /** The headers that prove it for this very request: name, value, name, value. */
  prove(request: { method: string; url: URL }, signal: AbortSignal): Promise<readonly string[]>;
  /** After a 401 to a request that carried `proof`: true when another proof is to be had, and the request may be repeated once. */
  renew(proof: readonly string[], signal: AbortSignal): Promise<boolean>;
  /** How many bytes the proof needs, for the size of a header block. */
  readonly headerBytes: number;
  /** The text without any secret of ours in it. */
  clean(text: string): string;
}

export function authOf(credentials: Credentials, transport: Transport, clock: Clock): Auth {
  return "apiKey" in credentials
    ? keyAuth(credentials.apiKey.reveal())
    : tokenAuth(credentials, transport, clock);
}

function keyAuth(key: string): Auth {
  if (!/^[\x21-\x7e]+$/.test(key)) {
    throw new UnauthorizedError("The API key is empty or holds characters that no header can carry.");
  }
  return {
    prove: async () => ["x-api-key", key],
    renew: async () => false,
    headerBytes: "x-api-key: ".length + key.length + 2,
    clean: (text) => text.replaceAll(key, "[secret]"),
  };
}

/** A system that speaks for itself with signed requests; they work for the system-context endpoints alone. */
export function systemAuth(identity: SystemIdentity, clock: Clock): Auth {
  return {
    prove: async ({ method, url }) => signedHeaders(identity, method, url.pathname + url.search, clock.now()),
    renew: async () => false,
    headerBytes: 1024,
    clean: (text) => text,
  };
}

interface Token {
  readonly value: string;
  /** From here on it is renewed before use; until `expiresMs` it still works. */
  readonly renewMs: number;
  readonly expiresMs: number;
}

const TOKEN_BYTES_GUESS = 2048;

/** OAuth client credentials: renewed a while before they expire, by one request at a time for all callers. */
function tokenAuth(
  credentials: Extract<Credentials, { clientId: string }>,
  transport: Transport,
  clock: Clock,
): Auth {
  let token: Token | undefined;
  let renewal: Promise<Token> | undefined;

  const renewed = (): Promise<Token> => {
    renewal ??= requestToken(credentials, transport, clock)
      .then((fresh) => {
        token = fresh;
        return fresh;
      })
      .finally(() => {
        renewal = undefined;
      });
    return renewal;
  };
  const current = async (signal: AbortSignal): Promise<Token> => {
    if (token && clock.now() < token.renewMs) return token;
    const stillGood = token && clock.now() < token.expiresMs ? token : undefined;
    try {
      return await orAborted(renewed(), signal);
    } catch (error) {
      if (stillGood && !signal.aborted) return stillGood;
      throw error;
    }
  };

  return {
    prove: async (_request, signal) => ["authorization", (await current(signal)).value],
    async renew(proof, signal) {
      if (token?.value === proof[1]) token = undefined;
      return (await current(signal)).value !== proof[1];
    },
    get headerBytes() {
      return "authorization: ".length + (token?.value.length ?? TOKEN_BYTES_GUESS) + 2;
    },
    clean(text) {
      const secrets = [token?.value.slice("Bearer ".length), credentials.clientSecret.reveal()];
      return secrets.reduce<string>(
        (cleaned, secret) => (secret ? cleaned.replaceAll(secret, "[secret]") : cleaned),
        text,
      );
    },
  };
}

const tokenSchema = z.looseObject({
  access_token: z.string().regex(/^[\x21-\x7e]{1,16384}$/),
  expires_in: z.coerce.number().positive().max(31_536_000).catch(3600),
});

async function requestToken(
  credentials: Extract<Credentials, { clientId: string }>,
  transport: Transport,
  clock: Clock,
): Promise<Token> {
  const url = new URL(credentials.tokenUrl);
  const where = `POST ${url.origin}${url.pathname}`;
  const secret = credentials.clientSecret.reveal();
  const basic = Buffer.from(`${credentials.clientId}:${secret}`).toString("base64");
  const askedMs = clock.now();
  const answer = await transport.send({
    method: "POST",
    url,
    headers: [
      "authorization",
      `Basic ${basic}`,
      "content-type",
      "application/x-www-form-urlencoded",
      "accept",
      "application/json",
    ],
    body: "scope=api&grant_type=client_credentials",
    bodyBytesMax: 65_536,
    // Shared by all callers, so no caller's signal ends it; the transport's deadline does.
    signal: new AbortController().signal,
  });
  const body = await answer.body();
  const clean = (text: string) => text.replaceAll(secret, "[secret]").replaceAll(basic, "[secret]");
  const facts = factsOf(answer, clock, clean, body);
  if (answer.status !== 200) throw tokenRefusal(where, facts);
  const parsed = tokenSchema.safeParse(jsonOf(body));
  if (!parsed.success) throw new NonsenseError(`${where}: the answer holds no access_token`, facts);
  const livesMs = parsed.data.expires_in * 1000;
  return {
    value: `Bearer ${parsed.data.access_token}`,
    renewMs: askedMs + livesMs - Math.min(300_000, livesMs / 5),
    expiresMs: askedMs + livesMs,
  };
}

/** The token address answers 400 or 401 to a wrong client: both mean that a person has to act. */
function tokenRefusal(where: string, facts: ReturnType<typeof factsOf>): DirectoryError {
  if (facts.status !== 400) return refusalOf(where, facts);
  return new UnauthorizedError(`${where}: 400 ${facts.serviceMessage ?? "without a message"}`, facts);
}

function jsonOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    return undefined;
  }
}

/** The shared work goes on for the others when one caller stops waiting for it. */
function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

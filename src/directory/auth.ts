import type { Clock } from "../core/clock.ts";
import { clientCredentials, TOKEN_ANSWER_BYTES_MAX } from "../core/http/client-credentials.ts";
import { secretHider } from "../core/http/hide-secrets.ts";
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
    clean: secretHider([key]),
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

const TOKEN_BYTES_GUESS = 2048;

/** OAuth client credentials; one token for all requests. */
function tokenAuth(
  credentials: Extract<Credentials, { clientId: string }>,
  transport: Transport,
  clock: Clock,
): Auth {
  const url = new URL(credentials.tokenUrl);
  const where = `POST ${url.origin}${url.pathname}`;
  const secret = credentials.clientSecret.reveal();
  let facts: ReturnType<typeof factsOf> | undefined;
  const tokens = clientCredentials({
    client: { ...credentials, scope: "api", login: "basic" },
    clock,
    async send({ headers, body }) {
      const answer = await transport.send({
        method: "POST",
        url,
        headers: Object.entries(headers).flat(),
        body,
        bodyBytesMax: TOKEN_ANSWER_BYTES_MAX,
        // Shared by all callers, so no caller's signal ends it; the transport's deadline does.
        signal: new AbortController().signal,
      });
      const received = await answer.body();
      facts = factsOf(answer, clock, secretHider([secret]), received);
      return { status: answer.status, text: received.toString("utf8") };
    },
    refused: ({ status }) =>
      status === 200
        ? new NonsenseError(`${where}: the answer holds no access_token`, facts)
        : tokenRefusal(where, facts!),
  });

  return {
    prove: async (_request, signal) => ["authorization", `Bearer ${await tokens.get(signal)}`],
    async renew(proof, signal) {
      const used = proof[1]!.slice("Bearer ".length);
      tokens.forget(used);
      return (await tokens.get(signal)) !== used;
    },
    get headerBytes() {
      return "authorization: Bearer ".length + (tokens.current()?.length ?? TOKEN_BYTES_GUESS) + 2;
    },
    clean: (text) => secretHider([tokens.current() ?? "", secret])(text),
  };
}

/** The token address answers 400 or 401 to a wrong client: both mean that a person has to act. */
function tokenRefusal(where: string, facts: ReturnType<typeof factsOf>): DirectoryError {
  if (facts.status !== 400) return refusalOf(where, facts);
  return new UnauthorizedError(`${where}: 400 ${facts.serviceMessage ?? "without a message"}`, facts);
}

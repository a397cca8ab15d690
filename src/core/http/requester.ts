import type { Clock } from "../clock.ts";
import { PausedError, RetryableError } from "../errors.ts";
import { sharedPacker } from "../packer.ts";
import { createResultMemory } from "../result-memory.ts";
import type { Secret } from "../secret.ts";
import { withDeadline } from "../timeout.ts";
import { secretHider } from "./hide-secrets.ts";
import { openPool } from "./pool.ts";
import { dateMsOf, retryAfterMsOf } from "./retry-after.ts";
import {
  expiryOf,
  isCertificateAlert,
  isCertificateError,
  readTls,
  type TlsConfig,
  type TlsOptions,
} from "./tls.ts";

/** A longer wait is asked for again after this. */
const RETRY_AFTER_MS_MAX = 3_600_000;

/** A destination's answer: whole, or cut at the limit. */
export interface Answer {
  readonly status: number;
  /** Of an answer in protobuf: a character for each byte. */
  readonly text: string;
  readonly isWhole: boolean;
  /** The destination's clock, by its Date header. */
  readonly dateMs: number | undefined;
  /** The wait that Retry-After asks for. */
  readonly retryAfterMs: number | undefined;
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

export interface Outgoing {
  readonly method?: "POST" | "GET" | "PUT" | "HEAD";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Pieces are sent one behind the other. Their memory must stay as it is until the answer. */
  readonly body?: Uint8Array | string | readonly Uint8Array[];
  /** Compresses the body and says so. */
  readonly gzip?: boolean;
  /** The largest answer that is read whole, where it says something about each event; never more than ANSWER_BYTES_MAX. */
  readonly answerBytesMax?: number;
}

/** HTTP to one destination. */
export interface Requester {
  /**
   * Sends one request and reads the answer. Throws the signal's reason when it aborts, PausedError when the
   * destination's certificate is not trusted or ours is refused, RetryableError for any other failure on the way. Redirects
   * are not followed: a token never reaches another origin.
   */
  send(outgoing: Outgoing, signal: AbortSignal): Promise<Answer>;
  close(): Promise<void>;
}

export interface RequesterOptions {
  /** The destination as error messages name it; never a secret address. */
  readonly destination: string;
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** Connections at once; by default 4. */
  readonly connections?: number;
  readonly tls?: TlsConfig | undefined;
  /** The headers that sign the request in the form that is sent, with its compressed body. */
  sign?(request: SignableRequest): Promise<Readonly<Record<string, string>>>;
  /** Hidden in every answer, in whatever encoding the destination repeats them. */
  readonly secrets?: readonly Secret[];
}

export interface SignableRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | string;
}

/** A list, or an answer that names each event. */
const ANSWER_BYTES_MAX = 16 * 2 ** 20;
/** Of all other answers. Only the beginning of a refusal is shown to anyone. */
const BEGINNING_BYTES = 2 ** 20;

export async function makeRequester(options: RequesterOptions): Promise<Requester> {
  const { destination, clock, timeoutMs } = options;
  const tls = await readTls(options.tls);
  const pool = await openPool({
    connections: options.connections ?? 4,
    connectTimeoutMs: timeoutMs,
    headersTimeoutMs: 0,
    bodyTimeoutMs: 0,
    tls,
  });
  const secrets = (options.secrets ?? []).map((secret) => secret.reveal());
  const zipped = createResultMemory();
  const hide = secretHider(secrets);
  const hideInBinary = secretHider(secrets, { keepsLength: true });

  async function exchange(outgoing: Outgoing, signal: AbortSignal): Promise<Answer> {
    const { method = "POST" } = outgoing;
    const url = new URL(outgoing.url);
    const isZipped = outgoing.body !== undefined && outgoing.gzip === true;
    const body = isZipped
      ? await sharedPacker().pack("gzip", piecesOf(outgoing.body!), zipped)
      : joined(outgoing.body);
    const headers = { ...outgoing.headers, ...(isZipped && { "content-encoding": "gzip" }) };
    const signed = await options.sign?.({ method, url, headers, body: body ?? "" });
    const { origin, pathname, search } = url;
    const response = await pool.request({
      origin,
      path: `${pathname}${search}`,
      method,
      headers: signed ?? headers,
      body: body ?? null,
      signal,
    });
    const isBinary = /protobuf/i.test(String(response.headers["content-type"]));
    const { answerBytesMax = method === "GET" ? ANSWER_BYTES_MAX : BEGINNING_BYTES } = outgoing;
    const bytesMax = response.statusCode < 300 ? Math.min(answerBytesMax, ANSWER_BYTES_MAX) : BEGINNING_BYTES;
    const { bytes, isWhole } = await readBounded(response.body, bytesMax);
    const text = bytes.toString(isBinary ? "latin1" : "utf8");
    // A refusal may come while the body is still on its way.
    if (body instanceof Uint8Array && response.statusCode < 300) zipped.giveBack(body);
    return {
      status: response.statusCode,
      text: isBinary ? hideInBinary(text) : hide(text),
      isWhole,
      dateMs: dateMsOf(first(response.headers.date)),
      retryAfterMs: retryAfterMsOf(first(response.headers["retry-after"]), clock.now(), RETRY_AFTER_MS_MAX),
      headers: response.headers,
    };
  }

  return {
    send: (outgoing, signal) =>
      withDeadline({ clock, timeoutMs, signal }, async (inner) => {
        try {
          return await exchange(outgoing, inner);
        } catch (error) {
          throw inner.aborted ? inner.reason : transportError(destination, error, tls);
        }
      }),
    close: () => pool.destroy(),
  };
}

function piecesOf(body: Uint8Array | string | readonly Uint8Array[]): readonly Uint8Array[] {
  if (typeof body === "string") return [Buffer.from(body)];
  return body instanceof Uint8Array ? [body] : body;
}

function joined(body: Outgoing["body"]): Uint8Array | string | undefined {
  if (body === undefined || typeof body === "string" || body instanceof Uint8Array) return body;
  return body.length === 1 ? body[0] : Buffer.concat(body);
}

function first(header: string | string[] | undefined): string | undefined {
  return typeof header === "string" ? header : header?.[0];
}

/**
 * A person must replace a certificate that one side does not accept; every other failure is temporary. Many servers end
 * the connection without a reason when the client's certificate has expired, so that is said with every failure.
 */
export function transportError(destination: string, cause: unknown, tls?: TlsOptions): Error {
  if (isCertificateError(cause)) {
    return new PausedError(
      `The certificate of ${destination} is not trusted (${(cause as { code: string }).code}).`,
      "Set tls.ca to the authority that signed it, or tls.serverName to the name it is made out to.",
      { cause },
    );
  }
  const expired = expiryOf(tls);
  if (isCertificateAlert(cause)) {
    return new PausedError(
      `${destination} refuses this client's certificate.${expired}`,
      "Set tls.cert and tls.key to a certificate that is valid and that the destination trusts.",
      { cause },
    );
  }
  return new RetryableError(`The connection to ${destination} failed.${expired}`, { cause });
}

/** The body, or the beginning of one that is larger. */
async function readBounded(
  body: AsyncIterable<Buffer> & { destroy(): void; on(event: "error", listener: () => void): unknown },
  bytesMax: number,
) {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    chunks.push(chunk);
    if (bytes > bytesMax) {
      body.on("error", () => {});
      body.destroy();
      return { bytes: Buffer.concat(chunks, BEGINNING_BYTES), isWhole: false };
    }
  }
  return { bytes: Buffer.concat(chunks), isWhole: true };
}

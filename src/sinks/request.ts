import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { gzip as gzipWithCallback } from "node:zlib";
import type { z } from "zod";
import type { Clock } from "../core/clock.ts";
import { PausedError, RetryableError } from "../core/errors.ts";
import { durationSchema, type tlsSchema } from "../core/schema.ts";
import type { Secret } from "../core/secret.ts";

export type TlsConfig = z.output<typeof tlsSchema>;

export const gzip = promisify(gzipWithCallback);
/** A body lives for a moment: better three quarters as small and twice as soon. */
const QUICK = { level: 1 };

export const timeoutSchema = durationSchema(
  "How long one request may take before it is given up and tried again.",
  { minMs: 100, maxMs: 600_000 },
).prefault("60s");

/** A destination's answer: whole, or cut at the limit. */
export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly isWhole: boolean;
  /** What the destination asked for in Retry-After. */
  readonly retryAfterMs: number | undefined;
}

export interface Outgoing {
  readonly method?: "POST" | "GET" | "PUT" | "HEAD";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
  /** Compresses the body and says so. */
  readonly gzip?: boolean;
}

/** HTTP to one destination. */
export interface Requester {
  /**
   * Sends one request and reads the answer. Throws the signal's reason when it aborts, PausedError when the
   * destination's certificate is not trusted, RetryableError for any other failure on the way. Redirects
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
  readonly tls?: TlsConfig | undefined;
  /** Hidden in every answer, in case a destination repeats them. */
  readonly secrets?: readonly Secret[];
}

const ANSWER_BYTES_MAX = 16 * 2 ** 20;

export async function makeRequester(options: RequesterOptions): Promise<Requester> {
  const { destination, clock, timeoutMs } = options;
  // Loaded by those that need it: it takes longer than the rest of a sink.
  const { Agent, request } = await import("undici");
  const agent = new Agent({
    connect: { ...(await readTls(options.tls)), timeout: timeoutMs },
    connections: 4,
    pipelining: 1,
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  const secrets = (options.secrets ?? []).map((secret) => secret.reveal());

  async function exchange(outgoing: Outgoing, signal: AbortSignal): Promise<Answer> {
    const { method = "POST", url, body } = outgoing;
    const headers = { ...outgoing.headers };
    if (outgoing.gzip) headers["content-encoding"] = "gzip";
    const response = await request(url, {
      method,
      headers,
      body: body !== undefined && outgoing.gzip ? await gzip(body, QUICK) : (body ?? null),
      dispatcher: agent,
      signal,
    });
    const { text, isWhole } = await readBounded(response.body);
    return {
      status: response.statusCode,
      text: hide(text, secrets),
      isWhole,
      retryAfterMs: retryAfterMsOf(response.headers["retry-after"], clock.now()),
    };
  }

  return {
    send: (outgoing, signal) =>
      withDeadline({ clock, timeoutMs, signal }, async (inner) => {
        try {
          return await exchange(outgoing, inner);
        } catch (error) {
          throw inner.aborted ? inner.reason : transportError(destination, error);
        }
      }),
    close: () => agent.destroy(),
  };
}

/** Runs `work` with a signal that also aborts after `timeoutMs`, then with a RetryableError as its reason. */
export async function withDeadline<Result>(
  limits: { readonly clock: Clock; readonly timeoutMs: number; readonly signal: AbortSignal },
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const { clock, timeoutMs, signal } = limits;
  signal.throwIfAborted();
  const inner = new AbortController();
  const done = new AbortController();
  const stop = () => inner.abort(signal.reason);
  signal.addEventListener("abort", stop, { once: true });
  clock.sleep(timeoutMs, done.signal).then(
    () => inner.abort(new RetryableError(`No answer within ${timeoutMs} ms.`)),
    () => {},
  );
  try {
    return await work(inner.signal);
  } finally {
    done.abort();
    signal.removeEventListener("abort", stop);
  }
}

/** The files of a TLS setting, read; what `tls.connect` and undici take. */
export async function readTls(tls: TlsConfig | undefined): Promise<{
  ca?: Buffer;
  cert?: Buffer;
  key?: Buffer;
  servername?: string;
}> {
  return {
    ...(tls?.ca && { ca: await readPem("ca", tls.ca) }),
    ...(tls?.cert && { cert: await readPem("cert", tls.cert) }),
    ...(tls?.key && { key: await readPem("key", tls.key) }),
    ...(tls?.serverName && { servername: tls.serverName }),
  };
}

async function readPem(field: string, path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (cause) {
    throw new PausedError(
      `The file of tls.${field}, ${path}, cannot be read.`,
      "Put the PEM file there, readable by this program, or correct the path.",
      { cause },
    );
  }
}

const UNTRUSTED = new Set([
  "CERT_HAS_EXPIRED",
  "CERT_NOT_YET_VALID",
  "CERT_REVOKED",
  "CERT_UNTRUSTED",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);

/** What a failed connection means: a certificate needs a person, everything else passes. */
export function transportError(destination: string, cause: unknown): Error {
  const code = (cause as { code?: unknown } | null)?.code;
  if (typeof code === "string" && UNTRUSTED.has(code)) {
    return new PausedError(
      `The certificate of ${destination} is not trusted (${code}).`,
      "Set tls.ca to the authority that signed it, or tls.serverName to the name it is made out to.",
      { cause },
    );
  }
  return new RetryableError(`The connection to ${destination} failed.`, { cause });
}

async function readBounded(
  body: AsyncIterable<Buffer> & { destroy(): void; on(event: "error", listener: () => void): unknown },
) {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES_MAX) {
      body.on("error", () => {});
      body.destroy();
      return { text: Buffer.concat(chunks).toString("utf8"), isWhole: false };
    }
    chunks.push(chunk);
  }
  return { text: Buffer.concat(chunks).toString("utf8"), isWhole: true };
}

const RETRY_AFTER_MS_MAX = 3_600_000;

function retryAfterMsOf(header: string | string[] | undefined, nowMs: number): number | undefined {
  const value = Array.isArray(header) ? header[0] : header;
  if (value === undefined) return undefined;
  const waitMs = /^\d{1,9}$/.test(value.trim()) ? Number(value) * 1000 : Date.parse(value) - nowMs;
  return Number.isNaN(waitMs) ? undefined : Math.min(Math.max(waitMs, 0), RETRY_AFTER_MS_MAX);
}

const SECRET_LENGTH_MIN = 4;

function hide(text: string, secrets: readonly string[]): string {
  let hidden = text;
  for (const secret of secrets) {
    if (secret.length >= SECRET_LENGTH_MIN) hidden = hidden.replaceAll(secret, "[secret]");
  }
  return hidden;
}

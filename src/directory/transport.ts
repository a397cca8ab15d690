import { setMaxListeners } from "node:events";
import type { Dispatcher } from "undici";
import { ordinaryMemory, type PageMemory } from "../core/buffer-pool.ts";
import { openPool } from "../core/http/pool.ts";
import { isCertificateError } from "../core/http/tls.ts";
import type { LeasedBytes } from "../core/page-lease.ts";
import { formatDuration } from "../core/time.ts";
import { type BodyLimits, type BodyReceiver, receiverOf, tooLarge } from "./body.ts";
import { CutOffError, DirectoryError, NonsenseError, StalledError, UnavailableError } from "./errors.ts";
import { watchRate } from "./patience.ts";

export interface TransportOptions {
  readonly headersTimeoutMs: number;
  /** Between two pieces of a body; and for all of it, beside the time of its bytes at the slowest rate (patience.ts). */
  readonly bodyTimeoutMs: number;
  /** For a whole answer, however it comes. Default: ten minutes. */
  readonly totalMs?: number;
  readonly connectionsMax?: number;
  /** PEM text of the authorities to trust, instead of the system's. */
  readonly ca?: string | undefined;
  readonly userAgent?: string | undefined;
  /** Takes the requests instead of a connection pool; the simulation's model of the service is one. */
  readonly dispatcher?: RequestDispatcher | undefined;
}

/** The part of an undici dispatcher that is used here. */
export interface RequestDispatcher {
  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean;
  destroy(): Promise<void>;
}

export interface TransportRequest {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly url: URL;
  /** Name, value, name, value: repeated names stay repeated lines on the wire. */
  readonly headers: readonly string[];
  readonly body?: Buffer | string | undefined;
  readonly bodyBytesMax: number;
  /** The likely size of the decompressed body by the answer's headers; spares copies where its length is not told. */
  readonly bodyBytesGuess?: ((header: (name: string) => string | undefined) => number) | undefined;
  /** Where the body is received; without it memory that is the body's own. */
  readonly memory?: PageMemory | undefined;
  /** The budget of the memory does not bind this body. */
  readonly mayExceed?: boolean | undefined;
  /** Where the answer has to begin sooner than others, and may not pause for as long. */
  readonly patienceMs?: number | undefined;
  readonly signal: AbortSignal;
}

export interface TransportResponse {
  readonly status: number;
  /** The header's bytes as latin1 text, the first where it is repeated; the name in lower case. */
  header(name: string): string | undefined;
  /** The whole decompressed body; it is received whether or not it is asked for. */
  body(): Promise<Buffer>;
  /** The same with its lease, which becomes the caller's; for requests with `memory`. */
  leasedBody(): Promise<LeasedBytes>;
  /** Gives the body up. */
  discard(): void;
}

/**
 * HTTP to the service: one keep-alive pool per origin, TLS verified, redirects never followed here.
 * `send` resolves with the headers. It and `body` reject with UnavailableError (no answer),
 * CutOffError, BodyTooLargeError, NonsenseError, or the signal's reason.
 */
export interface Transport {
  send(request: TransportRequest): Promise<TransportResponse>;
  /** Ends everything in flight. */
  close(): Promise<void>;
}

export function openTransport(options: TransportOptions): Transport {
  const opening = options.dispatcher ? Promise.resolve(options.dispatcher) : poolOf(options);
  return {
    send: async (request) => send(await opening, request, options),
    close: async () => (await opening).destroy(),
  };
}

function poolOf(options: TransportOptions): Promise<RequestDispatcher> {
  return openPool({
    connections: options.connectionsMax ?? 64,
    connectTimeoutMs: Math.min(options.headersTimeoutMs, 30_000),
    headersTimeoutMs: options.headersTimeoutMs,
    bodyTimeoutMs: options.bodyTimeoutMs,
    tls: options.ca === undefined ? {} : { ca: options.ca },
  });
}

function send(
  agent: RequestDispatcher,
  request: TransportRequest,
  options: TransportOptions,
): Promise<TransportResponse> {
  return new Promise((resolve, reject) => {
    if (request.signal.aborted) return reject(request.signal.reason);
    const handler = exchangeOf(request, options, resolve, reject);
    agent.dispatch(
      {
        origin: request.url.origin,
        path: request.url.pathname + request.url.search,
        method: request.method,
        headers: [
          "user-agent",
          options.userAgent ?? "tidemark",
          "accept-encoding",
          "gzip",
          ...request.headers,
        ],
        body: request.body ?? null,
        ...(request.patienceMs !== undefined && {
          headersTimeout: within(request, options.headersTimeoutMs),
          bodyTimeout: within(request, options.bodyTimeoutMs),
        }),
      },
      handler,
    );
  });
}

function within({ patienceMs }: TransportRequest, timeoutMs: number): number {
  return Math.min(timeoutMs, patienceMs ?? timeoutMs);
}

/**
 * One request and its answer, fed by undici. It is over when the body is whole, or at the first of: an
 * error, the signal, the deadline, `discard`. What comes after that is ignored.
 */
function exchangeOf(
  request: TransportRequest,
  options: TransportOptions,
  resolve: (response: TransportResponse) => void,
  reject: (error: unknown) => void,
): Dispatcher.DispatchHandler {
  const where = `${request.method} ${request.url.origin}${request.url.pathname}`;
  let over = false;
  let controller: Dispatcher.DispatchController | undefined;
  let receiver: BodyReceiver | undefined;
  let rate: ReturnType<typeof watchRate> | undefined;
  let settle: { resolve(body: LeasedBytes): void; reject(error: unknown): void } | undefined;

  const finish = () => {
    if (over) return false;
    over = true;
    clearTimeout(deadline);
    rate?.stop();
    request.signal.removeEventListener("abort", stop);
    return true;
  };
  const fail = (error: unknown) => {
    if (!finish()) return;
    receiver?.abandon();
    (settle?.reject ?? reject)(error);
    controller?.abort(error instanceof Error ? error : new Error("stopped"));
  };
  const stop = () => fail(request.signal.reason);
  // Every request in flight listens to the same signal: many listeners are no leak.
  setMaxListeners(0, request.signal);
  request.signal.addEventListener("abort", stop, { once: true });
  // A real timer whatever clock the program is given: the network does not run in a test's time.
  const deadline = setTimeout(
    () => fail(new StalledError(`${where}: the answer was not complete in time`)),
    options.totalMs ?? 600_000,
  ).unref();

  return {
    onRequestStart(started) {
      controller = started;
      if (over) started.abort(new Error("stopped"));
    },
    onResponseStart(_controller, status, headers) {
      if (status < 200 || over) return;
      const header = (name: string) => first(headers[name]);
      const whole = new Promise<LeasedBytes>((resolveBody, rejectBody) => {
        settle = { resolve: resolveBody, reject: rejectBody };
      });
      whole.catch(() => {});
      try {
        const limits = limitsOf(request, where, status, header);
        const length = lengthOf(header("content-length"), limits);
        receiver = receiverOf(limits, header("content-encoding"), length, {
          whole: (body) => finish() && settle?.resolve(body),
          failed: fail,
          drained: () => controller?.resume(),
        });
      } catch (error) {
        // The headers are valid all the same: the token in them leads past an event that is too large.
        resolve({ status, header, ...bodyOf(whole), discard: () => {} });
        return fail(error);
      }
      rate = watchRate(
        within(request, options.bodyTimeoutMs),
        () => controller?.paused === true,
        () => fail(new StalledError(`${where}: the answer came too slowly`)),
      );
      const { body, leasedBody, release } = bodyOf(whole);
      const discard = () => {
        fail(new Error(`${where}: discarded`));
        release();
      };
      resolve({ status, header, body, leasedBody, discard });
    },
    onResponseData(current, piece) {
      if (over) return;
      rate?.received(piece.length);
      if (receiver?.write(piece) === false) current.pause();
    },
    onResponseEnd() {
      if (!over) receiver?.end();
    },
    onResponseError(_controller, error) {
      fail(failureOf(where, error, settle !== undefined, within(request, options.headersTimeoutMs)));
    },
  };
}

function bodyOf(whole: Promise<LeasedBytes>) {
  let isTaken = false;
  return {
    body: async () => (await whole).bytes,
    leasedBody() {
      isTaken = true;
      return whole;
    },
    /** Releases a whole body that was not taken. */
    release() {
      if (!isTaken)
        whole.then(
          ({ lease }) => lease.release(),
          () => {},
        );
      isTaken = true;
    },
  };
}

function first(value: string | string[] | undefined): string | undefined {
  return typeof value === "string" ? value : value?.[0];
}

/** The words of a refusal need little memory, whatever is sent. */
const REFUSAL_BYTES_MAX = 1_048_576;

function limitsOf(
  request: TransportRequest,
  where: string,
  status: number,
  header: (name: string) => string | undefined,
): BodyLimits {
  const isRefusal = status >= 300;
  const { bodyBytesMax, memory, mayExceed = false } = request;
  return {
    where,
    guess: isRefusal ? 0 : (request.bodyBytesGuess?.(header) ?? 0),
    bytesMax: isRefusal ? Math.min(bodyBytesMax, REFUSAL_BYTES_MAX) : bodyBytesMax,
    memory: isRefusal ? ordinaryMemory : (memory ?? ordinaryMemory),
    mayExceed,
  };
}

/** The length of a body that is not compressed; undefined where there is no such header. */
function lengthOf(text: string | undefined, { where, bytesMax }: BodyLimits): number | undefined {
  if (text === undefined || !/^\d{1,15}$/.test(text)) return undefined;
  if (Number(text) > bytesMax) throw tooLarge(where, bytesMax);
  return Number(text);
}

const UNREACHABLE = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EADDRNOTAVAIL",
  "UND_ERR_CONNECT_TIMEOUT",
]);

function failureOf(where: string, cause: Error, answered: boolean, headersTimeoutMs: number): Error {
  if (cause instanceof DirectoryError) return cause;
  const code = String((cause as { code?: unknown }).code ?? "");
  if (code === "UND_ERR_HEADERS_OVERFLOW")
    return new CutOffError(`${where}: the header block of the answer is too large`, { cause });
  if (code.startsWith("HPE_")) {
    return new NonsenseError(`${where}: the answer is not HTTP`, { cause });
  }
  if (UNREACHABLE.has(code)) return new UnavailableError(`${where}: no answer at this address`, { cause });
  if (isCertificateError(cause)) {
    return new UnavailableError(`${where}: the server's certificate cannot be verified (${code})`, { cause });
  }
  if (code === "UND_ERR_HEADERS_TIMEOUT")
    return new CutOffError(`${where}: no answer began within ${formatDuration(headersTimeoutMs)}`, { cause });
  if (code === "UND_ERR_BODY_TIMEOUT")
    return new StalledError(`${where}: the answer paused for too long`, { cause });
  const what = answered ? "the answer broke off" : "the connection ended before an answer came";
  return new CutOffError(`${where}: ${what}`, { cause });
}

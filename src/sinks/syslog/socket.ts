import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import type { Clock } from "../../core/clock.ts";
import { PausedError, RetryableError } from "../../core/errors.ts";
import { transportError } from "../../core/http/requester.ts";
import { expiryOf, isCertificateAlert, readTls, type TlsConfig } from "../../core/http/tls.ts";
import { withDeadline } from "../../core/timeout.ts";

export interface ConnectionOptions {
  readonly host: string;
  readonly port: number;
  readonly isTls: boolean;
  readonly tls: TlsConfig | undefined;
  readonly timeoutMs: number;
  readonly clock: Clock;
}

export function destinationOf({ host, port }: ConnectionOptions): string {
  return `${host}:${port}`;
}

/** Runs one step against a connection, within the time limit. */
export function guarded<Result>(
  options: ConnectionOptions,
  signal: AbortSignal,
  work: (inner: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const { clock, timeoutMs } = options;
  return withDeadline({ clock, timeoutMs, signal }, async (inner) => {
    try {
      return await work(inner);
    } catch (error) {
      if (inner.aborted) throw inner.reason;
      const isNamed = error instanceof PausedError || error instanceof RetryableError;
      throw isNamed ? error : transportError(destinationOf(options), error);
    }
  });
}

/** Open in both directions, as far as this machine knows. */
export function isStanding(socket: Socket): boolean {
  return !socket.destroyed && socket.writable && !socket.readableEnded;
}

/**
 * Connects. `isAccepted` waits until the receiver has accepted the client's certificate too: before that, bytes would
 * be lost without a sign.
 */
export async function openSocket(
  options: ConnectionOptions,
  signal: AbortSignal,
  { isAccepted }: { readonly isAccepted: boolean },
): Promise<Socket> {
  const { host, port, isTls } = options;
  if (!isTls) {
    const socket = connectTcp({ host, port, keepAlive: true, noDelay: true });
    return ready(socket, "connect", signal);
  }
  const servername = options.tls?.serverName ?? (isAddress(host) ? undefined : host);
  const files = await readTls(options.tls);
  const socket = connectTls({ host, port, ...files, ...(servername && { servername }) });
  await ready(socket, "secureConnect", signal);
  if (!isAccepted) return socket;
  try {
    await accepted(socket, options.clock, signal);
  } catch (cause) {
    socket.destroy();
    if (signal.aborted || isCertificateAlert(cause)) throw cause;
    const message = `${host}:${port} closed the connection right after the handshake: it may not trust tls.cert.${expiryOf(files)}`;
    throw new RetryableError(message, { cause });
  }
  return socket;
}

async function ready<Kind extends Socket>(socket: Kind, event: string, signal: AbortSignal): Promise<Kind> {
  // The receiver sends nothing; reading is how its end is noticed.
  socket.resume();
  try {
    await settled(socket, signal, (done) => socket.once(event, () => done()));
  } catch (error) {
    socket.destroy();
    throw error;
  }
  // Later errors are found by `isStanding`; without a listener they would end the process.
  socket.on("error", () => {});
  return socket;
}

const ACCEPTANCE_MS_MAX = 500;

/**
 * In TLS 1.3 the client is done before the server has looked at its certificate, and what it sends until
 * then is lost if the server refuses. A session ticket says that it was accepted; where none is sent, a
 * moment without an alert has to do.
 */
async function accepted(socket: TLSSocket, clock: Clock, signal: AbortSignal): Promise<void> {
  if (socket.getProtocol() !== "TLSv1.3") return;
  const waited = new AbortController();
  try {
    await settled(socket, signal, (done) => {
      socket.once("session", () => done());
      clock.sleep(ACCEPTANCE_MS_MAX, waited.signal).then(
        () => done(),
        () => {},
      );
    });
  } finally {
    waited.abort();
  }
}

/** Writes bytes; resolves when the kernel has taken all of them and the connection is still open. */
export async function writeTo(socket: Socket, bytes: Uint8Array, signal: AbortSignal): Promise<void> {
  await settled(socket, signal, (done) => socket.write(bytes, done));
  // A reset or an end that has arrived is reported in the next turn of the event loop.
  await new Promise((resolve) => setImmediate(resolve));
  if (!isStanding(socket)) throw socket.errored ?? new Error("the receiver closed the connection");
}

/** Waits for `done`, unless the socket fails, ends or closes, or the signal aborts, before it. */
function settled(
  socket: Socket,
  signal: AbortSignal,
  start: (done: (error?: Error | null) => void) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const finish = (error?: unknown) => {
      socket.off("error", onError);
      socket.off("close", onClose);
      socket.off("end", onClose);
      signal.removeEventListener("abort", onAbort);
      if (error) reject(error);
      else resolve();
    };
    const onError = (error: Error) => finish(error);
    const onClose = () => finish(new Error("the receiver closed the connection"));
    const onAbort = () => finish(signal.reason ?? new Error("aborted"));
    socket.on("error", onError);
    socket.on("close", onClose);
    socket.on("end", onClose);
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) return onAbort();
    start((error) => finish(error ?? undefined));
  });
}

function isAddress(host: string): boolean {
  return /^[\d.]+$/.test(host) || host.includes(":");
}

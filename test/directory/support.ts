import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import type { Clock } from "../../src/core/clock.ts";
import { systemClock } from "../../src/core/clock.ts";
import { secretOf } from "../../src/core/secret.ts";
import type { ServiceConnection } from "../../src/directory/account.ts";

export const KEY = "k3y-that-must-never-be-seen";

export interface SeenRequest {
  readonly method: string;
  readonly url: string;
  /** As on the wire: name, value, name, value. */
  readonly rawHeaders: readonly string[];
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

export interface TestServer {
  readonly url: string;
  readonly seen: SeenRequest[];
  close(): Promise<void>;
}

/** A server on a free port that keeps what it was asked. */
export async function serve(
  answer: (request: SeenRequest, response: ServerResponse, raw: IncomingMessage) => void,
): Promise<TestServer> {
  const seen: SeenRequest[] = [];
  const listener: RequestListener = (raw, response) => {
    const pieces: Buffer[] = [];
    raw.on("data", (piece: Buffer) => pieces.push(piece));
    raw.on("end", () => {
      const request = {
        method: raw.method ?? "",
        url: raw.url ?? "",
        rawHeaders: raw.rawHeaders,
        headers: raw.headers,
        body: Buffer.concat(pieces),
      };
      seen.push(request);
      answer(request, response, raw);
    });
  };
  const server = createServer({ maxHeaderSize: 1 << 20 }, listener);
  const url = await listen(server);
  return { url, seen, close: () => close(server) };
}

function listen(server: Server): Promise<string> {
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () =>
      resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
    );
  });
}

function close(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}

export function connectionTo(url: string, changes: Partial<ServiceConnection> = {}): ServiceConnection {
  return {
    name: "acme",
    insightsUrl: url,
    managementUrl: `${url}/api`,
    credentials: { apiKey: secretOf(KEY) },
    headersTimeoutMs: 5_000,
    bodyTimeoutMs: 5_000,
    bodyBytesMax: 64 * 2 ** 20,
    ...changes,
  };
}

/** Never waits: remembers how long it was asked to. */
export function patientClock(
  startMs = systemClock.now(),
): Clock & { readonly waits: number[]; advance(ms: number): void } {
  const waits: number[] = [];
  let nowMs = startMs;
  return {
    waits,
    now: () => nowMs,
    advance(ms) {
      nowMs += ms;
    },
    async sleep(ms, signal) {
      signal.throwIfAborted();
      waits.push(ms);
      nowMs += ms;
    },
  };
}

export function caught(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => {
      throw new Error("It did not fail.");
    },
    (error: unknown) => error,
  );
}

export const forever = new AbortController().signal;

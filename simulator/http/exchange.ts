import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { QueryError } from "../../src/query/errors.ts";
import type { Effects } from "./faults.ts";
import { Problem } from "./problem.ts";
import type { Ongoing } from "./statistics.ts";

/** The answer of a route. */
export interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
  /** Called when the body is no longer needed. */
  readonly release?: () => void;
}

export interface Delivery {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly effects: Effects | null;
  readonly ongoing: Ongoing;
  readonly gzip: boolean;
}

const compress = promisify(gzip);
const gzipBytesMin = 1024;
const bodyBytesMax = 32 << 20;
const dripsPerSecond = 20;

export function json(status: number, value: unknown, headers: Readonly<Record<string, string>> = {}): Answer {
  return { status, headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(value) };
}

export function problemAnswer(error: unknown): Answer {
  if (error instanceof QueryError) return json(error.status, { message: error.message, ...error.extra });
  if (!(error instanceof Problem)) throw error;
  return json(error.status, { message: error.message, ...error.extra }, error.headers);
}

export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > bodyBytesMax) throw new Problem(413, "The body is too large");
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

/** Bodies are JSON and say so. */
export function parseJson(request: IncomingMessage, body: Buffer): unknown {
  const type = request.headers["content-type"];
  if (type !== undefined && !/^application\/([\w.-]+\+)?json\b/i.test(type)) {
    throw new Problem(400, "Content-Type must be application/json");
  }
  try {
    return JSON.parse(body.toString());
  } catch (error) {
    throw new Problem(400, `The body is not JSON: ${(error as Error).message}`);
  }
}

/** Writes the answer, with whatever goes wrong on the wire. */
export async function deliver(delivery: Delivery, answer: Answer, date: string): Promise<void> {
  const { response, effects, ongoing } = delivery;
  try {
    const { body, headers } = await encode(delivery, answer);
    if (effects?.get("cut_headers") !== undefined) return cutHeaders(delivery, answer.status);
    response.sendDate = false;
    response.writeHead(answer.status, {
      Date: date,
      "X-Request-Id": randomUUID(),
      ...answer.headers,
      ...headers,
    });
    const cut = effects?.get("cut_body");
    const drip = effects?.get("drip");
    ongoing.answered(cut === undefined ? answer.status : 0, body.length);
    if (cut !== undefined) await cutBody(delivery, body, cut.afterBytes ?? body.length >> 1);
    else if (drip !== undefined) await dripBody(delivery, body, drip.bytesPerSecond);
    else await end(response, body);
  } finally {
    answer.release?.();
  }
}

async function encode(
  delivery: Delivery,
  answer: Answer,
): Promise<{ body: Uint8Array; headers: Record<string, string> }> {
  if (answer.body === undefined) {
    return { body: new Uint8Array(), headers: answer.status === 204 ? {} : { "Content-Length": "0" } };
  }
  const body = typeof answer.body === "string" ? Buffer.from(answer.body) : answer.body;
  const accepted = /\bgzip\b/i.test(delivery.request.headers["accept-encoding"] ?? "");
  const wanted = delivery.effects?.get("gzip")?.on ?? (delivery.gzip && body.length >= gzipBytesMin);
  if (!wanted || !accepted) return { body, headers: { "Content-Length": String(body.length) } };
  const packed = await compress(body, { level: 1 });
  return { body: packed, headers: { "Content-Encoding": "gzip", "Content-Length": String(packed.length) } };
}

/** Resolves when the body has left, or when the client has gone. */
function end(response: ServerResponse, body: Uint8Array): Promise<void> {
  return new Promise((resolve) => {
    response.once("close", resolve);
    response.end(body);
  });
}

function cutHeaders(delivery: Delivery, status: number): void {
  delivery.request.socket.write(`HTTP/1.1 ${status} OK\r\nContent-Type: applica`);
  delivery.request.socket.destroySoon();
  delivery.ongoing.answered(0, 0);
}

async function cutBody(delivery: Delivery, body: Uint8Array, afterBytes: number): Promise<void> {
  const part = body.subarray(0, Math.min(afterBytes, Math.max(0, body.length - 1)));
  await new Promise<void>((resolve) =>
    delivery.response.write(part.length === 0 ? " " : part, () => resolve()),
  );
  delivery.request.socket.destroySoon();
}

async function dripBody(delivery: Delivery, body: Uint8Array, bytesPerSecond: number): Promise<void> {
  const piece = Math.max(1, Math.floor(bytesPerSecond / dripsPerSecond));
  for (let at = 0; at < body.length && !delivery.response.destroyed; at += piece) {
    delivery.response.write(body.subarray(at, at + piece));
    await sleep(1000 / dripsPerSecond);
  }
  await end(delivery.response, new Uint8Array());
}

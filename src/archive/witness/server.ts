import { hash } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { open, rename } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { join } from "node:path";
import type { Clock } from "../../core/clock.ts";
import { cosign, parseCheckpoint, type SignedCheckpoint } from "../log/checkpoint.ts";
import { isSignedBy, type Signer, type Verifier } from "../log/note.ts";
import { EMPTY_ROOT, verifyConsistency } from "../log/tree.ts";

/*
 * A witness (C2SP tlog-witness v1.0.0): remembers the newest checkpoint of each log that it knows, and cosigns one
 * that is consistent with it. Requests are handled one after the other, and what is cosigned is durable before
 * the answer is sent: a checkpoint that was cosigned can never be forgotten.
 *
 *   POST /add-checkpoint                         200 cosignature · 400 · 403 · 404 · 409 the size that is known · 422
 *   GET  /<SHA-256 of the origin>/checkpoint     the newest cosigned checkpoint
 */

export interface WitnessOptions {
  readonly signer: Signer;
  /** The logs by the public keys that sign them; a key's name is the log's origin. */
  readonly logs: readonly Verifier[];
  readonly folder: string;
  readonly clock: Clock;
}

interface Answer {
  readonly status: number;
  readonly body: string;
  readonly type?: string;
}

const BODY_BYTES_MAX = 200_000;
const PROOF_LINES_MAX = 63;

export function createWitness(options: WitnessOptions): Server {
  const { signer, logs, folder, clock } = options;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  let last: Promise<unknown> = Promise.resolve();
  const fileOf = (origin: string) => join(folder, `${hash("sha256", origin, "hex")}.checkpoint`);

  async function addCheckpoint(body: string): Promise<Answer> {
    const request = parseRequest(body);
    if (request === undefined) return { status: 400, body: "the request is malformed\n" };
    const { checkpoint, oldSize, proof } = request;
    const keys = logs.filter(({ name }) => name === checkpoint.origin);
    if (keys.length === 0) return { status: 404, body: "the log is not known here\n" };
    if (!isTrusted(checkpoint, keys)) return { status: 403, body: "no signature of a known key\n" };
    if (oldSize > checkpoint.size) return { status: 400, body: "the old size is larger than the new one\n" };
    const known = readKnown(fileOf(checkpoint.origin));
    if (oldSize !== (known?.size ?? 0))
      return { status: 409, body: `${known?.size ?? 0}\n`, type: "text/x.tlog.size" };
    if (!isConsistent(checkpoint, oldSize, known?.root, proof))
      return { status: 422, body: "the checkpoint does not continue the one that is known\n" };
    const line = cosign(checkpoint, signer, clock.now());
    await writeDurably(folder, fileOf(checkpoint.origin), `${checkpoint.bytes}${line}\n`);
    return { status: 200, body: `${line}\n` };
  }

  async function answer(request: IncomingMessage): Promise<Answer> {
    if (request.method === "POST" && request.url === "/add-checkpoint") {
      const body = await bodyOf(request);
      if (body === undefined) return { status: 413, body: "the request is too long\n" };
      // One at a time: two requests must not both pass the check of the old size.
      const turn = last.then(() => addCheckpoint(body));
      last = turn.catch(() => {});
      return turn;
    }
    const match = /^\/([0-9a-f]{64})\/checkpoint$/.exec(request.url ?? "");
    const origin = logs.find(({ name }) => hash("sha256", name, "hex") === match?.[1])?.name;
    const known = request.method === "GET" && origin !== undefined ? readKnown(fileOf(origin)) : undefined;
    return known === undefined
      ? { status: 404, body: "there is nothing here\n" }
      : { status: 200, body: known.bytes.toString() };
  }

  const server = createServer((request, response) => {
    void answer(request)
      .catch((): Answer => ({ status: 500, body: "the witness could not store the checkpoint\n" }))
      .then(({ status, body, type = "text/plain; charset=utf-8" }) => {
        response.writeHead(status, { "content-type": type }).end(body);
      });
  });
  server.requestTimeout = 30_000;
  return server;
}

function parseRequest(body: string) {
  const end = body.indexOf("\n\n");
  const [first, ...lines] = body.slice(0, Math.max(end, 0)).split("\n");
  const size = /^old (0|[1-9]\d{0,15})$/.exec(first ?? "")?.[1];
  const proof = lines.map((line) => Buffer.from(line, "base64"));
  const isProof =
    lines.length <= PROOF_LINES_MAX &&
    proof.every((node, at) => node.length === 32 && node.toString("base64") === lines[at]);
  if (size === undefined || !isProof) return undefined;
  try {
    return { oldSize: Number(size), proof, checkpoint: parseCheckpoint(Buffer.from(body.slice(end + 2))) };
  } catch {
    return undefined;
  }
}

function isTrusted(checkpoint: SignedCheckpoint, keys: readonly Verifier[]): boolean {
  try {
    return keys.filter((key) => isSignedBy(checkpoint.note, key)).length > 0;
  } catch {
    return false;
  }
}

function isConsistent(
  { size, root }: SignedCheckpoint,
  oldSize: number,
  oldRoot: Buffer | undefined,
  proof: readonly Buffer[],
): boolean {
  if (size === 0 && !root.equals(EMPTY_ROOT)) return false;
  if (oldSize === 0) return proof.length === 0 && (oldRoot === undefined || size > 0 || root.equals(oldRoot));
  return verifyConsistency(oldSize, size, oldRoot!, root, proof);
}

function readKnown(file: string): SignedCheckpoint | undefined {
  try {
    return parseCheckpoint(readFileSync(file));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

async function bodyOf(request: IncomingMessage): Promise<string | undefined> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > BODY_BYTES_MAX) return undefined;
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}

async function writeDurably(folder: string, path: string, text: string): Promise<void> {
  const file = await open(`${path}.new`, "w", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(`${path}.new`, path);
  const handle = await open(folder, "r");
  await handle.sync().finally(() => handle.close());
}

import { PausedError } from "../../core/errors.ts";
import { makeRequester, type Requester } from "../../core/http/requester.ts";
import type { SinkContext } from "../../core/sink.ts";
import { isSuccess } from "../over-http/status.ts";
import { type BulkConnection, bulkError } from "./answer.ts";
import type { BulkConfig } from "./config.ts";
import type { BulkCredentials } from "./credentials.ts";
import type { Product } from "./mappings.ts";

export async function connectBulk(
  { config, clock }: SinkContext<BulkConfig>,
  product: Product,
  credentials: BulkCredentials,
): Promise<{ readonly requester: Requester; readonly connection: BulkConnection }> {
  const destination = `${product} at ${new URL(config.url).origin}`;
  if (config.dataStream && /\{(date|month)\}/.test(config.index ?? ""))
    throw new PausedError(
      "The index has a {date} or {month}, which a data stream cannot have.",
      "Leave it out of index, or set dataStream: false.",
    );
  const requester = await makeRequester({
    destination,
    clock,
    timeoutMs: config.timeout,
    connections: config.requestsMax,
    tls: config.tls,
    secrets: credentials.secrets,
    ...(credentials.sign && { sign: credentials.sign }),
  });
  const connection = {
    destination,
    base: config.url.replace(/\/+$/, ""),
    headers: credentials.authorization ? { authorization: credentials.authorization } : {},
    send: requester.send,
  };
  return { requester, connection };
}

/** Checks that the cluster answers and accepts the credentials. A user who may only write gets a 403 here. */
export async function greet({ base, headers, destination, send }: BulkConnection, signal: AbortSignal) {
  const answer = await send({ method: "GET", url: `${base}/`, headers }, signal);
  if (isSuccess(answer) || answer.status === 403 || answer.status === 404) return;
  const error = bulkError(answer, destination);
  if (error) throw error;
}

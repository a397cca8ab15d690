import { hash, randomUUID } from "node:crypto";
import { PausedError, RetryableError } from "../../core/errors.ts";
import { isConfirmed } from "../../core/http/confirmed.ts";
import { type Answer, makeRequester, type Outgoing } from "../../core/http/requester.ts";
import type { SinkContext } from "../../core/sink.ts";
import { DIGEST, type ObjectStore } from "../objects/store.ts";
import { skewRemarks } from "../over-http/probe.ts";
import { isSuccess, jsonOf, statusError } from "../over-http/status.ts";
import { googleSecrets, googleTokens } from "./auth.ts";
import type { GcsConfig } from "./config.ts";
import { googleWords, sendWithToken } from "./send.ts";

/** A bucket of Google Cloud Storage, by its JSON API. Objects are created with ifGenerationMatch=0. */
export async function openGoogleBucket(
  { clock }: SinkContext<unknown>,
  config: GcsConfig,
): Promise<ObjectStore> {
  const base = config.endpoint.replace(/\/+$/, "");
  const place = `gs://${config.bucket}`;
  const requester = await makeRequester({
    destination: place,
    clock,
    timeoutMs: config.timeout,
    connections: 8,
    tls: config.tls,
    secrets: googleSecrets(config),
  });
  let tokens: ReturnType<typeof googleTokens>;
  try {
    tokens = googleTokens(requester, clock, config);
  } catch (error) {
    await requester.close();
    throw error;
  }
  const send = (outgoing: Outgoing, signal: AbortSignal) =>
    sendWithToken(requester, tokens, outgoing, signal);
  const bucketUrl = `${base}/storage/v1/b/${encodeURIComponent(config.bucket)}`;

  return {
    place,
    async create({ key, body, contentType, metadata }, signal) {
      const about = {
        name: key,
        contentType,
        metadata,
        // Lets the service refuse a body that was damaged on its way.
        md5Hash: hash("md5", body, "base64"),
        ...(config.storageClass && { storageClass: config.storageClass }),
      };
      const answer = await send(uploadRequest(base, config.bucket, about, body), signal);
      if (isNamed(answer, place, key)) return true;
      if (answer.status === 412) return false;
      throw gcsError(answer, place);
    },
    async digestOf(key, signal, name = DIGEST) {
      const url = `${bucketUrl}/o/${encodeURIComponent(key)}?fields=name,metadata`;
      const answer = await send({ method: "GET", url, headers: {} }, signal);
      if (answer.status === 404) return undefined;
      if (!isNamed(answer, place, key)) throw gcsError(answer, place);
      const metadata = (jsonOf(answer)?.metadata ?? {}) as Record<string, string>;
      return metadata[name] ?? "";
    },
    async greet(signal) {
      const answer = await send({ method: "GET", url: `${bucketUrl}?fields=name`, headers: {} }, signal);
      // A user who may only create objects is not allowed to see the bucket.
      if (answer.status === 403 || isNamed(answer, place)) return;
      throw gcsError(answer, place);
    },
    async probe(_, signal) {
      const url = `${bucketUrl}/iam/testPermissions?${NEEDED.map((name) => `permissions=${name}`).join("&")}`;
      const answer = await send({ method: "GET", url, headers: {} }, signal);
      const skew = skewRemarks(answer.dateMs, clock.now());
      if (UNKNOWN_METHOD.includes(answer.status))
        return [...skew, "This service does not say what the account may do in the bucket."];
      if (!isSuccess(answer)) throw gcsError(answer, place);
      const granted = (jsonOf(answer)?.permissions ?? []) as readonly string[];
      const missing = NEEDED.filter((name) => !granted.includes(name));
      if (missing.length > 0)
        throw new PausedError(`The service account lacks ${missing.join(" and ")} on ${place}.`, ROLE);
      return skew;
    },
    close: () => requester.close(),
  };
}

/** The API answers with the bucket or the object, and its name. */
function isNamed(answer: Answer, destination: string, name?: string): boolean {
  return isConfirmed(answer, {
    destination,
    expected: "the API's JSON with the name of the bucket or object",
    isGiven(given) {
      const found = jsonOf(given)?.name;
      return name === undefined ? typeof found === "string" : found === name;
    },
  });
}

const NEEDED = ["storage.objects.create", "storage.objects.get"];
const ROLE =
  "Give the service account the roles Storage Object Creator and Storage Object Viewer on the bucket.";
/** The answers of compatible services that lack the method. The bucket itself was found before. */
const UNKNOWN_METHOD: readonly number[] = [404, 405, 501];

function uploadRequest(base: string, bucket: string, about: object, body: Uint8Array): Outgoing {
  const boundary = randomUUID();
  const url = `${base}/upload/storage/v1/b/${encodeURIComponent(bucket)}/o?uploadType=multipart&ifGenerationMatch=0`;
  const head = `--${boundary}\r\ncontent-type: application/json; charset=UTF-8\r\n\r\n${JSON.stringify(about)}\r\n--${boundary}\r\ncontent-type: application/octet-stream\r\n\r\n`;
  return {
    url,
    headers: { "content-type": `multipart/related; boundary=${boundary}` },
    body: Buffer.concat([Buffer.from(head), body, Buffer.from(`\r\n--${boundary}--`)]),
  };
}

function gcsError(answer: Answer, place: string): Error {
  const said = googleWords(answer);
  const remedy =
    answer.status === 404
      ? "Create the bucket, or correct bucket."
      : answer.status === 403
        ? ROLE
        : "Correct this sink's config, or the bucket's settings.";
  if (answer.status === 409) return new RetryableError(`${place} answered 409: ${said ?? "conflict"}`);
  return (
    statusError(answer, { destination: place, said, remedy }) ??
    new PausedError(`${place} answered ${answer.status}: ${said ?? "no reason given"}`, remedy)
  );
}

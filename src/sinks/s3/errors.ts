import { PausedError, RetryableError, TooLargeError } from "../../core/errors.ts";
import { unconfirmed } from "../../core/http/confirmed.ts";
import { transportError } from "../../core/http/requester.ts";
import { dateMsOf, retryAfterMsOf } from "../../core/http/retry-after.ts";
import { s3Fault } from "../../core/s3-client.ts";
import { saying } from "../over-http/status.ts";

const CODES_TO_RETRY = new Set([
  "BadDigest",
  "ConditionalRequestConflict",
  "IncompleteBody",
  "InternalError",
  "OperationAborted",
  "RequestTimeout",
  "ServiceUnavailable",
  "SlowDown",
  "Throttling",
  "ThrottlingException",
  "XAmzContentSHA256Mismatch",
]);

/** A longer wait is asked for again after this. */
const RETRY_AFTER_MS_MAX = 3_600_000;

const REMEDIES: Readonly<Record<string, string>> = {
  AccessDenied:
    "Allow s3:PutObject and s3:GetObject (with Object Lock also s3:PutObjectRetention) on the prefix.",
  AuthorizationHeaderMalformed: "Correct region.",
  CredentialsProviderError: "Set accessKeyId and secretAccessKey, or give the machine a role.",
  ExpiredToken: "Renew the temporary credentials.",
  InvalidAccessKeyId: "Correct accessKeyId.",
  NoSuchBucket: "Create the bucket, or correct bucket and endpoint.",
  NotImplemented: "This service lacks conditional writes (If-None-Match) or another setting used here.",
  PermanentRedirect: "Correct region and endpoint.",
  RequestTimeTooSkewed: "Set this machine's clock.",
  SignatureDoesNotMatch: "Correct secretAccessKey.",
};

/**
 * The meaning of an error of the service. S3 never judges an event: a lasting refusal is about the bucket, the
 * credentials or the request, and pauses. The service's error itself is not passed on, because it can repeat
 * parts of the signed request.
 */
export function s3Error(error: unknown, place: string, nowMs: number): Error {
  if (error instanceof RetryableError || error instanceof PausedError) return error;
  const { name, status, headers } = s3Fault(error);
  if (status === undefined && name !== "CredentialsProviderError") return transportError(place, error);
  // The client could not read an answer of success.
  if (status !== undefined && status >= 200 && status < 300)
    return unconfirmed({ status, headers }, { destination: place, expected: "the service's XML" });
  const message = `${place} answered ${saying(status, name, (error as Error).message)}`;
  if (name === "EntityTooLarge" || status === 413) return new TooLargeError(message);
  const isTransient =
    status !== undefined && status !== 501 && (status >= 500 || [408, 409, 425, 429].includes(status));
  if (isTransient || CODES_TO_RETRY.has(name)) {
    const atMs = dateMsOf(headers.date) ?? nowMs;
    return new RetryableError(message, {
      retryAfterMs: retryAfterMsOf(headers["retry-after"], atMs, RETRY_AFTER_MS_MAX),
    });
  }
  return new PausedError(message, REMEDIES[name] ?? "Correct this sink's config, or the bucket's settings.");
}

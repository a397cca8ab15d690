import { hash } from "node:crypto";
import type { PutObjectCommandInput } from "@aws-sdk/client-s3";
import { PausedError } from "../../core/errors.ts";
import { openS3Client, s3Fault } from "../../core/s3-client.ts";
import type { SinkContext } from "../../core/sink.ts";
import { withDeadline } from "../../core/timeout.ts";
import { DIGEST, type DigestName, type ObjectStore } from "../objects/store.ts";
import { skewRemarks } from "../over-http/probe.ts";
import type { BucketConfig } from "./config.ts";
import { s3Error } from "./errors.ts";

/** A bucket of S3 or of a compatible service. Objects are created with If-None-Match. */
export async function openBucket(
  { clock }: SinkContext<unknown>,
  config: BucketConfig,
  prefix: string,
): Promise<ObjectStore> {
  const sdk = await import("@aws-sdk/client-s3");
  const client = await openS3Client(config, { connections: 8 });
  const { bucket: Bucket } = config;
  const place = `s3://${Bucket}`;
  let dateMs: number | undefined;
  client.middlewareStack.add(
    (next) => async (args) => {
      const result = await next(args);
      const { headers } = result.response as { headers?: Record<string, string> };
      if (headers?.date !== undefined) dateMs = Date.parse(headers.date);
      return result;
    },
    { step: "deserialize", priority: "low" },
  );

  /** One call of the service within its time; throws the service's errors as they are. */
  function call<Result>(work: (abortSignal: AbortSignal) => Promise<Result>, signal: AbortSignal) {
    return withDeadline({ clock, timeoutMs: config.timeout, signal }, async (abortSignal) => {
      try {
        return await work(abortSignal);
      } catch (error) {
        throw abortSignal.aborted ? abortSignal.reason : error;
      }
    });
  }

  function put(input: Partial<PutObjectCommandInput> & { readonly Key: string }, signal: AbortSignal) {
    const command = new sdk.PutObjectCommand({ Bucket, ...input });
    return call((abortSignal) => client.send(command, { abortSignal }), signal);
  }

  async function digestOf(
    key: string,
    signal: AbortSignal,
    name: DigestName = DIGEST,
  ): Promise<string | undefined> {
    try {
      const command = new sdk.HeadObjectCommand({ Bucket, Key: key });
      const head = await call((abortSignal) => client.send(command, { abortSignal }), signal);
      return head.Metadata?.[name] ?? "";
    } catch (error) {
      if (s3Fault(error).status === 404) return undefined;
      throw signal.aborted ? signal.reason : s3Error(error, place, clock.now());
    }
  }

  /** Some services answer 403 for an existing object under Object Lock. */
  async function isTaken(status: number | undefined, key: string, signal: AbortSignal): Promise<boolean> {
    if (status === 412) return true;
    if (status !== 403) return false;
    try {
      return (await digestOf(key, signal)) !== undefined;
    } catch (error) {
      if (signal.aborted) throw error;
      return false;
    }
  }

  return {
    place,
    digestOf,
    async create({ key, body, contentType, metadata }, signal) {
      try {
        await put(
          {
            ...keepingOf(config, clock.now()),
            Key: key,
            Body: body,
            ContentType: contentType,
            Metadata: { ...metadata },
            IfNoneMatch: "*",
            // Lets the service refuse a body that was damaged on its way.
            ChecksumSHA256: hash("sha256", body, "base64"),
          },
          signal,
        );
        return true;
      } catch (error) {
        if (await isTaken(s3Fault(error).status, key, signal)) return false;
        throw signal.aborted ? signal.reason : s3Error(error, place, clock.now());
      }
    },
    async greet(signal) {
      try {
        const command = new sdk.ListObjectsV2Command({ Bucket, Prefix: prefix, MaxKeys: 1 });
        await call((abortSignal) => client.send(command, { abortSignal }), signal);
      } catch (error) {
        // Listing is not needed: a user who may only write is welcome.
        if (s3Fault(error).name === "AccessDenied") return;
        throw signal.aborted ? signal.reason : s3Error(error, place, clock.now());
      }
    },
    async probe(key, signal) {
      try {
        await put({ Key: key, Body: "check", ContentMD5: WRONG_MD5, IfNoneMatch: "*" }, signal);
        throw new PausedError(
          `${place} accepted a body with a wrong checksum, under ${key}.`,
          "Use a store that verifies checksums: this one would keep damaged objects.",
        );
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        if (s3Fault(error).status !== 400 || !REFUSALS.test(s3Fault(error).name))
          throw s3Error(error, place, clock.now());
      }
      return skewRemarks(dateMs, clock.now());
    },
    async close() {
      client.destroy();
    },
  };
}

/** The MD5 of nothing, for a body that is something. */
const WRONG_MD5 = hash("md5", "", "base64");
/** How services call a body that does not match its checksum. */
const REFUSALS = /BadDigest|InvalidDigest|ChecksumMismatch|SHA256Mismatch/i;

function keepingOf(config: BucketConfig, nowMs: number): Partial<PutObjectCommandInput> {
  return {
    ...(config.objectLock && {
      ObjectLockMode: config.objectLock.mode === "compliance" ? "COMPLIANCE" : "GOVERNANCE",
      ObjectLockRetainUntilDate: new Date(nowMs + config.objectLock.retention),
    }),
    ...(config.encryption && { ServerSideEncryption: config.encryption }),
    ...(config.kmsKeyId && { SSEKMSKeyId: config.kmsKeyId }),
    ...(config.storageClass && { StorageClass: config.storageClass as "STANDARD" }),
  };
}

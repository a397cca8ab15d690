import { hash } from "node:crypto";
import type { PutObjectCommandInput } from "@aws-sdk/client-s3";
import { DecisionNeededError } from "../../core/errors.ts";
import { encodeName } from "../../core/names.ts";
import { formatPosition, type Position } from "../../core/position.ts";
import type { Batch } from "../../core/sink.ts";
import type { S3Config } from "./config.ts";

/** The metadata that holds the digest of the uncompressed content (R26). */
export const DIGEST = "tidemark-sha256";

/** The key depends on the bounds alone: the same batch has the same key whenever it is formed (R19, R26). */
export function keyOf(prefix: string, sink: string, batch: Batch, extension: string): string {
  const folder = `${prefix}${encodeName(sink)}/${encodeName(batch.from.journal)}`;
  return `${folder}/${place(batch.from)}-${place(batch.to)}.${extension}`;
}

function place({ page, event }: Position): string {
  return `${String(page).padStart(12, "0")}.${String(event).padStart(6, "0")}`;
}

export function objectOf(config: S3Config, nowMs: number): PutObjectCommandInput {
  return {
    Bucket: config.bucket,
    Key: "",
    IfNoneMatch: "*",
    ContentType: config.gzip ? "application/gzip" : "application/x-ndjson",
    ...(config.objectLock && {
      ObjectLockMode: config.objectLock.mode === "compliance" ? "COMPLIANCE" : "GOVERNANCE",
      ObjectLockRetainUntilDate: new Date(nowMs + config.objectLock.retention),
    }),
    ...(config.encryption && { ServerSideEncryption: config.encryption }),
    ...(config.kmsKeyId && { SSEKMSKeyId: config.kmsKeyId }),
    ...(config.storageClass && { StorageClass: config.storageClass as "STANDARD" }),
  };
}

export function metadataOf(batch: Batch, digest: string): Pick<PutObjectCommandInput, "Metadata"> {
  return {
    Metadata: {
      [DIGEST]: digest,
      "tidemark-events": String(batch.records.length),
      "tidemark-from": formatPosition(batch.from),
      "tidemark-to": formatPosition(batch.to),
    },
  };
}

/** Lets the service refuse a body that was damaged on its way. */
export function checksum(body: Uint8Array): Pick<PutObjectCommandInput, "ChecksumSHA256"> {
  return { ChecksumSHA256: hash("sha256", body, "base64") };
}

export function foreignObject(bucket: string, key: string, sink: string): DecisionNeededError {
  const goOn = `then \`tidemark sinks resume ${sink} --from state\` or a restart`;
  return new DecisionNeededError(
    `${bucket}/${key} exists with other content than these events: it was written from another state of this journal, or with another format or filter.`,
    [
      `Move the object away, ${goOn}: the sink writes its own, with the same events where the state was restored from an older copy`,
      "Give the sink another prefix and restart: nothing that exists is touched, what was delivered since the copy is there twice",
      "Restore the newest state file, or the format and filters that it was written with",
    ],
  );
}

import { hash } from "node:crypto";
import type { PutObjectCommandInput } from "@aws-sdk/client-s3";
import { DecisionNeededError } from "../../core/errors.ts";
import type { JournalEvent } from "../../core/event.ts";
import { encodeName } from "../../core/names.ts";
import { formatPosition, type Position } from "../../core/position.ts";
import type { Batch, SinkRecord } from "../../core/sink.ts";
import type { S3Config } from "./config.ts";

/** The metadata that holds the digest of the uncompressed content (R26). */
export const DIGEST = "tidemark-sha256";

/** The key depends on the bounds alone: the same batch has the same key whenever it is formed (R19, R26). */
export function keyOf(
  names: { readonly prefix: string; readonly sink: string; readonly extension: string },
  batch: Batch,
  partition: string | undefined,
): string {
  const { prefix, extension } = names;
  const [sink, journal] = [encodeName(names.sink), encodeName(batch.from.journal)];
  const bounds = `${place(batch.from)}-${place(batch.to)}.${extension}`;
  return partition === undefined
    ? `${prefix}${sink}/${journal}/${bounds}`
    : `${prefix}${partition}/${sink}.${journal}.${bounds}`;
}

/**
 * The records of a batch by partition, in the order of their first record. Bounds are durable before `write`,
 * so the same batch always gives the same parts under the same keys.
 */
export function partsBy(
  records: readonly SinkRecord[],
  partitionOf: ((event: JournalEvent) => string) | undefined,
): ReadonlyMap<string | undefined, readonly SinkRecord[]> {
  if (partitionOf === undefined) return new Map([[undefined, records]]);
  const parts = new Map<string, SinkRecord[]>();
  for (const record of records) {
    const partition = partitionOf(record.event);
    const part = parts.get(partition);
    if (part) part.push(record);
    else parts.set(partition, [record]);
  }
  return parts;
}

function place({ page, event }: Position): string {
  return `${String(page).padStart(12, "0")}.${String(event).padStart(6, "0")}`;
}

const CONTENT_TYPES = { gzip: "application/gzip", zstd: "application/zstd", none: "application/x-ndjson" };

export function compressionOf({ compression, gzip }: S3Config): "gzip" | "zstd" | "none" {
  return compression ?? (gzip ? "gzip" : "none");
}

export function objectOf(config: S3Config, nowMs: number): PutObjectCommandInput {
  return {
    Bucket: config.bucket,
    Key: "",
    IfNoneMatch: "*",
    ContentType: CONTENT_TYPES[compressionOf(config)],
    ...(config.objectLock && {
      ObjectLockMode: config.objectLock.mode === "compliance" ? "COMPLIANCE" : "GOVERNANCE",
      ObjectLockRetainUntilDate: new Date(nowMs + config.objectLock.retention),
    }),
    ...(config.encryption && { ServerSideEncryption: config.encryption }),
    ...(config.kmsKeyId && { SSEKMSKeyId: config.kmsKeyId }),
    ...(config.storageClass && { StorageClass: config.storageClass as "STANDARD" }),
  };
}

export function metadataOf(
  batch: Batch,
  events: number,
  digest: string,
): Pick<PutObjectCommandInput, "Metadata"> {
  return {
    Metadata: {
      [DIGEST]: digest,
      "tidemark-events": String(events),
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

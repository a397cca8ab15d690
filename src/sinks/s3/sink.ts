import { hash } from "node:crypto";
import { Agent } from "node:https";
import type { PutObjectCommandInput, S3Client, S3ClientConfig } from "@aws-sdk/client-s3";
import { RetryableError } from "../../core/errors.ts";
import { gzip } from "../../core/http/requester.ts";
import { readTls } from "../../core/http/tls.ts";
import { compileTemplate } from "../../core/names.ts";
import { type Batch, defineSink, type SinkRecord } from "../../core/sink.ts";
import { withDeadline } from "../../core/timeout.ts";
import { bytesOf, isJson, singleLine } from "../shared/body.ts";
import { inParallel } from "../shared/in-parallel.ts";
import { type S3Config, s3Schema } from "./config.ts";
import { s3Error, serviceErrorOf } from "./errors.ts";
import {
  checksum,
  compressionOf,
  DIGEST,
  foreignObject,
  keyOf,
  metadataOf,
  objectOf,
  partsBy,
} from "./object.ts";

export const s3 = defineSink({
  type: "s3",
  summary: "Writes objects of one event per line to S3 or a compatible service.",
  config: s3Schema,
  defaultFormat: "raw",
  guarantee: "exactly_once",
  promise:
    "Exactly once: an object's key is its bounds in the journal, which are durable before it is written, and an existing key is never replaced.",
  boundsFirst: true,

  async open(context) {
    const { config, format, clock } = context;
    const sdk = await import("@aws-sdk/client-s3");
    const client = new sdk.S3Client(await clientConfig(config));
    const place = `s3://${config.bucket}`;
    const compression = compressionOf(config);
    const extension = `${isJson(format) ? "jsonl" : "log"}${EXTENSIONS[compression]}`;
    const partitionOf = config.partition === undefined ? undefined : compileTemplate(config.partition);
    const compress = await compressorOf(compression);

    /** One call of the service, within its time; throws the service's errors as they are. */
    function call<Result>(
      work: (client: S3Client, abortSignal: AbortSignal) => Promise<Result>,
      signal: AbortSignal,
    ) {
      return withDeadline({ clock, timeoutMs: config.timeout, signal }, async (abortSignal) => {
        try {
          return await work(client, abortSignal);
        } catch (error) {
          throw abortSignal.aborted ? abortSignal.reason : error;
        }
      });
    }

    /** The digest that the object under this key was written with; undefined when there is none. */
    async function storedDigest(key: string, signal: AbortSignal): Promise<string | undefined> {
      try {
        const input = { Bucket: config.bucket, Key: key };
        const head = await call(
          (to, abortSignal) => to.send(new sdk.HeadObjectCommand(input), { abortSignal }),
          signal,
        );
        return head.Metadata?.[DIGEST] ?? "";
      } catch (error) {
        if (serviceErrorOf(error).status === 404) return undefined;
        throw signal.aborted ? signal.reason : s3Error(error, place);
      }
    }

    /** The key exists (R26): it is ours if its content is, whatever wrote it. */
    async function settle(key: string, digest: string, signal: AbortSignal): Promise<void> {
      const stored = await storedDigest(key, signal);
      if (stored === undefined)
        throw new RetryableError(`The object ${key} came and went while it was written.`);
      if (stored !== digest) throw foreignObject(place, key, context.name);
    }

    async function put(input: PutObjectCommandInput, digest: string, signal: AbortSignal): Promise<void> {
      try {
        await call((to, abortSignal) => to.send(new sdk.PutObjectCommand(input), { abortSignal }), signal);
      } catch (error) {
        const { status } = serviceErrorOf(error);
        if (status === 412) return settle(input.Key!, digest, signal);
        // Some services answer 403 for an existing object under Object Lock.
        if (status === 403 && (await isStored(input.Key!, digest, signal))) return;
        throw signal.aborted ? signal.reason : s3Error(error, place);
      }
    }

    async function writeObject(
      batch: Batch,
      partition: string | undefined,
      records: readonly SinkRecord[],
      signal: AbortSignal,
    ): Promise<void> {
      const content = Buffer.concat(records.flatMap((record) => [record.body, BREAK]));
      const digest = hash("sha256", content, "hex");
      const body = await compress(content);
      const names = { prefix: config.prefix, sink: context.name, extension };
      const input = {
        ...objectOf(config, clock.now()),
        ...metadataOf(batch, records.length, digest),
        Key: keyOf(names, batch, partition),
        Body: body,
        ...checksum(body),
      };
      await put(input, digest, signal);
    }

    async function isStored(key: string, digest: string, signal: AbortSignal): Promise<boolean> {
      try {
        return (await storedDigest(key, signal)) === digest;
      } catch (error) {
        if (signal.aborted) throw error;
        return false;
      }
    }

    try {
      const input = { Bucket: config.bucket, Prefix: config.prefix, MaxKeys: 1 };
      await call(
        (to, abortSignal) => to.send(new sdk.ListObjectsV2Command(input), { abortSignal }),
        context.signal,
      );
    } catch (error) {
      // Listing is not needed: a user who may only write is welcome.
      if (serviceErrorOf(error).name !== "AccessDenied") {
        client.destroy();
        throw context.signal.aborted ? context.signal.reason : s3Error(error, place);
      }
    }

    return {
      limits: {
        recordsMax: config.objectEventsMax,
        bytesMax: config.objectBytesMax,
        recordOverheadBytes: 1,
        ageMsMax: config.objectAgeMax,
      },
      encode: (event) => singleLine(bytesOf(format.encode(event))),
      async write(batch, signal) {
        signal.throwIfAborted();
        const parts = [...partsBy(batch.records, partitionOf)];
        await inParallel(parts, PUTS_AT_ONCE, ([partition, records]) =>
          writeObject(batch, partition, records, signal),
        );
        return undefined;
      },
      async close() {
        client.destroy();
      },
    };
  },

  advise: (config) =>
    (config.accessKeyId === undefined) === (config.secretAccessKey === undefined)
      ? []
      : [
          "accessKeyId and secretAccessKey belong together: with only one of them the default credentials are used.",
        ],
});

const BREAK = Buffer.from("\n");
/** Objects of one batch that are written at once: bounds the memory for compressed bodies. */
const PUTS_AT_ONCE = 8;
const EXTENSIONS = { gzip: ".gz", zstd: ".zst", none: "" };

async function compressorOf(
  compression: "gzip" | "zstd" | "none",
): Promise<(content: Buffer) => Promise<Buffer>> {
  switch (compression) {
    case "gzip":
      return (content) => gzip(content);
    case "zstd": {
      const { compress } = await import("zstd-napi");
      return async (content) => compress(content);
    }
    case "none":
      return async (content) => content;
  }
}

async function clientConfig(config: S3Config): Promise<S3ClientConfig> {
  const { accessKeyId, secretAccessKey, sessionToken } = config;
  return {
    region: config.region,
    forcePathStyle: config.pathStyle,
    // Delivery repeats, with the same bounds; the client must not.
    maxAttempts: 1,
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    ...(config.endpoint && { endpoint: config.endpoint }),
    ...(accessKeyId &&
      secretAccessKey && {
        credentials: {
          accessKeyId: accessKeyId.reveal(),
          secretAccessKey: secretAccessKey.reveal(),
          ...(sessionToken && { sessionToken: sessionToken.reveal() }),
        },
      }),
    requestHandler: {
      connectionTimeout: config.timeout,
      httpsAgent: new Agent({ keepAlive: true, maxSockets: 4, ...(await readTls(config.tls)) }),
    },
  };
}

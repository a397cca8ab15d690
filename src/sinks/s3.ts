import { hash } from "node:crypto";
import { Agent } from "node:https";
import type { PutObjectCommandInput, S3Client, S3ClientConfig } from "@aws-sdk/client-s3";
import { z } from "zod";
import { DecisionNeededError, RetryableError } from "../core/errors.ts";
import { encodeName } from "../core/names.ts";
import { formatPosition, type Position } from "../core/position.ts";
import { durationSchema, sizeSchema, tlsSchema } from "../core/schema.ts";
import { secretSchema } from "../core/secret.ts";
import { type Batch, defineSink, type SinkContext } from "../core/sink.ts";
import { bytesOf, isJson, singleLine } from "./body.ts";
import { gzip, readTls, timeoutSchema, withDeadline } from "./request.ts";
import { codeOf, s3Error } from "./s3-error.ts";

const objectLockSchema = z
  .strictObject({
    mode: z.enum(["governance", "compliance"]).meta({
      description:
        "Who may still delete an object before its time: with governance some users, with compliance nobody.",
    }),
    retention: durationSchema("How long an object cannot be deleted or replaced, from its writing on.", {
      minMs: 1000,
    }),
  })
  .meta({ description: "Locks every object; the bucket must have Object Lock enabled." });

const configSchema = z.strictObject({
  bucket: z.string().min(1).meta({ description: "The bucket." }),
  prefix: z
    .string()
    .max(300)
    .regex(/^[^/]/, { error: "do not begin with a slash" })
    .default("tidemark/")
    .meta({ description: "What every key begins with; end it with a slash to make it a folder." }),
  region: z.string().min(1).default("us-east-1").meta({ description: "The bucket's region." }),
  endpoint: z
    .url({ protocol: /^https?$/ })
    .optional()
    .meta({ description: "The address of an S3-compatible service; by default Amazon's for the region." }),
  pathStyle: z.boolean().default(false).meta({
    description:
      "Writes the bucket into the path instead of the host name, as many compatible services want.",
  }),
  accessKeyId: secretSchema(
    "The access key's id; by default credentials come from the environment, the shared config, or the machine's role.",
  ).optional(),
  secretAccessKey: secretSchema("The access key's secret.").optional(),
  sessionToken: secretSchema("The session token of temporary credentials.").optional(),
  gzip: z.boolean().default(true).meta({ description: "Compresses objects with gzip." }),
  objectBytesMax: sizeSchema("The largest object, before compression.", { min: 1000, max: 512e6 }).prefault(
    "16MB",
  ),
  objectEventsMax: z.int().min(1).max(1_000_000).default(100_000).meta({
    description: "The most events in one object.",
  }),
  objectAgeMax: durationSchema("How long events wait for an object to fill before it is written as it is.", {
    maxMs: 86_400_000,
  }).prefault("5m"),
  objectLock: objectLockSchema.optional(),
  encryption: z.enum(["AES256", "aws:kms"]).optional().meta({
    description: "Server-side encryption; by default the bucket's own setting.",
  }),
  kmsKeyId: z.string().min(1).optional().meta({ description: "The KMS key for aws:kms encryption." }),
  storageClass: z.string().min(1).optional().meta({ description: "The objects' storage class." }),
  timeout: timeoutSchema,
  tls: tlsSchema.optional(),
});

type Config = z.output<typeof configSchema>;

export const s3 = defineSink({
  type: "s3",
  summary: "Writes objects of one event per line to S3 or a compatible service.",
  config: configSchema,
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
    const extension = `${isJson(format) ? "jsonl" : "log"}${config.gzip ? ".gz" : ""}`;

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
        if (codeOf(error).status === 404) return undefined;
        throw signal.aborted ? signal.reason : s3Error(error, place);
      }
    }

    /** The key exists (R26): it is ours if its content is, whatever wrote it. */
    async function settle(key: string, digest: string, signal: AbortSignal): Promise<void> {
      const stored = await storedDigest(key, signal);
      if (stored === undefined)
        throw new RetryableError(`The object ${key} came and went while it was written.`);
      if (stored !== digest) throw foreignObject(place, key);
    }

    async function put(input: PutObjectCommandInput, digest: string, signal: AbortSignal): Promise<void> {
      try {
        await call((to, abortSignal) => to.send(new sdk.PutObjectCommand(input), { abortSignal }), signal);
      } catch (error) {
        const { status } = codeOf(error);
        if (status === 412) return settle(input.Key!, digest, signal);
        // Some services answer 403 for an existing object under Object Lock.
        if (status === 403 && (await isStored(input.Key!, digest, signal))) return;
        throw signal.aborted ? signal.reason : s3Error(error, place);
      }
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
      if (codeOf(error).name !== "AccessDenied") {
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
        const content = Buffer.concat(batch.records.flatMap((record) => [record.body, BREAK]));
        const digest = hash("sha256", content, "hex");
        const body = config.gzip ? await gzip(content) : content;
        const key = keyOf(context, batch, extension);
        await put(
          {
            ...objectOf(config, clock.now()),
            ...describe(batch, digest),
            Key: key,
            Body: body,
            ...checksum(body),
          },
          digest,
          signal,
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
const DIGEST = "tidemark-sha256";

async function clientConfig(config: Config): Promise<S3ClientConfig> {
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

/** Of the bounds alone, so that the same batch has the same key whenever it is formed (R19, R26). */
function keyOf(context: SinkContext<Config>, batch: Batch, extension: string): string {
  const folder = `${context.config.prefix}${encodeName(context.name)}/${encodeName(batch.from.journal)}`;
  return `${folder}/${place(batch.from)}-${place(batch.to)}.${extension}`;
}

function place({ page, event }: Position): string {
  return `${String(page).padStart(12, "0")}.${String(event).padStart(6, "0")}`;
}

function objectOf(config: Config, nowMs: number): PutObjectCommandInput {
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

function describe(batch: Batch, digest: string): Pick<PutObjectCommandInput, "Metadata"> {
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
function checksum(body: Uint8Array): Pick<PutObjectCommandInput, "ChecksumSHA256"> {
  return { ChecksumSHA256: hash("sha256", body, "base64") };
}

function foreignObject(bucket: string, key: string): DecisionNeededError {
  return new DecisionNeededError(
    `${bucket}/${key} exists with other content than these events: it was written from another state of this journal, or with another format or filter.`,
    [
      "Move the object away if it is not wanted; the sink then writes its own.",
      "Give the sink another prefix; nothing that exists is touched.",
      "Restore the format and filters that it was written with.",
    ],
  );
}

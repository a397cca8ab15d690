import { createHash, hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { rm } from "node:fs/promises";
import type {
  DeleteObjectCommandInput,
  GetObjectCommandOutput,
  ListObjectsV2Command,
  ListObjectsV2CommandOutput,
  PutObjectCommandInput,
  S3Client,
} from "@aws-sdk/client-s3";
import type { Clock } from "../../core/clock.ts";
import { RetryableError } from "../../core/errors.ts";
import { openS3Client, s3Fault } from "../../core/s3-client.ts";
import { DAY_MS, formatDuration } from "../../core/time.ts";
import type { S3StoreConfig } from "../config.ts";
import {
  type ArchiveStore,
  type Content,
  ForeignFileError,
  LockedFileError,
  type StoredFile,
} from "./store.ts";

/** The hash of a file's content, also where the service keeps no checksum of its own. */
const DIGEST = "tidemark-sha256";
const ATTEMPTS = 5;

/** An archive in S3: objects are created with If-None-Match, and one that is there already is compared by its hash. */
export async function openS3(config: S3StoreConfig, clock: Clock): Promise<ArchiveStore> {
  const sdk = await import("@aws-sdk/client-s3");
  const client = await openS3Client(config, { connections: 8 });
  const { bucket: Bucket, prefix = "" } = config;
  const place = `s3://${Bucket}/${prefix}`.replace(/\/$/, "");
  const key = (path: string) => ({ Bucket, Key: `${prefix}${path}` });

  /** One request with its whole answer. A large body may take longer than the time-out, as long as it gets on. */
  const request = <Result>(work: (client: S3Client, options: Options) => Promise<Result>, bytes = 0) =>
    within(config.timeout + bytes / BYTES_PER_MS_MIN, (abortSignal) => work(client, { abortSignal }));

  async function head(path: string): Promise<StoredFile | undefined> {
    try {
      const command = new sdk.HeadObjectCommand({ ...key(path), ChecksumMode: "ENABLED" });
      const found = await request((client, options) => client.send(command, options));
      const own = found.ChecksumSHA256;
      const isWhole = own !== undefined && !own.includes("-");
      const sha256 = isWhole ? Buffer.from(own, "base64").toString("hex") : found.Metadata?.[DIGEST];
      return { path, bytes: found.ContentLength ?? 0, sha256 };
    } catch (error) {
      if (statusOf(error) === 404) return undefined;
      throw failure(place, path, error);
    }
  }

  function lockOf(path: string): Partial<PutObjectCommandInput> {
    const { objectLock } = config;
    // Partial tiles may be dropped later, and what is replaced cannot be locked (A24).
    if (objectLock === undefined || /\.p\/\d+$/.test(path)) return {};
    return {
      ObjectLockMode: objectLock.mode === "compliance" ? "COMPLIANCE" : "GOVERNANCE",
      ObjectLockRetainUntilDate: new Date(clock.now() + objectLock.days * DAY_MS),
    };
  }

  async function put(path: string, content: Content, more: Partial<PutObjectCommandInput>): Promise<void> {
    const known =
      "file" in content
        ? content
        : { length: content.bytes.length, sha256: hash("sha256", content.bytes, "hex") };
    const body = "file" in content ? createReadStream(content.file) : content.bytes;
    const command = new sdk.PutObjectCommand({
      ...key(path),
      Body: body,
      ContentLength: known.length,
      ChecksumSHA256: Buffer.from(known.sha256, "hex").toString("base64"),
      Metadata: { [DIGEST]: known.sha256 },
      ...more,
    });
    try {
      await request((client, options) => client.send(command, options), known.length);
    } finally {
      if ("destroy" in body) body.destroy();
    }
  }

  /** A lost answer, a crash, or another writer: whatever is there decides. */
  async function isStored(path: string, content: Content): Promise<boolean> {
    const found = await head(path);
    if (found === undefined) return false;
    const [sha256, length] =
      "file" in content
        ? [content.sha256, content.length]
        : [hash("sha256", content.bytes, "hex"), content.bytes.length];
    if ((found.sha256 ?? (await hashOf(path, length))) !== sha256) throw new ForeignFileError(place, path);
    return true;
  }

  /** One byte more than expected is enough to see that the content differs. */
  function hashOf(path: string, length: number): Promise<string> {
    const command = new sdk.GetObjectCommand({ ...key(path), Range: `bytes=0-${length}` });
    const read = async (client: S3Client, options: Options): Promise<string> => {
      const digest = createHash("sha256");
      const { Body } = await client.send(command, options);
      for await (const chunk of Body as AsyncIterable<Uint8Array>) digest.update(chunk);
      return digest.digest("hex");
    };
    return request(read, length).catch((error: unknown) => {
      // An empty object has no range.
      if (statusOf(error) === 416) return hash("sha256", "", "hex");
      throw error;
    });
  }

  /** Versions too: an erased file must not come back by restoring one. */
  async function removeVersions(path: string): Promise<void> {
    const list = new sdk.ListObjectVersionsCommand({ Bucket, Prefix: `${prefix}${path}` });
    const { Versions = [], DeleteMarkers = [] } = await request((client, options) =>
      client.send(list, options),
    );
    for (const { Key, VersionId } of [...Versions, ...DeleteMarkers])
      if (Key === `${prefix}${path}`) await removeObject({ Bucket, Key, VersionId });
  }

  async function removeObject(which: DeleteObjectCommandInput): Promise<void> {
    const command = new sdk.DeleteObjectCommand(which);
    await request((client, options) => client.send(command, options));
  }

  async function lockedUntilMs(path: string): Promise<number | undefined> {
    try {
      const command = new sdk.GetObjectRetentionCommand(key(path));
      const { Retention } = await request((client, options) => client.send(command, options));
      return Retention?.RetainUntilDate?.getTime();
    } catch {
      return undefined;
    }
  }

  return {
    place,
    workFolder: undefined,
    async create(path, content) {
      for (let attempt = 1; ; attempt++) {
        try {
          if ("file" in content && (await isStored(path, content))) break;
          await put(path, content, { IfNoneMatch: "*", ...lockOf(path) });
          break;
        } catch (error) {
          if (error instanceof ForeignFileError) throw error;
          const status = statusOf(error);
          if ((status === 412 || status === 403 || status === undefined) && (await isStored(path, content)))
            break;
          const isTransient = status === undefined || status >= 500 || [408, 409, 429].includes(status);
          if (!isTransient || attempt === ATTEMPTS) throw failure(place, path, error);
          await clock.sleep(200 * 2 ** attempt, NEVER);
        }
      }
      if ("file" in content) await rm(content.file, { force: true });
    },
    async replace(path, bytes) {
      await put(path, { bytes }, {}).catch((error) => {
        throw failure(place, path, error);
      });
    },
    async read(path, range) {
      try {
        if (range?.length === 0) return Buffer.alloc(0);
        const Range = range && `bytes=${range.from}-${range.from + range.length - 1}`;
        const command = new sdk.GetObjectCommand({ ...key(path), ...(Range && { Range }) });
        return await request(
          async (client, options) => bytesOf(await client.send(command, options)),
          range?.length,
        );
      } catch (error) {
        if (statusOf(error) === 404) return undefined;
        if (statusOf(error) === 416) return Buffer.alloc(0);
        throw failure(place, path, error);
      }
    },
    stat: head,
    async *list(below) {
      let token: string | undefined;
      do {
        const command: ListObjectsV2Command = new sdk.ListObjectsV2Command({
          Bucket,
          Prefix: `${prefix}${below}`,
          ...(token && { ContinuationToken: token }),
        });
        const page: ListObjectsV2CommandOutput = await request((client, options) =>
          client.send(command, options),
        );
        for (const { Key = "", Size = 0 } of page.Contents ?? [])
          yield { path: Key.slice(prefix.length), bytes: Size };
        token = page.NextContinuationToken;
      } while (token !== undefined);
    },
    async remove(path) {
      try {
        await removeVersions(path);
        await removeObject(key(path));
        await removeVersions(path);
      } catch (error) {
        const untilMs = await lockedUntilMs(path);
        if (untilMs !== undefined && untilMs > clock.now()) throw new LockedFileError(place, path, untilMs);
        throw failure(place, path, error);
      }
    },
    close: async () => client.destroy(),
  };
}

const NEVER = new AbortController().signal;
/** A slower transfer counts as one that does not get on. */
const BYTES_PER_MS_MIN = 10;

interface Options {
  readonly abortSignal: AbortSignal;
}

/** A real timer whatever clock the program is given: the network does not run in a test's time. */
async function within<Result>(
  timeoutMs: number,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const stop = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new RetryableError(`The store did not answer in ${formatDuration(timeoutMs)}.`));
      stop.abort();
    }, timeoutMs);
  });
  const result = work(stop.signal);
  // Whichever comes second is of no interest.
  result.catch(() => {});
  expired.catch(() => {});
  try {
    return await Promise.race([result, expired]);
  } finally {
    clearTimeout(timer);
  }
}

async function bytesOf({ Body }: GetObjectCommandOutput): Promise<Buffer> {
  return Buffer.from(await Body!.transformToByteArray());
}

function statusOf(error: unknown): number | undefined {
  return s3Fault(error).status;
}

/** The service's own error can repeat parts of the signed request, so only its words are kept. */
function failure(place: string, path: string, error: unknown): Error {
  const { name, message } = error as Error;
  // Our own words, about an answer that is not the service's.
  if (error instanceof RetryableError) return new Error(`${place}/${path}: ${message}`);
  return new Error(
    `${place}/${path}: the store answered ${statusOf(error) ?? "nothing"} ${name}: ${message}`,
  );
}

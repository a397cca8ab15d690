import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";
import { createParquetFile } from "../parquet/write.ts";
import { errnoOf, type FileSystem, writeAll } from "./system.ts";

/** How a finished file is packed into its final form. */
export interface Packing {
  readonly target: string;
  /** Writes and syncs the packed form of exactly the file's first `length` bytes. */
  packTo(task: PackTask): Promise<void>;
  /** Whether the target holds these bytes: an earlier try may have ended before it removed the plain file. */
  sameContent(task: PackTask): Promise<boolean>;
}

export interface PackTask {
  readonly system: FileSystem;
  readonly path: string;
  readonly length: number;
  readonly target: string;
  readonly signal: AbortSignal;
}

/** The extension of files in work that become Parquet when they are finished. */
export const PARQUET_LINES = "ocsf";
const LINES_ENDING = `.${PARQUET_LINES}`;

/** Whether a file is packed when it is finished: lines for Parquet always, other plain ones with `gzip`. */
export function isPacked(path: string, gzip: boolean): boolean {
  return path.endsWith(LINES_ENDING) || (gzip && !/\.(gz|zst)$/.test(path));
}

export function packingOf(path: string): Packing {
  if (path.endsWith(LINES_ENDING))
    return {
      target: `${path.slice(0, -LINES_ENDING.length)}.parquet`,
      packTo: parquetTo,
      sameContent: sameParquet,
    };
  return { target: `${path}.gz`, packTo: gzipTo, sameContent: sameGzip };
}

/** The speed of a disk matters more here than the last tenth of its space. */
const LEVEL = 1;
const CHUNK_BYTES = 256 << 10;

async function gzipTo({ system, path, length, target, signal }: PackTask): Promise<void> {
  const compressed = createGzip({ level: LEVEL, chunkSize: CHUNK_BYTES });
  await writeTo(system, target, async (write) => {
    await pipeline(
      Readable.from(contentOf(system, path, length)),
      compressed,
      async (chunks: AsyncIterable<Buffer>) => {
        for await (const chunk of chunks) await write(chunk);
      },
      { signal },
    );
  });
}

/** The metadata that holds the digest of the lines, as in objects. */
const DIGEST = "tidemark-sha256";

/** Memory is bounded by one row group, however large the file is. */
async function parquetTo({ system, path, length, target, signal }: PackTask): Promise<void> {
  const digest = createHash("sha256");
  const parquet = await createParquetFile();
  await writeTo(system, target, async (write) => {
    for await (const chunk of contentOf(system, path, length)) {
      signal.throwIfAborted();
      digest.update(chunk);
      for (const piece of parquet.add(chunk)) await write(piece);
    }
    for (const piece of parquet.end({ [DIGEST]: digest.digest("hex") })) await write(piece);
  });
}

async function writeTo(
  system: FileSystem,
  target: string,
  work: (write: (bytes: Uint8Array) => Promise<void>) => Promise<void>,
): Promise<void> {
  const file = await system.open(target, "wx");
  let position = 0;
  try {
    await work(async (bytes) => {
      await writeAll(file, bytes, position);
      position += bytes.length;
    });
    await file.sync();
  } finally {
    await file.close();
  }
}

async function sameGzip({ system, path, length, target, signal }: PackTask): Promise<boolean> {
  const unpacked = createHash("sha256");
  try {
    await pipeline(
      Readable.from(contentOf(system, target, (await system.size(target)) ?? 0)),
      createGunzip(),
      async (content: AsyncIterable<Buffer>) => {
        for await (const chunk of content) unpacked.update(chunk);
      },
      { signal },
    );
  } catch (error) {
    if (errnoOf(error)?.startsWith("Z_") === true) return false;
    throw error;
  }
  return (await hashOf(system, path, length)) === unpacked.digest("hex");
}

async function sameParquet({ system, path, length, target }: PackTask): Promise<boolean> {
  const stored = await parquetDigest(system, target);
  return stored !== undefined && stored === (await hashOf(system, path, length));
}

/** The digest in a Parquet file's footer; undefined for any other file. */
async function parquetDigest(system: FileSystem, path: string): Promise<string | undefined> {
  const { parquetMetadata } = await import("hyparquet");
  const size = (await system.size(path)) ?? 0;
  if (size < TRAILER_BYTES) return undefined;
  const trailer = await readAt(system, path, size - TRAILER_BYTES, TRAILER_BYTES);
  const footerBytes = new DataView(trailer).getUint32(0, true) + TRAILER_BYTES;
  if (footerBytes > size) return undefined;
  const footer = await readAt(system, path, size - footerBytes, footerBytes);
  try {
    const { key_value_metadata: pairs = [] } = parquetMetadata(footer);
    return pairs.find(({ key }) => key === DIGEST)?.value;
  } catch {
    return undefined;
  }
}

/** A Parquet file ends with the length of its footer and a magic word. */
const TRAILER_BYTES = 8;

async function readAt(system: FileSystem, path: string, from: number, length: number): Promise<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  const file = await system.open(path, "r");
  try {
    for (let done = 0; done < length; ) {
      const count = await file.read(bytes.subarray(done), from + done);
      if (count === 0) break;
      done += count;
    }
  } finally {
    await file.close();
  }
  return bytes.buffer;
}

async function hashOf(system: FileSystem, path: string, length: number): Promise<string> {
  const digest = createHash("sha256");
  for await (const chunk of contentOf(system, path, length)) digest.update(chunk);
  return digest.digest("hex");
}

/** Exactly the first `length` bytes of a file. */
async function* contentOf(system: FileSystem, path: string, length: number): AsyncGenerator<Buffer> {
  const file = await system.open(path, "r");
  try {
    for (let position = 0; position < length; ) {
      const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, length - position));
      const count = await file.read(chunk, position);
      if (count === 0) throw new Error(`${path} ended after ${position} of ${length} bytes.`);
      yield chunk.subarray(0, count);
      position += count;
    }
  } finally {
    await file.close();
  }
}

import { createHash } from "node:crypto";
import { basename, dirname } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";
import { explain } from "../../core/errors.ts";
import type { Log } from "../../core/log.ts";
import type { Ledger, LedgerFile } from "./ledger.ts";
import { errnoOf, type FileSystem, renameWithoutReplacing, writeAll } from "./system.ts";

/**
 * Compresses finished files in the background, one at a time. A finished file never changes, so
 * each step may be repeated: exactly its committed bytes go through gzip to a temporary name beside it, are
 * synced, get the final name without replacing anything, and only then is the plain file removed and the
 * file's line in the ledger dropped. A reader of the folder finds the whole content under at least one of the two
 * names at every moment. A failure is tried again with the next finished file and at the next opening.
 */
export interface Compressor {
  push(files: Iterable<LedgerFile>): void;
  /** Finishes what is queued, or gives up at once if `abort` is set; what is left is taken up when opened. */
  close(abort: boolean): Promise<void>;
}

/** The speed of a disk matters more here than the last tenth of its space. */
const LEVEL = 1;
const CHUNK_BYTES = 256 << 10;

export function createCompressor(
  system: FileSystem,
  directory: string,
  ledger: Ledger,
  log: Log,
): Compressor {
  const queue = new Set<LedgerFile>();
  const stop = new AbortController();
  let running: Promise<void> | undefined;

  async function run(): Promise<void> {
    for (const file of queue) {
      if (stop.signal.aborted) return;
      try {
        await compress(system, `${directory}/${file.path}`, file.length, stop.signal, log);
        await ledger.append([{ forget: [file.number] }]);
        queue.delete(file);
      } catch (error) {
        if (!stop.signal.aborted)
          log.warn(
            { path: file.path, reason: explain(error) },
            "Compression failed; it is tried again later.",
          );
        return;
      }
    }
  }

  return {
    push(files) {
      for (const file of files) queue.add(file);
      if (queue.size === 0) return;
      running ??= run().finally(() => {
        running = undefined;
      });
    },
    async close(abort) {
      if (abort) stop.abort();
      await running;
    },
  };
}

async function compress(
  system: FileSystem,
  path: string,
  length: number,
  signal: AbortSignal,
  log: Log,
): Promise<void> {
  const folder = dirname(path);
  const target = `${path}.gz`;
  const temporary = `${folder}/.${basename(path)}.gz.new`;
  // It may share its content with the target after a crash between link and unlink: never write into it.
  await system.unlink(temporary);
  const plainSize = await system.size(path);
  const targetSize = await system.size(target);
  if (plainSize === undefined && targetSize === undefined) {
    log.error({ path, length }, "A finished file is gone.");
    return;
  }
  if (plainSize !== undefined && plainSize < length) {
    log.error(
      { path, size: plainSize, length },
      "A finished file is shorter than committed; it is not touched.",
    );
    return;
  }
  if (plainSize !== undefined && targetSize === undefined) {
    await gzipTo(system, path, length, temporary, signal);
    await renameWithoutReplacing(system, temporary, target);
  } else if (plainSize !== undefined && !(await sameContent(system, path, length, target, signal))) {
    log.error({ path: target }, "A compressed file of this name holds something else; the plain file stays.");
    return;
  }
  await system.syncFolder(folder);
  await system.unlink(path);
  // Also where an earlier try had removed it: the ledger forgets only what a power cut cannot bring back.
  await system.syncFolder(folder);
}

async function gzipTo(
  system: FileSystem,
  path: string,
  length: number,
  temporary: string,
  signal: AbortSignal,
): Promise<void> {
  const file = await system.open(temporary, "wx");
  try {
    let position = 0;
    await pipeline(
      Readable.from(contentOf(system, path, length)),
      createGzip({ level: LEVEL, chunkSize: CHUNK_BYTES }),
      async (compressed: AsyncIterable<Buffer>) => {
        for await (const chunk of compressed) {
          await writeAll(file, chunk, position);
          position += chunk.length;
        }
      },
      { signal },
    );
    await file.sync();
  } finally {
    await file.close();
  }
}

/** The target of an earlier try that did not get as far as removing the plain file. */
async function sameContent(
  system: FileSystem,
  path: string,
  length: number,
  target: string,
  signal: AbortSignal,
): Promise<boolean> {
  const plain = createHash("sha256");
  for await (const chunk of contentOf(system, path, length)) plain.update(chunk);
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
  return plain.digest("hex") === unpacked.digest("hex");
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

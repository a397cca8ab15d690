import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";

/** Alignment of addresses, lengths and positions; most disks need less. */
const BLOCK_BYTES = 4096;
const STAGE_BYTES = 2 << 20;
/** Written side by side: each one that waits for the event loop would add its delay. */
const PIECES_MAX = 3;
/** Smaller writes go through the page cache, where a reader that follows the file finds them. */
const WRITE_BYTES_MIN = 1 << 20;
/** Errors of file systems and kernels that open a file with O_DIRECT but cannot write to it. */
const CANNOT = new Set(["EINVAL", "ENOTSUP", "EOPNOTSUPP"]);

/**
 * Writes large pieces past the page cache, which saves 8% of the processor time of a raw export. Copying them into
 * the cache is the most expensive step of a write, and a backfill would push other programs' data out of it. Where
 * this is not possible (not on Linux, not on every file system), the file's own handle writes everything.
 */
export interface DirectWrites {
  /** How many bytes of the buffer are written, which may be few; undefined where nothing was tried. */
  write(buffer: Uint8Array, position: number): Promise<number | undefined>;
  /** Before the file is synced or closed: so no more files are open twice than are written to at a time. */
  end(): Promise<void>;
}

export function directWritesOf(path: string, handle: FileHandle): DirectWrites {
  let direct: FileHandle | undefined;
  let isPossible = constants.O_DIRECT !== undefined;

  /** Undefined on any error: the ordinary handle is enough. */
  async function opened(): Promise<FileHandle | undefined> {
    if (direct !== undefined) return direct;
    const file = await open(path, constants.O_WRONLY | constants.O_DIRECT).catch(() => undefined);
    if (file === undefined) return undefined;
    const [there, own] = await Promise.all([file.stat(), handle.stat()]);
    // Another file was put in its place.
    if (there.ino !== own.ino || there.dev !== own.dev) await file.close();
    else direct = file;
    return direct;
  }

  async function writeDirectly(piece: Uint8Array, position: number): Promise<number | undefined> {
    const file = await opened();
    if (file === undefined) return undefined;
    const stage = stages.pop() ?? makeStage();
    if (stage === undefined) return undefined;
    try {
      stage.set(piece);
      return (await file.write(stage, 0, piece.length, position)).bytesWritten;
    } catch (error) {
      if (CANNOT.has((error as NodeJS.ErrnoException).code ?? "")) return undefined;
      throw error;
    } finally {
      stages.push(stage);
    }
  }

  return {
    async write(buffer, position) {
      if (!isPossible || buffer.length <= WRITE_BYTES_MIN) return undefined;
      const past = position % BLOCK_BYTES;
      if (past > 0) return (await handle.write(buffer, 0, BLOCK_BYTES - past, position)).bytesWritten;
      if ((await opened()) === undefined) isPossible = false;
      const length = Math.min(PIECES_MAX * STAGE_BYTES, buffer.length - (buffer.length % BLOCK_BYTES));
      const pieces: Promise<number | undefined>[] = [];
      for (let at = 0; isPossible && at < length; at += STAGE_BYTES)
        pieces.push(writeDirectly(buffer.subarray(at, Math.min(length, at + STAGE_BYTES)), position + at));
      const written = await allOf(pieces);
      isPossible &&= written[0] !== undefined;
      return isPossible ? bytesInOrder(written, length) : undefined;
    },
    async end() {
      const ending = direct;
      direct = undefined;
      await ending?.close();
    },
  };
}

/** The results of all, once none of them runs any more; rejects with the first error. */
async function allOf<Result>(writes: readonly Promise<Result>[]): Promise<Result[]> {
  await Promise.allSettled(writes);
  return Promise.all(writes);
}

/** How many bytes are written from the first one on without a hole. */
function bytesInOrder(written: readonly (number | undefined)[], length: number): number {
  let bytes = 0;
  for (const one of written) {
    bytes += one ?? 0;
    if (one !== Math.min(STAGE_BYTES, length - bytes + (one ?? 0))) break;
  }
  return bytes;
}

/** As many as are written at a time. */
const stages: Buffer[] = [];

/** Memory that begins at a page of the system's, which is true of WebAssembly's; undefined where there is none. */
function makeStage(): Buffer | undefined {
  try {
    return Buffer.from(new WebAssembly.Memory({ initial: STAGE_BYTES / 65_536 }).buffer);
  } catch {
    return undefined;
  }
}

import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";

/** What the kernel wants of addresses, lengths and positions; more than most disks ask for. */
const BLOCK_BYTES = 4096;
const STAGE_BYTES = 2 << 20;
/** Smaller writes are better off in the page cache, where whoever follows the file finds them. */
const WRITE_BYTES_MIN = 1 << 20;
/** Of file systems and kernels that cannot do it. */
const CANNOT = new Set(["EINVAL", "ENOTSUP", "EOPNOTSUPP", "EPERM", "EACCES"]);

/**
 * Writes large pieces past the page cache: copying them into fresh memory costs more than all else that is
 * done for a file, and a backfill would push out of memory what others have there. Where that cannot be done
 * (not on Linux, not on every file system) the file's own handle does all.
 */
export interface DirectWrites {
  /** How many bytes of the buffer are written, which may be few; undefined where nothing was tried. */
  write(buffer: Uint8Array, position: number): Promise<number | undefined>;
  close(): Promise<void>;
}

export function directWritesOf(path: string, handle: FileHandle): DirectWrites {
  let direct: FileHandle | undefined;
  let isPossible = constants.O_DIRECT !== undefined;

  async function opened(): Promise<FileHandle> {
    if (direct !== undefined) return direct;
    direct = await open(path, constants.O_WRONLY | constants.O_DIRECT);
    const [ours, own] = await Promise.all([direct.stat(), handle.stat()]);
    // Somebody has moved the file: only the handle knows it.
    if (ours.ino !== own.ino || ours.dev !== own.dev) throw Object.assign(new Error(), { code: "EINVAL" });
    return direct;
  }

  return {
    async write(buffer, position) {
      if (!isPossible || buffer.length <= WRITE_BYTES_MIN) return undefined;
      const past = position % BLOCK_BYTES;
      if (past > 0) return (await handle.write(buffer, 0, BLOCK_BYTES - past, position)).bytesWritten;
      const length = Math.min(STAGE_BYTES, buffer.length - (buffer.length % BLOCK_BYTES));
      try {
        const file = await opened();
        return await withStage(async (stage) => {
          stage.set(buffer.subarray(0, length));
          return (await file.write(stage, 0, length, position)).bytesWritten;
        });
      } catch (error) {
        if (!isInability(error)) throw error;
        isPossible = false;
        return undefined;
      }
    },
    async close() {
      await direct?.close();
    },
  };
}

/** A RangeError: there is no address space for a stage. */
function isInability(error: unknown): boolean {
  return error instanceof RangeError || CANNOT.has((error as NodeJS.ErrnoException).code ?? "");
}

let kept: Buffer | undefined;

/** Memory that begins at a page of the system's, which is true of WebAssembly's. */
async function withStage<Result>(work: (stage: Buffer) => Promise<Result>): Promise<Result> {
  const stage = kept ?? Buffer.from(new WebAssembly.Memory({ initial: STAGE_BYTES / 65_536 }).buffer);
  kept = undefined;
  try {
    return await work(stage);
  } finally {
    kept = stage;
  }
}

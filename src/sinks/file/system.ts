import { constants } from "node:fs";
import { link, lstat, mkdir, open, readFile, rename, unlink } from "node:fs/promises";
import { DecisionNeededError, PausedError, RetryableError } from "../../core/errors.ts";
import { hasNoLinks } from "../../core/no-links.ts";
import { type Crew, createCrew } from "./crew.ts";
import { directWritesOf } from "./direct.ts";

/** The file-system calls that the sink makes, and no others: a test can end the world at any of them. */
export interface FileSystem {
  /**
   * wx: makes the file and fails if there is one. wxs: the same, and each write is durable when it ends. r+: an existing
   * file, to write. r: to read.
   */
  open(path: string, flags: OpenFlags): Promise<OpenFile>;
  /** undefined when there is no such file. */
  read(path: string): Promise<Buffer | undefined>;
  /** undefined when there is no such file. */
  size(path: string): Promise<number | undefined>;
  /** Makes one folder; one that is there is fine. */
  makeFolder(path: string): Promise<void>;
  /** Makes the entries of a folder durable. */
  syncFolder(path: string): Promise<void>;
  /** Fails if `to` is there. */
  link(from: string, to: string): Promise<void>;
  /** Replaces `to`. */
  rename(from: string, to: string): Promise<void>;
  /** A file that is gone already is fine. */
  unlink(path: string): Promise<void>;
  /** Threads for very many small files, where there are any; other calls do the same one by one. */
  createCrew?(): Crew | undefined;
}

export type OpenFlags = "wx" | "wxs" | "r+" | "r";

export interface OpenFile {
  /** How many bytes were read; 0 at the end. */
  read(buffer: Uint8Array, position: number): Promise<number>;
  /** How many bytes were written, which may be fewer than given. */
  write(buffer: Uint8Array, position: number): Promise<number>;
  truncate(length: number): Promise<void>;
  /** Its length; undefined when its path names no file, or another one, by now. */
  size(): Promise<number | undefined>;
  /** Makes content and length durable. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** Each write waits for the disk by itself, so that no second call has to. */
const DURABLE = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | (constants.O_DSYNC ?? 0);
/** Audit events are for their owner and the group that ships them on, not for everybody. */
const FILE_MODE = 0o640;
const FOLDER_MODE = 0o750;

export const nodeFileSystem: FileSystem = {
  async open(path, flags) {
    const handle = await open(path, flags === "wxs" ? DURABLE : flags, FILE_MODE);
    const direct = directWritesOf(path, handle);
    return {
      read: async (buffer, position) => (await handle.read(buffer, 0, buffer.length, position)).bytesRead,
      async write(buffer, position) {
        if (flags !== "wxs") {
          const written = await direct.write(buffer, position);
          if (written !== undefined) return written;
        }
        const { bytesWritten } = await handle.write(buffer, 0, buffer.length, position);
        // This system has no such flag.
        if (flags === "wxs" && constants.O_DSYNC === undefined) await handle.datasync();
        return bytesWritten;
      },
      truncate: (length) => handle.truncate(length),
      async size() {
        const [own, there] = await Promise.all([handle.stat(), lstat(path).catch(absent)]);
        // Some network file systems number a file anew each time.
        return there?.ino === own.ino || there?.size === own.size ? own.size : undefined;
      },
      async sync() {
        await Promise.all([direct.rest(), handle.datasync()]);
      },
      async close() {
        try {
          await direct.close();
        } finally {
          await handle.close();
        }
      },
    };
  },
  read: (path) => readFile(path).catch(absent),
  size: (path) => lstat(path).then((entry) => entry.size, absent),
  async makeFolder(path) {
    await mkdir(path, { mode: FOLDER_MODE }).catch((error) => {
      if (errnoOf(error) !== "EEXIST") throw error;
    });
  },
  async syncFolder(path) {
    const folder = await open(path, "r");
    try {
      await folder.sync();
    } catch (error) {
      // Some network file systems have no such call, and keep entries durable by themselves.
      if (errnoOf(error) !== "EINVAL" && errnoOf(error) !== "ENOTSUP") throw error;
    } finally {
      await folder.close();
    }
  },
  link,
  rename,
  unlink: (path) => unlink(path).catch(absent),
  createCrew,
};

/** Writes all of a buffer at a position. A disk that takes nothing more is an error, never a shorter file. */
export async function writeAll(file: OpenFile, buffer: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < buffer.length; ) {
    const written = await file.write(done === 0 ? buffer : buffer.subarray(done), position + done);
    if (written <= 0)
      throw new RetryableError("A file took no more bytes although the system reported no error.");
    done += written;
  }
}

/** Gives a file its final name; fails with EEXIST if there is one of that name, also one that just came. */
export async function renameWithoutReplacing(system: FileSystem, from: string, to: string): Promise<void> {
  try {
    await system.link(from, to);
  } catch (error) {
    if (!hasNoLinks(error)) throw error;
    // A file system without hard links: nearly as good, because no other program makes files in our directory.
    if ((await system.size(to)) !== undefined)
      throw Object.assign(new Error(`${to} is there already.`), { code: "EEXIST" });
    return system.rename(from, to);
  }
  await system.unlink(from);
}

export function errnoOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | undefined)?.code;
}

function absent(error: unknown): undefined {
  if (errnoOf(error) !== "ENOENT") throw error;
}

/** Errors that pause the sink until a person has acted. */
const REMEDIES: Readonly<Record<string, string>> = {
  EACCES: "give the user that runs tidemark the right to write there",
  EPERM: "give the user that runs tidemark the right to write there",
  EROFS: "mount the file system for writing",
  ENOTDIR: "move the file that is where a folder is needed",
  EISDIR: "move the folder that is where a file is needed",
  EEXIST: "move the file away: it is not one of this sink's",
  ELOOP: "remove the circle of symbolic links",
  ENAMETOOLONG: "choose a shorter directory or path",
};

const SPACE = new Set(["ENOSPC", "EDQUOT"]);

/** An error of the file system in the words of the contract: try again, or wait for a person. */
export function sinkError(error: unknown, directory: string): unknown {
  if (error instanceof RetryableError || error instanceof PausedError) return error;
  if (error instanceof DecisionNeededError) return error;
  const code = errnoOf(error);
  if (code === undefined || !/^E[A-Z0-9]+$/.test(code)) return error;
  if (SPACE.has(code)) {
    return new RetryableError(
      `No space is left on the file system of ${directory}: free some, nothing is lost.`,
      { cause: error, remedy: "Free space there. Delivery goes on by itself." },
    );
  }
  const remedy = REMEDIES[code];
  if (remedy === undefined)
    return new RetryableError(`Writing to ${directory} failed.`, {
      cause: error,
      remedy: "Retrying automatically. If this persists, check the disk and the limits of the process.",
    });
  return new PausedError(`The file system refuses to let us write to ${directory}.`, remedy, {
    cause: error,
  });
}

import { createHash, hash, randomBytes } from "node:crypto";
import { constants, createReadStream } from "node:fs";
import { copyFile, type FileHandle, link, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type ArchiveStore, type Content, ForeignFileError, type StoredFile } from "./store.ts";

/** Files that are being written. Readers and `verify` leave it out. */
const WORK_FOLDER = ".work";

/**
 * An archive in a directory: write to a temporary file, sync, link to the final name, sync the folder. Nothing is
 * made before the first write, so that a copy on a read-only disk can be verified.
 */
export async function openDirectory(directory: string): Promise<ArchiveStore> {
  const work = join(directory, WORK_FOLDER);

  async function temporary(content: Content): Promise<string> {
    if ("file" in content && dirname(content.file) === work) return content.file;
    await mkdir(work, { recursive: true });
    const path = join(work, `new-${randomBytes(6).toString("hex")}`);
    if ("file" in content) await copyFile(content.file, path, constants.COPYFILE_EXCL);
    const file = await open(path, "file" in content ? "r+" : "wx", 0o600);
    try {
      if ("bytes" in content) await file.writeFile(content.bytes);
      await file.sync();
    } finally {
      await file.close();
    }
    return path;
  }

  async function isSame(path: string, content: Content): Promise<boolean> {
    const expected =
      "file" in content
        ? { length: content.length, sha256: content.sha256 }
        : { length: content.bytes.length, sha256: hash("sha256", content.bytes, "hex") };
    const found = await stat(path);
    return found.size === expected.length && (await sha256Of(path)) === expected.sha256;
  }

  return {
    place: directory,
    workFolder: work,
    async create(path, content) {
      const target = join(directory, path);
      await makeFolder(directory, dirname(path));
      const source = await temporary(content);
      try {
        await link(source, target);
      } catch (error) {
        // Without its source the file was moved before a crash, or it was never there.
        const { code } = error as NodeJS.ErrnoException;
        if (code !== "EEXIST" && !(code === "ENOENT" && "file" in content)) throw error;
        if (!(await isSame(target, content))) throw new ForeignFileError(directory, path);
      }
      await syncFolder(dirname(target));
      await rm(source, { force: true });
    },
    async replace(path, bytes) {
      await makeFolder(directory, dirname(path));
      const source = await temporary({ bytes });
      await rename(source, join(directory, path));
      await syncFolder(dirname(join(directory, path)));
    },
    async read(path, range) {
      const file = await openIfThere(join(directory, path));
      if (file === undefined) return undefined;
      try {
        return range === undefined ? await file.readFile() : await readRange(file, range.from, range.length);
      } finally {
        await file.close();
      }
    },
    async stat(path) {
      try {
        const found = await stat(join(directory, path));
        return found.isFile() ? { path, bytes: found.size } : undefined;
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    },
    list: (prefix) => listFiles(directory, prefix),
    async remove(path) {
      await rm(join(directory, path), { force: true });
      await syncFolder(dirname(join(directory, path))).catch((error) => {
        if (!isMissing(error)) throw error;
      });
    },
    close: async () => {},
  };
}

async function* listFiles(directory: string, prefix: string): AsyncIterable<StoredFile> {
  const entries = await readdir(join(directory, prefix), { withFileTypes: true }).catch((error) => {
    if (isMissing(error)) return [];
    throw error;
  });
  for (const entry of entries) {
    const path = prefix === "" ? entry.name : `${prefix}/${entry.name}`;
    if (path === WORK_FOLDER) continue;
    if (entry.isDirectory()) yield* listFiles(directory, path);
    // A link or a device is nothing that an archive writes: reported as a file that does not belong here.
    else if (!entry.isFile()) yield { path, bytes: 0 };
    else {
      const bytes = await sizeOf(join(directory, path));
      if (bytes !== undefined) yield { path, bytes };
    }
  }
}

/** Undefined when the file was removed meanwhile. */
async function sizeOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

async function readRange(file: FileHandle, from: number, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafeSlow(length);
  let used = 0;
  while (used < length) {
    const { bytesRead } = await file.read(buffer, used, length - used, from + used);
    if (bytesRead === 0) break;
    used += bytesRead;
  }
  return buffer.subarray(0, used);
}

async function openIfThere(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, "r");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Makes each missing folder and syncs its parent, so that a power cut leaves no file without its folder. */
async function makeFolder(root: string, folder: string): Promise<void> {
  let path = root;
  for (const name of folder.split("/").filter((part) => part !== "." && part !== "")) {
    const parent = path;
    path = join(path, name);
    try {
      await mkdir(path);
      await syncFolder(parent);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function sha256Of(path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const digest = createHash("sha256");
    createReadStream(path)
      .on("data", (chunk) => digest.update(chunk))
      .on("end", () => resolve(digest.digest("hex")))
      .on("error", reject);
  });
}

function isMissing(error: unknown): boolean {
  return ["ENOENT", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "");
}

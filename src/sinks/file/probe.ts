import { access, constants, stat, statfs } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { PausedError } from "../../core/errors.ts";
import type { SinkContext } from "../../core/sink.ts";
import type { FileSettings } from "./config.ts";
import { refuseWithoutLedger } from "./directory.ts";
import { readLedger } from "./ledger.ts";
import { reconcileFiles } from "./recover.ts";
import { errnoOf, nodeFileSystem, sinkError } from "./system.ts";

/** Looks at the directory, its ledger and the disk; makes and changes nothing. */
export async function probeDirectory(context: SinkContext<FileSettings>): Promise<readonly string[]> {
  const directory = resolve(context.config.directory);
  try {
    const existing = await nearestFolder(directory);
    await access(existing, constants.W_OK | constants.X_OK);
    const model = existing === directory ? await readLedger(nodeFileSystem, directory) : undefined;
    if (model === undefined) refuseWithoutLedger(directory, context);
    else reconcileFiles(model, context, directory);
    return await spaceRemarks(existing, context.config.rotateSize);
  } catch (error) {
    throw sinkError(error, directory);
  }
}

/** The directory itself, or the folder in which it would be made. */
async function nearestFolder(path: string): Promise<string> {
  try {
    if ((await stat(path)).isDirectory()) return path;
    throw new PausedError(`${path} is not a folder.`, "Move the file that is where a folder is needed.");
  } catch (error) {
    if (errnoOf(error) !== "ENOENT" || dirname(path) === path) throw error;
    return nearestFolder(dirname(path));
  }
}

async function spaceRemarks(folder: string, neededBytes: number): Promise<readonly string[]> {
  const { bavail, bsize } = await statfs(folder);
  if (bavail * bsize >= neededBytes) return [];
  const megabytes = Math.floor((bavail * bsize) / 1e6);
  return [`The file system has ${megabytes} MB left, less than one file of rotateSize.`];
}

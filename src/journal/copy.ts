import { randomBytes } from "node:crypto";
import {
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
} from "node:fs";
import { dirname } from "node:path";
import { UsageError } from "../core/errors.ts";
import { hasNoLinks } from "../core/no-links.ts";

/**
 * Makes a file that is either whole and durable or not there: written under a temporary name, synced, given
 * its name without replacing anything. A process that ends in the middle leaves a temporary file, no half copy.
 */
export function copyWhole(target: string, mode: number, write: (temporary: string) => void): void {
  const temporary = temporaryName(target);
  try {
    write(temporary);
    publish(temporary, target, mode);
  } finally {
    rmSync(temporary, { force: true });
  }
}

/** In the same folder, so that giving it its name is one step. */
export function temporaryName(target: string): string {
  return `${target}.${randomBytes(4).toString("hex")}.tmp`;
}

export function publish(temporary: string, target: string, mode: number, link = linkSync): void {
  chmodSync(temporary, mode);
  sync(temporary);
  try {
    // Unlike a rename, a link does not replace what has appeared under the name meanwhile.
    link(temporary, target);
    rmSync(temporary);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") throw alreadyThere(target);
    if (!hasNoLinks(error)) throw error;
    // Nearly as good: the other file would have to appear at this very moment.
    if (existsSync(target)) throw alreadyThere(target);
    renameSync(temporary, target);
  }
  sync(dirname(target));
}

/** A second name for a file, which keeps the first. Without hard links the second one is a copy. */
export function nameTwice(file: string, second: string, link = linkSync): void {
  try {
    link(file, second);
  } catch (error) {
    if (!hasNoLinks(error)) throw error;
    copyFileSync(file, second, constants.COPYFILE_EXCL);
    sync(second);
  }
}

export function alreadyThere(target: string): UsageError {
  return new UsageError(`${target} is there already: nothing is overwritten, choose another name.`);
}

/** A file's content, or a folder's entries. */
export function sync(path: string): void {
  const handle = openSync(path, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

import { randomBytes } from "node:crypto";
import { chmodSync, closeSync, fsyncSync, linkSync, openSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { UsageError } from "../core/errors.ts";

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

export function publish(temporary: string, target: string, mode: number): void {
  chmodSync(temporary, mode);
  sync(temporary);
  try {
    // Unlike a rename, a link does not replace what has appeared under the name meanwhile.
    linkSync(temporary, target);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") throw alreadyThere(target);
    throw error;
  }
  rmSync(temporary);
  sync(dirname(target));
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

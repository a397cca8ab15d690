import { lstatSync, readlinkSync, realpathSync } from "node:fs";
import { dirname, resolve } from "node:path";

const LINKS_MAX = 40;

/** The file that a symbolic link names in the end, also where that is not there yet; a file that is no link as it is. */
export function linkTarget(file: string): string {
  let target = file;
  for (let links = 0; links < LINKS_MAX; links++) {
    if (lstatSync(target, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return target;
    target = resolve(realpathSync(dirname(target)), readlinkSync(target));
  }
  return target;
}

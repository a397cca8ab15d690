import { lstatSync, readlinkSync, realpathSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";

const LINKS_MAX = 40;

/** The final target of a symbolic link, even if it does not exist yet. Any other path is returned unchanged. */
export function linkTarget(file: string): string {
  let target = file;
  for (let links = 0; links < LINKS_MAX; links++) {
    if (lstatSync(target, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return target;
    target = resolve(realpathSync(dirname(target)), readlinkSync(target));
  }
  return target;
}

/** Where a path leads, all symbolic links followed, even if it does not exist yet. */
export function realPlace(path: string): string {
  let target = resolve(path);
  try {
    target = linkTarget(target);
    return realpathSync(target);
  } catch {
    const parent = dirname(target);
    return parent === target ? target : join(realPlace(parent), basename(target));
  }
}

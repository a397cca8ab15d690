import { type Fields, isFields, type Leaf, take } from "../core/meaning.ts";

/** Values are taken from at most this far below the event itself. */
const DEPTH_MAX = 4;

/** A leaf's value, which is taken from the event, unless it had to be changed on the way. */
export function carry<Value>(leaf: Leaf<Value> | undefined): Value | undefined {
  if (leaf === undefined) return undefined;
  if (typeof leaf.value === "string") return take(leaf);
  const held = leaf.holder[leaf.key];
  return typeof held === "string" && held !== String(leaf.value) ? leaf.value : take(leaf);
}

/**
 * What nobody took of an event: the event itself, in which taken values are undefined (JSON.stringify
 * leaves them out). Objects of which nothing is left go too; those that were empty from the start stay.
 */
export function leftover(event: Fields): Fields | undefined {
  return prune(event, 0) ? event : undefined;
}

/** True if anything is left. */
function prune(fields: Fields, depth: number): boolean {
  let left = false;
  let keys = 0;
  for (const key in fields) {
    keys++;
    const value = fields[key];
    if (value === undefined) continue;
    if (depth < DEPTH_MAX && isFields(value) && !prune(value, depth + 1)) fields[key] = undefined;
    else left = true;
  }
  return left || (keys === 0 && depth > 0);
}

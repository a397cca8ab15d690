import { type Carried, decide, type Fields, isFields, type Leaf, take } from "../core/meaning.ts";

/** Values are taken from at most this far below the event itself. */
const DEPTH_MAX = 4;

/**
 * The value of a leaf, to be written. It is taken from the event, unless it had to be changed on the way:
 * then the original stays in the leftover.
 */
export function carry<Value>(leaf: Leaf<Value> | undefined): Carried<Value> | undefined {
  if (leaf === undefined) return undefined;
  const held = leaf.holder[leaf.key];
  const value: unknown = decide(leaf);
  const isChanged = typeof held === "string" && typeof value !== "string" && held !== String(value);
  return isChanged ? leaf.value : take(leaf);
}

/**
 * The part of an event that no format field took: the event itself, in which taken values are undefined.
 * JSON.stringify leaves them out. Objects that are empty now go too; objects that always were stay.
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

/* The paths and names that converters read, by their hashes. */
import { mix, mixBytes } from "./hash";
import { NAME_ALONE, NAME_ORDERED } from "./kinds";
import { PATHS, PATHS_MAX, TEXT } from "./memory";

export let seed: u64 = 0;

export function setSeed(low: u32, high: u32): void {
  seed = ((<u64>high) << 32) | <u64>low;
}

// @ts-ignore: decorator
@inline
export function pathOf(parent: u64, start: usize, length: i32): u64 {
  return mixBytes(seed ^ parent, start, length);
}

/** Declares the path of the key in TEXT below a parent; 0 is the event itself. */
export function declarePath(parent: u64, length: i32, kind: u32): u64 {
  const path = pathOf(parent, TEXT, length);
  declare(path, kind);
  return path;
}

/** Declares the name in TEXT, in lower case and without anything but letters, digits and dots. */
export function declareName(length: i32, kind: u32): void {
  declare(nameHash(TEXT, length), kind);
}

/** Names share the table of paths, so their hashes differ from those of top-level paths. */
function nameHash(start: usize, length: i32): u64 {
  return mixBytes(mix(seed, NAME_ALONE), start, length);
}

function declare(path: u64, kind: u32): void {
  let slot = <i32>path & (PATHS_MAX - 1);
  while (load<u32>(PATHS + slot * 16, 8) != 0 && load<u64>(PATHS + slot * 16) != path)
    slot = (slot + 1) & (PATHS_MAX - 1);
  store<u64>(PATHS + slot * 16, path);
  store<u32>(PATHS + slot * 16, kind, 8);
}

/** 0: it is not declared. */
// @ts-ignore: decorator
@inline
export function kindOf(path: u64): u32 {
  let slot = <i32>path & (PATHS_MAX - 1);
  while (true) {
    const kind = load<u32>(PATHS + slot * 16, 8);
    if (kind == 0 || load<u64>(PATHS + slot * 16) == path) return kind;
    slot = (slot + 1) & (PATHS_MAX - 1);
  }
}

const LOWER_MAX: i32 = 1024;
const LOWER: usize = memory.data(LOWER_MAX + 32, 16);

/** Looks up the name, else the part behind its last dot, without case and without other signs. */
export function kindOfName(start: usize, length: i32): u32 {
  if (length > LOWER_MAX) return NAME_ORDERED;
  let size = 0;
  let last = 0;
  for (let at = 0; at < length; at++) {
    const byte = load<u8>(start + at);
    // Other alphabets and escapes decide: their lower case may be a letter that counts.
    if (byte >= 0x80 || byte == 0x5c) return NAME_ORDERED;
    const lower = <u8>(byte - 0x41) < 26 ? byte | 0x20 : byte;
    if (<u8>(lower - 0x61) >= 26 && <u8>(lower - 0x30) > 9 && lower != 0x2e) continue;
    store<u8>(LOWER + size, lower);
    size++;
    if (lower == 0x2e) last = size;
  }
  const kind = kindOf(nameHash(LOWER, size));
  return kind != 0 || last == 0 ? kind : kindOf(nameHash(LOWER + last, size - last));
}

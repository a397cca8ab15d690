/* The paths and names that converters read, by their hashes. */
import { mix, mixBytes } from "../hash";
import { NAME_ALWAYS, NAME_ORDERED, NAME_RANK, NAME_WORDS } from "./kinds";
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

/** The effects of names: up to three masks each. */
const EFFECTS_MAX: i32 = 256;
const EFFECTS: usize = memory.data(EFFECTS_MAX * 16, 16);
let names: u32 = 0;

/**
 * Declares the name in TEXT, in lower case and without anything but letters, digits and dots, with the effects of
 * being switched on or higher, of being switched off or lower, and of another change.
 */
export function declareName(length: i32, kind: u32, on: u32, off: u32, other: u32): void {
  const place = EFFECTS + names * 16;
  store<u32>(place, on);
  store<u32>(place, off, 4);
  store<u32>(place, other, 8);
  declare(nameHash(TEXT, length), kind | (names << 8));
  names++;
}

/** The effects of a name that was declared with this kind: of its first, second or third way to change. */
export function effects(kind: u32, way: i32): u32 {
  return load<u32>(EFFECTS + (kind >> 8) * 16 + way * 4);
}

/** Declares the rank of the word in TEXT, from 1 on. */
export function declareRank(length: i32, rank: u32): void {
  declare(mixBytes(mix(seed, NAME_RANK), TEXT, length), rank);
}

/** Declares the word in TEXT, with a number from 1 on, as one of the name that was declared last. */
export function declareWord(length: i32, number: u32): void {
  declare(mixBytes(wordsOf(names - 1), TEXT, length), number);
}

function wordsOf(name: u32): u64 {
  return mix(mix(seed, NAME_WORDS), name);
}

/** The rank of a text; 0 where it has none, and -1 where that takes more than ASCII to say. */
export function rankOf(start: usize, length: i32): i32 {
  return numberOf(start, length, mix(seed, NAME_RANK));
}

/** The number of a text among the words of a name that was declared with this kind; 0 and -1 as above. */
export function wordOf(kind: u32, start: usize, length: i32): i32 {
  return numberOf(start, length, wordsOf(kind >> 8));
}

function numberOf(start: usize, length: i32, words: u64): i32 {
  if (length > LOWER_MAX) return 0;
  for (let at = 0; at < length; at++) {
    const byte = load<u8>(start + at);
    if (byte >= 0x80 || byte == 0x5c) return -1;
    store<u8>(LOWER + at, <u8>(byte - 0x41) < 26 ? byte | 0x20 : byte);
  }
  return <i32>kindOf(mixBytes(words, LOWER, length));
}

/** Names share the table of paths, so their hashes differ from those of top-level paths. */
function nameHash(start: usize, length: i32): u64 {
  return mixBytes(mix(seed, NAME_ALWAYS), start, length);
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

/** The kind of a changed field by its name, else by the part behind its last dot, without case and without other signs. */
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

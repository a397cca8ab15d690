/*
 * The shape of an event: its keys, its structure and the types of its values, as a 64-bit hash, in one pass over
 * its JSON text. Events of one shape differ in values alone, so a look at the first one serves for all.
 * src/core/shape-engine.ts is the caller.
 *
 * The text is valid JSON, because the journal only holds events that passed the scanner. Zeros follow it.
 */

export const TEXT_BYTES: i32 = 1 << 20;
/** Vectors read up to 16 bytes at a time and may look this far behind the text. */
export const PADDING_BYTES: i32 = 64;
export const TEXT: usize = (__heap_base + 63) & ~63;

const DEPTH_MAX: i32 = 64;
/** Whether each open container is an array. */
const ARRAYS: usize = memory.data(DEPTH_MAX + 1);

const OPEN_OBJECT: u64 = 1;
const OPEN_ARRAY: u64 = 2;
const CLOSE: u64 = 3;
const STRING: u64 = 4;
const NUMBER: u64 = 5;
/** An integer that a double cannot hold exactly; it is treated as text. */
const LONG_INTEGER: u64 = 6;
const BOOLEAN: u64 = 7;
const NULL: u64 = 8;

/** Integers of so many characters are always exact in a double, and beyond the second length never. */
const EXACT_LENGTH_MAX: i32 = 15;
const INEXACT_LENGTH_MIN: i32 = 18;

let seed: u64 = 0;
let hash: u64 = 0;

/** A random seed for each process, so that no one can construct events of one hash. */
export function setSeed(low: u32, high: u32): void {
  seed = ((<u64>high) << 32) | <u64>low;
}

export function hashLow(): u32 {
  return <u32>hash;
}

export function hashHigh(): u32 {
  return <u32>(hash >> 32);
}

/** Hashes the event of this length in TEXT; false if it is no object or nested too deeply. */
export function read(length: i32): bool {
  memory.fill(TEXT + length, 0, PADDING_BYTES);
  hash = seed;
  let depth = 0;
  let isArray = false;
  let at = skipBlank(TEXT);
  if (load<u8>(at) != 0x7b) return false;
  at++;
  store<u8>(ARRAYS, 0);
  while (true) {
    at = skipBlank(at);
    const byte = load<u8>(at);
    if (byte == 0x2c) {
      at++;
      continue;
    }
    if (byte == 0x7d || byte == 0x5d) {
      mix(CLOSE);
      at++;
      if (--depth < 0) return true;
      isArray = load<u8>(ARRAYS + depth) != 0;
      continue;
    }
    // Cut off or not JSON: cannot happen to an event of the journal.
    if (byte == 0) return false;
    if (!isArray) {
      const end = endOfString(at);
      mixBytes(at + 1, <i32>(end - at) - 1);
      at = skipBlank(skipBlank(end + 1) + 1);
    }
    const first = load<u8>(at);
    if (first == 0x7b || first == 0x5b) {
      if (++depth > DEPTH_MAX) return false;
      isArray = first == 0x5b;
      mix(isArray ? OPEN_ARRAY : OPEN_OBJECT);
      store<u8>(ARRAYS + depth, isArray);
      at++;
    } else at = readValue(at, first);
  }
}

/** Mixes in the type of a string, number or word; gives the place behind it. */
function readValue(at: usize, first: u8): usize {
  if (first == 0x22) {
    mix(STRING);
    return endOfString(at) + 1;
  }
  if (first == 0x74 || first == 0x66) {
    mix(BOOLEAN);
    return at + (first == 0x74 ? 4 : 5);
  }
  if (first == 0x6e) {
    mix(NULL);
    return at + 4;
  }
  const end = endOfNumber(at);
  const length = <i32>(end - at);
  // Whether the rest is exact depends on the value, so the value is part of the shape.
  if (hasExponent || (!hasPoint && length > EXACT_LENGTH_MAX && length < INEXACT_LENGTH_MIN)) mixBytes(at, length);
  mix(hasPoint || length <= EXACT_LENGTH_MAX ? NUMBER : LONG_INTEGER);
  return end;
}

// @ts-ignore: decorator
@inline
function mix(value: u64): void {
  const mixed = (hash ^ value) * 0xff51afd7ed558ccd;
  hash = (mixed ^ (mixed >> 32)) * 0x9e3779b97f4a7c15;
}

/** Reads up to 7 bytes behind the end; they do not count. */
function mixBytes(start: usize, length: i32): void {
  mix(<u64>length);
  let at = start;
  let left = length;
  for (; left >= 8; left -= 8) {
    mix(load<u64>(at));
    at += 8;
  }
  if (left > 0) mix(load<u64>(at) & (((<u64>1) << (<u64>left * 8)) - 1));
}

/** The closing quote of the string that opens at `start`. */
function endOfString(start: usize): usize {
  let at = start + 1;
  const end = TEXT + TEXT_BYTES;
  while (at < end) {
    const bytes = v128.load(at);
    const quotes = i8x16.eq(bytes, i8x16.splat(0x22));
    const backslashes = i8x16.eq(bytes, i8x16.splat(0x5c));
    const found = i8x16.bitmask(v128.or(quotes, backslashes));
    if (found == 0) {
      at += 16;
      continue;
    }
    at += ctz(found);
    if (load<u8>(at) == 0x22) return at;
    at += 2;
  }
  return end;
}

let hasExponent: bool = false;
let hasPoint: bool = false;

function endOfNumber(start: usize): usize {
  let at = start;
  hasExponent = false;
  hasPoint = false;
  while (true) {
    at++;
    const byte = load<u8>(at);
    if ((byte | 0x20) == 0x65) hasExponent = true;
    else if (byte == 0x2e) hasPoint = true;
    else if (<u8>(byte - 0x30) > 9 && byte != 0x2d && byte != 0x2b) return at;
  }
}

// @ts-ignore: decorator
@inline
function skipBlank(from: usize): usize {
  let at = from;
  while (load<u8>(at) <= 0x20 && load<u8>(at) != 0) at++;
  return at;
}

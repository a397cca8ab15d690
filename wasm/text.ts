/*
 * Looks for a word in the bytes of events, without regard to the case of ASCII letters, sixteen places at a time.
 * src/search/find/text-engine.ts is the caller.
 *
 * A character of the word can also be spelled in another way: as an escape (\u0041), or as one of two letters whose
 * lower case is, or begins with, an ASCII letter. `plain` replaces these spellings by the letter itself.
 */

export const WORD_BYTES: i32 = 256;
/** A vector may be read so far behind the text, and a word as well. */
export const PADDING_BYTES: i32 = 288;

/** The word, in lower case. */
export const WORD: usize = memory.data(WORD_BYTES, 16);
/** For each byte of the word the bit that makes the case of a letter not matter. */
const CASES: usize = memory.data(WORD_BYTES, 16);
export const TEXT: usize = (__heap_base + 63) & ~63;

const BACKSLASH: u8 = 0x5c;
const LETTER_U: u8 = 0x75;
/** U+212A, the sign of Kelvin, and U+0130, a capital I with a dot, in UTF-8. */
const KELVIN: u32 = 0x212a;
const DOTTED_I: u32 = 0x130;

let wordBytes: i32 = 0;
let rare: i32 = 0;
let other: i32 = 0;

/** Takes the word of this length from WORD. */
export function setWord(length: i32): void {
  wordBytes = length;
  rare = 0;
  other = 0;
  for (let at = 0; at < length; at++) {
    const byte = load<u8>(WORD + at);
    store<u8>(CASES + at, byte >= 0x61 && byte <= 0x7a ? 0x20 : 0);
    if (frequency(byte) <= frequency(load<u8>(WORD + rare))) {
      other = rare;
      rare = at;
    } else if (other == rare || frequency(byte) < frequency(load<u8>(WORD + other))) {
      other = at;
    }
  }
}

/** How common a byte is in JSON: rare ones are looked for first. Only the order matters. */
function frequency(byte: u8): i32 {
  switch (byte) {
    case 0x22: // "
    case 0x65: // e
    case 0x61: // a
    case 0x6e: // n
    case 0x69: // i
    case 0x72: // r
    case 0x74: // t
    case 0x6f: // o
    case 0x73: // s
      return 3;
    case 0x6a: // j
    case 0x71: // q
    case 0x78: // x
    case 0x7a: // z
    case 0x20:
    case 0x40: // @
      return 0;
    default:
      return byte >= 0x30 && byte <= 0x3a ? 2 : 1;
  }
}

/** Where the word begins for the first time at `from` or behind it; -1 where it does not. */
export function find(length: i32, from: i32): i32 {
  const last = length - wordBytes;
  const ones = i8x16.splat(load<u8>(WORD + rare));
  const others = i8x16.splat(load<u8>(WORD + other));
  const oneCase = i8x16.splat(load<u8>(CASES + rare));
  const otherCase = i8x16.splat(load<u8>(CASES + other));
  for (let at = from; at <= last; at += 16) {
    const place = TEXT + at;
    const isOne = i8x16.eq(v128.or(v128.load(place + rare), oneCase), ones);
    const isOther = i8x16.eq(v128.or(v128.load(place + other), otherCase), others);
    let found = i8x16.bitmask(v128.and(isOne, isOther));
    while (found != 0) {
      const start = at + ctz(found);
      if (start > last) return -1;
      if (isWordAt(TEXT + start)) return start;
      found &= found - 1;
    }
  }
  return -1;
}

function isWordAt(place: usize): bool {
  for (let at = 0; at < wordBytes; at++)
    if ((load<u8>(place + at) | load<u8>(CASES + at)) != load<u8>(WORD + at)) return false;
  return true;
}

/** Where the next other spelling begins; -1 where there is none. */
export function findSpelling(length: i32, from: i32): i32 {
  memory.fill(TEXT + length, 0, 32);
  const slashes = i8x16.splat(BACKSLASH);
  const us = i8x16.splat(LETTER_U);
  const kelvins = i8x16.splat(<u8>0xe2);
  const kelvinSeconds = i8x16.splat(<u8>0x84);
  const dotted = i8x16.splat(<u8>0xc4);
  const dottedSeconds = i8x16.splat(<u8>0xb0);
  for (let at = from; at < length; at += 16) {
    const here = v128.load(TEXT + at);
    const next = v128.load(TEXT + at + 1);
    const escapes = v128.and(i8x16.eq(here, slashes), i8x16.eq(next, us));
    const signs = v128.and(i8x16.eq(here, kelvins), i8x16.eq(next, kelvinSeconds));
    const letters = v128.and(i8x16.eq(here, dotted), i8x16.eq(next, dottedSeconds));
    let found = i8x16.bitmask(v128.or(v128.or(escapes, signs), letters));
    while (found != 0) {
      const start = at + ctz(found);
      if (start < length && spelledAt(start) != 0) return start;
      found &= found - 1;
    }
  }
  return -1;
}

/** The bytes of the spelling that begins here; 0 where there is none. */
function spelledAt(start: i32): i32 {
  const place = TEXT + start;
  const byte = load<u8>(place);
  if (byte == 0xc4) return 2;
  if (byte == 0xe2) return load<u8>(place + 2) == 0xaa ? 3 : 0;
  // A backslash that is itself escaped, as in C:\\users, begins no escape.
  let slashes = 1;
  while (slashes <= start && load<u8>(place - slashes) == BACKSLASH) slashes++;
  return (slashes & 1) == 1 ? 6 : 0;
}

/** Replaces every other spelling by one byte; the length of the text after that. */
export function plain(length: i32): i32 {
  let written = 0;
  let read = 0;
  while (true) {
    const start = findSpelling(length, read);
    const end = start < 0 ? length : start;
    const bytes = start < 0 ? 0 : spelledAt(start);
    memory.copy(TEXT + written, TEXT + read, end - read);
    written += end - read;
    if (start < 0) return written;
    store<u8>(TEXT + written, letterAt(start));
    written++;
    read = min(start + bytes, length);
  }
}

/** The ASCII character that is spelled here; 0 for others, which no word contains. */
function letterAt(start: i32): u8 {
  const place = TEXT + start;
  const byte = load<u8>(place);
  if (byte == 0xc4) return 0x69;
  if (byte == 0xe2) return 0x6b;
  let code: u32 = 0;
  for (let at = 2; at < 6; at++) {
    const digit = load<u8>(place + at);
    const value = digit <= 0x39 ? digit - 0x30 : (digit | 0x20) - 0x57;
    code = (code << 4) | (<u32>value & 15);
  }
  if (code == KELVIN) return 0x6b;
  if (code == DOTTED_I) return 0x69;
  return code < 0x80 ? <u8>code : 0;
}

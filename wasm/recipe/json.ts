/*
 * Canonical JSON: the text that JSON.stringify writes, and that JSON.parse and JSON.stringify reproduce byte by
 * byte. No blanks, no escapes that have a shorter form, no key twice in one object, no key that JavaScript sorts
 * to the front, no number that a double writes differently. Functions return 0 for anything else.
 */
import { areMembersFull, forgetMembers } from "../members";
import { KEYS, MARKS_MAX } from "./memory";

/** Longer numbers may lose digits in a double. */
const NUMBER_LENGTH_MAX: i32 = 15;

/** The number of the event whose keys are being read. */
export let event: u32 = 0;
let keys: i32 = 0;

/** Keys so far, without those of known members. */
export function keyCount(): i32 {
  return keys;
}

/** Forgets the keys of the event before. */
export function beginKeys(): void {
  keys = 0;
  if (areMembersFull()) forgetMembers();
  if (++event == 0) {
    memory.fill(KEYS, 0, MARKS_MAX * 16);
    forgetMembers();
    event = 1;
  }
}

/** The next quote, backslash or control character. Zeros behind the text end the search. */
// @ts-ignore: decorator
@inline
export function nextMark(from: usize): usize {
  let at = from;
  while (true) {
    const bytes = v128.load(at);
    const quotes = i8x16.eq(bytes, i8x16.splat(0x22));
    const backslashes = i8x16.eq(bytes, i8x16.splat(0x5c));
    const controls = i8x16.lt_u(bytes, i8x16.splat(0x20));
    const found = i8x16.bitmask(v128.or(v128.or(quotes, backslashes), controls));
    if (found != 0) return at + ctz(found);
    at += 16;
  }
}

/** The closing quote of the string that opens at `start`. */
export function endOfString(start: usize): usize {
  let at = start + 1;
  while (true) {
    at = nextMark(at);
    const byte = load<u8>(at);
    if (byte == 0x22) return at;
    if (byte != 0x5c) return 0;
    at = endOfEscape(at);
    if (at == 0) return 0;
  }
}

/** The place behind an escape that JSON.stringify writes too. */
function endOfEscape(at: usize): usize {
  switch (load<u8>(at, 1)) {
    case 0x22:
    case 0x5c:
    case 0x62:
    case 0x66:
    case 0x6e:
    case 0x72:
    case 0x74:
      return at + 2;
    case 0x75:
      return isControlEscape(at) ? at + 6 : 0;
    default:
      return 0;
  }
}

/** `\u00XX` in lower case, for the control characters that have no letter of their own. */
function isControlEscape(at: usize): bool {
  if (load<u16>(at, 2) != 0x3030) return false;
  const high = load<u8>(at, 4) - 0x30;
  const digit = load<u8>(at, 5);
  if (high > 1) return false;
  const isDigit = <u8>(digit - 0x30) <= 9;
  if (!isDigit && <u8>(digit - 0x61) > 5) return false;
  const code = high * 16 + (isDigit ? digit - 0x30 : digit - 0x57);
  return code != 8 && code != 9 && code != 10 && code != 12 && code != 13;
}

/** The closing quote of a key that opens at `at`, with a colon behind it. Whether it is new is another question. */
export function endOfKey(at: usize): usize {
  if (load<u8>(at) != 0x22) return 0;
  const end = endOfString(at);
  if (end == 0 || load<u8>(end, 1) != 0x3a) return 0;
  const length = <i32>(end - at) - 1;
  // JavaScript puts keys that are whole numbers first.
  if (<u8>(load<u8>(at, 1) - 0x30) <= 9) return 0;
  return length == 9 && load<u16>(at, 1) == 0x5f5f ? 0 : end;
}

/** False for the second key with this hash in one event. The hash is made of the object and the key. */
export function isNewKey(hash: u64): bool {
  if (++keys > MARKS_MAX / 2) return false;
  let slot = <i32>hash & (MARKS_MAX - 1);
  while (true) {
    const at = KEYS + slot * 16;
    if (load<u32>(at) != event) {
      store<u32>(at, event);
      store<u64>(at, hash, 8);
      return true;
    }
    if (load<u64>(at, 8) == hash) return false;
    slot = (slot + 1) & (MARKS_MAX - 1);
  }
}

/** true, false or null. */
export function endOfWord(at: usize): usize {
  const word = load<u32>(at);
  if (word == 0x65757274 || word == 0x6c6c756e) return at + 4;
  return word == 0x736c6166 && load<u8>(at, 4) == 0x65 ? at + 5 : 0;
}

/** Whether a double is written with the same characters: at most 15, no exponent, no trailing zero, no -0. */
export function isPlainNumber(start: usize, length: i32): bool {
  if (length > NUMBER_LENGTH_MAX) return false;
  let at = start;
  const end = start + length;
  const isNegative = load<u8>(at) == 0x2d;
  if (isNegative) at++;
  const whole = at;
  while (at < end && <u8>(load<u8>(at) - 0x30) <= 9) at++;
  const digits = <i32>(at - whole);
  const isZero = load<u8>(whole) == 0x30;
  if (digits == 0 || (isZero && digits > 1)) return false;
  if (at == end) return !(isNegative && isZero);
  if (load<u8>(at) != 0x2e) return false;
  const fraction = ++at;
  while (at < end && <u8>(load<u8>(at) - 0x30) <= 9) at++;
  if (at != end || at == fraction || load<u8>(end - 1) == 0x30) return false;
  // Fractions below 0.000001 are written with an exponent.
  return !(isZero && length > 6 && load<u32>(fraction) == 0x30303030 && load<u8>(fraction, 4) == 0x30);
}

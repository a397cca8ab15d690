import { CORRELATION, EVENT_TYPE, ID, ORGANIZATION, SERVICE, TIMESTAMP } from "./memory";

/* The top-level keys that the program steers by. */

/**
 * All steering keys begin with letters of their own. For each letter, as the last five bits of its byte: the
 * length of the key, its column, and its letters in sixteen bytes.
 */
const STEERING_BYTES: i32 = 32;
const STEERING: usize = memory.data(32 * STEERING_BYTES, 16);
steer("id", ID);
steer("service", SERVICE);
steer("timestamp", TIMESTAMP);
steer("event_type", EVENT_TYPE);
steer("correlation", CORRELATION);
steer("organization", ORGANIZATION);

function steer(key: string, column: i32): void {
  const entry = STEERING + (<usize>key.charCodeAt(0) & 31) * STEERING_BYTES;
  store<i32>(entry, key.length);
  store<i32>(entry, column, 4);
  for (let at = 0; at < key.length; at++) store<u8>(entry + at, <u8>key.charCodeAt(at), 16);
}

/** The column of a key, or 0. */
// @ts-ignore: decorator
@inline
export function columnOf(at: usize, length: i32): i32 {
  const entry = STEERING + (<usize>load<u8>(at) & 31) * STEERING_BYTES;
  return load<i32>(entry) == length ? columnIf(at, length, entry) : 0;
}

function columnIf(at: usize, length: i32, entry: usize): i32 {
  const same = i8x16.bitmask(i8x16.eq(v128.load(at), v128.load(entry, 16)));
  const all = (1 << length) - 1;
  return (same & all) == all ? load<i32>(entry, 4) : 0;
}

/** Eight letters in the order of memory. */
const CHANGES: u64 = 0x0073_6567_6e61_6863;

/** "changes", with its closing quote behind it. */
// @ts-ignore: decorator
@inline
export function isChanges(key: usize, length: i32): bool {
  return length == 7 && (load<u64>(key) & 0x00ff_ffff_ffff_ffff) == CHANGES;
}

/** "from" or "to". */
// @ts-ignore: decorator
@inline
export function isFromOrTo(key: usize, length: i32): bool {
  return length == 4 ? load<u32>(key) == 0x6d6f7266 : length == 2 && load<u16>(key) == 0x6f74;
}

const SPELLED_MAX: i32 = 12;
const SPELLED: usize = memory.data(16);

/** The column of a key with escapes in it, or 0. */
export function columnOfSpelled(start: usize, end: usize): i32 {
  return columnOf(SPELLED, spell(start, end));
}

/** Writes out a key with escapes; gives its length, or 0 when it is none that anybody looks for. */
function spell(start: usize, end: usize): i32 {
  let at = start;
  for (let length = 0; length <= SPELLED_MAX; length++) {
    if (at == end) return length;
    let byte = <i32>load<u8>(at++);
    if (byte == 0x5c) {
      // Of the short escapes none stands for a letter of a steering key.
      if (load<u8>(at) != 0x75) return 0;
      byte = 0;
      for (let digit = 1; digit <= 4; digit++) byte = (byte << 4) | hexValue(load<u8>(at + digit));
      if (byte > 0x7f) return 0;
      at += 5;
    }
    store<u8>(SPELLED + length, <u8>byte);
  }
  return 0;
}

function hexValue(digit: u8): i32 {
  return digit <= 0x39 ? digit - 0x30 : (digit | 0x20) - 0x61 + 10;
}

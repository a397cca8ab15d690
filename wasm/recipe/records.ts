/*
 * What the walk over an event found, as bytes that another instance of this module with the same seed can use: it
 * converts the event without walking over it again. src/core/page-slice.ts has the arrays that travel with a page.
 *
 * A record is the layout of answers.ts (8 bytes), the variant (8), the number of groups (1) and of slices (2), what the
 * lists depend on (16) where the number of groups says so, the first slice and the number of slices of each group (2 each), and
 * for each slice the distance from the one before and its length.
 */
import { effectsList, layout, leafCount, privilegesList, restoreAnswers, restoreLists } from "./answers";
import { groupCount, restoreGroups, variant } from "./groups";
import { GROUPS, GROUPS_MAX, LEAVES, LEAVES_MAX } from "./memory";

const HEAD_BYTES: i32 = 19;
/** A number up to this one is a byte; behind a larger byte there are four more. */
const SHORT_MAX: u32 = 254;
/** Added to the number of groups. */
const HAS_LISTS: i32 = 0x80;
const LISTS_BYTES: i32 = 16;
export const RECORD_BYTES_MAX: i32 = HEAD_BYTES + LISTS_BYTES + GROUPS_MAX * 4 + LEAVES_MAX * 10;

/** Writes the record of the event that was read last, which begins at `start`. Gives the place behind it. */
export function writeRecord(to: usize, start: usize): usize {
  const groups = groupCount();
  const leaves = leafCount();
  store<u64>(to, layout);
  store<u64>(to, variant, 8);
  store<u8>(to, <u8>(effectsList == 0 ? groups : groups | HAS_LISTS), 16);
  store<u16>(to, <u16>leaves, 17);
  let at = to + HEAD_BYTES;
  if (effectsList != 0) {
    store<u64>(at, effectsList);
    store<u64>(at, privilegesList, 8);
    at += LISTS_BYTES;
  }
  for (let group = GROUPS; group < GROUPS + groups * 16; group += 16) {
    store<u16>(at, load<u16>(group, 8));
    store<u16>(at, load<u16>(group, 12), 2);
    at += 4;
  }
  let end = <u32>start;
  for (let leaf = LEAVES; leaf < LEAVES + leaves * 16; leaf += 16) {
    const from = load<u32>(leaf);
    const length = load<u32>(leaf, 4);
    at = writeNumber(at, from - end);
    at = writeNumber(at, length);
    end = from + length;
  }
  return at;
}

/** Restores what the walk found from a record of the event that begins at `start`. */
export function readRecord(from: usize, start: usize): void {
  const head = <i32>load<u8>(from, 16);
  const groups = head & ~HAS_LISTS;
  const leaves = <i32>load<u16>(from, 17);
  let at = from + HEAD_BYTES;
  restoreAnswers(load<u64>(from), leaves);
  if (head != groups) {
    restoreLists(load<u64>(at), load<u64>(at, 8));
    at += LISTS_BYTES;
  } else restoreLists(0, 0);
  restoreGroups(load<u64>(from, 8), groups);
  for (let group = GROUPS; group < GROUPS + groups * 16; group += 16) {
    store<u32>(group, <u32>load<u16>(at), 8);
    store<u32>(group, <u32>load<u16>(at, 2), 12);
    at += 4;
  }
  let end = <u32>start;
  for (let leaf = LEAVES; leaf < LEAVES + leaves * 16; leaf += 16) {
    const distance = <u32>load<u8>(at);
    const length = <u32>load<u8>(at, 1);
    if (distance <= SHORT_MAX && length <= SHORT_MAX) {
      store<u32>(leaf, end + distance);
      store<u32>(leaf, length, 4);
      end += distance + length;
      at += 2;
    } else {
      at = readNumber(at);
      const begin = end + number;
      at = readNumber(at);
      store<u32>(leaf, begin);
      store<u32>(leaf, number, 4);
      end = begin + number;
    }
  }
}

function writeNumber(at: usize, value: u32): usize {
  if (value <= SHORT_MAX) {
    store<u8>(at, <u8>value);
    return at + 1;
  }
  store<u8>(at, 0xff);
  store<u32>(at, value, 1);
  return at + 5;
}

let number: u32 = 0;

function readNumber(at: usize): usize {
  const byte = <u32>load<u8>(at);
  number = byte <= SHORT_MAX ? byte : load<u32>(at, 1);
  return at + (byte <= SHORT_MAX ? 1 : 5);
}

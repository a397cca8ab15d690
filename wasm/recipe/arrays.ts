/* Arrays in events: `changes`, whose entries may decide, and all others, which no converter reads. */
import { addLeaf, decides } from "./answers";
import {
  addEntry,
  beginEntry,
  isFieldKey,
  isFromKey,
  isToKey,
  setEntryKind,
  setFrom,
  setTo,
} from "./changes";
import { mix, mixBytes } from "../hash";
import { endOfKey, isNewKey, keyCount } from "./json";
import { CHANGES } from "./kinds";
import { endOfString, hasEscape, markOther, pastBlank } from "./loose";
import { DEPTH_MAX } from "./memory";
import { kindOfName, seed } from "./paths";
import { readUnread } from "./walk";

/** More entries of `changes` than converters look at. */
const ENTRIES_MAX: i32 = 200;

/** The path of all objects in arrays. No declared path has it: the event itself is 0, others are hashes. */
export const IN_ARRAY: u64 = 1;
/** Objects in arrays so far: keys are compared inside each of them. */
let objects: u64 = 0;
/** Of the array that was read last. */
let elements: i32 = 0;
/** Whether a new value in `changes` is an object. */
let hasObject: bool = false;

/** Forgets the event before. */
// @ts-ignore: decorator
@inline
export function beginArrays(): void {
  objects = 0;
}

/** The number of the next object in an array. */
// @ts-ignore: decorator
@inline
export function nextObject(): u64 {
  return mix(seed, ++objects);
}

/** `changes` is copied as one slice. Entries without a declared name count only where they hold an object. */
export function readChanges(start: usize, depth: i32): usize {
  const keys = keyCount();
  hasObject = false;
  const end = readArray(start, depth, true);
  if (end == 0) return 0;
  // Converters count the members of an object as entries.
  if (elements > ENTRIES_MAX || (hasObject && keyCount() - keys > ENTRIES_MAX)) decides(start, <i32>(end - start));
  return addLeaf(start, <i32>(end - start), CHANGES) ? end : 0;
}

/** Gives the place behind the array, or 0. */
export function readArray(start: usize, depth: i32, isChanges: bool): usize {
  if (depth > DEPTH_MAX) return 0;
  let count = 0;
  let at = pastBlank(start + 1);
  while (load<u8>(at) != 0x5d) {
    count++;
    at = isChanges && load<u8>(at) == 0x7b ? readEntry(at, depth + 1) : readUnread(at, IN_ARRAY, depth, 0, true);
    if (at == 0) return 0;
    at = pastBlank(at);
    if (load<u8>(at) == 0x2c) {
      at = pastBlank(at + 1);
      if (load<u8>(at) == 0x5d) markOther();
    } else if (load<u8>(at) != 0x5d) markOther();
  }
  elements = count;
  return at + 1;
}

/** An object in `changes`. Gives the place behind it, or 0. */
function readEntry(start: usize, depth: i32): usize {
  if (depth > DEPTH_MAX) return 0;
  const object = nextObject();
  let isOrdered = false;
  beginEntry();
  let at = pastBlank(start + 1);
  while (load<u8>(at) != 0x7d) {
    if (load<u8>(at) != 0x22) return 0;
    const key = at + 1;
    const end = endOfString(at);
    if (end == 0) return 0;
    const length = <i32>(end - key);
    const isPlain = endOfKey(at) == end;
    // A key with unusual escapes may be a known one in disguise.
    if (hasEscape && !isPlain) isOrdered = true;
    if (!isPlain || !isNewKey(mixBytes(object, key, length))) markOther();
    const value = pastBlank(pastBlank(end + 1) + 1);
    const next = readUnread(value, IN_ARRAY, depth, 0, true);
    if (next == 0) return 0;
    const first = load<u8>(value);
    if (isToKey(key, length)) {
      setTo(value, next);
      // The members of an object have names of their own.
      if (first == 0x7b) {
        isOrdered = true;
        hasObject = true;
      }
    } else if (isFromKey(key, length)) setFrom(value, next);
    else if (isFieldKey(key, length))
      setEntryKind(first == 0x22 ? kindOfName(value + 1, <i32>(next - value) - 2) : 0);
    at = pastBlank(next);
    if (load<u8>(at) == 0x2c) {
      at = pastBlank(at + 1);
      if (load<u8>(at) == 0x7d) markOther();
    } else if (load<u8>(at) != 0x7d) markOther();
  }
  addEntry(start, <i32>(at + 1 - start), isOrdered);
  return at + 1;
}

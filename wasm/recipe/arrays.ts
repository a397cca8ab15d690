/* Arrays in events: `changes`, whose entries may decide, and all others, of which only the types count. */
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
import { mix, mixBytes, step } from "./hash";
import { endOfKey, isNewKey, keyCount } from "./json";
import { CHANGES } from "./kinds";
import { endOfString, hasEscape, markOther, pastBlank } from "./loose";
import { DEPTH_MAX } from "./memory";
import { kindOfName, seed } from "./paths";
import { END, mixShape, OPEN_ARRAY, OPEN_OBJECT, setShape, shape } from "./shape";
import { readType } from "./walk";

/** So many elements of an array are compared with the schema; src/services/compare-schema.ts has the same number. */
const ELEMENTS_MAX: i32 = 50;
/** Different elements of one array. An event with more has no shape. */
const ELEMENT_SHAPES_MAX: i32 = 128;
/** For each depth. */
const ELEMENT_SHAPES: usize = memory.data((32 + 1) * 128 * 8, 16);
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

/** The shape of an array is the set of its elements' shapes: their number and order make no difference to a schema. */
export function readArray(start: usize, depth: i32, isChanges: bool): usize {
  if (depth > DEPTH_MAX) return 0;
  const outer = shape;
  const kinds = ELEMENT_SHAPES + depth * ELEMENT_SHAPES_MAX * 8;
  let known = 0;
  let sum: u64 = 0;
  let count = 0;
  let at = pastBlank(start + 1);
  while (load<u8>(at) != 0x5d) {
    // Drift compares so many elements only, so the place of later ones counts.
    setShape(++count > ELEMENTS_MAX ? mix(seed, count) : seed);
    at = isChanges && load<u8>(at) == 0x7b ? readEntry(at, depth + 1) : readType(at, IN_ARRAY, depth, 0, true);
    if (at == 0) return 0;
    if (!isAmong(kinds, known, shape)) {
      if (known == ELEMENT_SHAPES_MAX) return 0;
      store<u64>(kinds + known * 8, shape);
      known++;
      sum += mix(shape, OPEN_ARRAY);
    }
    at = pastBlank(at);
    if (load<u8>(at) == 0x2c) {
      at = pastBlank(at + 1);
      if (load<u8>(at) == 0x5d) markOther();
    } else if (load<u8>(at) != 0x5d) markOther();
  }
  setShape(step(step(outer, OPEN_ARRAY), sum));
  elements = count;
  return at + 1;
}

/** An object in `changes`. Gives the place behind it, or 0. */
function readEntry(start: usize, depth: i32): usize {
  if (depth > DEPTH_MAX) return 0;
  const object = nextObject();
  let isOrdered = false;
  beginEntry();
  mixShape(OPEN_OBJECT);
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
    setShape(mixBytes(shape, key, length));
    const outer = shape;
    const value = pastBlank(pastBlank(end + 1) + 1);
    const next = readType(value, IN_ARRAY, depth, 0, true);
    if (next == 0) return 0;
    const first = load<u8>(value);
    if (isToKey(key, length)) {
      setShape(outer);
      setTo(value, next);
      // The members of an object have names of their own.
      if (first == 0x7b) {
        isOrdered = true;
        hasObject = true;
      }
    } else if (isFromKey(key, length)) {
      setShape(outer);
      setFrom(value, next);
    } else if (isFieldKey(key, length))
      setEntryKind(first == 0x22 ? kindOfName(value + 1, <i32>(next - value) - 2) : 0);
    at = pastBlank(next);
    if (load<u8>(at) == 0x2c) {
      at = pastBlank(at + 1);
      if (load<u8>(at) == 0x7d) markOther();
    } else if (load<u8>(at) != 0x7d) markOther();
  }
  mixShape(END);
  addEntry(start, <i32>(at + 1 - start), isOrdered);
  return at + 1;
}

function isAmong(kinds: usize, known: i32, kind: u64): bool {
  for (let at = 0; at < known; at++) if (load<u64>(kinds + at * 8) == kind) return true;
  return false;
}

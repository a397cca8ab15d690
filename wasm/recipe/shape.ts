/*
 * The shape and the answers of an event, in one walk. numbers.ts is the caller.
 *
 * - The shape: keys, structure and types of all values, and the values of `service` and `event_type`. Events of one
 *   shape differ from their schema in the same way, so a look at the first one serves for all. Of `from` and `to`
 *   in an entry of `changes` only the key counts: schemas allow any value there.
 * - The answers: everything that converters read and do not copy. Events with the same answers get the same class.
 *   Unlike a fingerprint they do not require canonical JSON.
 *
 * The text is valid JSON, because the journal only holds events that passed the scanner. Zeros follow it.
 */
import { beginAnswers, decides, endAnswers, hash, mixIn, readNumber, readText } from "./answers";
import { addEntry, isFieldKey, isFromKey, isToKey } from "./changes";
import { mix, mixBytes, step } from "./hash";
import { endOfKey } from "./json";
import { CHANGES, DECIDES, EVENT_TYPE, HAS_MEMBERS, KIND_MASK, NAME_ORDERED } from "./kinds";
import { endOfDigits, endOfString, hasEscape, hasExponent, hasPoint, skipBlank } from "./loose";
import {
  areMembersFull,
  expectedAt,
  FIRST_KEYS,
  following,
  forgetMembers,
  inside,
  keyLength,
  kindOfMember,
  memberFor,
  pathOfMember,
} from "./members";
import { DEPTH_MAX } from "./memory";
import { kindOf, kindOfName, pathOf, seed } from "./paths";

const OPEN_OBJECT: u64 = 0x201;
const OPEN_ARRAY: u64 = 0x202;
const END: u64 = 0x203;
const STRING: u64 = 0x204;
const NUMBER: u64 = 0x206;
/** An integer that a double cannot hold exactly; it is treated as text. */
const LONG_INTEGER: u64 = 0x207;
const BOOLEAN: u64 = 0x208;
const NULL: u64 = 0x209;

/** Integers of so many characters are always exact in a double, and beyond the second length never. */
const EXACT_LENGTH_MAX: i32 = 15;
const INEXACT_LENGTH_MIN: i32 = 18;

/** So many elements of an array are compared with the schema; src/services/compare-schema.ts has the same number. */
const ELEMENTS_MAX: i32 = 50;
/** Different elements of one array. An event with more has no shape. */
const ELEMENT_SHAPES_MAX: i32 = 128;
/** For each depth. */
const ELEMENT_SHAPES: usize = memory.data((32 + 1) * 128 * 8, 16);

/** `service"` in the order of memory. */
const SERVICE_QUOTED: u64 = 0x2265636976726573;
/** The path of objects that no converter reads. No declared path has it: the event itself is 0, others are hashes. */
const UNDECLARED: u64 = 1;

/** The shape so far. */
export let shape: u64 = 0;

// @ts-ignore: decorator
@inline
function mixShape(value: u64): void {
  shape = step(shape, value);
}

/** Gives the place behind the event, or 0. Its shape is in `shape`, its answers are in `hash`. */
export function readShape(start: usize): usize {
  beginAnswers();
  shape = hash;
  const at = skipBlank(start);
  if (areMembersFull()) forgetMembers();
  const end = load<u8>(at) == 0x7b ? readMembers(at, 0, 1, FIRST_KEYS) : 0;
  endAnswers();
  return end;
}

/** Reads an object. Its members may be declared, unless its path is UNDECLARED. */
function readMembers(start: usize, path: u64, depth: i32, expected: usize): usize {
  if (depth > DEPTH_MAX) return 0;
  const isDeclared = path != UNDECLARED;
  // Members are mixed in locally: a global variable costs a store and a load for each.
  let own = step(shape, OPEN_OBJECT);
  if (isDeclared) mixIn(OPEN_OBJECT);
  let keys = expected;
  let at = skipBlank(start + 1);
  while (load<u8>(at) != 0x7d) {
    const key = at + 1;
    let member = expectedAt(keys, at);
    let isDisguised = false;
    let length = 0;
    let value: usize = 0;
    let child: u64 = 0;
    let kind: u32 = 0;
    if (member != 0) {
      value = skipBlank(at + keyLength(member));
      length = <i32>keyLength(member) - 3;
      child = pathOfMember(member);
      kind = kindOfMember(member);
    } else {
      if (load<u8>(at) != 0x22) return 0;
      const end = endOfString(at);
      if (end == 0) return 0;
      length = <i32>(end - key);
      child = pathOf(path, key, length);
      // A key with escapes may be a declared one in disguise.
      isDisguised = isDeclared && hasEscape;
      // The type of the event may be hidden here. Such an event is read alone.
      if (isDisguised && depth == 1) return 0;
      value = skipBlank(skipBlank(end + 1) + 1);
      kind = !isDeclared ? 0 : isDisguised ? DECIDES : kindOf(child);
      if (!hasEscape && endOfKey(at) == end) member = memberFor(child, at, length + 3, keys);
    }
    keys = member == 0 ? 0 : following(member);
    if (load<u8>(value) == 0x22) {
      own = step(own, child ^ STRING);
      const close = endOfString(value);
      if (close == 0) return 0;
      if (kind != 0 && !readDeclaredText(value, <i32>(close - value) - 1, child, kind)) return 0;
      at = close + 1;
    } else {
      const inner: usize = member == 0 ? 0 : inside(member);
      shape = step(own, child);
      at = kind == 0 ? readType(value, depth, inner) : readDeclared(value, child, kind, depth, inner);
      if (at == 0) return 0;
      own = shape;
    }
    if (isDisguised || kind == EVENT_TYPE || (depth == 1 && length == 7 && isService(key)))
      own = mixBytes(own, value, <i32>(at - value));
    at = skipBlank(at);
    if (load<u8>(at) == 0x2c) at = skipBlank(at + 1);
  }
  shape = step(own, END);
  if (isDeclared) mixIn(END);
  return at + 1;
}

// @ts-ignore: decorator
@inline
function isService(key: usize): bool {
  return load<u64>(key) == SERVICE_QUOTED;
}

/** The answers about the text that opens at `at` and was searched last. */
// @ts-ignore: decorator
@inline
function readDeclaredText(at: usize, length: i32, path: u64, kind: u32): bool {
  mixIn(path);
  if (!hasEscape) return readText(at + 1, length, kind & KIND_MASK);
  if (kind == EVENT_TYPE) return false;
  decides(at, length + 1);
  return true;
}

/** A value at a declared path that is no text: its type, and the answers about it. Gives the place behind it, or 0. */
function readDeclared(at: usize, path: u64, kind: u32, depth: i32, inner: usize): usize {
  mixIn(path);
  const first = load<u8>(at);
  if (first == 0x7b && (kind & HAS_MEMBERS) != 0) return readMembers(at, path, depth + 1, inner);
  if (first == 0x5b && kind == CHANGES) return readArray(at, depth + 1, true);
  const end = readType(at, depth, inner);
  if (end == 0) return 0;
  const length = <i32>(end - at);
  if (first != 0x2d && <u8>(first - 0x30) > 9) decides(at, length);
  else if (!readNumber(at, length, kind & KIND_MASK)) return 0;
  return end;
}

/** The type of a value, and of all values inside it. Gives the place behind it, or 0. */
function readType(at: usize, depth: i32, inner: usize): usize {
  const first = load<u8>(at);
  if (first == 0x22) {
    mixShape(STRING);
    const end = endOfString(at);
    return end == 0 ? 0 : end + 1;
  }
  if (first == 0x7b) return readMembers(at, UNDECLARED, depth + 1, inner);
  if (first == 0x5b) return readArray(at, depth + 1, false);
  if (first == 0x74 || first == 0x66) {
    mixShape(BOOLEAN);
    return at + (first == 0x74 ? 4 : 5);
  }
  if (first == 0x6e) {
    mixShape(NULL);
    return at + 4;
  }
  return readDigits(at);
}

/** The shape of an array is the set of its elements' shapes: their number and order make no difference to a schema. */
function readArray(start: usize, depth: i32, isChanges: bool): usize {
  if (depth > DEPTH_MAX) return 0;
  const outer = shape;
  const kinds = ELEMENT_SHAPES + depth * ELEMENT_SHAPES_MAX * 8;
  let known = 0;
  let sum: u64 = 0;
  let elements = 0;
  let at = skipBlank(start + 1);
  while (load<u8>(at) != 0x5d) {
    // Drift compares so many elements only, so the place of later ones counts.
    shape = ++elements > ELEMENTS_MAX ? mix(seed, elements) : seed;
    at = isChanges && load<u8>(at) == 0x7b ? readEntry(at, depth + 1) : readType(at, depth, 0);
    if (at == 0) return 0;
    if (!isAmong(kinds, known, shape)) {
      if (known == ELEMENT_SHAPES_MAX) return 0;
      store<u64>(kinds + known * 8, shape);
      known++;
      sum += mix(shape, OPEN_ARRAY);
    }
    at = skipBlank(at);
    if (load<u8>(at) == 0x2c) at = skipBlank(at + 1);
  }
  shape = step(step(outer, OPEN_ARRAY), sum);
  return at + 1;
}

/** An object in `changes`. Gives the place behind it, or 0. */
function readEntry(start: usize, depth: i32): usize {
  if (depth > DEPTH_MAX) return 0;
  let kind: u32 = 0;
  let name: usize = 0;
  let nameLength: i32 = 0;
  let isOrdered = false;
  mixShape(OPEN_OBJECT);
  let at = skipBlank(start + 1);
  while (load<u8>(at) != 0x7d) {
    if (load<u8>(at) != 0x22) return 0;
    const key = at + 1;
    const end = endOfString(at);
    if (end == 0) return 0;
    const length = <i32>(end - key);
    // A key with escapes may be a known one in disguise.
    if (hasEscape) isOrdered = true;
    shape = mixBytes(shape, key, length);
    const outer = shape;
    const value = skipBlank(skipBlank(end + 1) + 1);
    const next = readType(value, depth, 0);
    if (next == 0) return 0;
    const first = load<u8>(value);
    const isTo = isToKey(key, length);
    if (isTo || isFromKey(key, length)) shape = outer;
    // The members of an object have names of their own.
    if (isTo && first == 0x7b) isOrdered = true;
    if (isFieldKey(key, length) && first == 0x22) {
      name = value + 1;
      nameLength = <i32>(next - value) - 2;
      kind = kindOfName(name, nameLength);
    }
    at = skipBlank(next);
    if (load<u8>(at) == 0x2c) at = skipBlank(at + 1);
  }
  mixShape(END);
  addEntry(isOrdered ? NAME_ORDERED : kind, name, nameLength, start, <i32>(at + 1 - start));
  return at + 1;
}

function isAmong(kinds: usize, known: i32, kind: u64): bool {
  for (let at = 0; at < known; at++) if (load<u64>(kinds + at * 8) == kind) return true;
  return false;
}

function readDigits(at: usize): usize {
  const end = endOfDigits(at);
  const length = <i32>(end - at);
  if (length == 0) return 0;
  // Whether the rest is exact depends on the value, so the value is part of the shape.
  if (hasExponent || (!hasPoint && length > EXACT_LENGTH_MAX && length < INEXACT_LENGTH_MIN))
    shape = mixBytes(shape, at, length);
  mixShape(hasPoint || length <= EXACT_LENGTH_MAX ? NUMBER : LONG_INTEGER);
  return end;
}

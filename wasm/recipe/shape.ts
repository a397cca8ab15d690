/*
 * The shape and the answers of an event, in one walk. Many events are read at once: src/core/shape-engine.ts is
 * the caller.
 *
 * - The shape: keys, structure and types of all values, and the values of `service` and `event_type`. Events of one
 *   shape differ from their schema in the same way, so a look at the first one serves for all. Of `from` and `to`
 *   in an entry of `changes` only the key counts: schemas allow any value there.
 * - The answers: everything that converters read and do not copy. Events with the same answers get the same class.
 *   Unlike a fingerprint they do not require canonical JSON.
 *
 * The text is valid JSON, because the journal only holds events that passed the scanner. Zeros follow it.
 */
import {
  addEntry,
  beginAnswers,
  decides,
  endAnswers,
  hash,
  isFieldKey,
  isToKey,
  kindOf,
  kindOfName,
  mixIn,
  pathOf,
  readNumber,
  readText,
} from "./fingerprint";
import { mix, mixBytes } from "./hash";
import { nextMark } from "./json";
import { CHANGES, DECIDES, EVENT_TYPE, HAS_MEMBERS, KIND_MASK, NAME_ORDERED } from "./kinds";
import {
  ANSWER_NUMBERS,
  ANSWERS,
  DEPTH_MAX,
  PADDING_BYTES,
  SHAPE_NUMBERS,
  SHAPE_SLOTS,
  SHAPES,
  SHAPES_MAX,
  TEXT,
} from "./memory";

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
/** The number of an event without a shape: it is nested too deeply or has too many members. */
const NONE: i32 = -1;

/** `service"` in the order of memory. */
const SERVICE_QUOTED: u64 = 0x2265636976726573;
/** The path of objects that no converter reads. No declared path has it: the event itself is 0, others are hashes. */
const UNDECLARED: u64 = 1;

let shape: u64 = 0;

/**
 * Reads the lines of so many bytes in TEXT and gives how many. The numbers of each one's shape and answers are in
 * SHAPE_NUMBERS and ANSWER_NUMBERS.
 */
export function readShapes(length: i32): i32 {
  memory.fill(TEXT + length, 0, PADDING_BYTES);
  const end = TEXT + length;
  let count = 0;
  for (let at = TEXT; at < end && count < SHAPES_MAX; count++) {
    const after = readShape(at);
    store<i32>(SHAPE_NUMBERS + count * 4, after == 0 ? NONE : numberOf(SHAPES, shape));
    store<i32>(ANSWER_NUMBERS + count * 4, after == 0 ? NONE : numberOf(ANSWERS, hash));
    at = endOfLine(after == 0 ? at : after, end) + 1;
  }
  return count;
}

/** The last number that was given. Shapes and answers are numbered together, from 1 on. */
export function lastNumber(): i32 {
  return last;
}

export function clearShapes(): void {
  memory.fill(SHAPES, 0, SHAPE_SLOTS * 16);
  memory.fill(ANSWERS, 0, SHAPE_SLOTS * 16);
  last = 0;
}

let last: i32 = 0;

/** A new key gets the next number. */
function numberOf(table: usize, key: u64): i32 {
  let slot = <i32>key & (SHAPE_SLOTS - 1);
  while (true) {
    const number = load<i32>(table + slot * 16, 8);
    if (number == 0) break;
    if (load<u64>(table + slot * 16) == key) return number;
    slot = (slot + 1) & (SHAPE_SLOTS - 1);
  }
  store<u64>(table + slot * 16, key);
  store<i32>(table + slot * 16, ++last, 8);
  return last;
}

function endOfLine(from: usize, end: usize): usize {
  let at = from;
  while (at < end) {
    const found = i8x16.bitmask(i8x16.eq(v128.load(at), i8x16.splat(0x0a)));
    if (found != 0) return at + ctz(found);
    at += 16;
  }
  return end;
}

// @ts-ignore: decorator
@inline
function mixShape(value: u64): void {
  shape = mix(shape, value);
}

/** Gives the place behind the event, or 0. */
function readShape(start: usize): usize {
  beginAnswers();
  shape = hash;
  const at = skipBlank(start);
  const end = load<u8>(at) == 0x7b ? readMembers(at, 0, 1) : 0;
  endAnswers();
  return end;
}

/** Reads an object. Its members may be declared, unless its path is UNDECLARED. */
function readMembers(start: usize, path: u64, depth: i32): usize {
  if (depth > DEPTH_MAX) return 0;
  const isDeclared = path != UNDECLARED;
  mixShape(OPEN_OBJECT);
  if (isDeclared) mixIn(OPEN_OBJECT);
  let at = skipBlank(start + 1);
  while (load<u8>(at) != 0x7d) {
    if (load<u8>(at) != 0x22) return 0;
    const end = endOfString(at);
    if (end == 0) return 0;
    const length = <i32>(end - at) - 1;
    const value = skipBlank(skipBlank(end + 1) + 1);
    if (isDeclared) at = readMember(value, pathOf(path, at + 1, length), at, depth);
    else {
      shape = mixBytes(shape, at + 1, length);
      at = readType(value, depth);
    }
    if (at == 0) return 0;
    at = skipBlank(at);
    if (load<u8>(at) == 0x2c) at = skipBlank(at + 1);
  }
  mixShape(END);
  if (isDeclared) mixIn(END);
  return at + 1;
}

/** The value of a member whose key opens at `key` and was read last. Gives the place behind it, or 0. */
// @ts-ignore: decorator
@inline
function readMember(value: usize, path: u64, key: usize, depth: i32): usize {
  mixShape(path);
  // A key with escapes may be a declared one in disguise.
  const isDisguised = hasEscape;
  // The type of the event may be hidden here. Such an event is read alone.
  if (isDisguised && depth == 1) return 0;
  const kind = isDisguised ? DECIDES : kindOf(path);
  const next = kind == 0 ? readType(value, depth) : readDeclared(value, path, kind, depth);
  if (next != 0 && (isDisguised || kind == EVENT_TYPE || (depth == 1 && isService(key))))
    shape = mixBytes(shape, value, <i32>(next - value));
  return next;
}

function isService(key: usize): bool {
  return load<u64>(key, 1) == SERVICE_QUOTED;
}

/** A value at a declared path: its type, and the answers about it. Gives the place behind it, or 0. */
function readDeclared(at: usize, path: u64, kind: u32, depth: i32): usize {
  mixIn(path);
  const first = load<u8>(at);
  if (first == 0x22) {
    mixShape(STRING);
    const end = endOfString(at);
    if (end == 0) return 0;
    const length = <i32>(end - at) - 1;
    if (hasEscape && kind == EVENT_TYPE) return 0;
    if (hasEscape) decides(at, length + 1);
    else if (!readText(at + 1, length, kind & KIND_MASK)) return 0;
    return end + 1;
  }
  if (first == 0x7b && (kind & HAS_MEMBERS) != 0) return readMembers(at, path, depth + 1);
  if (first == 0x5b && kind == CHANGES) return readArray(at, depth + 1, true);
  const end = readType(at, depth);
  if (end == 0) return 0;
  const length = <i32>(end - at);
  if (first != 0x2d && <u8>(first - 0x30) > 9) decides(at, length);
  else if (!readNumber(at, length, kind & KIND_MASK)) return 0;
  return end;
}

/** The type of a value, and of all values inside it. Gives the place behind it, or 0. */
function readType(at: usize, depth: i32): usize {
  const first = load<u8>(at);
  if (first == 0x22) {
    mixShape(STRING);
    const end = endOfString(at);
    return end == 0 ? 0 : end + 1;
  }
  if (first == 0x7b) return readMembers(at, UNDECLARED, depth + 1);
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
    shape = ++elements > ELEMENTS_MAX ? mix(OPEN_ARRAY, elements) : OPEN_ARRAY;
    at = isChanges && load<u8>(at) == 0x7b ? readEntry(at, depth + 1) : readType(at, depth);
    if (at == 0) return 0;
    if (!isAmong(kinds, known, shape)) {
      if (known == ELEMENT_SHAPES_MAX) return 0;
      store<u64>(kinds + known * 8, shape);
      known++;
      sum += shape;
    }
    at = skipBlank(at);
    if (load<u8>(at) == 0x2c) at = skipBlank(at + 1);
  }
  shape = mix(mix(outer, OPEN_ARRAY), sum);
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
    const next = readType(value, depth);
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

/** "from" */
// @ts-ignore: decorator
@inline
function isFromKey(key: usize, length: i32): bool {
  return length == 4 && load<u32>(key) == 0x6d6f7266;
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

let hasEscape: bool = false;

/** The closing quote of the string that opens at `start`; 0 where it is cut off. Any escape is allowed. */
function endOfString(start: usize): usize {
  let at = start + 1;
  hasEscape = false;
  while (true) {
    at = nextMark(at);
    const byte = load<u8>(at);
    if (byte == 0x22) return at;
    if (byte != 0x5c) return 0;
    hasEscape = true;
    at += 2;
  }
}

let hasExponent: bool = false;
let hasPoint: bool = false;

function endOfDigits(start: usize): usize {
  let at = start;
  hasExponent = false;
  hasPoint = false;
  while (true) {
    const byte = load<u8>(at);
    if ((byte | 0x20) == 0x65) hasExponent = true;
    else if (byte == 0x2e) hasPoint = true;
    else if (<u8>(byte - 0x30) > 9 && byte != 0x2d && byte != 0x2b) return at;
    at++;
  }
}

// @ts-ignore: decorator
@inline
function skipBlank(from: usize): usize {
  let at = from;
  while (load<u8>(at) <= 0x20 && load<u8>(at) != 0) at++;
  return at;
}

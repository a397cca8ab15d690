/*
 * The fingerprint of an event: everything that a converter's output depends on, except the slices that it copies.
 * It is made in one walk over the event's text.
 *
 * - Members at declared paths are part of it: their keys, their order and their types; of a value that decides,
 *   the value itself; of a value that is copied, the answers to the questions that converters ask about it.
 * - Members at other paths are not read by any converter. A run of them is one slice, whatever it holds.
 * - Of `changes` only those entries count whose field has a declared name, and only in events of some types.
 */
import {
  addressClass,
  BY_VALUE,
  hasOnlyAsciiCase,
  hasSaml,
  isBelow,
  isEmail,
  isTime,
  isWhole,
} from "./classes";
import { mix, mixBytes } from "./hash";
import {
  begin,
  endOfKey,
  endOfNumber,
  endOfString,
  endOfValue,
  endOfWord,
  isNewKey,
  isPlainNumber,
} from "./json";
import {
  ADDRESS,
  CHANGES,
  COMPARED,
  COPIED,
  DECIDES,
  EMAIL,
  EVENT_TYPE,
  HAS_MEMBERS,
  KIND_MASK,
  LATITUDE,
  LONGITUDE,
  NAME_ALONE,
  NAME_ENTRY,
  NAME_ORDERED,
  NUMBER,
  RUN,
  TIME,
  URL,
} from "./kinds";
import {
  DEPTH_MAX,
  LEAVES,
  LEAVES_MAX,
  MARKS_MAX,
  PADDING_BYTES,
  PATHS,
  PATHS_MAX,
  SPECIAL_LENGTHS,
  SPECIALS,
  TEXT,
  TEXTS,
} from "./memory";

const OPEN: u64 = 0x101;
const CLOSE: u64 = 0x102;
const VALUE: u64 = 0x103;
const EMPTY: u64 = 0x104;
const SLICE: u64 = 0x105;
const SAME: u64 = 0x106;
const WHOLE: u64 = 0x108;
const QUOTED: u64 = 0x10a;
const FRACTION: u64 = 0x109;
const LOWER_SAME: u64 = 0x107;

/** More entries than converters look at. */
const ENTRIES_MAX: i32 = 200;

let seed: u64 = 0;
/** Account and provider: the same for many events, and part of their output. */
let salt: u64 = 0;
export let hash: u64 = 0;
let leaves: i32 = 0;
let texts: u32 = 0;
let generation: u32 = 0;

export function setSeed(low: u32, high: u32): void {
  seed = ((<u64>high) << 32) | <u64>low;
}

/** The text in TEXT becomes part of every fingerprint from now on. */
export function setSalt(length: i32): void {
  salt = mixBytes(seed, TEXT, length);
}

export function fingerprint(): u64 {
  return hash;
}

export function leafCount(): i32 {
  return leaves;
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

/** Declares the name in TEXT, in lower case and without anything but letters, digits and dots. */
export function declareName(length: i32, kind: u32): void {
  declare(nameHash(TEXT, length), kind);
}

const TYPE_WORDS_MAX: i32 = 8;
const TYPE_WORD_BYTES: i32 = 32;
const TYPE_WORDS: usize = memory.data(TYPE_WORDS_MAX * TYPE_WORD_BYTES, 16);
const TYPE_WORD_LENGTHS: usize = memory.data(TYPE_WORDS_MAX * 4, 16);
let typeWords: i32 = 0;

/** Declares the word in TEXT: `changes` decides in events whose type contains it. */
export function declareTypeWord(length: i32): void {
  memory.copy(TYPE_WORDS + typeWords * TYPE_WORD_BYTES, TEXT, length);
  store<i32>(TYPE_WORD_LENGTHS + typeWords * 4, length);
  typeWords++;
}

let typeStart: usize = 0;
let typeLength: i32 = 0;
/** The entries of `changes` that decide: of any order, and in their order. */
let changesHash: u64 = 0;
let orderedHash: u64 = 0;

function changesDecide(): bool {
  for (let word = 0; word < typeWords; word++) {
    const length = load<i32>(TYPE_WORD_LENGTHS + word * 4);
    for (let at = 0; at + length <= typeLength; at++)
      if (memory.compare(typeStart + at, TYPE_WORDS + word * TYPE_WORD_BYTES, length) == 0) return true;
  }
  return false;
}

/** Names share the table of paths, so their hashes differ from those of top-level paths. */
function nameHash(start: usize, length: i32): u64 {
  return mixBytes(mix(seed, NAME_ALONE), start, length);
}

function declare(path: u64, kind: u32): void {
  let slot = <i32>path & (PATHS_MAX - 1);
  while (load<u32>(PATHS + slot * 16, 8) != 0 && load<u64>(PATHS + slot * 16) != path)
    slot = (slot + 1) & (PATHS_MAX - 1);
  store<u64>(PATHS + slot * 16, path);
  store<u32>(PATHS + slot * 16, kind, 8);
}

export function kindOf(path: u64): u32 {
  let slot = <i32>path & (PATHS_MAX - 1);
  while (true) {
    const kind = load<u32>(PATHS + slot * 16, 8);
    if (kind == 0 || load<u64>(PATHS + slot * 16) == path) return kind;
    slot = (slot + 1) & (PATHS_MAX - 1);
  }
}

/** Forgets everything about the event before. */
export function beginAnswers(): void {
  hash = seed;
  leaves = 0;
  texts = 0;
  typeLength = 0;
  changesHash = 0;
  orderedHash = 0;
  if (++generation == 0) {
    memory.fill(TEXTS, 0, MARKS_MAX * 16);
    generation = 1;
  }
}

/** After the last member, because the type of the event may come behind its changes. */
export function endAnswers(): void {
  const changes = changesHash + orderedHash;
  if (changes != 0 && changesDecide()) hash = mix(hash, changes);
}

// @ts-ignore: decorator
@inline
export function mixIn(value: u64): void {
  hash = mix(hash, value);
}

/** Makes the fingerprint of the event of this length in TEXT. False: it is not canonical, too deep or too long. */
export function readEvent(length: i32): bool {
  memory.fill(TEXT + length, 0, PADDING_BYTES);
  begin(seed);
  beginAnswers();
  hash = mix(seed, salt);
  const organizationLength = load<i32>(SPECIAL_LENGTHS);
  if (organizationLength > 0) note(SPECIALS, organizationLength, SAME);
  else hash = mix(hash, EMPTY);
  if (load<u8>(TEXT) != 0x7b || readMembers(TEXT, 0, 1) != TEXT + length) return false;
  endAnswers();
  return true;
}

/** Reads the object that opens at `start`; gives the place behind it, or 0. */
function readMembers(start: usize, path: u64, depth: i32): usize {
  if (depth > DEPTH_MAX) return 0;
  hash = mix(hash, OPEN);
  let at = start + 1;
  let runStart: usize = 0;
  let runEnd: usize = 0;
  if (load<u8>(at) == 0x7d) {
    hash = mix(hash, CLOSE);
    return at + 1;
  }
  while (true) {
    const end = endOfKey(at);
    if (end == 0) return 0;
    const child = pathOf(path, at + 1, <i32>(end - at) - 1);
    if (!isNewKey(child)) return 0;
    const kind = kindOf(child);
    const key = at;
    if (kind == 0) {
      at = endOfValue(end + 2, depth);
      if (runStart == 0) runStart = key;
      runEnd = at;
    } else {
      if (runStart != 0 && !addLeaf(runStart, <i32>(runEnd - runStart), RUN)) return 0;
      runStart = 0;
      hash = mix(hash, child);
      at = readValue(end + 2, child, kind, depth);
    }
    if (at == 0) return 0;
    const next = load<u8>(at);
    if (next == 0x7d) break;
    if (next != 0x2c) return 0;
    at++;
  }
  if (runStart != 0 && !addLeaf(runStart, <i32>(runEnd - runStart), RUN)) return 0;
  hash = mix(hash, CLOSE);
  return at + 1;
}

function readValue(at: usize, path: u64, kind: u32, depth: i32): usize {
  const first = load<u8>(at);
  if (first == 0x22) {
    const end = endOfString(at);
    if (end == 0 || !readText(at + 1, <i32>(end - at) - 1, kind & KIND_MASK)) return 0;
    return end + 1;
  }
  if (first == 0x7b && (kind & HAS_MEMBERS) != 0) return readMembers(at, path, depth + 1);
  if (first == 0x5b && kind == CHANGES) return readChanges(at, depth);
  if (first == 0x2d || <u8>(first - 0x30) <= 9) {
    const end = endOfNumber(at);
    return end != 0 && readNumber(at, <i32>(end - at), kind & KIND_MASK) ? end : 0;
  }
  const end = first == 0x7b || first == 0x5b ? endOfValue(at, depth) : endOfWord(at);
  if (end != 0) decides(at, <i32>(end - at));
  return end;
}

export function decides(start: usize, length: i32): void {
  hash = mixBytes(mix(hash, VALUE), start, length);
}

function addLeaf(start: usize, length: i32, kind: u32): bool {
  if (leaves >= LEAVES_MAX) return false;
  const at = LEAVES + leaves * 16;
  store<u32>(at, <u32>start);
  store<i32>(at, length, 4);
  store<u32>(at, kind, 8);
  leaves++;
  hash = mix(hash, SLICE | (<u64>kind << 16));
  return true;
}

/** Reads a text with the question of its kind. Without an answer it decides by its value. */
export function readText(start: usize, length: i32, kind: u32): bool {
  // A text is never taken for the number or word that it spells.
  hash = mix(hash, QUOTED);
  if (length == 0) {
    hash = mix(hash, EMPTY);
    return true;
  }
  if (kind == EVENT_TYPE) {
    typeStart = start;
    typeLength = length;
  }
  if (kind == DECIDES || kind == CHANGES || kind == EVENT_TYPE || kind == NUMBER) {
    decides(start, length);
    return true;
  }
  if (kind == COPIED) return addLeaf(start, length, kind);
  if (kind == URL) hash = mix(hash, hasSaml(start, length) ? 1 : 2);
  else if (kind == TIME || kind == LATITUDE || kind == LONGITUDE) {
    const isAnswered = kind == TIME ? isTime(start, length) : isCoordinate(start, length, kind);
    if (!isAnswered) {
      decides(start, length);
      return true;
    }
  } else return readCompared(start, length, kind);
  return addLeaf(start, length, kind);
}

function readCompared(start: usize, length: i32, kind: u32): bool {
  if (!hasOnlyAsciiCase(start, length)) {
    decides(start, length);
    return noteBoth(start, length);
  }
  if (kind == ADDRESS) {
    const answer = addressClass(start, length);
    if (answer == BY_VALUE) decides(start, length);
    hash = mix(hash, <u64>answer);
    if (!noteBoth(start, length)) return false;
    return answer == BY_VALUE || addLeaf(start, length, kind);
  }
  if (kind == EMAIL) hash = mix(hash, isEmail(start, length) ? 1 : 2);
  return noteBoth(start, length) && addLeaf(start, length, kind);
}

/** In range, with a fraction, and written as a double is. */
function isCoordinate(start: usize, length: i32, kind: u32): bool {
  return isPlainNumber(start, length) && isBelow(start, length, kind == LATITUDE ? 90 : 180);
}

export function readNumber(start: usize, length: i32, kind: u32): bool {
  if (kind == LATITUDE || kind == LONGITUDE) {
    if (!isCoordinate(start, length, kind)) decides(start, length);
    else if (!addLeaf(start, length, kind)) return false;
    hash = mix(hash, VALUE);
    return true;
  }
  if (kind != COPIED && kind != COMPARED && kind != NUMBER) {
    decides(start, length);
    return note(start, length, SAME);
  }
  hash = mix(hash, isWhole(start, length) ? WHOLE : FRACTION);
  return (kind != COMPARED || note(start, length, SAME)) && addLeaf(start, length, kind);
}

/** Texts that are equal, or equal without regard to case, may be converted differently from others. */
function noteBoth(start: usize, length: i32): bool {
  return note(start, length, SAME) && noteLower(start, length);
}

function note(start: usize, length: i32, tag: u64): bool {
  if (texts >= <u32>(MARKS_MAX / 2)) return false;
  const value = mixBytes(mix(seed, tag), start, length);
  const ordinal = texts++;
  let slot = <i32>value & (MARKS_MAX - 1);
  while (true) {
    const at = TEXTS + slot * 16;
    if (load<u32>(at) != generation) {
      store<u32>(at, generation);
      store<u32>(at, ordinal, 4);
      store<u64>(at, value, 8);
      return true;
    }
    if (load<u64>(at, 8) == value) {
      hash = mix(hash, tag | ((<u64>load<u32>(at, 4)) << 16));
      return true;
    }
    slot = (slot + 1) & (MARKS_MAX - 1);
  }
}

const LOWER_MAX: i32 = 1024;
const LOWER: usize = memory.data(LOWER_MAX + 32, 16);

function noteLower(start: usize, length: i32): bool {
  if (length > LOWER_MAX) return false;
  for (let done = 0; done < length; done += 16) {
    const bytes = v128.load(start + done);
    const isUpper = i8x16.lt_u(i8x16.sub(bytes, i8x16.splat(0x41)), i8x16.splat(26));
    v128.store(LOWER + done, v128.or(bytes, v128.and(isUpper, i8x16.splat(0x20))));
  }
  return note(LOWER, length, LOWER_SAME);
}

/** `changes` is copied as one slice. Entries without a declared name count only where they hold an object. */
function readChanges(start: usize, depth: i32): usize {
  const end = endOfValue(start, depth);
  if (end == 0) return 0;
  let entries = 0;
  let at = start + 1;
  while (load<u8>(at) != 0x5d) {
    at = load<u8>(at) == 0x7b ? readEntry(at) : skip(at);
    entries++;
    if (load<u8>(at) == 0x2c) at++;
  }
  if (entries > ENTRIES_MAX) decides(start, <i32>(end - start));
  return addLeaf(start, <i32>(end - start), CHANGES) ? end : 0;
}

/** An entry of `changes`, with the kind of its name and the name. */
export function addEntry(kind: u32, name: usize, nameLength: i32, start: usize, length: i32): void {
  if (kind == NAME_ALONE) changesHash += mixBytes(seed, name, nameLength);
  else if (kind == NAME_ENTRY) changesHash += mixBytes(seed, start, length);
  else if (kind == NAME_ORDERED) orderedHash = mixBytes(mix(seed, orderedHash), start, length);
}

/** "field" */
// @ts-ignore: decorator
@inline
export function isFieldKey(key: usize, length: i32): bool {
  return length == 5 && load<u32>(key) == 0x6c656966 && load<u8>(key, 4) == 0x64;
}

/** "to" */
// @ts-ignore: decorator
@inline
export function isToKey(key: usize, length: i32): bool {
  return length == 2 && load<u16>(key) == 0x6f74;
}

/** The text is known to be canonical JSON here. */
function readEntry(start: usize): usize {
  let hasObject = false;
  let at = start + 1;
  let entryKind: u32 = 0;
  let entryName: usize = 0;
  let entryNameLength: i32 = 0;
  while (load<u8>(at) != 0x7d) {
    const keyEnd = endOfString(at);
    const keyLength = <i32>(keyEnd - at) - 1;
    const value = keyEnd + 2;
    const first = load<u8>(value);
    const next = skip(value);
    if (isFieldKey(at + 1, keyLength)) {
      if (first == 0x22) {
        entryName = value + 1;
        entryNameLength = <i32>(next - value) - 2;
        entryKind = kindOfName(entryName, entryNameLength);
      }
    } else if (isToKey(at + 1, keyLength)) hasObject = first == 0x7b;
    at = next;
    if (load<u8>(at) == 0x2c) at++;
  }
  // The members of an object have names of their own.
  if (hasObject) entryKind = NAME_ORDERED;
  addEntry(entryKind, entryName, entryNameLength, start, <i32>(at + 1 - start));
  return at + 1;
}

/** Jumps over a value of canonical JSON. */
function skip(start: usize): usize {
  let depth = 0;
  let at = start;
  while (true) {
    const byte = load<u8>(at);
    if (byte == 0x22) at = endOfString(at) + 1;
    else if (byte == 0x7b || byte == 0x5b) {
      depth++;
      at++;
      continue;
    } else if (byte == 0x7d || byte == 0x5d) {
      depth--;
      at++;
    } else if (byte == 0x2c || byte == 0x3a) {
      at++;
      continue;
    } else while (isScalarByte(load<u8>(at))) at++;
    if (depth == 0) return at;
  }
}

function isScalarByte(byte: u8): bool {
  return byte != 0x2c && byte != 0x7d && byte != 0x5d;
}

/** Looks up the name, else the part behind its last dot, without case and without other signs. */
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

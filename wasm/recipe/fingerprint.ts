/*
 * The fingerprint of an event: everything that a converter's output depends on, except the slices that it copies.
 * It is made in one walk over the event's text.
 *
 * - Members at declared paths are part of it: their keys, their order and their types; of a value that decides,
 *   the value itself; of a value that is copied, the answers to the questions that converters ask about it.
 * - Members at other paths are not read by any converter. A run of them is one slice, whatever it holds.
 * - Groups have a hash of their own, the variant. The fingerprint is made of it and of the hash of all the rest.
 * - Of `changes` only those entries count whose field has a declared name, and only in events of some types.
 */
import {
  addLeaf,
  beginAnswers,
  beginPart,
  decides,
  endAnswers,
  endPart,
  hash,
  leafCount,
  mixEqual,
  mixIn,
  readNumber,
  readText,
} from "./answers";
import { addEntry, isFieldKey, isToKey } from "./changes";
import { addGroup, beginGroups, groupCount, hasRoomForGroup, variant } from "./groups";
import { mix, mixBytes } from "./hash";
import {
  begin,
  endOfMembers,
  endOfNumber,
  endOfString,
  endOfValue,
  endOfWord,
  keyKind,
  keyPath,
  keysBehind,
  keysInside,
  readKey,
} from "./json";
import { CHANGES, GROUP, HAS_MEMBERS, KIND_MASK, NAME_ORDERED, RUN } from "./kinds";
import { FIRST_KEYS } from "./members";
import { DEPTH_MAX, SPECIAL_LENGTHS, SPECIALS, TEXT } from "./memory";
import { kindOfName, seed } from "./paths";

const OPEN: u64 = 0x101;
const CLOSE: u64 = 0x102;
const EMPTY: u64 = 0x104;

/** More entries than converters look at. */
const ENTRIES_MAX: i32 = 200;

/** Account and provider: the same for many events, and part of their output. */
let salt: u64 = 0;

/** The text in TEXT becomes part of every fingerprint from now on. */
export function setSalt(length: i32): void {
  salt = mixBytes(seed, TEXT, length);
}

export function fingerprint(): u64 {
  return groupCount() == 0 ? hash : mix(hash, variant);
}

/** The fingerprint without what the groups add to it. */
export function mainFingerprint(): u64 {
  return hash;
}

/** Makes the fingerprint of the event of this length at `start`. False: it is not canonical, too deep or too long. */
export function readEvent(start: usize, length: i32): bool {
  begin(seed);
  beginAnswers();
  beginGroups();
  mixIn(salt);
  const organizationLength = load<i32>(SPECIAL_LENGTHS);
  if (organizationLength > 0) mixEqual(SPECIALS, organizationLength);
  else mixIn(EMPTY);
  if (load<u8>(start) != 0x7b || readMembers(start, 0, 1, FIRST_KEYS) != start + length) return false;
  endAnswers();
  return true;
}

/** Reads the object that opens at `start`; gives the place behind it, or 0. */
function readMembers(start: usize, path: u64, depth: i32, expected: usize): usize {
  if (depth > DEPTH_MAX) return 0;
  mixIn(OPEN);
  let at = start + 1;
  let keys = expected;
  let runStart: usize = 0;
  let runEnd: usize = 0;
  if (load<u8>(at) == 0x7d) {
    mixIn(CLOSE);
    return at + 1;
  }
  while (true) {
    const key = at;
    const value = readKey(at, path, keys);
    if (value == 0) return 0;
    keys = keysBehind;
    const kind = keyKind;
    if (kind == 0) {
      at =
        load<u8>(value) == 0x7b
          ? endOfMembers(value, keyPath, depth + 1, keysInside)
          : endOfValue(value, depth);
      if (runStart == 0) runStart = key;
      runEnd = at;
    } else {
      if (runStart != 0 && !addLeaf(runStart, <i32>(runEnd - runStart), RUN)) return 0;
      runStart = 0;
      mixIn(keyPath);
      at =
        depth == 1 && (kind & GROUP) != 0 && hasRoomForGroup()
          ? readGroup(key, value, keyPath, kind)
          : readValue(value, keyPath, kind, depth);
    }
    if (at == 0) return 0;
    const next = load<u8>(at);
    if (next == 0x7d) break;
    if (next != 0x2c) return 0;
    at++;
  }
  if (runStart != 0 && !addLeaf(runStart, <i32>(runEnd - runStart), RUN)) return 0;
  mixIn(CLOSE);
  return at + 1;
}

/** The member whose key opens at `key`. */
function readGroup(key: usize, value: usize, path: u64, kind: u32): usize {
  const firstLeaf = leafCount();
  const outer = beginPart(path);
  const end = readValue(value, path, kind, 1);
  const part = endPart(outer);
  if (end != 0) addGroup(key, end, firstLeaf, leafCount() - firstLeaf, part);
  return end;
}

function readValue(at: usize, path: u64, kind: u32, depth: i32): usize {
  const first = load<u8>(at);
  if (first == 0x22) {
    const end = endOfString(at);
    if (end == 0 || !readText(at + 1, <i32>(end - at) - 1, kind & KIND_MASK)) return 0;
    return end + 1;
  }
  if (first == 0x7b && (kind & HAS_MEMBERS) != 0) return readMembers(at, path, depth + 1, keysInside);
  if (first == 0x5b && kind == CHANGES) return readChanges(at, depth);
  if (first == 0x2d || <u8>(first - 0x30) <= 9) {
    const end = endOfNumber(at);
    return end != 0 && readNumber(at, <i32>(end - at), kind & KIND_MASK) ? end : 0;
  }
  const end = first == 0x7b || first == 0x5b ? endOfValue(at, depth) : endOfWord(at);
  if (end != 0) decides(at, <i32>(end - at));
  return end;
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

/*
 * The walk over an event for converters. It finds:
 *
 * - The answers: everything that converters read and do not copy. Members at declared paths are part of them: their
 *   keys, their order and their types; of a value that decides, the value itself; of a value that is copied, the answers
 *   to the questions that converters ask about it. Groups have a hash of their own, the variant.
 * - The slices that a recipe may copy. Members at other paths are not read by any converter: a run of them is one slice.
 * - Whether the event is canonical JSON: the text that JSON.stringify writes, and that JSON.parse and JSON.stringify
 *   reproduce byte by byte. Only then may it be copied.
 */
import {
  addRun,
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
import { beginArrays, IN_ARRAY, nextObject, readArray, readChanges } from "./arrays";
import { addGroup, beginGroups, hasRoomForGroup } from "./groups";
import { mix } from "../hash";
import { beginKeys, endOfKey, endOfWord, event, isNewKey, isPlainNumber } from "./json";
import { CHANGES, DECIDES, EVENT_TYPE, GROUP, HAS_MEMBERS, KIND_MASK } from "./kinds";
import {
  beginText,
  endOfDigits,
  endOfString,
  endOfText,
  hasEscape,
  isPlainText,
  markOther,
  pastBlank,
} from "./loose";
import {
  expectedAt,
  FIRST_KEYS,
  following,
  inside,
  isNewMember,
  keyLength,
  kindOfMember,
  memberFor,
  pathOfMember,
} from "../members";
import { DEPTH_MAX, SPECIAL_LENGTHS, SPECIALS } from "./memory";
import { kindOf, pathOf } from "./paths";

const OPEN_OBJECT: u64 = 0x201;
const END: u64 = 0x203;
const NO_ORGANIZATION: u64 = 0x20a;

/**
 * Reads the event at `start`, whose organization is the special value. Gives the place behind it; 0 where it is nested
 * too deeply, has too many members or is no JSON. Zeros follow the text. What it found is in `isCanonical` and in the
 * variables of answers.ts and groups.ts.
 */
export function readEvent(start: usize): usize {
  beginKeys();
  beginAnswers();
  beginGroups();
  beginText();
  beginArrays();
  const organizationLength = load<i32>(SPECIAL_LENGTHS);
  if (organizationLength > 0) mixEqual(SPECIALS, organizationLength);
  else mixIn(NO_ORGANIZATION);
  const at = pastBlank(start);
  const end = load<u8>(at) == 0x7b ? readMembers(at, 0, 1, FIRST_KEYS, true, 0) : 0;
  endAnswers();
  return end;
}

/**
 * Reads an object. Its members may be declared if it is. Keys of an object in an array are compared under its own number,
 * all others by their path.
 */
function readMembers(start: usize, path: u64, depth: i32, expected: usize, isDeclared: bool, object: u64): usize {
  if (depth > DEPTH_MAX) return 0;
  if (isDeclared) mixIn(OPEN_OBJECT);
  let keys = expected;
  let runStart: usize = 0;
  let runEnd: usize = 0;
  let at = pastBlank(start + 1);
  while (load<u8>(at) != 0x7d) {
    const key = at;
    let member = expectedAt(keys, at);
    let value: usize = 0;
    let child: u64 = 0;
    let kind: u32 = 0;
    if (member != 0) {
      value = pastBlank(at + keyLength(member));
      child = pathOfMember(member);
      kind = kindOfMember(member);
    } else {
      if (load<u8>(at) != 0x22) return 0;
      const end = endOfString(at);
      if (end == 0) return 0;
      const length = <i32>(end - at) - 1;
      child = pathOf(path, at + 1, length);
      const isPlain = endOfKey(at) == end;
      if (!isPlain) markOther();
      // A key with unusual escapes may be a declared one in disguise.
      const isDisguised = isDeclared && hasEscape && !isPlain;
      // The type of the event may be hidden here. Such an event is read alone.
      if (isDisguised && depth == 1) return 0;
      value = pastBlank(pastBlank(end + 1) + 1);
      kind = !isDeclared ? 0 : isDisguised ? DECIDES : kindOf(child);
      if (isPlain) member = memberFor(child, kind, at, length + 3, keys);
    }
    if (object != 0 || member == 0 ? !isNewKey(mix(object, child)) : !isNewMember(member, event)) markOther();
    keys = member == 0 ? 0 : following(member);
    if (kind == 0) {
      if (runStart == 0) runStart = key;
    } else {
      if (runStart != 0 && !addRun(runStart, runEnd)) return 0;
      runStart = 0;
      mixIn(child);
    }
    const inner: usize = member == 0 ? 0 : inside(member);
    if ((kind & GROUP) != 0 && depth == 1 && hasRoomForGroup()) {
      at = readGroup(key, value, child, kind, inner);
      if (at == 0) return 0;
    } else if (load<u8>(value) == 0x22) {
      const end = endOfText(value);
      if (end == 0 || (kind != 0 && !readDeclaredText(value, <i32>(end - value) - 1, kind))) return 0;
      at = end + 1;
    } else {
      at =
        kind == 0
          ? readUnread(value, child, depth, inner, object != 0)
          : readDeclared(value, child, kind, depth, inner);
      if (at == 0) return 0;
    }
    runEnd = at;
    at = pastBlank(at);
    if (load<u8>(at) == 0x2c) {
      at = pastBlank(at + 1);
      if (load<u8>(at) == 0x7d) markOther();
    } else if (load<u8>(at) != 0x7d) markOther();
  }
  if (isDeclared && runStart != 0 && !addRun(runStart, runEnd)) return 0;
  if (isDeclared) mixIn(END);
  return at + 1;
}

/** The member whose key opens at `key`. Gives the place behind it, or 0. */
function readGroup(key: usize, value: usize, path: u64, kind: u32, inner: usize): usize {
  const firstLeaf = leafCount();
  const outer = beginPart(path);
  let at: usize = 0;
  if (load<u8>(value) == 0x22) {
    const end = endOfText(value);
    if (end != 0 && readDeclaredText(value, <i32>(end - value) - 1, kind)) at = end + 1;
  } else at = readDeclared(value, path, kind, 1, inner);
  addGroup(key, at, firstLeaf, leafCount() - firstLeaf, endPart(outer));
  return at;
}

/** The answers about the text that opens at `at` and was searched last. False: there are too many slices, or none. */
// @ts-ignore: decorator
@inline
function readDeclaredText(at: usize, length: i32, kind: u32): bool {
  if (!hasEscape || isPlainText) return readText(at + 1, length, kind & KIND_MASK);
  if (kind == EVENT_TYPE) return false;
  decides(at, length + 1);
  return true;
}

/** A value at a declared path that is no text, and the answers about it. Gives the place behind it, or 0. */
function readDeclared(at: usize, path: u64, kind: u32, depth: i32, inner: usize): usize {
  const first = load<u8>(at);
  if (first == 0x7b && (kind & HAS_MEMBERS) != 0) return readMembers(at, path, depth + 1, inner, true, 0);
  if (first == 0x5b && kind == CHANGES) return readChanges(at, depth + 1);
  const end = readUnread(at, path, depth, inner, false);
  if (end == 0) return 0;
  const length = <i32>(end - at);
  if (first != 0x2d && <u8>(first - 0x30) > 9) decides(at, length);
  else if (!readNumber(at, length, kind & KIND_MASK)) return 0;
  return end;
}

/** A value that no converter reads. Gives the place behind it, or 0. */
export function readUnread(at: usize, path: u64, depth: i32, inner: usize, isInArray: bool): usize {
  const first = load<u8>(at);
  if (first == 0x22) {
    const end = endOfText(at);
    return end == 0 ? 0 : end + 1;
  }
  if (first == 0x7b)
    return isInArray
      ? readMembers(at, IN_ARRAY, depth + 1, inner, false, nextObject())
      : readMembers(at, path, depth + 1, inner, false, 0);
  if (first == 0x5b) return readArray(at, depth + 1, false);
  if (first != 0x2d && <u8>(first - 0x30) > 9) return endOfWord(at);
  const end = endOfDigits(at);
  if (!isPlainNumber(at, <i32>(end - at))) markOther();
  return end;
}

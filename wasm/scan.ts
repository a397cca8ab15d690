import { mix, mixBytes, step } from "./hash";
import {
  areMembersFull,
  expectedAt,
  FIRST_KEYS,
  following,
  forgetMembers,
  inside,
  insideArray,
  keyLength,
  kindOfMember,
  memberFor,
  pathOfMember,
} from "./members";
import {
  CORRELATION,
  EVENT_TYPE,
  ID,
  ORGANIZATION,
  ROWS,
  ROWS_MAX,
  RUNS,
  SERVICE,
  SHAPES,
  STRIDE,
  TEXT,
  TIMES,
  TIMESTAMP,
} from "./memory";
import {
  addElement,
  beginShape,
  ELEMENTS_MAX,
  elementPath,
  END,
  mixPlain,
  mixShape,
  OPEN_ARRAY,
  OPEN_OBJECT,
  pathOf,
  setShape,
  shape,
  SHAPE_DEPTH_MAX,
  STRING,
} from "./shape";
import {
  escapes,
  fail,
  failedAt,
  failure,
  forgetBreaks,
  forgetFailure,
  hasBreaks,
  reached,
  skipBlank,
  skipContainer,
  skipPlain,
  skipString,
  skipValue,
  WANTS_ARRAY,
  WANTS_ARRAY_END,
  WANTS_COLON,
  WANTS_OBJECT,
  WANTS_OBJECT_END,
  WANTS_TEXT_END,
  WANTS_VALUE_END,
} from "./skip";
import { columnOf, columnOfSpelled, isChanges, isFromOrTo } from "./steering";
import { timeMs } from "./time";

/* Finds the events of a text, their fields and their shapes. How it is read is told in skip.ts. */

/** An event this large may be too costly to compare, which its shape cannot tell. So it has none. See src/core/costly.ts. */
const LARGE_BYTES: usize = 200_000;

/** Where in the array, or in the lines, the text is between calls. */
const BEFORE: i32 = 0;
const AT_FIRST: i32 = 1;
const BEHIND_EVENT: i32 = 2;
const AT_EVENT: i32 = 3;
const AFTER: i32 = 4;
const AT_LINE: i32 = 5;

let place: i32 = BEFORE;
let consumed: i32 = 0;

/** A new text: an array of events, or lines with one event each. */
export function begin(isLines: bool): void {
  place = isLines ? AT_LINE : BEFORE;
  forgetBreaks();
}

/** How far the last `scan` came; the next stretch begins with the rest. */
export function consumedBytes(): i32 {
  return consumed;
}

/** The number of what the last `scan` did not find; 0 when it only ran out of text or rows. */
export function failureKind(): i32 {
  return failure;
}

export function failureOffset(): i32 {
  return <i32>(failedAt - TEXT);
}

export function hasLineBreaks(): bool {
  return hasBreaks;
}

/**
 * Notes the whole events in `length` bytes of text; gives how many. Offsets in rows count from `base`. An
 * event that the end of the text cuts off is left for the next call, unless it is the end of all.
 */
export function scan(length: i32, isLast: bool, base: i32): i32 {
  const end = TEXT + length;
  let at = TEXT;
  let rows = 0;
  let before: i64 = -1;
  forgetFailure();
  while (true) {
    at = skipBlank(at);
    const byte = load<u8>(at);
    if (at == end && (!isLast || place == AFTER || place == AT_LINE)) break;
    if (place == BEFORE) {
      if (byte != 0x5b) {
        fail(WANTS_ARRAY, at);
        break;
      }
      at++;
      place = AT_FIRST;
    } else if (place == AT_FIRST && byte == 0x5d) {
      at++;
      place = AFTER;
    } else if (place == AT_FIRST || place == AT_EVENT || place == AT_LINE) {
      if (byte != 0x7b) {
        fail(WANTS_OBJECT, at);
        break;
      }
      if (rows == ROWS_MAX) break;
      const row = ROWS + rows * STRIDE * 4;
      const behind = scanEvent(at, row);
      if (behind == 0) {
        if (!isLast && reached + 8 > end) forgetFailure();
        break;
      }
      store<f64>(TIMES + rows * 8, timeOf(row));
      store<u64>(SHAPES + rows * 8, shape);
      store<u8>(RUNS + rows, rows > 0 && isSameOrganization(before, row));
      before = load<i64>(row + ORGANIZATION * 4);
      rebase(row, base - <i32>TEXT);
      at = behind;
      rows++;
      if (place != AT_LINE) place = BEHIND_EVENT;
    } else if (place == BEHIND_EVENT) {
      if (byte != 0x2c && byte != 0x5d) {
        fail(WANTS_ARRAY_END, at);
        break;
      }
      at++;
      place = byte == 0x2c ? AT_EVENT : AFTER;
    } else {
      fail(WANTS_TEXT_END, at);
      break;
    }
  }
  consumed = <i32>(at - TEXT);
  return rows;
}

/** Whether the organization is written with the very bytes that stand between two places, or neither has one. */
function isSameOrganization(before: i64, row: usize): bool {
  const start = load<i32>(row + ORGANIZATION * 4);
  const startBefore = <i32>before;
  if (start < 0 || startBefore < 0) return start == startBefore;
  const length = load<i32>(row + ORGANIZATION * 4 + 4) - start;
  if (length != <i32>(before >> 32) - startBefore) return false;
  return memory.compare(start, startBefore, length) == 0;
}

function timeOf(row: usize): f64 {
  const start = load<i32>(row + TIMESTAMP * 4);
  const end = load<i32>(row + TIMESTAMP * 4 + 4);
  return start < 0 || load<u8>(start) != 0x22 ? NaN : timeMs(start + 1, end - 1);
}

/** Addresses become offsets; -1 stays. */
function rebase(row: usize, by: i32): void {
  store<i32>(row, load<i32>(row) + by);
  store<i32>(row, load<i32>(row, 4) + by, 4);
  rebaseFour(row + 8, by);
  rebaseFour(row + 24, by);
  rebaseFour(row + 40, by);
}

// @ts-ignore: decorator
@inline
function rebaseFour(at: usize, by: i32): void {
  const addresses = v128.load(at);
  const isThere = i32x4.ge_s(addresses, i32x4.splat(0));
  v128.store(at, i32x4.add(addresses, v128.and(isThere, i32x4.splat(by))));
}

/** What a key means, beside the number of its column in the lowest four bits. */
const COLUMN: u32 = 15;
/** Its value is part of the shape. */
const DECIDES: u32 = 16;
/** Nothing of its value is part of the shape. */
const FREE: u32 = 32;
const OPENS_CORRELATION: u32 = 64;
const OPENS_CHANGES: u32 = 128;

/** The row of the event that is being scanned. */
let row: usize = 0;

function scanEvent(start: usize, ownRow: usize): usize {
  row = ownRow;
  store<i32>(row, <i32>start);
  const absent = i32x4.splat(-1);
  v128.store(row + 8, absent);
  v128.store(row + 24, absent);
  v128.store(row + 40, absent);
  if (areMembersFull()) forgetMembers();
  beginShape();
  const end = scanObject(start, 0, EVENT, FIRST_KEYS, 1);
  if (end >= start + LARGE_BYTES) setShape(0);
  store<i32>(row + 4, <i32>end);
  return end;
}

/** Objects whose keys may mean something. */
const EVENT: u32 = 0;
const OTHER: u32 = 1;

/**
 * An object and the shape of all that is in it; the event itself has depth 1. `opener`: EVENT, OTHER, or what its own key
 * means. Of duplicate keys the last counts, as in JSON.parse.
 */
function scanObject(start: usize, path: u64, opener: u32, expected: usize, depth: i32): usize {
  // Members are mixed in locally: a global variable costs a store and a load for each.
  let own = step(shape, OPEN_OBJECT);
  let keys = expected;
  let at = skipBlank(start + 1);
  if (load<u8>(at) == 0x7d) {
    setShape(step(own, END));
    return at + 1;
  }
  while (true) {
    let member = expectedAt(keys, at);
    let value: usize = 0;
    let child: u64 = 0;
    let kind: u32 = 0;
    if (member != 0) {
      value = skipBlank(at + keyLength(member));
      child = pathOfMember(member);
      kind = kindOfMember(member);
    } else {
      value = scanKey(at, path, opener, keys);
      if (value == 0) return 0;
      member = keyMember;
      child = keyPath;
      kind = keyKind;
    }
    keys = member == 0 ? 0 : following(member);
    if (kind == OPENS_CORRELATION) store<i32>(row + CORRELATION * 4, -1);
    if (load<u8>(value) == 0x22) {
      own = step(own, (kind & FREE) == 0 ? child ^ STRING : child);
      at = skipString(value);
    } else {
      setShape(step(own, child));
      at = (kind & FREE) == 0 ? scanOther(value, child, kind, member, depth) : skipValue(value, depth);
      own = shape;
    }
    if (at == 0) return 0;
    if ((kind & COLUMN) != 0) {
      note(kind & COLUMN, value, at);
      if ((kind & DECIDES) != 0) own = mixBytes(own, value, <i32>(at - value));
    }
    at = skipBlank(at);
    const next = load<u8>(at);
    if (next == 0x7d) break;
    if (next != 0x2c) return fail(depth == 1 ? WANTS_OBJECT_END : WANTS_VALUE_END, at);
    at = skipBlank(at + 1);
  }
  setShape(step(own, END));
  return at + 1;
}

/** A value that is no text: its type, and the shape of what is in it. `member` is that of its key. */
function scanOther(at: usize, path: u64, opener: u32, member: usize, depth: i32): usize {
  const first = load<u8>(at);
  if ((first | 0x20) == 0x7b) {
    if (depth < SHAPE_DEPTH_MAX) {
      if (first == 0x5b) return scanArray(at, path, opener, member == 0 ? 0 : insideArray(member), depth + 1);
      const own = opener == OPENS_CORRELATION ? opener : OTHER;
      return scanObject(at, path, own, member == 0 ? 0 : inside(member), depth + 1);
    }
    mixShape(first == 0x7b ? OPEN_OBJECT : OPEN_ARRAY);
    return skipContainer(at, depth + 1);
  }
  const end = skipPlain(at, first);
  if (end != 0) mixPlain(at, end);
  return end;
}

/** `expected`: the first keys of the objects in it. */
function scanArray(start: usize, path: u64, opener: u32, expected: usize, depth: i32): usize {
  const outer = shape;
  const elements = elementPath(path);
  let known = 0;
  let sum: u64 = 0;
  let at = skipBlank(start + 1);
  if (load<u8>(at) != 0x5d) {
    for (let count = 1; ; count++) {
      if (count > ELEMENTS_MAX) at = skipValue(at, depth);
      else {
        beginShape();
        at = scanElement(at, elements, opener, expected, depth);
        if (at != 0 && addElement(depth, known)) {
          known++;
          sum += mix(shape, OPEN_ARRAY);
        }
      }
      if (at == 0) return 0;
      at = skipBlank(at);
      const next = load<u8>(at);
      if (next == 0x5d) break;
      if (next != 0x2c) return fail(WANTS_VALUE_END, at);
      at = skipBlank(at + 1);
    }
  }
  setShape(step(step(outer, OPEN_ARRAY), sum));
  return at + 1;
}

function scanElement(at: usize, path: u64, opener: u32, expected: usize, depth: i32): usize {
  const first = load<u8>(at);
  if (first == 0x22) {
    mixShape(STRING);
    return skipString(at);
  }
  if (first != 0x7b || depth >= SHAPE_DEPTH_MAX) return scanOther(at, path, OTHER, 0, depth);
  return scanObject(at, path, opener == OPENS_CHANGES ? opener : OTHER, expected, depth + 1);
}

function note(column: u32, start: usize, end: usize): void {
  store<i32>(row + column * 4, <i32>start);
  store<i32>(row + column * 4 + 4, <i32>end);
}

/** The key that `scanKey` has read: its path, what it means, and its member; 0 where it has none. */
let keyPath: u64 = 0;
let keyKind: u32 = 0;
let keyMember: usize = 0;

/** Reads a key that was not expected, and its colon. Gives the place of its value, or 0. */
function scanKey(start: usize, path: u64, opener: u32, expected: usize): usize {
  const escapesBefore = escapes;
  const end = skipString(start);
  if (end == 0) return 0;
  const length = <i32>(end - start) - 2;
  keyPath = pathOf(path, start + 1, length);
  keyKind = kindOf(start + 1, length, opener, escapes != escapesBefore);
  const at = skipBlank(end);
  if (load<u8>(at) != 0x3a) return fail(WANTS_COLON, at);
  keyMember = at == end ? memberFor(keyPath, keyKind, start, length + 3, expected) : 0;
  return skipBlank(at + 1);
}

/** What a key means in this object. An escape can spell a key that has a meaning too. */
function kindOf(key: usize, length: i32, opener: u32, hasEscape: bool): u32 {
  if (opener == OTHER) return 0;
  if (opener == OPENS_CHANGES) return isFromOrTo(key, length) ? FREE : 0;
  const column: u32 = hasEscape ? columnOfSpelled(key, key + length) : columnOf(key, length);
  if (opener == OPENS_CORRELATION) return column == ID ? CORRELATION : 0;
  if (column == CORRELATION) return OPENS_CORRELATION;
  if (column == SERVICE || column == EVENT_TYPE) return column | DECIDES;
  return column == 0 && isChanges(key, length) ? OPENS_CHANGES : column;
}

/*
 * Converts an event by copying bytes. Each fingerprint has a recipe: literal bytes, slices of the event, and
 * special values that are not in the event. `convert` makes the fingerprint, finds the recipe and applies it.
 */
import { leafCount } from "./answers";
import { canonicalize } from "./canonical";
import { declareTypeWord } from "./changes";
import { fingerprint, readEvent, setSalt } from "./fingerprint";
import {
  ANSWER_NUMBERS,
  HEAP,
  LEAVES,
  LINE_ENDS,
  LINE_IDENTITIES,
  LINE_PLACES,
  LINE_TIMES,
  LINES,
  LINES_BYTES,
  LINES_MAX,
  OUT,
  OUT_BYTES,
  PADDING_BYTES,
  RECIPE_SLOTS,
  RECIPES,
  SHAPE_NUMBERS,
  SHAPES_MAX,
  SPECIAL_BYTES,
  SPECIAL_LENGTHS,
  SPECIALS,
  TEXT,
  TEXT_BYTES,
} from "./memory";
import { declareName, declarePath, setSeed } from "./paths";
import { clearShapes, lastNumber, readShapes } from "./numbers";

export { canonicalize, declareName, declareTypeWord, HEAP, LEAVES, leafCount, OUT, PADDING_BYTES, setSalt, setSeed };
export { SPECIAL_BYTES, SPECIAL_LENGTHS, SPECIALS, TEXT, TEXT_BYTES };
export { LINE_ENDS, LINE_IDENTITIES, LINE_PLACES, LINE_TIMES, LINES, LINES_BYTES, LINES_MAX };
export { ANSWER_NUMBERS, clearShapes, lastNumber, readShapes, SHAPE_NUMBERS, SHAPES_MAX };

/** Results of `convert` beside a length. */
const UNKNOWN: i32 = 0;
const NOT_CANONICAL: i32 = -1;
const DROPPED: i32 = -2;

const LITERAL: u32 = 0;
const LEAF: u32 = 1;
/** The special values that are written here; the organization is the first of all. SPECIAL in src/core/recipe-engine.ts has the same numbers. */
const IDENTITY_SPECIAL: i32 = 1;
const TIME_SPECIAL: i32 = 2;

/** The first uses of a recipe are checked, then one in so many. */
const CHECKED_FIRST: u32 = 4;
const CHECKED_EVERY: u32 = 1000;
let isDue: bool = false;
let declared: u64 = 0;

/** Goes back to the event itself as the parent of the next `declare`. */
export function declareFromTop(): void {
  declared = 0;
}

/** Declares the key in TEXT below the key that was declared last. */
export function declare(length: i32, kind: u32): void {
  declared = declarePath(declared, length, kind);
}

export function fingerprintLow(): u32 {
  return <u32>fingerprint();
}

export function fingerprintHigh(): u32 {
  return <u32>(fingerprint() >> 32);
}

/** Whether the event of this length in TEXT has bytes outside ASCII, which may not be valid UTF-8. */
export function isWide(length: i32): bool {
  let all = v128.load(TEXT);
  for (let at = 16; at < length; at += 16) all = v128.or(all, v128.load(TEXT + at));
  return i8x16.bitmask(all) != 0;
}

/** Whether the last conversion is one to compare with the converter. */
export function isCheckDue(): bool {
  return isDue;
}

/** Converts the event of this length in TEXT; gives the number of bytes in OUT, or why there are none. */
export function convert(length: i32, timestampMs: f64): i32 {
  memory.fill(TEXT + length, 0, PADDING_BYTES);
  if (!readEvent(TEXT, length)) return NOT_CANONICAL;
  const recipe = find(fingerprint());
  if (recipe == 0) return UNKNOWN;
  if (load<i32>(recipe, 4) == 0) return DROPPED;
  writeTime(timestampMs);
  isDue = isDueNext(recipe);
  const end = apply(recipe, OUT);
  return end == 0 ? NOT_CANONICAL : <i32>(end - OUT);
}

/**
 * Converts the lines from `first` on and before `to`, each with a line break behind it. Stops before one that has no
 * recipe or whose recipe is due for a check, and where OUT is full; gives how many were converted.
 */
export function convertLines(first: i32, to: i32): i32 {
  let out = OUT;
  let line = first;
  for (; line < to; line++) {
    const place = LINE_PLACES + line * 16;
    const timestampMs = load<f64>(LINE_TIMES + line * 8);
    if (isNaN(timestampMs) || !setOrganization(load<i32>(place, 8), load<i32>(place, 12))) break;
    if (!readEvent(LINES + load<i32>(place), load<i32>(place, 4))) break;
    const recipe = find(fingerprint());
    if (recipe == 0 || load<i32>(recipe, 4) == 0 || isDueNext(recipe)) break;
    writeTime(timestampMs);
    writeIdentity(LINE_IDENTITIES + line * 16);
    const end = apply(recipe, out);
    if (end == 0) break;
    store<u8>(end, 0x0a);
    out = end + 1;
    store<i32>(LINE_ENDS + line * 4, <i32>(out - OUT));
  }
  return line - first;
}

/** The organization's text, without quotes, is its special value. False where it would have to be decoded. */
function setOrganization(start: i32, length: i32): bool {
  if (start < 0 || length <= 0 || length > SPECIAL_BYTES) return false;
  for (let done = 0; done < length; done += 16) {
    const bytes = v128.load(LINES + start + done);
    const upper = i8x16.lt_u(i8x16.sub(bytes, i8x16.splat(0x41)), i8x16.splat(26));
    const other = v128.or(i8x16.eq(bytes, i8x16.splat(0x5c)), i8x16.lt_s(bytes, i8x16.splat(0)));
    const found = i8x16.bitmask(v128.or(upper, other));
    if (found != 0 && done + ctz(found) < length) return false;
    v128.store(SPECIALS + done, bytes);
  }
  store<i32>(SPECIAL_LENGTHS, length);
  return true;
}

/** Sixteen bytes as hexadecimal digits. */
function writeIdentity(from: usize): void {
  const place = SPECIALS + IDENTITY_SPECIAL * SPECIAL_BYTES;
  const bytes = v128.load(from);
  const digits = i8x16(48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 97, 98, 99, 100, 101, 102);
  const high = i8x16.swizzle(digits, i8x16.shr_u(bytes, 4));
  const low = i8x16.swizzle(digits, v128.and(bytes, i8x16.splat(15)));
  v128.store(place, i8x16.shuffle(high, low, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
  v128.store(place + 16, i8x16.shuffle(high, low, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31));
  store<i32>(SPECIAL_LENGTHS + IDENTITY_SPECIAL * 4, 32);
}

function find(key: u64): usize {
  let slot = <i32>key & (RECIPE_SLOTS - 1);
  while (true) {
    const at = RECIPES + slot * 16;
    const recipe = load<u32>(at, 8);
    if (recipe == 0) return 0;
    if (load<u64>(at) == key) return recipe;
    slot = (slot + 1) & (RECIPE_SLOTS - 1);
  }
}

/** Makes the recipe at this address that of a fingerprint. */
export function addRecipe(low: u32, high: u32, address: u32): void {
  const key = ((<u64>high) << 32) | <u64>low;
  let slot = <i32>key & (RECIPE_SLOTS - 1);
  while (load<u32>(RECIPES + slot * 16, 8) != 0 && load<u64>(RECIPES + slot * 16) != key)
    slot = (slot + 1) & (RECIPE_SLOTS - 1);
  store<u64>(RECIPES + slot * 16, key);
  store<u32>(RECIPES + slot * 16, address, 8);
}

export function clearRecipes(): void {
  memory.fill(RECIPES, 0, RECIPE_SLOTS * 16);
}

/** Whole milliseconds in decimal digits. */
function writeTime(ms: f64): void {
  const place = SPECIALS + TIME_SPECIAL * SPECIAL_BYTES;
  let value = <i64>ms;
  const isNegative = value < 0;
  if (isNegative) value = -value;
  let digits = 1;
  for (let rest = value; rest >= 10; rest /= 10) digits++;
  const length = digits + (isNegative ? 1 : 0);
  if (isNegative) store<u8>(place, 0x2d);
  for (let at = length - 1; digits > 0; digits--) {
    store<u8>(place + at, <u8>(value % 10) + 0x30);
    value /= 10;
    at--;
  }
  store<i32>(SPECIAL_LENGTHS + TIME_SPECIAL * 4, length);
}

/**
 * A recipe is how often it was used, its number of parts, then kind, place and length of each part. Places of
 * literals count from the recipe's own address. A recipe without parts was dropped. Gives the place behind what it
 * wrote; 0 where there is too little memory.
 */
function apply(recipe: usize, start: usize): usize {
  const parts = load<i32>(recipe, 4);
  store<u32>(recipe, load<u32>(recipe) + 1);
  let part = recipe + 8;
  let out = start;
  const outEnd = OUT + OUT_BYTES;
  for (let left = parts; left > 0; left--) {
    const kind = load<u32>(part);
    const place = load<u32>(part, 4);
    let from: usize = 0;
    let length: i32 = 0;
    if (kind == LITERAL) {
      from = recipe + place;
      length = load<i32>(part, 8);
    } else if (kind == LEAF) {
      from = load<u32>(LEAVES + place * 16);
      length = load<i32>(LEAVES + place * 16, 4);
    } else {
      from = SPECIALS + place * SPECIAL_BYTES;
      length = load<i32>(SPECIAL_LENGTHS + place * 4);
    }
    if (out + length > outEnd) return 0;
    for (let done = 0; done < length; done += 16) v128.store(out + done, v128.load(from + done));
    out += length;
    part += 12;
  }
  return out;
}

/** Whether the next use of the recipe is one to compare with the converter. */
function isDueNext(recipe: usize): bool {
  const uses = load<u32>(recipe) + 1;
  return uses <= CHECKED_FIRST || uses % CHECKED_EVERY == 0;
}

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
export { ANSWER_NUMBERS, clearShapes, lastNumber, readShapes, SHAPE_NUMBERS, SHAPES_MAX };

/** Results of `convert` beside a length. */
const UNKNOWN: i32 = 0;
const NOT_CANONICAL: i32 = -1;
const DROPPED: i32 = -2;

const LITERAL: u32 = 0;
const LEAF: u32 = 1;
/** The special value that is written from a number. */
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
  if (!readEvent(length)) return NOT_CANONICAL;
  const recipe = find(fingerprint());
  if (recipe == 0) return UNKNOWN;
  if (load<i32>(recipe, 4) == 0) return DROPPED;
  writeTime(timestampMs);
  return apply(recipe);
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
 * literals count from the recipe's own address. A recipe without parts was dropped.
 */
function apply(recipe: usize): i32 {
  const uses = load<u32>(recipe) + 1;
  const parts = load<i32>(recipe, 4);
  store<u32>(recipe, uses);
  isDue = uses <= CHECKED_FIRST || uses % CHECKED_EVERY == 0;
  let part = recipe + 8;
  let out = OUT;
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
    if (out + length > outEnd) return NOT_CANONICAL;
    for (let done = 0; done < length; done += 16) v128.store(out + done, v128.load(from + done));
    out += length;
    part += 12;
  }
  return <i32>(out - OUT);
}

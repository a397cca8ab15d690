/*
 * Converts an event by copying bytes. Each fingerprint has a recipe: literal bytes, slices of the event, and
 * special values that are not in the event. `convert` makes the fingerprint, finds the recipe and applies it.
 */
import { leafCount } from "./answers";
import { apply, isCheckDue } from "./apply";
import { canonicalize } from "./canonical";
import { declareTypeWord } from "./changes";
import { fingerprint, mainFingerprint, readEvent, setSalt } from "./fingerprint";
import { groupCount, variant } from "./groups";
import { mix } from "./hash";
import {
  ANSWER_NUMBERS,
  GROUPS,
  HEAP,
  LEAVES,
  OUT,
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

export { canonicalize, declareName, declareTypeWord, groupCount, GROUPS, HEAP };
export { isCheckDue, LEAVES, leafCount, OUT, PADDING_BYTES, setSalt, setSeed };
export { SPECIAL_BYTES, SPECIAL_LENGTHS, SPECIALS, TEXT, TEXT_BYTES };
export { ANSWER_NUMBERS, clearShapes, lastNumber, readShapes, SHAPE_NUMBERS, SHAPES_MAX };

/** Results of `convert` beside a length. */
const UNKNOWN: i32 = 0;
const NOT_CANONICAL: i32 = -1;
const DROPPED: i32 = -2;

const TEMPLATE: u64 = 0x301;
const ADDED: u64 = 0x302;
/** The special value that is written from a number. */
const TIME_SPECIAL: i32 = 2;

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

export function mainLow(): u32 {
  return <u32>mainFingerprint();
}

export function mainHigh(): u32 {
  return <u32>(mainFingerprint() >> 32);
}

export function variantLow(): u32 {
  return <u32>variant;
}

export function variantHigh(): u32 {
  return <u32>(variant >> 32);
}

/** Whether the event of this length in TEXT has bytes outside ASCII, which may not be valid UTF-8. */
export function isWide(length: i32): bool {
  let all = v128.load(TEXT);
  for (let at = 16; at < length; at += 16) all = v128.or(all, v128.load(TEXT + at));
  return i8x16.bitmask(all) != 0;
}

/** Converts the event of this length in TEXT; gives the number of bytes in OUT, or why there are none. */
export function convert(length: i32, timestampMs: f64): i32 {
  if (!readEvent(length)) return NOT_CANONICAL;
  writeTime(timestampMs);
  return convertAgain();
}

/** Converts the event that was read last, for example by a recipe that was added since. */
export function convertAgain(): i32 {
  composed = false;
  if (groupCount() > 0) {
    const template = find(templateKey());
    if (template != 0 && load<i32>(template, 4) != 0) {
      const added = find(addedKey(load<u32>(template, 8)));
      if (added != 0) {
        composed = true;
        return apply(template, added);
      }
    }
  }
  const recipe = find(fingerprint());
  if (recipe == 0) return UNKNOWN;
  if (load<i32>(recipe, 4) == 0) return DROPPED;
  return apply(recipe, 0);
}

let composed: bool = false;

/** Whether the last conversion was by a template and by the texts that groups add to it. */
export function isComposed(): bool {
  return composed;
}

/** The key of a template: what the output depends on, but for the groups. */
function templateKey(): u64 {
  return mix(mainFingerprint(), TEMPLATE);
}

/** The key of the texts that groups of this variant add to the templates of a family. */
function addedKey(family: u32): u64 {
  return mix(mix(variant, ADDED), <u64>family);
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

/** What a recipe is for; its key is in `keyLow` and `keyHigh` then. */
export function chooseFingerprint(): void {
  key = fingerprint();
}

export function chooseTemplate(): void {
  key = templateKey();
}

export function chooseAdded(family: u32): void {
  key = addedKey(family);
}

let key: u64 = 0;

export function keyLow(): u32 {
  return <u32>key;
}

export function keyHigh(): u32 {
  return <u32>(key >> 32);
}

/** Whether there is a recipe for what was chosen last. */
export function isKnown(): bool {
  return find(key) != 0;
}

/** Makes the recipe at this address that of a key. */
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

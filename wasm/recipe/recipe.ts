/*
 * Converts an event by copying bytes. Each fingerprint has a recipe: literal bytes, slices of the event, and
 * special values that are not in the event. `convert` makes the fingerprint, finds the recipe and applies it.
 */
import { leafCount } from "./answers";
import { apply, isCheckDue } from "./apply";
import { canonicalize as rewrite } from "./canonical";
import { declareSeverity, declareTypeWord } from "./changes";
import {
  added,
  addRecipe,
  chooseAdded,
  chooseFingerprint,
  chooseList,
  chooseTemplate,
  clearRecipes,
  findRecipe,
  isComposed,
  isKnown,
  keyHigh,
  keyLow,
} from "./find";
import { fingerprint, mainFingerprint, setSalt } from "./fingerprint";
import { groupCount, variant } from "./groups";
import { isCanonical } from "./loose";
import { convertMany } from "./many";
import {
  ANSWERS,
  ENDS,
  EVENTS_MAX,
  GROUPS,
  HEAP,
  IDENTITIES,
  LEAVES,
  MANY_MAX,
  OTHERWISE,
  OUT,
  OUT_BYTES,
  OUT_ONE,
  PADDING_BYTES,
  PLACES,
  ROWS,
  RUNS,
  SPECIAL_BYTES,
  SPECIAL_LENGTHS,
  SPECIALS,
  TEXT,
  TEXT_BYTES,
  TIMES,
} from "./memory";
import { declareName, declarePath, declareRank, declareWord, setSeed } from "./paths";
import { readLines, readRows } from "./read";
import { writeTime } from "./specials";
import { readEvent } from "./walk";

export { declareName, declareRank, declareSeverity, declareWord, declareTypeWord, groupCount, GROUPS, HEAP };
export { isCheckDue, LEAVES, leafCount, OUT, OUT_BYTES, PADDING_BYTES, setSalt, setSeed };
export { SPECIAL_BYTES, SPECIAL_LENGTHS, SPECIALS, TEXT, TEXT_BYTES };
export { ENDS, IDENTITIES, MANY_MAX, OTHERWISE, OUT_ONE, PLACES, ROWS, RUNS, TIMES };
export { addRecipe, chooseAdded, chooseFingerprint, chooseList, chooseTemplate, clearRecipes, convertMany };
export { isComposed, isKnown, keyHigh, keyLow };
export { ANSWERS, EVENTS_MAX, readLines, readRows };

/** Results of `convert` beside a length. */
const UNKNOWN: i32 = 0;
const NOT_CANONICAL: i32 = -1;
const DROPPED: i32 = -2;

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

/** Rewrites the numbers of the event of this length in TEXT to OUT_ONE. Gives its new length; 0 where it has to be parsed. */
export function canonicalize(length: i32): i32 {
  return rewrite(TEXT, TEXT + length, OUT_ONE);
}

/** Converts the event of this length in TEXT; gives the number of bytes in OUT_ONE, or why there are none. */
export function convert(length: i32, timestampMs: f64): i32 {
  memory.fill(TEXT + length, 0, PADDING_BYTES);
  if (readEvent(TEXT) != TEXT + length || !isCanonical) return NOT_CANONICAL;
  writeTime(timestampMs);
  return convertAgain();
}

/** Converts the event that was read last, for example by a recipe that was added since. */
export function convertAgain(): i32 {
  const recipe = findRecipe();
  if (recipe == 0) return UNKNOWN;
  if (load<i32>(recipe, 4) == 0) return DROPPED;
  return apply(recipe, added, OUT_ONE, OUT_ONE + OUT_BYTES);
}

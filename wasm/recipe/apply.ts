/* Writes the output for an event by its recipe, or by a template and the texts that its groups add. */
import { findList } from "./find";
import { fingerprint } from "./fingerprint";
import { groupLeaf, mainLeaf } from "./groups";
import { LEAVES, SPECIAL_BYTES, SPECIAL_LENGTHS, SPECIALS, SPECIALS_MAX } from "./memory";

/** Kinds of parts. */
const LITERAL: u32 = 0;
const LEAF: u32 = 1;
/** A special value, or from SPECIALS_MAX on the text of a list. */
const SPECIAL: u32 = 2;
/** In a template: a slice by its number among those outside of groups, and a place where the groups add text. */
const MAIN_LEAF: u32 = 3;
const INSERT: u32 = 4;
/** In added texts: a slice by its number among those in groups, and the end of the text for one place. */
const GROUP_LEAF: u32 = 5;
const END: u32 = 6;

/**
 * Uses (4 bytes), number of parts (4), and of a template its family (4), spare (4), and which added texts it was used
 * with (8). Of added texts, the third number is their own number in the family.
 */
const HEADER_BYTES: i32 = 24;
/** The output is longer than there is memory for; recipe.ts takes it for an event that is too long. */
const NO_ROOM: i32 = -1;
/** The text of a list is not known. The conversion does not count as a use. */
const NO_LIST: i32 = -3;
let isListMissing: bool = false;

/** The first uses of a recipe are checked, and one in so many of all conversions. */
const CHECKED_FIRST: u32 = 4;
const CHECKED_EVERY: u32 = 1000;
let isDue: bool = false;
let conversions: u32 = 0;
/** Of an event among many that was left out to be checked alone; 0 where there is none. */
let picked: u64 = 0;

/** Whether the last conversion is one to compare with the converter. Called once for each event that is converted alone. */
export function isCheckDue(): bool {
  if (++conversions % CHECKED_EVERY == 0) return true;
  if (picked != fingerprint()) return isDue;
  picked = 0;
  return true;
}

/**
 * A recipe has a header, then kind, place and length of each part. Places of literals count from the recipe's own
 * address. A recipe without parts was dropped. A template takes the texts that groups add to it from `added`. Writes
 * from `start` on and not behind `end`; gives the number of bytes.
 */
export function apply(recipe: usize, added: usize, start: usize, end: usize): i32 {
  isListMissing = false;
  isDue = use(recipe) <= CHECKED_FIRST;
  if (added != 0) {
    const isKnownPair = combine(recipe, added);
    if (use(added) <= CHECKED_FIRST || !isKnownPair) isDue = true;
  }
  let addedPart = added + HEADER_BYTES;
  let part = recipe + HEADER_BYTES;
  let out = start;
  for (let left = load<i32>(recipe, 4); left > 0; left--) {
    if (load<u32>(part) == INSERT) {
      while (load<u32>(addedPart) != END) {
        out = write(added, addedPart, out, end);
        if (out == 0) return failed(recipe, added);
        addedPart += 12;
      }
      addedPart += 12;
    } else {
      out = write(recipe, part, out, end);
      if (out == 0) return failed(recipe, added);
    }
    part += 12;
  }
  return <i32>(out - start);
}

function failed(recipe: usize, added: usize): i32 {
  if (!isListMissing) return NO_ROOM;
  store<u32>(recipe, load<u32>(recipe) - 1);
  if (added != 0) store<u32>(added, load<u32>(added) - 1);
  return NO_LIST;
}

/**
 * Whether to leave out the event that was read last, one of many, because its conversion is to be compared with the
 * converter. Where it is only one in so many, the next event is not left out.
 */
export function isNextDue(recipe: usize, added: usize): bool {
  if (load<u32>(recipe) < CHECKED_FIRST) return true;
  if (added != 0) {
    if (load<u32>(added) < CHECKED_FIRST) return true;
    if ((load<u64>(recipe, 16) & (<u64>1 << load<u32>(added, 8))) == 0) return true;
  }
  if (++conversions % CHECKED_EVERY != 0) return false;
  picked = fingerprint();
  return true;
}

/** Counts a use. */
// @ts-ignore: decorator
@inline
function use(recipe: usize): u32 {
  const uses = load<u32>(recipe) + 1;
  store<u32>(recipe, uses);
  return uses;
}

/** Whether the template was used with these texts before; notes that it is now. */
// @ts-ignore: decorator
@inline
function combine(template: usize, added: usize): bool {
  const used = load<u64>(template, 16);
  const bit = <u64>1 << load<u32>(added, 8);
  store<u64>(template, used | bit, 16);
  return (used & bit) != 0;
}

/** Writes a part and gives the place behind it; 0 where there is no room. */
// @ts-ignore: decorator
@inline
function write(recipe: usize, part: usize, out: usize, end: usize): usize {
  const kind = load<u32>(part);
  const place = load<u32>(part, 4);
  let from: usize = 0;
  let length: i32 = 0;
  if (kind == LITERAL) {
    from = recipe + place;
    length = load<i32>(part, 8);
  } else if (kind == SPECIAL && place >= <u32>SPECIALS_MAX) {
    // A recipe of one literal.
    const list = findList(place);
    isListMissing = list == 0;
    if (isListMissing) return 0;
    use(list);
    from = list + load<u32>(list, HEADER_BYTES + 4);
    length = load<i32>(list, HEADER_BYTES + 8);
  } else if (kind == SPECIAL) {
    from = SPECIALS + place * SPECIAL_BYTES;
    length = load<i32>(SPECIAL_LENGTHS + place * 4);
  } else {
    const leaf = kind == LEAF ? place : kind == MAIN_LEAF ? mainLeaf(place) : groupLeaf(place);
    from = load<u32>(LEAVES + leaf * 16);
    length = load<i32>(LEAVES + leaf * 16, 4);
  }
  if (out + length > end) return 0;
  for (let done = 0; done < length; done += 16) v128.store(out + done, v128.load(from + done));
  return out + length;
}

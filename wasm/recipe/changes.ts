/*
 * The entries of `changes` that count: those whose field has a declared name, in events of some types. Of most of them
 * only the effect counts: they are read as src/services/read/change-effects.ts does, and each effect is a bit.
 */
import { mix, mixBytes, step } from "../hash";
import { NAME_ALWAYS, NAME_ENTRY, NAME_LISTED, NAME_MASK, NAME_ORDERED, NAME_RANK, NAME_WORDS } from "./kinds";
import { TEXT } from "./memory";
import { effects, rankOf, seed, wordOf } from "./paths";

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
/** The effects, and the entries that decide by their bytes: of any order, and in their order. */
let found: u32 = 0;
let unorderedHash: u64 = 0;
let orderedHash: u64 = 0;
/** What is listed in the output: privileges in their order. */
let listed: u64 = 0;
/** Whether there is one, beside those of entries that decide by their bytes. */
let hasPrivilege: bool = false;

/** The effects have bits from the gravest to the least, first those of one table and then those of the next one. */
const EFFECT_BITS: i32 = 32;
const SEVERITIES: usize = memory.data(EFFECT_BITS * 2, 16);

/** Declares the table and the severity of the effect with this bit; 0 is no effect. */
export function declareSeverity(effect: u32, table: u32, severity: u32): void {
  if (effect == 0) return;
  const at = SEVERITIES + ctz(effect) * 2;
  store<u8>(at, <u8>table);
  store<u8>(at, <u8>severity, 1);
}

/** Forgets the event before. */
// @ts-ignore: decorator
@inline
export function beginChanges(): void {
  typeLength = 0;
  found = 0;
  unorderedHash = 0;
  orderedHash = 0;
  listed = 0;
  hasPrivilege = false;
}

/** The type of this event. */
export function setType(start: usize, length: i32): void {
  typeStart = start;
  typeLength = length;
}

/** Of the entry that is being read: the kind of its name, and where its values are; 0 where it has none. */
let entryKind: u32 = 0;
let fromStart: usize = 0;
let fromEnd: usize = 0;
let toStart: usize = 0;
let toEnd: usize = 0;

export function beginEntry(): void {
  entryKind = 0;
  fromStart = 0;
  toStart = 0;
}

export function setEntryKind(kind: u32): void {
  entryKind = kind;
}

export function setFrom(start: usize, end: usize): void {
  fromStart = start;
  fromEnd = end;
}

export function setTo(start: usize, end: usize): void {
  toStart = start;
  toEnd = end;
}

/** Behind the entry of this length, which decides by its bytes and its place if it is ordered. */
export function addEntry(start: usize, length: i32, isOrdered: bool): void {
  const name = entryKind & NAME_MASK;
  if (isOrdered || name == NAME_ORDERED) addOrdered(start, length);
  else if (name == NAME_ENTRY) unorderedHash += mixBytes(seed, start, length);
  else if (name == NAME_ALWAYS) found |= effects(entryKind, 0);
  else if (name == NAME_RANK) {
    if (!addRank()) addOrdered(start, length);
  } else if (name == NAME_WORDS) {
    if (!addWord()) addOrdered(start, length);
  } else if (name != 0 && !addSwitch(name == NAME_LISTED)) addOrdered(start, length);
}

/** It may list something too. */
function addOrdered(start: usize, length: i32): void {
  orderedHash = mixBytes(mix(seed, orderedHash), start, length);
  listed = step(listed, orderedHash);
}

/**
 * A field that was switched on or off. Without a new value it is off if it was on. False where the bytes have to decide.
 */
function addSwitch(isListed: bool): bool {
  const before = booleanAt(fromStart, fromEnd);
  let after = booleanAt(toStart, toEnd);
  if (before < 0 || after < 0) return false;
  if (after == UNKNOWN && before == ON) after = OFF;
  if (after == UNKNOWN || after == before) return true;
  const effect = effects(entryKind, after == ON ? 0 : 1);
  found |= effect;
  if (isListed && effect != 0) addPrivilege((<u64>effect << 32) | <u64>entryKind);
  return true;
}

function addPrivilege(what: u64): void {
  listed = step(listed, what);
  hasPrivilege = true;
}

const UNKNOWN: i32 = 0;
const ON: i32 = 1;
const OFF: i32 = 2;

/** A boolean, also as text in any case; -1 for a text that may be one in disguise. */
function booleanAt(start: usize, end: usize): i32 {
  if (start == 0) return UNKNOWN;
  const isText = load<u8>(start) == 0x22;
  const from = isText ? start + 1 : start;
  const length = <i32>(end - start) - (isText ? 2 : 0);
  const word = load<u32>(from) | 0x20202020;
  if (length == 4 && word == 0x65757274) return ON;
  if (length == 5 && word == 0x736c6166 && (load<u8>(from, 4) | 0x20) == 0x65) return OFF;
  if (isText) for (let at = 0; at < length; at++) if (load<u8>(from + at) == 0x5c) return -1;
  return UNKNOWN;
}

/** A field with ranked words, whose new value is listed. False where the bytes have to decide. */
function addRank(): bool {
  // Any other value may not be listed.
  if (toStart == 0 || load<u8>(toStart) != 0x22 || toEnd - toStart <= 2) return false;
  const before = rankAt(fromStart, fromEnd);
  const after = rankAt(toStart, toEnd);
  if (before < 0 || after < 0) return false;
  const isOther = before == 0 || after == 0 || before == after;
  const effect = effects(entryKind, isOther ? 2 : after > before ? 0 : 1);
  found |= effect;
  addPrivilege(mix(mixBytes(seed, toStart, <i32>(toEnd - toStart)), effect));
  return true;
}

/** 0 for a value that has none; -1 for a text that may have one in disguise. */
function rankAt(start: usize, end: usize): i32 {
  if (start == 0 || load<u8>(start) != 0x22) return 0;
  return rankOf(start + 1, <i32>(end - start) - 2);
}

/** A field whose new value may be a word that counts. False where the bytes have to decide. */
function addWord(): bool {
  if (toStart == 0 || load<u8>(toStart) != 0x22) return true;
  const word = wordOf(entryKind, toStart + 1, <i32>(toEnd - toStart) - 2);
  if (word > 0) found |= effects(entryKind, word - 1);
  return word >= 0;
}

/**
 * What counts for the answers beside the lists of effects and privileges; 0 where nothing does. Call it behind the
 * event: its type may come behind its changes.
 */
// @ts-ignore: decorator
@inline
export function changesHash(): u64 {
  const hash = unorderedHash + orderedHash;
  if ((hash | found) == 0 || !changesDecide()) return 0;
  return mix(mix(seed, hash), (<u64>gravest() << 1) | (hasPrivilege ? 1 : 0));
}

/** Of each table the first effect, and each one that is graver than all before it. */
function gravest(): u32 {
  let kept: u32 = 0;
  let table: u32 = EFFECT_BITS;
  let highest: u32 = 0;
  for (let left = found; left != 0; left &= left - 1) {
    const at = SEVERITIES + ctz(left) * 2;
    if (load<u8>(at) != table || load<u8>(at, 1) > highest) {
      kept |= left & -left;
      highest = load<u8>(at, 1);
      table = load<u8>(at);
    }
  }
  return kept;
}

/** What the list of effects depends on, where changes count. */
// @ts-ignore: decorator
@inline
export function effectsHash(): u64 {
  return mix(mix(seed, unorderedHash + orderedHash), found);
}

/** What the list of privileges depends on, where changes count. */
// @ts-ignore: decorator
@inline
export function privilegesHash(): u64 {
  return mix(mix(seed, unorderedHash + orderedHash), listed);
}

function changesDecide(): bool {
  for (let word = 0; word < typeWords; word++) {
    const length = load<i32>(TYPE_WORD_LENGTHS + word * 4);
    for (let at = 0; at + length <= typeLength; at++)
      if (memory.compare(typeStart + at, TYPE_WORDS + word * TYPE_WORD_BYTES, length) == 0) return true;
  }
  return false;
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

/** "from" */
// @ts-ignore: decorator
@inline
export function isFromKey(key: usize, length: i32): bool {
  return length == 4 && load<u32>(key) == 0x6d6f7266;
}

/*
 * The entries of `changes` that count: those whose field has a declared name, in events of some types.
 */
import { mix, mixBytes } from "./hash";
import { NAME_ALONE, NAME_ENTRY, NAME_ORDERED } from "./kinds";
import { TEXT } from "./memory";
import { seed } from "./paths";

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
/** The entries that decide: of any order, and in their order. */
let unorderedHash: u64 = 0;
let orderedHash: u64 = 0;

/** Forgets the event before. */
// @ts-ignore: decorator
@inline
export function beginChanges(): void {
  typeLength = 0;
  unorderedHash = 0;
  orderedHash = 0;
}

/** The type of this event. */
export function setType(start: usize, length: i32): void {
  typeStart = start;
  typeLength = length;
}

/** An entry, with the kind of its name and the name. */
export function addEntry(kind: u32, name: usize, nameLength: i32, start: usize, length: i32): void {
  if (kind == NAME_ALONE) unorderedHash += mixBytes(seed, name, nameLength);
  else if (kind == NAME_ENTRY) unorderedHash += mixBytes(seed, start, length);
  else if (kind == NAME_ORDERED) orderedHash = mixBytes(mix(seed, orderedHash), start, length);
}

/** All that counts; 0 where nothing does. Call it behind the event: its type may come behind its changes. */
// @ts-ignore: decorator
@inline
export function changesHash(): u64 {
  const hash = unorderedHash + orderedHash;
  return hash != 0 && changesDecide() ? hash : 0;
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

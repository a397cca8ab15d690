/*
 * The answers to the questions that converters ask about the values at declared paths, as one hash,
 * and the slices that recipes may copy.
 */
import { beginChanges, changesHash, effectsHash, privilegesHash, setType } from "./changes";
import { addressClass, BY_VALUE, hasKelvin, hasOnlyAsciiCase, hasSaml, isBelow, isEmail, isTime, isWhole } from "./classes";
import { mix, mixBytes, step } from "../hash";
import { isPlainNumber } from "./json";
import {
  ADDRESS,
  COMPARED,
  COPIED,
  EMAIL,
  EVENT_TYPE,
  LATITUDE,
  LONGITUDE,
  NUMBER,
  RUN,
  TIME,
  URL,
} from "./kinds";
import { LEAVES, LEAVES_MAX } from "./memory";
import { seed } from "./paths";
import { ALONE, beginTexts, hasWideCase, note, TOO_MANY } from "./texts";

const VALUE: u64 = 0x103;
const EMPTY: u64 = 0x104;
const SLICE: u64 = 0x105;
const WHOLE: u64 = 0x108;
const FRACTION: u64 = 0x109;
const QUOTED: u64 = 0x10a;
const PART: u64 = 0x10c;

export let hash: u64 = 0;
/**
 * The answers, and where members that no converter reads lie between the others: slices have the same numbers then. It is
 * complete behind the event.
 */
export let layout: u64 = 0;
/** What the lists of effects and of privileges depend on; 0 where the changes do not count. */
export let effectsList: u64 = 0;
export let privilegesList: u64 = 0;
/** The hash at each run of members that no converter reads. */
let runs: u64 = 0;
let outerRuns: u64 = 0;
let leaves: i32 = 0;
/**
 * The compared texts with letters outside ASCII, and whether one of them may be the other case of another: then all of
 * them decide.
 */
let wideTexts: u64 = 0;
let isWideCase: bool = false;

export function leafCount(): i32 {
  return leaves;
}

/** What was found about an event before; its slices are in LEAVES. */
export function restoreAnswers(foundLayout: u64, foundLeaves: i32): void {
  layout = foundLayout;
  leaves = foundLeaves;
}

export function restoreLists(foundEffects: u64, foundPrivileges: u64): void {
  effectsList = foundEffects;
  privilegesList = foundPrivileges;
}

/** Forgets everything about the event before. */
// @ts-ignore: decorator
@inline
export function beginAnswers(): void {
  hash = seed;
  runs = 0;
  leaves = 0;
  wideTexts = 0;
  isWideCase = false;
  beginTexts();
  beginChanges();
}

/** Behind the last member. */
// @ts-ignore: decorator
@inline
export function endAnswers(): void {
  const changes = changesHash();
  if (changes != 0) hash = step(hash, changes);
  if (isWideCase) hash = step(hash, wideTexts);
  layout = mix(hash, runs);
  effectsList = changes == 0 ? 0 : effectsHash();
  privilegesList = changes == 0 ? 0 : privilegesHash();
}

// @ts-ignore: decorator
@inline
export function mixIn(value: u64): void {
  hash = step(hash, value);
}

/** Begins a hash of its own for a part of the event; gives the one so far. */
export function beginPart(path: u64): u64 {
  const outer = hash;
  hash = step(seed, path);
  outerRuns = runs;
  runs = 0;
  return outer;
}

/** Goes on with the hash so far; gives that of the part. */
export function endPart(outer: u64): u64 {
  const part = mix(hash, runs);
  hash = step(outer, PART);
  runs = outerRuns;
  return part;
}

export function decides(start: usize, length: i32): void {
  hash = mixBytes(step(hash, VALUE), start, length);
}

export function addLeaf(start: usize, length: i32, kind: u32): bool {
  hash = step(hash, SLICE | (<u64>kind << 16));
  return addSlice(start, length, kind);
}

/** A run of members that no converter reads. False: there are too many slices. */
export function addRun(start: usize, end: usize): bool {
  runs = step(runs, hash);
  return addSlice(start, <i32>(end - start), RUN);
}

function addSlice(start: usize, length: i32, kind: u32): bool {
  if (leaves >= LEAVES_MAX) return false;
  const at = LEAVES + leaves * 16;
  store<u32>(at, <u32>start);
  store<i32>(at, length, 4);
  store<u32>(at, kind, 8);
  leaves++;
  return true;
}

/** Reads a text with the question of its kind. Without an answer it decides by its value. False: too many slices. */
export function readText(start: usize, length: i32, kind: u32): bool {
  // A text is never taken for the number or word that it spells.
  hash = step(hash, QUOTED);
  if (length == 0) {
    hash = step(hash, EMPTY);
    return true;
  }
  switch (kind) {
    case COPIED:
      return addLeaf(start, length, kind);
    case COMPARED:
    case EMAIL:
    case ADDRESS:
      return readCompared(start, length, kind);
    case URL:
      hash = step(hash, hasSaml(start, length) ? 1 : 2);
      return addLeaf(start, length, kind);
    case TIME:
      if (isTime(start, length)) return addLeaf(start, length, kind);
      break;
    case LATITUDE:
    case LONGITUDE:
      if (isCoordinate(start, length, kind)) return addLeaf(start, length, kind);
      break;
    case EVENT_TYPE:
      setType(start, length);
      break;
    default:
  }
  decides(start, length);
  return true;
}

function readCompared(start: usize, length: i32, kind: u32): bool {
  if (!mixEqual(start, length)) return false;
  if (hasWideCase) {
    wideTexts = mixBytes(mix(seed, wideTexts), start, length);
    if (!hasOnlyAsciiCase(start, length)) {
      // Its lower case is an ASCII letter, so it may be equal to any text.
      if (hasKelvin(start, length)) return false;
      isWideCase = true;
      decides(start, length);
      return true;
    }
  }
  if (kind == ADDRESS) {
    const answer = addressClass(start, length);
    hash = step(hash, <u64>answer);
    if (answer == BY_VALUE) {
      decides(start, length);
      return true;
    }
  } else if (kind == EMAIL) hash = step(hash, isEmail(start, length) ? 1 : 2);
  return addLeaf(start, length, kind);
}

/** Mixes in which earlier text of the event this one is equal to. False: there are too many texts. */
// @ts-ignore: decorator
@inline
export function mixEqual(start: usize, length: i32): bool {
  const equal = note(start, length);
  if (equal == TOO_MANY) return false;
  if (equal != ALONE) hash = step(hash, equal);
  return true;
}

/** In range, with a fraction, and written as a double is. */
function isCoordinate(start: usize, length: i32, kind: u32): bool {
  return isPlainNumber(start, length) && isBelow(start, length, kind == LATITUDE ? 90 : 180);
}

export function readNumber(start: usize, length: i32, kind: u32): bool {
  if (kind == LATITUDE || kind == LONGITUDE) {
    if (!isCoordinate(start, length, kind)) decides(start, length);
    else if (!addLeaf(start, length, kind)) return false;
    hash = step(hash, VALUE);
    return true;
  }
  if (kind != COPIED && kind != COMPARED && kind != NUMBER) {
    decides(start, length);
    return mixEqual(start, length);
  }
  hash = step(hash, isWhole(start, length) ? WHOLE : FRACTION);
  return (kind != COMPARED || mixEqual(start, length)) && addLeaf(start, length, kind);
}


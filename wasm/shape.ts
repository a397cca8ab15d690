/*
 * The shape of an event: keys, structure and types of all values, and the values of `service` and `event_type`. Events of
 * one shape differ from their schema in the same way, so comparing the first of them serves for all.
 * src/services/compare-schema.ts compares: what it does not look at is not part of a shape.
 *
 * - Containers that are nested very deeply, and elements far behind in an array, are not looked into.
 * - An array is the set of its elements' shapes: their number and order make no difference to a schema.
 * - Of `from` and `to` in an entry of `changes` only the key counts: schemas allow any value there.
 */
import { mix, mixBytes, step } from "./hash";

/** As in src/services/compare-schema.ts: so many containers inside each other, and elements of an array. */
export const SHAPE_DEPTH_MAX: i32 = 6;
export const ELEMENTS_MAX: i32 = 50;

export const OPEN_OBJECT: u64 = 0x201;
export const OPEN_ARRAY: u64 = 0x202;
export const END: u64 = 0x203;
export const STRING: u64 = 0x204;
const NUMBER: u64 = 0x206;
/** An integer that a double cannot hold exactly; it is compared as text. */
const LONG_INTEGER: u64 = 0x207;
const BOOLEAN: u64 = 0x208;
const NULL: u64 = 0x209;

/** Integers of so many characters are always exact in a double, and beyond the second length never. */
const EXACT_LENGTH_MAX: i32 = 15;
const INEXACT_LENGTH_MIN: i32 = 18;
/** A number of so many characters may be larger than a double can be. */
const HUGE_LENGTH_MIN: i32 = 300;

let seed: u64 = 0;
/** The shape so far. */
export let shape: u64 = 0;

/** Hashes are keyed, so that nobody can make two shapes with one hash. */
export function setSeed(low: u32, high: u32): void {
  seed = ((<u64>high) << 32) | <u64>low;
}

// @ts-ignore: decorator
@inline
export function beginShape(): void {
  shape = seed;
}

// @ts-ignore: decorator
@inline
export function setShape(value: u64): void {
  shape = value;
}

// @ts-ignore: decorator
@inline
export function mixShape(value: u64): void {
  shape = step(shape, value);
}

/** The path of a key below that of its object; 0 is the event itself. */
// @ts-ignore: decorator
@inline
export function pathOf(parent: u64, key: usize, length: i32): u64 {
  return mixBytes(seed ^ parent, key, length);
}

/** The path of the elements of an array. */
// @ts-ignore: decorator
@inline
export function elementPath(array: u64): u64 {
  return mix(array, OPEN_ARRAY);
}

/** A number or one of the three words. */
export function mixPlain(start: usize, end: usize): void {
  const first = load<u8>(start);
  if (first == 0x6e) mixShape(NULL);
  else if (first == 0x74 || first == 0x66) mixShape(BOOLEAN);
  else mixNumber(start, <i32>(end - start));
}

function mixNumber(start: usize, length: i32): void {
  let hasPoint = false;
  let hasExponent = false;
  for (let at = 0; at < length; at++) {
    const byte = load<u8>(start + at);
    if (byte == 0x2e) hasPoint = true;
    else if ((byte | 0x20) == 0x65) hasExponent = true;
  }
  // Whether the rest is exact depends on the value, so the value is part of the shape.
  if (hasExponent || length >= HUGE_LENGTH_MIN || (!hasPoint && length > EXACT_LENGTH_MAX && length < INEXACT_LENGTH_MIN))
    shape = mixBytes(shape, start, length);
  mixShape(hasPoint || length <= EXACT_LENGTH_MAX ? NUMBER : LONG_INTEGER);
}

/** The different elements of one array, for each depth. */
const ELEMENTS: usize = memory.data((6 + 1) * 50 * 8, 16);

/** Adds the shape to those of an array's elements, of which there are `known`. False: it is one of them. */
export function addElement(depth: i32, known: i32): bool {
  const elements = ELEMENTS + depth * ELEMENTS_MAX * 8;
  for (let at = 0; at < known; at++) if (load<u64>(elements + at * 8) == shape) return false;
  store<u64>(elements + known * 8, shape);
  return true;
}

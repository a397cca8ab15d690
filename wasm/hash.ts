/*
 * Fast keyed hashes for tables inside this process. Their seed is random, so collisions cannot be constructed.
 * Taking sixteen bytes at a time instead of eight saves a tenth of the time that reading an event takes.
 */

const K1: u64 = 0x9e3779b97f4a7c15;
const K2: u64 = 0xff51afd7ed558ccd;

/** For values that are added to others, or that are the seed of another hash. */
// @ts-ignore: decorator
@inline
export function mix(hash: u64, value: u64): u64 {
  const mixed = (hash ^ value) * K2;
  return (mixed ^ (mixed >> 32)) * K1;
}

/** Prolongs a chain of values. Cheaper than `mix`, and linear: chains are not added to each other. */
// @ts-ignore: decorator
@inline
export function step(hash: u64, value: u64): u64 {
  return (rotl(hash, 23) ^ value) * K1;
}

// @ts-ignore: decorator
@inline
export function fold(hash: u64, bytes: v128): u64 {
  const low = (v128.extract_lane<u64>(bytes, 0) ^ hash) * K2;
  const high = (v128.extract_lane<u64>(bytes, 1) ^ rotl(hash, 32)) * K1;
  const mixed = low ^ (low >> 32) ^ rotl(high ^ (high >> 32), 29);
  return mixed * K1;
}

/** Sixteen set bytes, then sixteen that are not. */
const ONES: usize = memory.data<u8>([
  255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
  0, 0, 0, 0,
]);

/** The first so many of sixteen bytes. */
// @ts-ignore: decorator
@inline
export function first(bytes: v128, length: i32): v128 {
  return v128.and(bytes, v128.load(ONES + 16 - length));
}

/** Hashes bytes. Reads up to 16 bytes behind the end; they do not count. */
// @ts-ignore: decorator
@inline
export function mixBytes(seed: u64, start: usize, length: i32): u64 {
  let hash = seed ^ (<u64>length * K2);
  let at = start;
  let left = length;
  for (; left > 16; left -= 16) {
    hash = fold(hash, v128.load(at));
    at += 16;
  }
  return fold(hash, first(v128.load(at), left));
}

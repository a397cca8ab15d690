/* A fast keyed hash for tables inside this process. Its seed is random, so collisions cannot be constructed. */

const K1: u64 = 0x9e3779b97f4a7c15;
const K2: u64 = 0xff51afd7ed558ccd;

// @ts-ignore: decorator
@inline
export function mix(hash: u64, value: u64): u64 {
  const mixed = (hash ^ value) * K2;
  return (mixed ^ (mixed >> 32)) * K1;
}

/** Hashes bytes. Reads up to 7 bytes behind the end; they do not count. */
export function mixBytes(seed: u64, start: usize, length: i32): u64 {
  let hash = mix(seed, <u64>length);
  let at = start;
  let left = length;
  for (; left >= 8; left -= 8) {
    hash = mix(hash, load<u64>(at));
    at += 8;
  }
  if (left > 0) hash = mix(hash, load<u64>(at) & (((<u64>1) << (<u64>left * 8)) - 1));
  return hash;
}

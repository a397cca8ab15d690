const PRIME_1: u64 = 0x9e3779b185ebca87;
const PRIME_2: u64 = 0xc2b2ae3d27d4eb4f;
const PRIME_3: u64 = 0x165667b19e3779f9;
const PRIME_4: u64 = 0x85ebca77c2b2ae63;
const PRIME_5: u64 = 0x27d4eb2f165667c5;

/** XXH64 with the seed 0: a checksum, four words at a time. */
export function xxh64(start: usize, end: usize): u64 {
  const length = <u64>(end - start);
  let at = start;
  let sum = PRIME_5;
  if (length >= 32) {
    let a = PRIME_1 + PRIME_2;
    let b = PRIME_2;
    let c: u64 = 0;
    let d: u64 = 0 - PRIME_1;
    for (; at + 32 <= end; at += 32) {
      a = mixed(a, load<u64>(at));
      b = mixed(b, load<u64>(at, 8));
      c = mixed(c, load<u64>(at, 16));
      d = mixed(d, load<u64>(at, 24));
    }
    sum = rotl(a, 1) + rotl(b, 7) + rotl(c, 12) + rotl(d, 18);
    sum = merged(sum, a);
    sum = merged(sum, b);
    sum = merged(sum, c);
    sum = merged(sum, d);
  }
  sum += length;
  for (; at + 8 <= end; at += 8) {
    sum = rotl(sum ^ mixed(0, load<u64>(at)), 27) * PRIME_1 + PRIME_4;
  }
  if (at + 4 <= end) {
    sum = rotl(sum ^ (<u64>load<u32>(at) * PRIME_1), 23) * PRIME_2 + PRIME_3;
    at += 4;
  }
  for (; at < end; at++) sum = rotl(sum ^ (<u64>load<u8>(at) * PRIME_5), 11) * PRIME_1;
  sum = (sum ^ (sum >>> 33)) * PRIME_2;
  sum = (sum ^ (sum >>> 29)) * PRIME_3;
  return sum ^ (sum >>> 32);
}

// @ts-ignore: decorator
@inline
function mixed(sum: u64, word: u64): u64 {
  return rotl(sum + word * PRIME_2, 31) * PRIME_1;
}

// @ts-ignore: decorator
@inline
function merged(sum: u64, part: u64): u64 {
  return (sum ^ mixed(0, part)) * PRIME_1 + PRIME_4;
}

/*
 * SHA-256 of four messages at once: each vector holds one word of all four. A message stands with its padding
 * in whole blocks of 64 bytes.
 */

const ROUNDS: i32 = 64;
/** The fractions of the cube roots of the first 64 primes. */
const CONSTANTS: usize = memory.data<u32>([
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
  0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
  0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
  0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
  0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
  0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
  0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
  0xc67178f2,
]);
/** The message schedule. */
const WORDS: usize = memory.data(ROUNDS * 16, 16);

/** Pads a message of `length` bytes in place; gives its blocks. */
export function pad(message: usize, length: i32): i32 {
  const blocks = (length + 8) / 64 + 1;
  const bytes = blocks * 64;
  memory.fill(message + length, 0, bytes - length);
  store<u8>(message + length, 0x80);
  store<u32>(message + bytes - 4, bswap<u32>(<u32>length << 3));
  return blocks;
}

/**
 * Replaces the beginnings of four messages, of as many blocks each, by the first sixteen bytes of their digests.
 * The same message may be given twice.
 */
export function hashFour(first: usize, second: usize, third: usize, fourth: usize, blocks: i32): void {
  let a0 = i32x4.splat(0x6a09e667);
  let b0 = i32x4.splat(0xbb67ae85);
  let c0 = i32x4.splat(0x3c6ef372);
  let d0 = i32x4.splat(0xa54ff53a);
  let e0 = i32x4.splat(0x510e527f);
  let f0 = i32x4.splat(0x9b05688c);
  let g0 = i32x4.splat(0x1f83d9ab);
  let h0 = i32x4.splat(0x5be0cd19);
  for (let block = 0; block < blocks; block++) {
    const at = block * 64;
    schedule(first + at, second + at, third + at, fourth + at);
    let a = a0;
    let b = b0;
    let c = c0;
    let d = d0;
    let e = e0;
    let f = f0;
    let g = g0;
    let h = h0;
    for (let round = 0; round < ROUNDS; round++) {
      const constant = v128.load_splat<u32>(CONSTANTS + round * 4);
      const word = i32x4.add(v128.load(WORDS + round * 16), constant);
      const choice = v128.bitselect(f, g, e);
      const sum = i32x4.add(i32x4.add(i32x4.add(h, bigSigma1(e)), choice), word);
      const majority = v128.bitselect(b, a, v128.xor(a, c));
      h = g;
      g = f;
      f = e;
      e = i32x4.add(d, sum);
      d = c;
      c = b;
      b = a;
      a = i32x4.add(sum, i32x4.add(bigSigma0(b), majority));
    }
    a0 = i32x4.add(a0, a);
    b0 = i32x4.add(b0, b);
    c0 = i32x4.add(c0, c);
    d0 = i32x4.add(d0, d);
    e0 = i32x4.add(e0, e);
    f0 = i32x4.add(f0, f);
    g0 = i32x4.add(g0, g);
    h0 = i32x4.add(h0, h);
  }
  transpose(a0, b0, c0, d0);
  v128.store(first, bigEndian(row0));
  v128.store(second, bigEndian(row1));
  v128.store(third, bigEndian(row2));
  v128.store(fourth, bigEndian(row3));
}

function schedule(first: usize, second: usize, third: usize, fourth: usize): void {
  for (let part: usize = 0; part < 64; part += 16) {
    transpose(
      bigEndian(v128.load(first + part)),
      bigEndian(v128.load(second + part)),
      bigEndian(v128.load(third + part)),
      bigEndian(v128.load(fourth + part)),
    );
    const words = WORDS + part * 4;
    v128.store(words, row0);
    v128.store(words, row1, 16);
    v128.store(words, row2, 32);
    v128.store(words, row3, 48);
  }
  for (let at = WORDS + 16 * 16; at < WORDS + ROUNDS * 16; at += 16) {
    const old = i32x4.add(v128.load(at - 256), smallSigma0(v128.load(at - 240)));
    const recent = i32x4.add(v128.load(at - 112), smallSigma1(v128.load(at - 32)));
    v128.store(at, i32x4.add(old, recent));
  }
}

let row0: v128 = i32x4.splat(0);
let row1: v128 = i32x4.splat(0);
let row2: v128 = i32x4.splat(0);
let row3: v128 = i32x4.splat(0);

/** Makes the columns of four vectors the rows. */
// @ts-ignore: decorator
@inline
function transpose(a: v128, b: v128, c: v128, d: v128): void {
  const ab = v128.shuffle<u32>(a, b, 0, 4, 1, 5);
  const cd = v128.shuffle<u32>(c, d, 0, 4, 1, 5);
  const abHigh = v128.shuffle<u32>(a, b, 2, 6, 3, 7);
  const cdHigh = v128.shuffle<u32>(c, d, 2, 6, 3, 7);
  row0 = v128.shuffle<u64>(ab, cd, 0, 2);
  row1 = v128.shuffle<u64>(ab, cd, 1, 3);
  row2 = v128.shuffle<u64>(abHigh, cdHigh, 0, 2);
  row3 = v128.shuffle<u64>(abHigh, cdHigh, 1, 3);
}

// @ts-ignore: decorator
@inline
function bigEndian(words: v128): v128 {
  return v128.shuffle<u8>(words, words, 3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
}

// @ts-ignore: decorator
@inline
function rotate(words: v128, by: i32): v128 {
  return v128.or(i32x4.shr_u(words, by), i32x4.shl(words, 32 - by));
}

// @ts-ignore: decorator
@inline
function bigSigma0(words: v128): v128 {
  return v128.xor(v128.xor(rotate(words, 2), rotate(words, 13)), rotate(words, 22));
}

// @ts-ignore: decorator
@inline
function bigSigma1(words: v128): v128 {
  return v128.xor(v128.xor(rotate(words, 6), rotate(words, 11)), rotate(words, 25));
}

// @ts-ignore: decorator
@inline
function smallSigma0(words: v128): v128 {
  return v128.xor(v128.xor(rotate(words, 7), rotate(words, 18)), i32x4.shr_u(words, 3));
}

// @ts-ignore: decorator
@inline
function smallSigma1(words: v128): v128 {
  return v128.xor(v128.xor(rotate(words, 17), rotate(words, 19)), i32x4.shr_u(words, 10));
}

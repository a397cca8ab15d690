import { at, bits, count, finish, put, setBits } from "./bits";
import { writeCodes } from "./huffman";
import { BLOCK_BYTES, CHUNK_BYTES, CODES, FREQUENCIES, DISTANCES, INPUT, LITERALS, OUTPUT } from "./memory";

/*
 * DEFLATE (RFC 1951), made for lines of JSON: these repeat long texts, so only matches of eight bytes and more count,
 * and only the newest place of each eight bytes is looked at. On audit events this takes half the time of zlib's
 * level 1 and gives a little less output.
 */

const WINDOW_BYTES: usize = 32768;
const MATCH_MIN: usize = 8;
const MATCH_MAX: u32 = 258;
const END_OF_BLOCK: i32 = 256;
/** By the hash of eight bytes, the newest place that has them. 0: none; the input lies more than a window behind it. */
const HASH_BITS: u64 = 15;
const PLACES: usize = memory.data(4 << 15, 16);

/** The block in steps, each of literals and a match: how many literals; then the length, with the distance above bit 16. */
const STEPS: usize = memory.data((BLOCK_BYTES / 8 + 2) * 8, 16);
/** A length's code together with its extra bits; how many they are is above bit 24. */
const LENGTH_BITS: usize = memory.data(260 * 4, 16);

export { INPUT, OUTPUT } from "./memory";

/** Begins a new stream. */
export function begin(): void {
  setBits(0, 0, OUTPUT);
}

/**
 * Compresses so many bytes of the input, at most a chunk. Gives the number of bytes in the output. The last bits of a
 * chunk come out with the next one.
 */
export function compress(length: i32, isLast: bool): i32 {
  setBits(bits, count, OUTPUT);
  memory.fill(PLACES, 0, 4 << <usize>HASH_BITS);
  const end = INPUT + <usize>length;
  let from = INPUT;
  do {
    const to = min(from + BLOCK_BYTES, end);
    memory.fill(FREQUENCIES, 0, (LITERALS + DISTANCES) * 4);
    const steps = findSteps(from, to);
    put(isLast && to == end ? 1 : 0, 1);
    put(2, 2);
    writeCodes();
    writeSteps(from, steps);
    from = to;
  } while (from < end);
  if (isLast) finish();
  return <i32>(at - OUTPUT);
}

/** Gives the last step, which has literals and no match. */
function findSteps(from: usize, to: usize): usize {
  let step = STEPS;
  let literals = from;
  let place = from;
  while (place + MATCH_MIN <= to) {
    const word = load<u64>(place);
    const slot = slotOf(word);
    const earlier = <usize>load<u32>(slot);
    store<u32>(slot, <u32>place);
    if (load<u64>(earlier) != word || place - earlier > WINDOW_BYTES) {
      place++;
      continue;
    }
    const distance = place - earlier;
    let start = place;
    // Not so far back that the match would end before this place: it would then be compared with itself.
    const first = max(max(literals, INPUT + distance), place + MATCH_MIN - MATCH_MAX);
    while (start > first && load<u8>(start - 1) == load<u8>(start - 1 - distance)) start--;
    const end = endOfMatch(place + MATCH_MIN, distance, min(to, start + MATCH_MAX));
    step = addStep(step, literals, start, <u32>(end - start), <u32>distance);
    place = end;
    literals = end;
    if (end + MATCH_MIN <= to) store<u32>(slotOf(load<u64>(end - 2)), <u32>(end - 2));
  }
  countLiterals(literals, to);
  store<u32>(step, <u32>(to - literals));
  addTo(FREQUENCIES + END_OF_BLOCK * 4);
  return step;
}

// @ts-ignore: decorator
@inline
function slotOf(word: u64): usize {
  return PLACES + (<usize>((word * 0x9e3779b185ebca87) >>> (64 - HASH_BITS)) << 2);
}

/** Loads up to seven bytes behind `most`, which the caller's memory has. */
// @ts-ignore: decorator
@inline
function endOfMatch(from: usize, distance: usize, most: usize): usize {
  for (let at = from; at < most; at += 8) {
    const difference = load<u64>(at) ^ load<u64>(at - distance);
    if (difference != 0) return min(most, at + <usize>(ctz(difference) >> 3));
  }
  return most;
}

// @ts-ignore: decorator
@inline
function addStep(step: usize, literals: usize, place: usize, length: u32, distance: u32): usize {
  countLiterals(literals, place);
  store<u32>(step, <u32>(place - literals));
  store<u32>(step, (distance << 16) | length, 4);
  addTo(FREQUENCIES + lengthSymbol(length) * 4);
  addTo(FREQUENCIES + (LITERALS + distanceSymbol(distance - 1)) * 4);
  return step + 8;
}

// @ts-ignore: decorator
@inline
function countLiterals(from: usize, to: usize): void {
  for (let place = from; place < to; place++) addTo(FREQUENCIES + load<u8>(place) * 4);
}

// @ts-ignore: decorator
@inline
function addTo(frequency: usize): void {
  store<u32>(frequency, load<u32>(frequency) + 1);
}

// @ts-ignore: decorator
@inline
function lengthSymbol(length: u32): u32 {
  const n = length - 3;
  if (n < 8) return 257 + n;
  if (length == MATCH_MAX) return 285;
  const top = 31 - clz(n);
  return 257 + 4 * (top - 1) + ((n >> (top - 2)) & 3);
}

// @ts-ignore: decorator
@inline
function distanceSymbol(n: u32): u32 {
  if (n < 4) return n;
  const top = 31 - clz(n);
  return 2 * top + ((n >> (top - 1)) & 1);
}

function prepareLengths(): void {
  for (let length: u32 = 3; length <= MATCH_MAX; length++) {
    const code = load<u32>(CODES + lengthSymbol(length) * 4);
    const n = length - 3;
    const top = 31 - clz(n | 1);
    const extra = n < 8 || length == MATCH_MAX ? 0 : top - 2;
    const size = code >> 16;
    store<u32>(LENGTH_BITS + length * 4, (code & 0xffff) | ((n & ((1 << extra) - 1)) << size) | ((size + extra) << 24));
  }
}

function writeSteps(from: usize, end: usize): void {
  prepareLengths();
  let place = from;
  let word = bits;
  let size = count;
  let out = at;
  for (let step = STEPS; ; step += 8) {
    let literals = load<u32>(step);
    for (; literals >= 3; literals -= 3, place += 3) {
      const a = load<u32>(CODES + load<u8>(place) * 4);
      const b = load<u32>(CODES + load<u8>(place, 1) * 4);
      const c = load<u32>(CODES + load<u8>(place, 2) * 4);
      word |= (<u64>(a & 0xffff)) << size;
      size += <u64>(a >> 16);
      word |= (<u64>(b & 0xffff)) << size;
      size += <u64>(b >> 16);
      word |= (<u64>(c & 0xffff)) << size;
      size += <u64>(c >> 16);
      store<u64>(out, word);
      out += <usize>(size >> 3);
      word >>= size & 56;
      size &= 7;
    }
    for (; literals > 0; literals--, place++) {
      const a = load<u32>(CODES + load<u8>(place) * 4);
      word |= (<u64>(a & 0xffff)) << size;
      size += <u64>(a >> 16);
    }
    store<u64>(out, word);
    out += <usize>(size >> 3);
    word >>= size & 56;
    size &= 7;
    if (step == end) break;
    const match = load<u32>(step, 4);
    const length = match & 0xffff;
    place += length;
    const lengthBits = load<u32>(LENGTH_BITS + length * 4);
    word |= (<u64>(lengthBits & 0xffffff)) << size;
    size += <u64>(lengthBits >> 24);
    const n = (match >> 16) - 1;
    const code = load<u32>(CODES + (LITERALS + distanceSymbol(n)) * 4);
    word |= (<u64>(code & 0xffff)) << size;
    size += <u64>(code >> 16);
    if (n >= 4) {
      const extra = 30 - clz(n);
      word |= (<u64>(n & ((1 << extra) - 1))) << size;
      size += <u64>extra;
    }
    store<u64>(out, word);
    out += <usize>(size >> 3);
    word >>= size & 56;
    size &= 7;
  }
  setBits(word, size, out);
  const ending = load<u32>(CODES + END_OF_BLOCK * 4);
  put(ending & 0xffff, ending >> 16);
}

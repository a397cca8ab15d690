import { put } from "./bits";
import { BITS_MAX, CODES, DISTANCES, FREQUENCIES, LENGTHS, LITERALS } from "./memory";

/** The alphabet in which a block tells the lengths of its codes. */
const LENGTH_SYMBOLS: i32 = 19;
const LENGTH_BITS_MAX: i32 = 7;
/** The order in which the lengths of that alphabet's own codes are written. */
const ORDER: usize = memory.data<u8>([16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]);
/** Repeat the length before 3 to 6 times; zeros 3 to 10 times; zeros 11 to 138 times. */
const AGAIN: u8 = 16;
const ZEROS: u8 = 17;
const MANY_ZEROS: u8 = 18;

const RUNS: usize = memory.data((LITERALS + DISTANCES) * 2, 16);
const RUN_FREQUENCIES: usize = memory.data(LENGTH_SYMBOLS * 4, 16);
const RUN_LENGTHS: usize = memory.data(LENGTH_SYMBOLS, 16);
const RUN_CODES: usize = memory.data(LENGTH_SYMBOLS * 4, 16);

/** Symbols in the order of their frequency, as frequency and number in one word; and the tree over them. */
const SORTED: usize = memory.data(LITERALS * 4, 16);
const TREE: usize = memory.data(LITERALS * 4, 16);
/** How many codes have each length, and the next code of that length. */
const COUNTS: usize = memory.data(64 * 4, 16);
const NEXT: usize = memory.data((BITS_MAX + 2) * 4, 16);

/** Makes the codes of a block from its frequencies and writes them before the block. */
export function writeCodes(): void {
  makeCode(FREQUENCIES, LENGTHS, CODES, LITERALS, BITS_MAX);
  makeCode(FREQUENCIES + LITERALS * 4, LENGTHS + LITERALS, CODES + LITERALS * 4, DISTANCES, BITS_MAX);
  let literals = LITERALS;
  while (literals > 257 && load<u8>(LENGTHS + literals - 1) == 0) literals--;
  let distances = DISTANCES;
  while (distances > 1 && load<u8>(LENGTHS + LITERALS + distances - 1) == 0) distances--;
  // Both alphabets are told as one list.
  memory.copy(LENGTHS + literals, LENGTHS + LITERALS, distances);
  const runs = findRuns(literals + distances);
  makeCode(RUN_FREQUENCIES, RUN_LENGTHS, RUN_CODES, LENGTH_SYMBOLS, LENGTH_BITS_MAX);
  let told = LENGTH_SYMBOLS;
  while (told > 4 && load<u8>(RUN_LENGTHS + load<u8>(ORDER + told - 1)) == 0) told--;
  put(literals - 257, 5);
  put(distances - 1, 5);
  put(told - 4, 4);
  for (let i = 0; i < told; i++) put(load<u8>(RUN_LENGTHS + load<u8>(ORDER + i)), 3);
  for (let i = 0; i < runs; i++) {
    const symbol = load<u8>(RUNS + i * 2);
    const code = load<u32>(RUN_CODES + symbol * 4);
    put(code & 0xffff, code >> 16);
    if (symbol >= AGAIN) put(load<u8>(RUNS + i * 2 + 1), symbol == AGAIN ? 2 : symbol == ZEROS ? 3 : 7);
  }
}

/** Notes the first `total` lengths as symbols, each with the value of its extra bits. */
function findRuns(total: i32): i32 {
  memory.fill(RUN_FREQUENCIES, 0, LENGTH_SYMBOLS * 4);
  let runs = 0;
  for (let at = 0; at < total; ) {
    const length = load<u8>(LENGTHS + at);
    let same = 1;
    while (at + same < total && load<u8>(LENGTHS + at + same) == length) same++;
    at += same;
    if (length != 0) {
      runs = addRun(runs, length, 0);
      same--;
    }
    while (same >= 3) {
      const least = length == 0 && same >= 11 ? 11 : 3;
      const step = min(same, length != 0 ? 6 : same >= 11 ? 138 : 10);
      runs = addRun(runs, length != 0 ? AGAIN : least == 11 ? MANY_ZEROS : ZEROS, <u8>(step - least));
      same -= step;
    }
    for (; same > 0; same--) runs = addRun(runs, length, 0);
  }
  return runs;
}

function addRun(runs: i32, symbol: u8, extra: u8): i32 {
  store<u8>(RUNS + runs * 2, symbol);
  store<u8>(RUNS + runs * 2 + 1, extra);
  const frequency = RUN_FREQUENCIES + symbol * 4;
  store<u32>(frequency, load<u32>(frequency) + 1);
  return runs + 1;
}

/** The lengths and codes of an alphabet, no code longer than `longest`. */
function makeCode(frequencies: usize, lengths: usize, codes: usize, symbols: i32, longest: i32): void {
  const used = sortUsed(frequencies, symbols);
  memory.fill(lengths, 0, symbols);
  memory.fill(COUNTS, 0, 64 * 4);
  makeDepths(used);
  for (let i = 0; i < used; i++) {
    const depth = COUNTS + min<u32>(load<u32>(TREE + i * 4), longest) * 4;
    store<u32>(depth, load<u32>(depth) + 1);
  }
  fitInto(longest);
  // The rarest symbols get the longest codes.
  let place = 0;
  for (let length = longest; length > 0; length--)
    for (let n = load<u32>(COUNTS + length * 4); n > 0; n--, place++)
      store<u8>(lengths + (load<u32>(SORTED + place * 4) & 0x1ff), <u8>length);
  let code: u32 = 0;
  for (let length = 1; length <= longest; length++) {
    code = (code + (length > 1 ? load<u32>(COUNTS + (length - 1) * 4) : 0)) << 1;
    store<u32>(NEXT + length * 4, code);
  }
  for (let symbol = 0; symbol < symbols; symbol++) {
    const length = <u32>load<u8>(lengths + symbol);
    if (length == 0) continue;
    const next = load<u32>(NEXT + length * 4);
    store<u32>(NEXT + length * 4, next + 1);
    store<u32>(codes + symbol * 4, reversed(next, length) | (length << 16));
  }
}

/** Symbols that occur, the rarest first. There are always two, because some readers refuse a code of one symbol. */
function sortUsed(frequencies: usize, symbols: i32): i32 {
  let used = 0;
  for (let symbol = 0; symbol < symbols; symbol++) {
    const frequency = load<u32>(frequencies + symbol * 4);
    if (frequency > 0) store<u32>(SORTED + used++ * 4, (frequency << 9) | symbol);
  }
  for (let symbol = 0; used < 2; symbol++)
    if (load<u32>(frequencies + symbol * 4) == 0) store<u32>(SORTED + used++ * 4, (1 << 9) | symbol);
  for (let gap = used >> 1; gap > 0; gap >>= 1)
    for (let i = gap; i < used; i++) {
      const word = load<u32>(SORTED + i * 4);
      let j = i;
      for (; j >= gap && load<u32>(SORTED + (j - gap) * 4) > word; j -= gap)
        store<u32>(SORTED + j * 4, load<u32>(SORTED + (j - gap) * 4));
      store<u32>(SORTED + j * 4, word);
    }
  return used;
}

/**
 * Moffat and Katajainen's way to the depths of a Huffman tree, in the memory of the frequencies: first each inner
 * node's weight, then its parent, then its depth, and at last the depths of the leaves.
 */
function makeDepths(used: i32): void {
  for (let i = 0; i < used; i++) store<u32>(TREE + i * 4, load<u32>(SORTED + i * 4) >> 9);
  let inner = 0;
  let leaf = 0;
  for (let node = 0; node < used - 1; node++) {
    let weight: u32 = 0;
    for (let child = 0; child < 2; child++) {
      if (inner < node && (leaf >= used || load<u32>(TREE + inner * 4) < load<u32>(TREE + leaf * 4))) {
        weight += load<u32>(TREE + inner * 4);
        store<u32>(TREE + inner++ * 4, node);
      } else weight += load<u32>(TREE + leaf++ * 4);
    }
    store<u32>(TREE + node * 4, weight);
  }
  store<u32>(TREE + (used - 2) * 4, 0);
  for (let node = used - 3; node >= 0; node--) {
    const parent = load<u32>(TREE + node * 4);
    store<u32>(TREE + node * 4, load<u32>(TREE + parent * 4) + 1);
  }
  let free: i32 = 1;
  let depth: u32 = 0;
  inner = used - 2;
  for (let next = used - 1; free > 0; depth++) {
    let nodes = 0;
    while (inner >= 0 && load<u32>(TREE + inner * 4) == depth) {
      nodes++;
      inner--;
    }
    for (; free > nodes; free--) store<u32>(TREE + next-- * 4, depth);
    free = 2 * nodes;
  }
}

/** After codes were cut to the longest length, lengthens others until all of them fit. */
function fitInto(longest: i32): void {
  let room: i32 = 1 << longest;
  for (let length = 1; length <= longest; length++) room -= load<u32>(COUNTS + length * 4) << (longest - length);
  for (; room < 0; room++) {
    let length = longest - 1;
    while (load<u32>(COUNTS + length * 4) == 0) length--;
    addTo(length, -1);
    addTo(length + 1, 2);
    addTo(longest, -1);
  }
}

function addTo(length: i32, n: i32): void {
  store<i32>(COUNTS + length * 4, load<i32>(COUNTS + length * 4) + n);
}

function reversed(code: u32, length: u32): u32 {
  let result: u32 = 0;
  for (let i: u32 = 0; i < length; i++) result |= ((code >> i) & 1) << (length - 1 - i);
  return result;
}

/*
 * The work on every byte of a page, on vectors of sixteen bytes: finding its events, their shapes and the fields
 * that the program steers by, and making the identity and the checksum of each event. src/core/wasm-engine.ts is its
 * caller.
 */
import {
  DIGESTS,
  EVENT_TYPE,
  ID,
  IDENTITIES,
  IDENTITY_BYTES,
  KEY_BLOCKS,
  KEY_BYTES,
  KEYS,
  OWNER,
  OWNER_BYTES,
  PADDING_BYTES,
  ROWS,
  ROWS_MAX,
  RUNS,
  SERVICE,
  SHAPES,
  STRIDE,
  TEXT,
  TIMES,
  TIMESTAMP,
} from "./memory";
import { hashFour, pad } from "./sha256";
import { xxh64 } from "./xxh64";

export { setSeed } from "./shape";
export { begin, consumedBytes, failureKind, failureOffset, hasLineBreaks, scan } from "./scan";
export {
  DIGESTS,
  IDENTITIES,
  KEY_BLOCKS,
  OWNER,
  OWNER_BYTES,
  PADDING_BYTES,
  ROWS,
  ROWS_MAX,
  RUNS,
  SHAPES,
  TEXT,
  TIMES,
};

/** Room for the end of a key: its last zero byte, and what SHA-256 puts behind a message. */
const KEY_END: usize = 10;

/**
 * Writes down what identifies the events of some rows: their owner, whose bytes the caller has put into its
 * place, and four fields, each ended by a zero byte. Offsets in rows count from `base`. Where an event has no
 * id, or a field is written with escapes or is very long, the caller has to do it.
 */
export function writeKeys(from: i32, to: i32, ownerLength: i32, base: i32): void {
  const text = TEXT - base;
  for (let row = from; row < to; row++) {
    const columns = ROWS + row * STRIDE * 4;
    const key = KEYS + row * KEY_BYTES;
    const end = key + KEY_BYTES - KEY_END;
    memory.copy(key, OWNER, ownerLength);
    let at = key + ownerLength;
    at = isText(columns, ID, text) ? copyField(at, end, columns, SERVICE, text) : 0;
    if (at != 0) at = copyField(at, end, columns, EVENT_TYPE, text);
    if (at != 0) at = copyField(at, end, columns, TIMESTAMP, text);
    if (at != 0) at = copyField(at, end, columns, ID, text);
    store<i32>(KEY_BLOCKS + row * 4, at == 0 ? 0 : pad(key, <i32>(at - key)));
  }
}

/** Makes the identities of keys and the checksums of the events of the first rows. */
export function identify(rows: i32, base: i32): void {
  const text = TEXT - base;
  for (let blocks = 1; blocks <= KEY_BYTES / 64; blocks++) hashKeys(rows, blocks);
  for (let row = 0; row < rows; row++) {
    const columns = ROWS + row * STRIDE * 4;
    store<u32>(DIGESTS + row * 4, <u32>xxh64(text + load<i32>(columns), text + load<i32>(columns, 4)));
  }
}

/** Makes the identities of keys that have so many blocks. */
function hashKeys(rows: i32, blocks: i32): void {
  let waiting = 0;
  let last = 0;
  for (let row = 0; row < rows; row++) {
    if (load<i32>(KEY_BLOCKS + row * 4) != blocks) continue;
    store<i32>(LANES + waiting * 4, row);
    last = row;
    if (++waiting == 4) {
      hashLanes(blocks);
      waiting = 0;
    }
  }
  if (waiting == 0) return;
  for (; waiting < 4; waiting++) store<i32>(LANES + waiting * 4, last);
  hashLanes(blocks);
}

/** The rows that are hashed together. */
const LANES: usize = memory.data(16, 16);

function hashLanes(blocks: i32): void {
  hashFour(keyOf(0), keyOf(1), keyOf(2), keyOf(3), blocks);
  for (let lane = 0; lane < 4; lane++) {
    const row = load<i32>(LANES + lane * 4);
    v128.store(IDENTITIES + row * IDENTITY_BYTES, v128.load(KEYS + row * KEY_BYTES));
  }
}

// @ts-ignore: decorator
@inline
function keyOf(lane: i32): usize {
  return KEYS + load<i32>(LANES + lane * 4) * KEY_BYTES;
}

/** Whether the field is a string or a number. */
function isText(columns: usize, column: i32, text: usize): bool {
  const start = load<i32>(columns + column * 4);
  if (start < 0) return false;
  const first = load<u8>(text + start);
  return first == 0x22 || first == 0x2d || <u8>(first - 0x30) <= 9;
}

/** Copies a field's text and a zero byte; 0 when it needs decoding or more room. */
function copyField(to: usize, end: usize, columns: usize, column: i32, text: usize): usize {
  if (!isText(columns, column, text)) {
    store<u8>(to, 0);
    return to + 1;
  }
  let from = text + load<i32>(columns + column * 4);
  let length = <usize>(load<i32>(columns + column * 4 + 4) - load<i32>(columns + column * 4));
  if (load<u8>(from) == 0x22) {
    from++;
    length -= 2;
  }
  if (to + length >= end) return 0;
  for (let done: usize = 0; done < length; done += 16) {
    const bytes = v128.load(from + done);
    const left = length - done;
    const mask = left >= 16 ? 0xffff : (1 << <i32>left) - 1;
    if (i8x16.bitmask(i8x16.eq(bytes, i8x16.splat(0x5c))) & mask) return 0;
    v128.store(to + done, bytes);
  }
  store<u8>(to + length, 0);
  return to + length + 1;
}

/*
 * The work on every byte of a page, on vectors of sixteen bytes: finding its events and the fields that the
 * program steers by, and making the identity and the checksum of each event. src/core/text.ts is its caller.
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
  STRIDE,
  TEXT,
  TIMES,
  TIMESTAMP,
} from "./memory";
import { hashFour, pad } from "./sha256";
import { xxh64 } from "./xxh64";

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
  for (let row = rows; row < rows + 3; row++) store<i32>(KEY_BLOCKS + row * 4, 0);
  for (let row = 0; row < rows; row += 4) {
    hashFour(KEYS + row * KEY_BYTES, KEY_BYTES, KEY_BLOCKS + row * 4, IDENTITIES + row * IDENTITY_BYTES);
  }
  for (let row = 0; row < rows; row++) {
    const columns = ROWS + row * STRIDE * 4;
    store<u32>(DIGESTS + row * 4, <u32>xxh64(text + load<i32>(columns), text + load<i32>(columns, 4)));
  }
}

/** A string or a number stands there: null and the rest are no text. */
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

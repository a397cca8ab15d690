/* The special values of an event: those that are not copied from its text. */
import { OTHERWISE, SPECIAL_BYTES, SPECIAL_LENGTHS, SPECIALS } from "./memory";

/** The organization is the first of them; src/core/recipe-engine.ts has the same numbers. */
const IDENTITY: i32 = 1;
const TIME: i32 = 2;
/** The column of a row that has the start of the organization's text, as in src/core/scanner.ts. */
const ORGANIZATION: i32 = 10;

/** The organization that the event with this row names, in lower case. Gives -1 where that takes more than ASCII. */
export function setOrganization(row: usize, text: usize, otherwiseLength: i32): i32 {
  const start = load<i32>(row, ORGANIZATION * 4);
  if (start < 0) return useOtherwise(otherwiseLength);
  const from = text + start;
  const length = load<i32>(row, ORGANIZATION * 4 + 4) - start - 2;
  if (load<u8>(from) != 0x22 || length > SPECIAL_BYTES) return -1;
  if (length == 0) return useOtherwise(otherwiseLength);
  for (let at = 0; at < length; at++) {
    const byte = load<u8>(from + at, 1);
    if (byte >= 0x80 || byte == 0x5c) return -1;
    store<u8>(SPECIALS + at, <u8>(byte - 0x41) < 26 ? byte | 0x20 : byte);
  }
  store<i32>(SPECIAL_LENGTHS, length);
  return length;
}

/** There is none, or it is not known. */
export function forgetOrganization(): void {
  store<i32>(SPECIAL_LENGTHS, 0);
}

function useOtherwise(length: i32): i32 {
  memory.copy(SPECIALS, OTHERWISE, length);
  store<i32>(SPECIAL_LENGTHS, length);
  return length;
}

/** Sixteen bytes in hexadecimal digits. */
export function writeIdentity(from: usize): void {
  const place = SPECIALS + IDENTITY * SPECIAL_BYTES;
  const bytes = v128.load(from);
  const high = v128.and(i16x8.shr_u(bytes, 4), i8x16.splat(0x0f));
  const low = v128.and(bytes, i8x16.splat(0x0f));
  v128.store(place, digitsOf(i8x16.shuffle(high, low, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)));
  v128.store(place, digitsOf(i8x16.shuffle(high, low, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)), 16);
  store<i32>(SPECIAL_LENGTHS + IDENTITY * 4, 32);
}

// @ts-ignore: decorator
@inline
function digitsOf(values: v128): v128 {
  const letters = v128.and(i8x16.gt_u(values, i8x16.splat(9)), i8x16.splat(0x27));
  return i8x16.add(i8x16.add(values, i8x16.splat(0x30)), letters);
}

/** Whole milliseconds in decimal digits. */
export function writeTime(ms: f64): void {
  const place = SPECIALS + TIME * SPECIAL_BYTES;
  let value = <i64>ms;
  const isNegative = value < 0;
  if (isNegative) value = -value;
  let digits = 1;
  for (let rest = value; rest >= 10; rest /= 10) digits++;
  const length = digits + (isNegative ? 1 : 0);
  if (isNegative) store<u8>(place, 0x2d);
  for (let at = length - 1; digits > 0; digits--) {
    store<u8>(place + at, <u8>(value % 10) + 0x30);
    value /= 10;
    at--;
  }
  store<i32>(SPECIAL_LENGTHS + TIME * 4, length);
}

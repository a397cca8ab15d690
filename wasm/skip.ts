/*
 * Skips values of the text, which is held against the JSON grammar. It is followed by zeros, which fit nowhere: so
 * nothing here looks for the end of the text, and whatever the end cuts off is met as a byte that should not be there.
 * Places are addresses; 0 means that something did not fit, and `failure` says what.
 */

const DEPTH_MAX: i32 = 500;
const STACK: usize = memory.data(DEPTH_MAX + 1);

/** Numbers of what was expected, the same as in src/core/scanner.ts. */
export const WANTS_ARRAY: i32 = 1;
export const WANTS_OBJECT: i32 = 2;
export const WANTS_STRING: i32 = 3;
export const WANTS_REST_OF_STRING: i32 = 4;
export const WANTS_ESCAPE: i32 = 5;
export const WANTS_HEX: i32 = 6;
export const WANTS_COLON: i32 = 7;
export const WANTS_VALUE: i32 = 8;
export const WANTS_OBJECT_END: i32 = 9;
export const WANTS_VALUE_END: i32 = 10;
export const WANTS_ARRAY_END: i32 = 11;
export const WANTS_TEXT_END: i32 = 12;
export const WANTS_LESS_DEPTH: i32 = 13;

export let failure: i32 = 0;
export let failedAt: usize = 0;
/** The last byte that was looked at: behind the text where it is the end that did not fit. */
export let reached: usize = 0;
/** Whether there was a line break outside of strings. */
export let hasBreaks: bool = false;
/** Escapes so far. */
export let escapes: i32 = 0;

export function forgetFailure(): void {
  failure = 0;
}

export function forgetBreaks(): void {
  hasBreaks = false;
}

export function skipValue(at: usize, depth: i32): usize {
  const byte = load<u8>(at);
  if (byte == 0x22) return skipString(at);
  if ((byte | 0x20) == 0x7b) return skipContainer(at, depth + 1);
  return skipPlain(at, byte);
}

/** An object or an array, with all that is in it; what is open is noted on a stack. */
export function skipContainer(start: usize, outermost: i32): usize {
  let depth = outermost;
  let close = closeOf(load<u8>(start));
  let at = start;
  if (depth > DEPTH_MAX) return fail(WANTS_LESS_DEPTH, at);
  store<u8>(STACK + depth, close);
  at = skipBlank(at + 1);
  let isEmpty = load<u8>(at) == close;
  while (true) {
    if (!isEmpty) {
      if (close == 0x7d) {
        at = skipString(at);
        if (at == 0) return 0;
        at = skipBlank(at);
        if (load<u8>(at) != 0x3a) return fail(WANTS_COLON, at);
        at = skipBlank(at + 1);
      }
      const byte = load<u8>(at);
      if ((byte | 0x20) == 0x7b) {
        if (++depth > DEPTH_MAX) return fail(WANTS_LESS_DEPTH, at);
        close = closeOf(byte);
        store<u8>(STACK + depth, close);
        at = skipBlank(at + 1);
        isEmpty = load<u8>(at) == close;
        continue;
      }
      at = byte == 0x22 ? skipString(at) : skipPlain(at, byte);
      if (at == 0) return 0;
      at = skipBlank(at);
    }
    isEmpty = false;
    while (true) {
      const next = load<u8>(at++);
      if (next == 0x2c) break;
      if (next != close) return fail(WANTS_VALUE_END, at - 1);
      if (--depth < outermost) return at;
      close = load<u8>(STACK + depth);
      at = skipBlank(at);
    }
    at = skipBlank(at);
  }
}

/** Behind both opening brackets the closing one is the second next byte. */
// @ts-ignore: decorator
@inline
function closeOf(open: u8): u8 {
  return open + 2;
}

/** Most strings end within sixteen bytes: that is seen without a call. */
// @ts-ignore: decorator
@inline
export function skipString(start: usize): usize {
  if (load<u8>(start) != 0x22) return fail(WANTS_STRING, start);
  const found = stopsIn(v128.load(start, 1));
  const at = start + 1 + ctz(found);
  if (found == 0) return skipRest(start + 17);
  return load<u8>(at) == 0x22 ? at + 1 : skipRest(at);
}

/** From anywhere inside a string. */
function skipRest(from: usize): usize {
  let at = from;
  while (true) {
    const found = stopsIn(v128.load(at));
    if (found == 0) {
      at += 16;
      continue;
    }
    at += ctz(found);
    const byte = load<u8>(at);
    if (byte == 0x22) return at + 1;
    if (byte != 0x5c) return fail(WANTS_REST_OF_STRING, at);
    at = skipEscape(at + 1);
    if (at == 0) return 0;
  }
}

/** A bit for each of sixteen bytes: set for quotes, backslashes and control characters. */
// @ts-ignore: decorator
@inline
function stopsIn(bytes: v128): i32 {
  const quotes = i8x16.eq(bytes, i8x16.splat(0x22));
  const backslashes = i8x16.eq(bytes, i8x16.splat(0x5c));
  const controls = i8x16.eq(bytes, i8x16.min_u(bytes, i8x16.splat(0x1f)));
  return i8x16.bitmask(v128.or(v128.or(quotes, backslashes), controls));
}

function skipEscape(at: usize): usize {
  escapes++;
  const byte = load<u8>(at);
  if (byte == 0x75) {
    for (let digit: usize = 1; digit <= 4; digit++)
      if (!isHexDigit(load<u8>(at + digit))) return fail(WANTS_HEX, at + digit);
    return at + 5;
  }
  // " \\ / b f n r t
  if (byte == 0x22 || byte == 0x5c || byte == 0x2f || byte == 0x62 || byte == 0x66) return at + 1;
  if (byte == 0x6e || byte == 0x72 || byte == 0x74) return at + 1;
  return fail(WANTS_ESCAPE, at);
}

function isHexDigit(byte: u8): bool {
  return isDigit(byte) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
}

// @ts-ignore: decorator
@inline
function isDigit(byte: u8): bool {
  return <u8>(byte - 0x30) <= 9;
}

/** A number, or one of the three words. */
export function skipPlain(at: usize, byte: u8): usize {
  if (byte == 0x74) return load<u32>(at) == 0x65757274 ? at + 4 : fail(WANTS_VALUE, at);
  if (byte == 0x6e) return load<u32>(at) == 0x6c6c756e ? at + 4 : fail(WANTS_VALUE, at);
  if (byte == 0x66)
    return load<u32>(at + 1) == 0x65736c61 ? at + 5 : fail(WANTS_VALUE, at);
  return skipNumber(at);
}

function skipNumber(start: usize): usize {
  let at = load<u8>(start) == 0x2d ? start + 1 : start;
  if (load<u8>(at) == 0x30) at++;
  else {
    at = skipDigits(at, start);
    if (at == 0) return 0;
  }
  if (load<u8>(at) == 0x2e) {
    at = skipDigits(at + 1, start);
    if (at == 0) return 0;
  }
  if ((load<u8>(at) | 0x20) == 0x65) {
    at++;
    if (load<u8>(at) == 0x2b || load<u8>(at) == 0x2d) at++;
    return skipDigits(at, start);
  }
  return at;
}

function skipDigits(from: usize, start: usize): usize {
  let at = from;
  while (isDigit(load<u8>(at))) at++;
  if (at > from) return at;
  fail(WANTS_VALUE, start);
  reached = at;
  return 0;
}

/** Mostly there is nothing to skip. */
// @ts-ignore: decorator
@inline
export function skipBlank(at: usize): usize {
  return load<u8>(at) > 0x20 ? at : skipBlanks(at);
}

function skipBlanks(from: usize): usize {
  let at = from;
  while (true) {
    const byte = load<u8>(at);
    if (byte == 0x0a || byte == 0x0d) hasBreaks = true;
    else if (byte != 0x20 && byte != 0x09) return at;
    at++;
  }
}

export function fail(wanted: i32, at: usize): usize {
  failure = wanted;
  failedAt = at;
  reached = at;
  return 0;
}

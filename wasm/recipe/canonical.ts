/*
 * Rewrites numbers as JSON.stringify writes them after the parser of src/services/parse.ts: a fraction loses its
 * trailing zeros, and an integer that a double cannot represent exactly becomes a text. Everything else is copied.
 * The result is read again, so anything that is still not canonical is found there.
 */
import { endOfString } from "./json";

/** Integers of so many digits are never exact in a double. Shorter ones are left as they are. */
const INEXACT_DIGITS_MIN: i32 = 17;

/** Rewrites the event from `start` to before `end`. Gives its new length; 0 where the text has to be parsed. */
export function canonicalize(start: usize, end: usize, to: usize): i32 {
  let at = start;
  let out = to;
  while (at < end) {
    const first = load<u8>(at);
    let next = at + 1;
    let written = at;
    if (first == 0x22) {
      const close = endOfString(at);
      if (close == 0) return 0;
      next = close + 1;
      written = next;
    } else if (first == 0x2d || isDigit(first)) {
      next = endOfNumber(at);
      if (next == 0) return 0;
      if (isInexact(at, next)) {
        out = copy(QUOTE, 1, out);
        out = copy(at, next - at, out);
        out = copy(QUOTE, 1, out);
        at = next;
        continue;
      }
      written = endOfDigits(at, next);
    } else written = next;
    out = copy(at, written - at, out);
    at = next;
  }
  return <i32>(out - to);
}

const QUOTE: usize = memory.data<u8>([0x22]);

// @ts-ignore: decorator
@inline
function copy(from: usize, length: usize, to: usize): usize {
  memory.copy(to, from, length);
  return to + length;
}

// @ts-ignore: decorator
@inline
function isDigit(byte: u8): bool {
  return <u8>(byte - 0x30) <= 9;
}

function skipDigits(from: usize): usize {
  let at = from;
  while (isDigit(load<u8>(at))) at++;
  return at;
}

/** The place behind a number of the JSON grammar without an exponent; 0 for anything else. */
function endOfNumber(start: usize): usize {
  const whole = load<u8>(start) == 0x2d ? start + 1 : start;
  let at = skipDigits(whole);
  if (at == whole || (load<u8>(whole) == 0x30 && at > whole + 1)) return 0;
  if (load<u8>(at) == 0x2e) {
    const fraction = at + 1;
    at = skipDigits(fraction);
    if (at == fraction) return 0;
  }
  const next = load<u8>(at);
  return (next | 0x20) == 0x65 || next == 0x2e || next == 0x2d || next == 0x2b ? 0 : at;
}

function isInexact(start: usize, end: usize): bool {
  const whole = load<u8>(start) == 0x2d ? start + 1 : start;
  const digits = skipDigits(whole);
  return digits == end && <i32>(digits - whole) >= INEXACT_DIGITS_MIN;
}

/** The place behind the last digit that counts. */
function endOfDigits(start: usize, end: usize): usize {
  if (skipDigits(load<u8>(start) == 0x2d ? start + 1 : start) == end) return end;
  let at = end;
  while (load<u8>(at - 1) == 0x30) at--;
  return load<u8>(at - 1) == 0x2e ? at - 1 : at;
}

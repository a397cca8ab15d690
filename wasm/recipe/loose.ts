/* JSON as services may write it: with blanks, any escapes and any numbers. It is known to be valid. */
import { nextMark } from "./json";

export let hasEscape: bool = false;

/** The closing quote of the string that opens at `start`; 0 where it is cut off. Any escape is allowed. */
// @ts-ignore: decorator
@inline
export function endOfString(start: usize): usize {
  hasEscape = false;
  const at = nextMark(start + 1);
  return load<u8>(at) == 0x22 ? at : endOfEscaped(at);
}

function endOfEscaped(start: usize): usize {
  let at = start;
  hasEscape = true;
  while (true) {
    const byte = load<u8>(at);
    if (byte == 0x22) return at;
    if (byte != 0x5c) return 0;
    at = nextMark(at + 2);
  }
}

export let hasExponent: bool = false;
export let hasPoint: bool = false;

export function endOfDigits(start: usize): usize {
  let at = start;
  hasExponent = false;
  hasPoint = false;
  while (true) {
    const byte = load<u8>(at);
    if ((byte | 0x20) == 0x65) hasExponent = true;
    else if (byte == 0x2e) hasPoint = true;
    else if (<u8>(byte - 0x30) > 9 && byte != 0x2d && byte != 0x2b) return at;
    at++;
  }
}

// @ts-ignore: decorator
@inline
export function skipBlank(from: usize): usize {
  let at = from;
  while (load<u8>(at) <= 0x20 && load<u8>(at) != 0) at++;
  return at;
}

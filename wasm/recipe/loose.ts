/* JSON as services may write it: with blanks, any escapes and any numbers. It is known to be valid. */
import { endOfString as endOfPlainString, nextMark } from "./json";

/** Whether the event so far is canonical JSON; see json.ts. */
export let isCanonical: bool = false;
export let hasEscape: bool = false;
/** Of a text with escapes: whether all of them are canonical. */
export let isPlainText: bool = false;

/** Forgets the event before. */
// @ts-ignore: decorator
@inline
export function beginText(): void {
  isCanonical = true;
}

/** The event is not canonical. */
// @ts-ignore: decorator
@inline
export function markOther(): void {
  isCanonical = false;
}

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

export function endOfDigits(start: usize): usize {
  let at = start;
  while (true) {
    const byte = load<u8>(at);
    if (<u8>(byte - 0x30) > 9 && byte != 0x2d && byte != 0x2b && byte != 0x2e && (byte | 0x20) != 0x65) return at;
    at++;
  }
}

/** As `endOfString`; notes where it is not canonical. */
// @ts-ignore: decorator
@inline
export function endOfText(start: usize): usize {
  const end = endOfString(start);
  if (hasEscape) {
    isPlainText = endOfPlainString(start) == end;
    if (!isPlainText) isCanonical = false;
  }
  return end;
}

// @ts-ignore: decorator
@inline
export function pastBlank(at: usize): usize {
  return load<u8>(at) > 0x20 ? at : pastBlanks(at);
}

/** Zeros end the text. */
function pastBlanks(start: usize): usize {
  let at = start;
  while (load<u8>(at) <= 0x20 && load<u8>(at) != 0) at++;
  if (at != start) isCanonical = false;
  return at;
}

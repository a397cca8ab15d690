/*
 * Places of values in the bytes of JSON. The bytes must be valid JSON: every event that the scanner accepted is,
 * and so is what formats write. Nothing is parsed, so numbers and duplicate names stay as they are.
 */

/** A half-open range of bytes. */
export interface JsonSlice {
  readonly from: number;
  readonly to: number;
}

export interface JsonMember {
  /** With its quotation marks. */
  readonly name: JsonSlice;
  readonly value: JsonSlice;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const SPACE = 0x20;

export function isObjectAt(bytes: Uint8Array, at: number): boolean {
  return bytes[at] === OPEN_OBJECT;
}

export function isArrayAt(bytes: Uint8Array, at: number): boolean {
  return bytes[at] === OPEN_ARRAY;
}

export function isStringAt(bytes: Uint8Array, at: number): boolean {
  return bytes[at] === QUOTE;
}

/** The first place from `at` on that is no white space. */
export function skipSpace(bytes: Uint8Array, at: number): number {
  let next = at;
  while (next < bytes.length && bytes[next]! <= SPACE) next++;
  return next;
}

/** The members of the object that begins at `at`, in their order, duplicates included. One at a time: they may be very many. */
export function* membersOf(bytes: Uint8Array, at: number): Generator<JsonMember> {
  let next = skipSpace(bytes, at + 1);
  while (next < bytes.length && bytes[next] !== CLOSE_OBJECT) {
    const name = { from: next, to: endOfValue(bytes, next) };
    const from = skipSpace(bytes, skipSpace(bytes, name.to) + 1);
    const value = { from, to: endOfValue(bytes, from) };
    yield { name, value };
    next = skipSpace(bytes, value.to);
    if (bytes[next] === COMMA) next = skipSpace(bytes, next + 1);
  }
}

/** The elements of the array that begins at `at`. */
export function* elementsOf(bytes: Uint8Array, at: number): Generator<JsonSlice> {
  let next = skipSpace(bytes, at + 1);
  while (next < bytes.length && bytes[next] !== CLOSE_ARRAY) {
    const element = { from: next, to: endOfValue(bytes, next) };
    yield element;
    next = skipSpace(bytes, element.to);
    if (bytes[next] === COMMA) next = skipSpace(bytes, next + 1);
  }
}

/** The end of the value that begins at `at`. */
function endOfValue(bytes: Uint8Array, at: number): number {
  let depth = 0;
  for (let next = at; next < bytes.length; next++) {
    const byte = bytes[next]!;
    if (byte === QUOTE) {
      next = endOfString(bytes, next) - 1;
      if (depth === 0) return next + 1;
    } else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) depth++;
    else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
      // A number, true, false or null ends where what contains it ends.
      if (depth === 0) return next;
      if (--depth === 0) return next + 1;
    } else if (depth === 0 && (byte === COMMA || byte <= SPACE)) return next;
  }
  return bytes.length;
}

function endOfString(bytes: Uint8Array, at: number): number {
  for (let next = at + 1; next < bytes.length; next++) {
    const byte = bytes[next]!;
    if (byte === BACKSLASH) next++;
    else if (byte === QUOTE) return next + 1;
  }
  return bytes.length;
}

/** The text of a slice. */
export function textAt(bytes: Uint8Array, { from, to }: JsonSlice): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).toString();
}

/** The string that begins and ends with the slice's quotation marks. */
export function stringAt(bytes: Uint8Array, slice: JsonSlice): string {
  return JSON.parse(textAt(bytes, slice)) as string;
}

import { type Allocate, allocateAnew } from "./room.ts";
import { timestampMsOf } from "./time.ts";

/**
 * Cuts a page, the JSON text of an array of objects, into the exact slices of its events, and notes where
 * the few top-level fields stand that the program steers by. The whole text is held against the JSON
 * grammar, so what is cut here can be parsed later; nothing is decoded or copied.
 */
export interface ScannedPage {
  readonly bytes: Buffer;
  readonly count: number;
  /** Whether there is a line break anywhere in it; the grammar allows them between values alone. */
  readonly hasLineBreaks: boolean;
  /** `STRIDE` numbers an event: start and end of the event, then of each field's value; -1 where absent. */
  readonly columns: Int32Array;
}

export const FIELD = {
  id: 2,
  timestamp: 4,
  service: 6,
  eventType: 8,
  organization: 10,
  correlationId: 12,
} as const;
export type FieldColumn = (typeof FIELD)[keyof typeof FIELD];
export const STRIDE = 14;

const DEPTH_MAX = 500;

/** The text is not a JSON array of objects; the message says what came instead, and where. */
export class ScanError extends Error {
  override readonly name = "ScanError";
}

export function scanPage(
  bytes: Buffer,
  eventsMax = 1_000_000,
  allocate: Allocate = allocateAnew,
): ScannedPage {
  words = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  wordsEnd = bytes.length - WORD_BYTES;
  try {
    lineBreaks = 0;
    const noted = columnsOf(bytes, eventsMax);
    const columns = allocate(Int32Array, noted.length);
    columns.set(noted);
    return { bytes, count: columns.length / STRIDE, hasLineBreaks: lineBreaks > 0, columns };
  } finally {
    words = NO_WORDS;
  }
}

/** Where columns are noted while their number is not known: kept, so that a page leaves nothing to collect. */
let room = new Int32Array(STRIDE * 1024);

function columnsOf(bytes: Buffer, eventsMax: number): Int32Array {
  let columns = room;
  let count = 0;
  let at = skipBlank(bytes, 0);
  if (bytes[at] !== 0x5b) throw notAnArray(bytes, at);
  at = skipBlank(bytes, at + 1);
  if (bytes[at] === 0x5d) {
    at++;
  } else {
    for (;;) {
      if (bytes[at] !== 0x7b)
        throw new ScanError(`Element ${count} of the array is not an object but ${what(bytes, at)}.`);
      if (count >= eventsMax) throw new ScanError(`The array has more than ${eventsMax} elements.`);
      if ((count + 1) * STRIDE > columns.length) {
        columns = grown(columns);
        if (count < ROOM_EVENTS_MAX) room = columns;
      }
      at = scanEvent(bytes, at, columns, count * STRIDE);
      count++;
      at = skipBlank(bytes, at);
      const next = bytes[at];
      at++;
      if (next === 0x5d) break;
      if (next !== 0x2c) throw malformed(bytes, at - 1, "a comma or the end of the array");
      at = skipBlank(bytes, at);
    }
  }
  at = skipBlank(bytes, at);
  if (at !== bytes.length) throw malformed(bytes, at, "the end of the text");
  return columns.subarray(0, count * STRIDE);
}

/** The most that the service puts into a page; a text with more takes its room along when it is done. */
const ROOM_EVENTS_MAX = 10_000;

/** The exact bytes of one event; shares the page's memory. */
export function eventBytes(page: ScannedPage, index: number): Buffer {
  return page.bytes.subarray(page.columns[index * STRIDE]!, page.columns[index * STRIDE + 1]!);
}

/** The value of a steering field: a string's text, a number's digits; undefined for null, absent and the rest. */
export function fieldText(page: ScannedPage, index: number, column: FieldColumn): string | undefined {
  const start = page.columns[index * STRIDE + column]!;
  if (start < 0) return undefined;
  const end = page.columns[index * STRIDE + column + 1]!;
  const first = page.bytes[start]!;
  if (first === 0x22) return stringText(page.bytes, start, end);
  return first === 0x2d || (first >= 0x30 && first <= 0x39)
    ? page.bytes.toString("latin1", start, end)
    : undefined;
}

/** Whether a field stands in two events with the very same bytes, or in neither. */
export function sameField(
  { bytes, columns }: ScannedPage,
  a: number,
  b: number,
  column: FieldColumn,
): boolean {
  const startA = columns[a * STRIDE + column]!;
  const startB = columns[b * STRIDE + column]!;
  if (startA < 0 || startB < 0) return startA === startB;
  const length = columns[a * STRIDE + column + 1]! - startA;
  if (length !== columns[b * STRIDE + column + 1]! - startB) return false;
  for (let at = 0; at < length; at++) if (bytes[startA + at] !== bytes[startB + at]) return false;
  return true;
}

/** The event's timestamp cut to milliseconds; undefined where it has none that can be read. */
export function eventTimeMs(page: ScannedPage, index: number): number | undefined {
  const start = page.columns[index * STRIDE + FIELD.timestamp]!;
  if (start < 0) return undefined;
  const end = page.columns[index * STRIDE + FIELD.timestamp + 1]!;
  return (
    fastTimeMs(page.bytes, start + 1, end - 1) ?? timestampMsOf(fieldText(page, index, FIELD.timestamp) ?? "")
  );
}

function scanEvent(bytes: Buffer, start: number, columns: Int32Array, row: number): number {
  columns[row] = start;
  columns.fill(-1, row + 2, row + STRIDE);
  let at = skipBlank(bytes, start + 1);
  if (bytes[at] === 0x7d) {
    columns[row + 1] = at + 1;
    return at + 1;
  }
  for (;;) {
    const keyStart = at;
    const escapesBefore = escapes;
    at = skipString(bytes, at);
    const column = columnOf(bytes, keyStart, at, escapesBefore);
    at = skipBlank(bytes, at);
    if (bytes[at] !== 0x3a) throw malformed(bytes, at, "a colon");
    at = skipBlank(bytes, at + 1);
    const valueStart = at;
    if (column === FIELD.correlationId) {
      at = scanCorrelation(bytes, at, columns, row);
    } else {
      at = skipValue(bytes, at, 1);
      if (column !== 0) {
        columns[row + column] = valueStart;
        columns[row + column + 1] = at;
      }
    }
    at = skipBlank(bytes, at);
    const next = bytes[at];
    at++;
    if (next === 0x7d) break;
    if (next !== 0x2c) throw malformed(bytes, at - 1, "a comma or the end of the object");
    at = skipBlank(bytes, at);
  }
  columns[row + 1] = at;
  return at;
}

/** The id inside a correlation object; of duplicate keys the last counts, as in JSON.parse. */
function scanCorrelation(bytes: Buffer, start: number, columns: Int32Array, row: number): number {
  columns[row + FIELD.correlationId] = -1;
  if (bytes[start] !== 0x7b) return skipValue(bytes, start, 1);
  let at = skipBlank(bytes, start + 1);
  if (bytes[at] === 0x7d) return at + 1;
  for (;;) {
    const keyStart = at;
    const escapesBefore = escapes;
    at = skipString(bytes, at);
    const isId = columnOf(bytes, keyStart, at, escapesBefore) === FIELD.id;
    at = skipBlank(bytes, at);
    if (bytes[at] !== 0x3a) throw malformed(bytes, at, "a colon");
    at = skipBlank(bytes, at + 1);
    const valueStart = at;
    at = skipValue(bytes, at, 2);
    if (isId) {
      columns[row + FIELD.correlationId] = valueStart;
      columns[row + FIELD.correlationId + 1] = at;
    }
    at = skipBlank(bytes, at);
    const next = bytes[at];
    at++;
    if (next === 0x7d) return at;
    if (next !== 0x2c) throw malformed(bytes, at - 1, "a comma or the end of the object");
    at = skipBlank(bytes, at);
  }
}

const KEYS: Readonly<Record<string, number>> = {
  id: FIELD.id,
  timestamp: FIELD.timestamp,
  service: FIELD.service,
  event_type: FIELD.eventType,
  organization: FIELD.organization,
  correlation: FIELD.correlationId,
};
const KEY_BYTES = Object.entries(KEYS).map(([key, column]) => ({ bytes: Buffer.from(key), column }));
/** The one steering key of each length, if there is one: all six differ in length. */
const KEY_BY_LENGTH = Array.from({ length: 13 }, (_, length) =>
  KEY_BYTES.find((key) => key.bytes.length === length),
);

/** Counts the escapes met so far: a string without any is told by the count before and after it. */
let escapes = 0;

/** 0 when the key, quotes included, is none of the steering fields. */
function columnOf(bytes: Buffer, start: number, end: number, escapesBefore: number): number {
  const length = end - start - 2;
  const candidate = length < KEY_BY_LENGTH.length ? KEY_BY_LENGTH[length] : undefined;
  if (candidate !== undefined) {
    let same = 0;
    while (same < length && bytes[start + 1 + same] === candidate.bytes[same]) same++;
    if (same === length) return candidate.column;
  }
  if (escapes === escapesBefore) return 0;
  // An escape can spell a steering key too.
  const key = stringText(bytes, start, end);
  return Object.hasOwn(KEYS, key) ? KEYS[key]! : 0;
}

function skipValue(bytes: Buffer, at: number, depth: number): number {
  switch (bytes[at]) {
    case 0x22:
      return skipString(bytes, at);
    case 0x7b:
      return skipContainer(bytes, at, depth + 1, 0x7d);
    case 0x5b:
      return skipContainer(bytes, at, depth + 1, 0x5d);
    case 0x74:
      return skipWord(bytes, at, "true");
    case 0x66:
      return skipWord(bytes, at, "false");
    case 0x6e:
      return skipWord(bytes, at, "null");
    default:
      return skipNumber(bytes, at);
  }
}

function skipContainer(bytes: Buffer, start: number, depth: number, close: number): number {
  if (depth > DEPTH_MAX)
    throw new ScanError(`Values are nested more than ${DEPTH_MAX} deep at byte ${start}.`);
  let at = skipBlank(bytes, start + 1);
  if (bytes[at] === close) return at + 1;
  for (;;) {
    if (close === 0x7d) {
      at = skipBlank(bytes, skipString(bytes, at));
      if (bytes[at] !== 0x3a) throw malformed(bytes, at, "a colon");
      at = skipBlank(bytes, at + 1);
    }
    at = skipBlank(bytes, skipValue(bytes, at, depth));
    const next = bytes[at];
    at++;
    if (next === close) return at;
    if (next !== 0x2c) throw malformed(bytes, at - 1, "a comma or the end of the value");
    at = skipBlank(bytes, at);
  }
}

/** The text that is being scanned, four bytes at a time, and how far a whole word can be read. */
const NO_WORDS: DataView = new DataView(new ArrayBuffer(0));
let words = NO_WORDS;
let wordsEnd = 0;
const WORD_BYTES = 4;

/**
 * Looks at four bytes at once. `found` marks, by the highest bit of its byte, the first quote, backslash or
 * control character of a word; bytes after it may be marked wrongly. A byte is zero where subtracting one
 * borrows and its highest bit was clear; it is below 0x20 where subtracting that much does.
 */
function skipString(bytes: Buffer, start: number): number {
  if (bytes[start] !== 0x22) throw malformed(bytes, start, "a string");
  const view = words;
  const end = wordsEnd;
  let at = start + 1;
  for (;;) {
    while (at < end) {
      const word = view.getInt32(at, true);
      const quote = word ^ 0x22222222;
      const backslash = word ^ 0x5c5c5c5c;
      const found =
        (((quote - 0x01010101) & ~quote) |
          ((backslash - 0x01010101) & ~backslash) |
          ((word - 0x20202020) & ~word)) &
        0x80808080;
      if (found !== 0) {
        at += (31 - Math.clz32(found & -found)) >> 3;
        break;
      }
      at += WORD_BYTES;
    }
    const byte = bytes[at++];
    if (byte === 0x22) return at;
    if (byte === 0x5c) at = skipEscape(bytes, at);
    else if (byte === undefined || byte < 0x20) throw malformed(bytes, at - 1, "the rest of a string");
  }
}

function skipEscape(bytes: Buffer, at: number): number {
  escapes = (escapes + 1) | 0;
  const byte = bytes[at];
  if (byte === 0x75) {
    for (let digit = 1; digit <= 4; digit++) {
      if (!isHexDigit(bytes[at + digit])) throw malformed(bytes, at + digit, "four hexadecimal digits");
    }
    return at + 5;
  }
  // " \ / b f n r t
  if (byte === 0x22 || byte === 0x5c || byte === 0x2f || byte === 0x62 || byte === 0x66) return at + 1;
  if (byte === 0x6e || byte === 0x72 || byte === 0x74) return at + 1;
  throw malformed(bytes, at, "an escape");
}

function skipNumber(bytes: Buffer, start: number): number {
  let at = bytes[start] === 0x2d ? start + 1 : start;
  if (bytes[at] === 0x30) at++;
  else at = skipDigits(bytes, at, start);
  if (bytes[at] === 0x2e) at = skipDigits(bytes, at + 1, start);
  if (bytes[at] === 0x65 || bytes[at] === 0x45) {
    at++;
    if (bytes[at] === 0x2b || bytes[at] === 0x2d) at++;
    at = skipDigits(bytes, at, start);
  }
  return at;
}

function skipDigits(bytes: Buffer, from: number, start: number): number {
  let at = from;
  while (bytes[at]! >= 0x30 && bytes[at]! <= 0x39) at++;
  if (at === from) throw malformed(bytes, start, "a value");
  return at;
}

function skipWord(bytes: Buffer, at: number, word: string): number {
  for (let letter = 0; letter < word.length; letter++) {
    if (bytes[at + letter] !== word.charCodeAt(letter)) throw malformed(bytes, at, "a value");
  }
  return at + word.length;
}

/** Mostly there is nothing to skip: that is seen without a call. */
function skipBlank(bytes: Buffer, at: number): number {
  return bytes[at]! > 0x20 ? at : skipBlanks(bytes, at);
}

function skipBlanks(bytes: Buffer, from: number): number {
  let at = from;
  for (;;) {
    const byte = bytes[at];
    if (byte === 0x0a || byte === 0x0d) lineBreaks = 1;
    else if (byte !== 0x20 && byte !== 0x09) return at;
    at++;
  }
}

let lineBreaks = 0;

function isHexDigit(byte: number | undefined): boolean {
  if (byte === undefined) return false;
  return (byte >= 0x30 && byte <= 0x39) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
}

function stringText(bytes: Buffer, start: number, end: number): string {
  for (let at = start + 1; at < end - 1; at++) {
    if (bytes[at] === 0x5c) return JSON.parse(bytes.toString("utf8", start, end)) as string;
  }
  return bytes.toString("utf8", start + 1, end - 1);
}

/** `yyyy-mm-ddTHH:mm:ss[.fraction]Z` without a regular expression; undefined sends the caller to the slow way. */
function fastTimeMs(bytes: Buffer, start: number, end: number): number | undefined {
  const length = end - start;
  if (length < 20 || bytes[end - 1] !== 0x5a || bytes[start + 10] !== 0x54) return undefined;
  const month = twoDigits(bytes, start + 5);
  const day = twoDigits(bytes, start + 8);
  const hour = twoDigits(bytes, start + 11);
  const minute = twoDigits(bytes, start + 14);
  const second = twoDigits(bytes, start + 17);
  const year = twoDigits(bytes, start) * 100 + twoDigits(bytes, start + 2);
  if (
    !(
      month >= 1 &&
      month <= 12 &&
      day >= 1 &&
      day <= MONTH_DAYS[month]! &&
      hour <= 23 &&
      minute <= 59 &&
      second <= 59 &&
      year >= 1000
    )
  ) {
    return undefined;
  }
  if (bytes[start + 4] !== 0x2d || bytes[start + 7] !== 0x2d) return undefined;
  if (bytes[start + 13] !== 0x3a || bytes[start + 16] !== 0x3a) return undefined;
  let fractionMs = 0;
  if (length > 20) {
    if (bytes[start + 19] !== 0x2e || length === 21) return undefined;
    let weight = 100;
    for (let at = start + 20; at < end - 1; at++) {
      const digit = bytes[at]! - 0x30;
      if (digit < 0 || digit > 9) return undefined;
      fractionMs += digit * weight;
      weight = weight > 1 ? weight / 10 : 0;
    }
  }
  return (
    daysSinceEpoch(year, month, day) * 86_400_000 +
    hour * 3_600_000 +
    minute * 60_000 +
    second * 1000 +
    fractionMs
  );
}

/** A leap day goes the slow way. */
const MONTH_DAYS = [0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** NaN where there are no two digits, which every comparison refuses. */
function twoDigits(bytes: Buffer, at: number): number {
  const tens = bytes[at]! - 0x30;
  const ones = bytes[at + 1]! - 0x30;
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : Number.NaN;
}

/** Days of the proleptic Gregorian calendar; the year is counted from March, so that a leap day comes last. */
function daysSinceEpoch(year: number, month: number, day: number): number {
  const shifted = month <= 2 ? year - 1 : year;
  const era = Math.floor(shifted / 400);
  const yearOfEra = shifted - era * 400;
  const dayOfYear = Math.floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) + day - 1;
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
}

function grown(columns: Int32Array): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(columns.length * 2);
  larger.set(columns);
  return larger;
}

function notAnArray(bytes: Buffer, at: number): ScanError {
  return new ScanError(`The answer is not an array of events but ${what(bytes, at)}.`);
}

function malformed(bytes: Buffer, at: number, expected: string): ScanError {
  const came = at >= bytes.length ? "the text ends" : `there is ${what(bytes, at)}`;
  return new ScanError(
    `The answer is not JSON: at byte ${at} of ${bytes.length} ${came} where ${expected} should be.`,
  );
}

/** Names the kind of thing that stands at a place, never its content. */
function what(bytes: Buffer, at: number): string {
  if (bytes.length === 0) return "empty";
  const byte = bytes[at];
  if (byte === undefined) return "nothing";
  if (byte === 0x7b) return "an object";
  if (byte === 0x5b) return "an array";
  if (byte === 0x22) return "a string";
  if (byte === 0x3c) return "markup (a proxy's error page?)";
  if (byte === 0x2d || (byte >= 0x30 && byte <= 0x39)) return "a number";
  if (byte === 0x74 || byte === 0x66 || byte === 0x6e) return "a word";
  return `the byte 0x${byte.toString(16).padStart(2, "0")}`;
}

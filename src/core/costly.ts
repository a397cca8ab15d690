/**
 * Parsing takes up to 500 bytes for each value, and converting takes several copies of long text. A hostile service
 * can send 700,000 values in a single event, or 60 MB of text. The largest events that the service is known to send
 * have a few thousand values, and few destinations take more than 5 MB.
 */
const VALUES_MAX = 100_000;
/** A larger event is not converted. */
export const CONVERTED_BYTES_MAX = 4 << 20;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPEN_OBJECT = 0x7b;
const OPEN_ARRAY = 0x5b;

/** Why an event is not parsed; undefined for usual ones. */
export type Costly = "too large" | "too many values";

export function costly(event: Uint8Array): Costly | undefined {
  if (event.length > CONVERTED_BYTES_MAX) return "too large";
  return hasManyValues(event) ? "too many values" : undefined;
}

/** By brackets and commas. Text is skipped: a long one may have any number of commas. */
function hasManyValues(json: Uint8Array): boolean {
  // Each takes two bytes at least.
  if (json.length < 2 * VALUES_MAX) return false;
  let left = VALUES_MAX;
  for (let at = 0; at < json.length; at++) {
    const byte = json[at]!;
    if (byte === QUOTE) at = endOfText(json, at + 1);
    else if ((byte === COMMA || byte === OPEN_OBJECT || byte === OPEN_ARRAY) && --left < 0) return true;
  }
  return false;
}

/** The place of the quote that ends the text. */
function endOfText(json: Uint8Array, from: number): number {
  let at = from;
  while (at < json.length && json[at] !== QUOTE) at += json[at] === BACKSLASH ? 2 : 1;
  return at;
}

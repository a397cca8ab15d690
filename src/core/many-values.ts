/**
 * Values in an event, by its brackets and commas. Parsing takes up to 500 bytes for each of them: a hostile service
 * can send 700,000 in a single event. The largest events that the service is known to send have a few thousand.
 */
const VALUES_MAX = 100_000;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPEN_OBJECT = 0x7b;
const OPEN_ARRAY = 0x5b;

/** Whether an event has so many values that it is not parsed. Text is skipped: a long one may have any number of commas. */
export function hasManyValues(json: Uint8Array): boolean {
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

import type { JournalEvent } from "../core/event.ts";

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * The same bytes without the line breaks between members, so that one event is one line. Without any line
 * break it returns the same memory. JSON allows none inside strings; if there is one, it is escaped.
 */
export function oneLine({ bytes, isOneLine }: Pick<JournalEvent, "bytes" | "isOneLine">): Uint8Array {
  if (isOneLine) return bytes;
  if (bytes.indexOf(LINE_FEED) < 0 && bytes.indexOf(CARRIAGE_RETURN) < 0) return bytes;
  const line = new Uint8Array(2 * bytes.length);
  let length = 0;
  let inString = false;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!;
    if (byte === QUOTE) inString = !inString;
    if (byte === LINE_FEED || byte === CARRIAGE_RETURN) {
      if (!inString) continue;
      line[length++] = BACKSLASH;
      line[length++] = byte === LINE_FEED ? 0x6e : 0x72;
      continue;
    }
    line[length++] = byte;
    if (byte !== BACKSLASH || !inString) continue;
    const next = bytes[at + 1];
    if (next === undefined || next === LINE_FEED || next === CARRIAGE_RETURN) continue;
    line[length++] = next;
    at++;
  }
  return line.subarray(0, length);
}
